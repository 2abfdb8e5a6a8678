"""SIGKILL at any moment: the same verb again makes it right, and nothing is left after down.

CORRAL_TEST_KILLS=100 CORRAL_TEST_SEED=7 CORRAL_TEST_SLOW=1 runs with that seed until 100 kills met
something at work; each line printed states what was killed and when, so that one can be repeated
(CORRAL_TEST_FIRST=57 begins at the 57th trial, CORRAL_TEST_SECONDS=450 ends with the one that is
being tried then).
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import pytest
from tests.embedded.conftest import needs

KILLS = int(os.environ.get("CORRAL_TEST_KILLS", "6"))
SEED = int(os.environ.get("CORRAL_TEST_SEED", "") or random.SystemRandom().randrange(10**6))
FIRST = int(os.environ.get("CORRAL_TEST_FIRST", "1"))
SECONDS = float(os.environ.get("CORRAL_TEST_SECONDS", "inf"))
TEXT = """\
corral: v1
name: {name}
groups:
  - name: cpu
    provider: embedded
    nodes: node[0-{last}]
    gpu: {{type: slot, count: 1}}
storage:
  - {{mount: /shared, kind: provider}}
"""
DRIFT = (
    "systemctl stop slurmd",
    "rm -f /etc/default/slurmd",
    "sed -i /corral/Id /etc/hosts",
    "rm -f /usr/local/sbin/corral-health; systemctl stop corral-reconfigure-guard.timer",
)


@dataclass
class Cluster:
    """A cluster that is driven by command lines, each its own process group."""

    name: str
    folder: Path
    nodes: int = 2
    output: str = ""
    environment: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def file(self) -> Path:
        path = self.folder / "kills.yaml"
        path.write_text(TEXT.format(name=self.name, last=self.nodes - 1))
        return path

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "corral", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={**os.environ, **self.environment},
        )

    def run(self, *words: str, status: int = 0) -> str:
        process = self.start(*words)
        out, _ = process.communicate(timeout=240)
        assert process.returncode == status, f"{' '.join(words)}: {process.returncode}\n{out}"
        return out

    def killed(self, after: float, *words: str) -> bool:
        """Whether the verb was killed; False when it was over before."""
        process = self.start(*words)
        try:
            self.output, _ = process.communicate(timeout=after)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            self.output, _ = process.communicate(timeout=60)
            return True
        assert process.returncode == 0, self.output
        return False

    def on(self, node: int, command: str) -> None:
        target = f"corral-{self.name}-node{node}"
        subprocess.run(
            ["podman", "exec", target, "sh", "-c", command],
            check=True,
            capture_output=True,
            timeout=60,
        )

    def exists(self) -> bool:
        return bool(self.left())

    def left(self) -> list[str]:
        """Whatever of the cluster is there."""
        remaining: list[str] = []
        for kind in ("container", "network", "volume"):
            every = ["--all"] if kind == "container" else []
            out = subprocess.run(
                [
                    "podman",
                    kind,
                    "ls",
                    *every,
                    "--format",
                    "{{.Name}}" if kind != "container" else "{{.Names}}",
                ],
                check=True,
                capture_output=True,
                text=True,
                timeout=60,
            ).stdout
            remaining += [f"{kind} {n}" for n in out.split() if f"corral-{self.name}" in n]
        state = self.folder / "state" / "clusters" / self.name
        return [*remaining, *([str(state)] if state.exists() else [])]


class Page:
    """``corral ui`` and a client of its API."""

    def __init__(self, cluster: Cluster) -> None:
        self.process = cluster.start("ui", str(cluster.file), "--json")
        assert self.process.stdout is not None
        self.seen: list[str] = []
        self.planned = ""
        access = json.loads(self._line(lambda line: line.startswith("{")))
        self.url = access["url"].rstrip("/").partition("#")[0].rstrip("/")
        self.open = urllib.request.build_opener(
            urllib.request.HTTPCookieProcessor(CookieJar())
        ).open
        self.csrf = ""
        self.csrf = self.ask("/api/login/code", {"code": access["code"]})["csrf"]

    def _line(self, matches: Callable[[str], bool]) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.seen.append(line)
            if matches(line):
                return line
        raise AssertionError("".join(self.seen))

    def ask(self, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "X-CSRF-Token": self.csrf}
        request = urllib.request.Request(self.url + path, data, headers)  # noqa: S310
        with self.open(request, timeout=60) as answer:  # loopback
            return json.load(answer)

    def plan(self, text: str) -> bool:
        """Plan; whether there is something to apply."""
        self.ask("/api/corral/plan", {"text": text})
        state = self.over()
        assert state["error"] is None, state
        self.planned = state["result"]["id"]
        return not state["result"]["empty"]

    def apply(self) -> None:
        line = self._line(lambda line: "to apply plan" in line)
        self.ask(
            "/api/corral/apply", {"plan": self.planned, "code": line.rpartition(" ")[2].strip()}
        )

    def over(self) -> dict[str, Any]:
        end = time.monotonic() + 200
        while time.monotonic() < end:
            state = self.ask("/api/corral/work")
            if not state["running"]:
                return state
            time.sleep(0.1)
        raise AssertionError("the page's work does not end")

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate(timeout=60)


def by_up(cluster: Cluster, chance: random.Random) -> str:
    """A new cluster, or one with a machine that lost its power."""
    if cluster.exists() and chance.random() < 0.5:
        cluster.run("down", str(cluster.file), "--yes")
    if cluster.exists():
        node = f"corral-{cluster.name}-node{chance.randrange(cluster.nodes)}"
        subprocess.run(["podman", "kill", node], check=True, capture_output=True, timeout=60)
        return f"up after {node} lost its power"
    return "up"


def by_resize(cluster: Cluster, chance: random.Random) -> str:
    """One node more, or one less."""
    cluster.run("up", str(cluster.file), "--yes", "--no-prove")
    cluster.nodes = 5 - cluster.nodes
    return f"up with {cluster.nodes} nodes"


def by_apply(cluster: Cluster, chance: random.Random) -> str:
    """Somebody changed a machine."""
    cluster.run("up", str(cluster.file), "--yes", "--no-prove")
    drift = chance.choice(DRIFT)
    cluster.on(chance.randrange(cluster.nodes), drift)
    return f"apply after: {drift}"


def by_down(cluster: Cluster, chance: random.Random) -> str:
    cluster.run("up", str(cluster.file), "--yes", "--no-prove")
    return "down"


def one_kill(cluster: Cluster, chance: random.Random) -> tuple[bool, str]:
    """One verb, killed and run again: whether the kill met it at work, and what was done."""
    verb, make, most = chance.choice(
        [
            ("up", by_up, 14.0),
            ("up", by_resize, 12.0),
            ("apply", by_apply, 4.0),
            ("down", by_down, 4.0),
            ("page", by_apply, 1.0),
        ]
    )
    what = make(cluster, chance)
    after = chance.uniform(0.05, most)
    words = [verb, str(cluster.file), "--yes", *(["--no-prove"] if verb == "up" else [])]
    if verb == "page":
        text = cluster.file.read_text()
        page = Page(cluster)
        try:
            if page.plan(text):
                page.apply()
                time.sleep(after)
            killed = bool(page.ask("/api/corral/work")["running"])
        finally:
            page.kill()
        page = Page(cluster)
        try:
            if page.plan(text):
                page.apply()
                state = page.over()
                assert state["error"] is None, state
        finally:
            page.kill()
        return killed, f"page's {what}, {'killed' if killed else 'over'} after {after:.1f} s"
    killed = cluster.killed(after, *words)
    last = (cluster.output.strip().splitlines() or ["nothing"])[-1]
    cluster.run(*words)
    if verb == "down":
        assert cluster.left() == []
    return killed, f"{what}, {'killed' if killed else 'over'} after {after:.1f} s: {last}"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    reason = needs()
    if reason:
        pytest.skip(reason)
    laptop = Cluster(f"rk{os.getpid()}", tmp_path)
    laptop.environment = {"CORRAL_STATE_DIR": str(tmp_path / "state")}
    yield laptop
    laptop.start("down", str(laptop.file), "--yes").communicate(timeout=120)


@pytest.mark.slow
def test_random_kills(cluster: Cluster) -> None:
    print(f"seed {SEED}, {KILLS} kills")
    end = time.monotonic() + SECONDS
    met = 0
    for number in itertools.count(FIRST):
        if met >= KILLS:
            break
        if time.monotonic() > end:
            print(f"{met} kills; go on with CORRAL_TEST_FIRST={number}")
            break
        chance = random.Random(SEED * 1000 + number)
        cluster.nodes = 2
        began = time.monotonic()
        killed, summary = one_kill(cluster, chance)
        met += killed
        print(f"{number}: {summary}", flush=True)
        if cluster.exists():
            output = cluster.run("plan", str(cluster.file), "--json")  # progress, then one line
            plan = json.loads(output.splitlines()[-1])
            assert not plan["stages"] and not plan["machines"], plan
            cluster.run("prove", str(cluster.file))
            if chance.random() < 0.3:
                cluster.run("down", str(cluster.file), "--yes")
                assert cluster.left() == []
        print(f"   good after {time.monotonic() - began:.0f} s", flush=True)
    cluster.run("down", str(cluster.file), "--yes")
    assert cluster.left() == []
