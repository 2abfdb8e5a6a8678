"""The recipes of examples/launchers form one world over three nodes; the naive way is named.

accelerate, Lightning and DeepSpeed on CPUs over gloo, next to the PyTorch of the nodes.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.embedded.test_tools import install_or_skip

from corral.api.cluster import Cluster
from corral.api.workload.queue import JobOutcome, RankLine
from corral.hosts.quote import sh
from corral.roles.services.corral_wheels import parse_lock
from corral.state.pyenv import PythonEnv

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
LAUNCHERS = HERE.parents[1] / "examples" / "launchers"
PLACE = "/shared/test-launchers"
SITE = f"{PLACE}/lib/python3.13/site-packages"
DEEPSPEED = (
    "deepspeed==0.19.8 "
    "--hash=sha256:9e491abd0827ea5c389dd702e15e11e13d83d904bac4a20d6c2a4cb37207a9af"
)
ONE_WORLD = {"ranks": 3, "agree": True, "samples": 1536}


@pytest.fixture(scope="module")
def python(cluster: Live) -> Iterator[str]:
    """An environment on shared storage that also has the PyTorch of the nodes."""
    wheels = parse_lock((HERE / "launchers.lock").read_text())["3.13"]
    install_or_skip(cluster, PythonEnv(PLACE, "launchers", wheels))
    torch = sh("echo /usr/lib/python3/dist-packages > {site}/nodes.pth", site=SITE)
    assert cluster.run(cluster.controller, torch).ok
    yield PLACE
    cluster.run(cluster.controller, sh("rm -rf {place}", place=PLACE))


@pytest.fixture(scope="module")
def deepspeed(cluster: Live, python: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same with DeepSpeed, whose wheel is made here: its index has the source alone."""
    folder = tmp_path_factory.mktemp("deepspeed")
    (folder / "lock").write_text(DEEPSPEED)
    words = ("wheel", "-q", "--no-deps", "--require-hashes", "-w", ".", "-r", "lock")
    made = subprocess.run(
        [sys.executable, "-m", "pip", *words],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "DS_BUILD_OPS": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"no wheel of DeepSpeed: {made.stderr[-500:]}")
    wheel = next(folder.glob("*.whl"))
    put = sh(
        "cd {place} && base64 -d > {name} && bin/python -m pip install -q --no-deps {name}",
        place=PLACE,
        name=wheel.name,
    )
    sent = base64.encodebytes(wheel.read_bytes())
    done = cluster.run(cluster.controller, put, stdin=sent, timeout=300)
    assert done.ok, done.tail
    return python


def run(cluster: Live, job: str | list[str], python: str) -> tuple[JobOutcome, list[str]]:
    """How a job over three nodes ended, and what its ranks printed."""
    lines: list[RankLine] = []
    outcome = Cluster(cluster.spec).run(job, nodes=3, python=python, on_line=lines.append)
    assert isinstance(outcome, JobOutcome)
    return outcome, [line.text for line in lines]


def results(lines: list[str]) -> list[dict[str, object]]:
    return [json.loads(line.removeprefix("RESULT ")) for line in lines if "RESULT " in line]


def put(cluster: Live, script: str) -> str:
    """A recipe on shared storage, for a launcher of the job's own."""
    place = f"{PLACE}/{script}"
    text = (LAUNCHERS / script).read_text()
    assert cluster.run(cluster.controller, sh("printf %s {t} > {p}", t=text, p=place)).ok
    return place


def one_world(cluster: Live, script: str, python: str) -> None:
    outcome, lines = run(cluster, str(LAUNCHERS / script), python)
    assert outcome.good, lines
    assert results(lines) == [ONE_WORLD]
    assert {f"rank {number} of 3" for number in range(3)} <= set(lines)
    assert not any("separate world" in line for line in lines)


def test_accelerate_is_one_world(cluster: Live, python: str) -> None:
    one_world(cluster, "accelerate_train.py", python)


def test_lightning_is_one_world(cluster: Live, python: str) -> None:
    one_world(cluster, "lightning_train.py", python)


def test_deepspeed_is_one_world(cluster: Live, deepspeed: str) -> None:
    one_world(cluster, "deepspeed_train.py", deepspeed)


def test_accelerate_launch_with_one_process_leaves_the_world_as_it_is(
    cluster: Live, python: str
) -> None:
    place = put(cluster, "accelerate_train.py")
    outcome, lines = run(cluster, ["accelerate", "launch", "--cpu", place], python)
    assert outcome.good, lines
    assert results(lines) == [ONE_WORLD]
    assert not any("separate world" in line for line in lines)


def test_the_deepspeed_command_alone_is_named(cluster: Live, deepspeed: str) -> None:
    """Worlds of one rank: the script ends with status 1, and the first rank reports why.

    The end of one rank ends the job, so the last world may have printed nothing yet.
    """
    place = put(cluster, "deepspeed_train.py")
    outcome, lines = run(cluster, ["deepspeed", "--num_gpus=1", place], deepspeed)
    assert not outcome.good
    assert {result["ranks"] for result in results(lines)} == {1}, lines
    warned = [line for line in lines if "is a separate world" in line]
    assert len(warned) == 1, lines
    assert warned[0].startswith("corral: warning: deepspeed knows of one machine, so each of 3 ")
