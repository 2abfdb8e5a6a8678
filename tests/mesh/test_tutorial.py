"""The tutorial of one training over two clouds: its own commands, in order, in a lab.

The desk and two rented machines are each behind a separate NAT, and each home sends at 20 Mb/s.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from corral.state_dir import VARIABLE
from tests.guide_blocks import not_printed, run_by
from tests.mesh.lab import Lab, LabNode, tools

REPO = Path(__file__).parents[2]
PAGE = REPO / "docs/guide/train-across-clouds.md"
PROGRAM = REPO / "examples/train_diloco.py"
FOLDER = "/srv/training"
MBPS = 20
FENCE = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", flags=re.M | re.S)
DESK = "on the desk"


def blocks(language: str, title: str = "") -> list[str]:
    """The page's code blocks of a language and a place, in order."""
    fences = FENCE.finditer(PAGE.read_text())
    return [m[3] for m in fences if (m[1], m[2] or "") == (language, title)]


def lines(language: str, title: str = "") -> list[str]:
    return [line for text in blocks(language, title) for line in text.splitlines()]


@dataclass
class Tutorial:
    """The page, followed."""

    lab: Lab
    folder: Path
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    printed: str = ""

    @property
    def desk(self) -> LabNode:
        return self.lab.nodes[0]

    def write_file(self) -> None:
        """The page's cluster file, with this lab's addresses, key and programs."""
        (text,) = blocks("yaml")
        for node in self.lab.nodes:
            ours = f"addresses: {node.address}, ssh: {{key: {self.lab.key}}}"
            text = re.sub(r"addresses: [\d.]+(?=})", ours, text, count=1)
        url = f"url: {self.lab.control.url}\n    programs: {tools.folder()}"
        text = text.replace("url: https://headscale.example.org", url)
        (self.folder / "twoclouds.yaml").write_text(text)

    def here(self, line: str) -> str:
        """Run a line of the page on this machine, in the tutorial's folder."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["/bin/sh", "-c", line],
            cwd=self.folder,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=900,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        self.printed += done.stdout + done.stderr
        return done.stdout

    def at_desk(self, line: str, *, user: str = "root") -> str:
        """Run a line of the page on the desk."""
        text = line.replace("'", "'\\''")
        command = line if user == "root" else f"cd /tmp && su {user} -s /bin/sh -c '{text}' 2>&1"
        output = self.desk.ssh(f"{command}; echo status $?", timeout=600) or ""
        assert output.endswith("status 0"), f"{line}\n{output}"
        self.printed += f"{output}\n"
        return output

    def send(self, file: Path) -> None:
        """Put a file of this machine into the training's folder on the desk."""
        self.desk.ssh(f"cat > {FOLDER}/{file.name} <<'END'\n{file.read_text()}\nEND\n")

    def train(self, line: str) -> dict[str, Any]:
        """Run a line with srun; the line RESULT of the program."""
        output = self.at_desk(line, user="corral")
        result = re.search(r"^RESULT (\{.*?\})", output, re.M)
        assert result, output
        return json.loads(result[1])


@pytest.fixture(scope="module")
def tutorial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tutorial]:
    lab = Lab.make(f"two-{os.getpid()}", [(0, "machine"), (1, "machine"), (2, "machine")])
    folder = tmp_path_factory.mktemp("tutorial")
    patch = pytest.MonkeyPatch()
    patch.setenv("HEADSCALE_API_KEY_FILE", str(lab.control.key_file))
    patch.setenv("SSL_CERT_FILE", str(lab.control.authority))
    patch.setenv(VARIABLE, str(folder / "state"))
    for home in range(lab.homes):
        lab.networks.limit(home, MBPS)
    yield Tutorial(lab, folder)
    patch.undo()
    lab.remove()
    shutil.rmtree(folder, ignore_errors=True)
    assert lab.left() == []


def test_the_cluster_comes_up_and_the_data_is_on_each_node(tutorial: Tutorial) -> None:
    tutorial.write_file()
    export, up, status, prove, env, sync, _ = lines("sh")
    assert export.startswith("export HEADSCALE_API_KEY_FILE=")  # the fixture's own is set
    for line in (up, status, prove):
        tutorial.here(line)
    make, *_ = blocks("sh", DESK)
    for line in make.splitlines():
        tutorial.at_desk(line)
    tutorial.here(env)
    for file in (PROGRAM, tutorial.folder / "env.sh"):
        tutorial.send(file)
    tutorial.here(sync)
    digest = f"cd {FOLDER} && find . -type f | sort | xargs sha256sum"
    assert len({node.ssh(digest) for node in tutorial.lab.nodes}) == 1


def test_the_cost_is_predicted_before_and_measured_after(tutorial: Tutorial) -> None:
    _, alone, together = blocks("sh", DESK)
    single = tutorial.train(alone.strip())
    assert single["world_size"] == 1
    *_, predict = lines("sh")
    words = {"0.92M": f"{single['parameters']}", "--step-ms 411": f"--step-ms {single['step_ms']}"}
    for shown, measured in words.items():
        assert shown in predict
        predict = predict.replace(shown, measured)
    # The first packets go over the relay, until a hole is punched.
    _, east, _ = tutorial.lab.nodes
    west = (east.ssh("getent ahostsv4 west") or "").split()[0]
    east.ssh(f"tailscale ping -c 20 {west}; true")
    seen = json.loads(tutorial.here(f"{predict} --json"))
    link = next(x for x in seen["links"] if (x["source"], x["target"]) == ("east", "west"))
    assert link["path"] == "direct"
    assert 0.5 * MBPS < link["mbps"] < 1.2 * MBPS
    ddp, local, diloco = (tutorial.train(line) for line in together.splitlines())
    print(json.dumps([single, seen["training"], link, ddp, local, diloco]))
    cost = next(x for x in seen["training"] if (x["source"], x["target"]) == ("east", "west"))
    assert ddp["world_size"] == 2
    # Both nodes share this machine's processors; a step alone has them for itself.
    assert 0.67 < ddp["step_ms"] / (cost["ddp_s"] * 1e3) < 1.7, (ddp, cost)
    # What the program counts is sent by the interface, and little else.
    for each in (ddp, local, diloco):
        assert 1 <= each["interface_bytes_per_step"] / each["bytes_per_step"] < 1.3, each
        assert each["test_loss"] < each["first_loss"] - 1
    sixteenth = ddp["bytes_per_step"] / diloco["inner"]
    assert diloco["bytes_per_step"] == pytest.approx(sixteenth, abs=1)
    for each in (local, diloco):
        assert ddp["step_ms"] - each["step_ms"] > 600 * cost["exchange_s"]
        assert each["exchange_ms"] == pytest.approx(cost["exchange_s"] * 1e3, rel=0.5)
    assert diloco["test_loss"] < ddp["test_loss"] + 0.5


def test_the_page_shows_what_was_printed(tutorial: Tutorial) -> None:
    shown = [block for block in run_by(__file__) if block.shown]
    assert len(shown) >= 4
    for block in shown:
        assert not_printed(block.shown, tutorial.printed) == [], str(block)
