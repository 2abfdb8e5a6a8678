"""The recipes of the guide at small size: an LLM of Hugging Face, Ray, a server as a job."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.embedded.conftest import EXAMPLES
from tests.embedded.server_job import server_of
from tests.embedded.test_tools import install_or_skip

from corral.api.cluster import Cluster
from corral.api.workload.queue import JobOutcome, RankLine
from corral.hosts.quote import sh
from corral.roles.services.corral_wheels import parse_lock
from corral.state.pyenv import PythonEnv

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

pytestmark = pytest.mark.slow
RECIPES = EXAMPLES / "recipes"
PROGRAMS = Path(__file__).parent / "programs"
PLACE = "/shared/test-recipes"
TEXT = f"{PLACE}/text.txt"
PORT = 8000
# vLLM itself is in test_vllm.py: a program of its name that answers as its server does.
VLLM = """\
#!/usr/bin/python3
import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
assert sys.argv[1] == "serve", sys.argv
model, options = sys.argv[2], dict(zip(sys.argv[3::2], sys.argv[4::2]))
class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        data = json.dumps({"object": "list", "data": [{"id": model}]}).encode()
        self.send_response(200 if self.path == "/v1/models" else 404)
        self.end_headers()
        self.wfile.write(data)
server = HTTPServer((options["--host"], int(options["--port"])), Answer)
print("INFO: Application startup complete.", flush=True)
server.serve_forever()
"""


@pytest.fixture(scope="module")
def python(cluster: Live) -> Iterator[str]:
    """An environment on shared storage that also has the PyTorch of the nodes."""
    wheels = parse_lock(Path(__file__).with_name("recipes.lock").read_text())["3.13"]
    install_or_skip(cluster, PythonEnv(PLACE, "recipes", wheels))
    put = sh(
        "cd {place} && echo /usr/lib/python3/dist-packages > lib/python3.13/site-packages/n.pth && "
        "cat /usr/lib/python3.13/[a-c]*.py > text.txt && cat > bin/vllm && chmod 755 bin/vllm && "
        "mkdir -m 777 out",
        place=PLACE,
    )
    done = cluster.run(cluster.controller, put, stdin=VLLM.encode())
    assert done.ok, done.tail
    yield PLACE
    cluster.run(cluster.controller, sh("rm -rf {place}", place=PLACE))


def run(cluster: Live, script: str, **fields: Any) -> tuple[JobOutcome, list[str]]:
    """How a job ended, and what its ranks printed."""
    lines: list[RankLine] = []
    job = str(RECIPES / script)
    outcome = Cluster(cluster.spec).run(job, on_line=lines.append, time="15m", **fields)
    assert isinstance(outcome, JobOutcome)
    return outcome, [line.text for line in lines]


def result(lines: list[str]) -> dict[str, Any]:
    [line] = [line for line in lines if line.startswith("RESULT ")]
    return json.loads(line.removeprefix("RESULT "))


@pytest.fixture(scope="module")
def tiny(cluster: Live, python: str) -> str:
    """A model and a tokenizer, written by the recipe itself."""
    folder = f"{PLACE}/out/tiny"
    words = ["--make-tiny", folder, "--text", TEXT]
    outcome, lines = run(cluster, "finetune_llm.py", python=python, args=words)
    assert outcome.good, lines
    return folder


@pytest.mark.parametrize("lora", [False, True], ids=["all", "lora"])
def test_a_model_is_fine_tuned_over_two_nodes(
    cluster: Live, python: str, tiny: str, lora: bool
) -> None:
    out = f"{PLACE}/out/{'lora' if lora else 'all'}"
    words = ["--model", tiny, "--text", TEXT, "--steps", "30", "--lr", "5e-3", "--out", out]
    words += ["--lora"] if lora else []
    outcome, lines = run(cluster, "finetune_llm.py", nodes=2, python=python, args=words)
    assert outcome.good, lines[-30:]
    figures = result(lines)
    assert figures["ranks"] == 2
    assert figures["after"] < figures["before"] - (0.05 if lora else 0.5)
    kept = cluster.run(cluster.controller, sh("ls {out}", out=out)).stdout.split()
    assert ("adapter_model.safetensors" if lora else "model.safetensors") in kept
    assert "tokenizer.json" in kept


def test_a_model_that_learns_nothing_fails(cluster: Live, python: str, tiny: str) -> None:
    words = ["--model", tiny, "--text", TEXT, "--steps", "2", "--lr", "0"]
    words += ["--out", f"{PLACE}/out/nothing"]
    outcome, lines = run(cluster, "finetune_llm.py", nodes=2, python=python, args=words)
    assert not outcome.good
    assert result(lines)["ranks"] == 2


def test_ray_has_all_nodes_of_the_job_and_leaves_nothing(cluster: Live, python: str) -> None:
    outcome, lines = run(cluster, "ray_search.py", nodes=3, ranks_per_node=1, python=python)
    assert outcome.good, lines[-30:]
    figures = result(lines)
    assert figures["nodes"] == ["node0", "node1", "node2"]
    assert figures["loss"] < 1e-3
    assert not [line for line in lines if "authentication is disabled" in line]
    find = sh("find /shared -name ray.token -newer {place}/text.txt -printf '%m\\n'", place=PLACE)
    assert set(cluster.run(cluster.controller, find).stdout.split()) == {"600"}
    left = cluster.each([(f"node{n}", sh("pgrep -fc '[r]aylet|[g]cs_server'")) for n in range(3)])
    assert [answer.stdout.strip() for answer in left] == ["0", "0", "0"]


def test_a_server_is_a_job_that_is_reached_by_a_tunnel(
    cluster: Live, python: str, tmp_path: Path
) -> None:
    serve = ["vllm", "serve", "tiny", "--host", "127.0.0.1", "--port", str(PORT)]
    options = ["--python", python, "--time", "10m"]
    with (
        server_of(cluster, tmp_path, options, serve, PORT) as url,
        urllib.request.urlopen(f"{url}v1/models", timeout=30) as answer,  # noqa: S310
    ):
        assert json.load(answer)["data"] == [{"id": "tiny"}]


def test_the_hubs_token_is_read_from_a_file(cluster: Live, python: str) -> None:
    """The file is the user's alone; the token is in no command, and not in Slurm's record.

    A stand-in of the hub gives the file of a gated model to who sends the token.
    """
    user = cluster.spec.users[0].name if cluster.spec.users else "corral"
    make = sh(
        "cd {place} && umask 077 && printf 'hf_secret\n' > hf-token && chown {user} hf-token",
        place=PLACE,
        user=user,
    )
    assert cluster.run(cluster.controller, make).ok
    lines: list[RankLine] = []
    outcome = Cluster(cluster.spec).run(
        str(PROGRAMS / "gated_model.py"),
        on_line=lines.append,
        python=python,
        env={"HF_TOKEN_PATH": f"{PLACE}/hf-token"},
        time="5m",
    )
    assert isinstance(outcome, JobOutcome)
    assert outcome.good, lines
    shown = [line.text for line in lines]
    assert shown == ["with the file True", "without it refused", "sent True True"]
