"""The guard of the controller against simulated clouds, its calls checked by their documents."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from corral import agents
from corral.agents import rental_guard
from corral.providers.cloud.client.accounts import calls_of
from corral.providers.cloud.model import label_of
from corral.spec.providers import CLOUDS
from corral.testing.clouds.server import CloudServer
from corral.testing.clouds.wire import Request
from corral.testing.clouds.world import Sim
from corral.testing.rentals import SECRET
from corral.testing.virtual import run
from tests import wind_down
from tests.clouds.common import World

HOUR = 3600.0
NODE = (
    "NodeName={name} Arch={arch} CoresPerSocket=2  CPUAlloc=0 CPUEfctv=2 CPUTot=2 CPULoad=0.01 "
    "NodeAddr={name} NodeHostName={name} Version={version} OS={system}  RealMemory=5845 AllocMem=0 "
    "FreeMem=99 Sockets=1 Boards=1 State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1{rest}\n"
)
REASON = f" Reason={wind_down.REASON} [root@1795231953]"
FORGED = {  # each can read as POWERED_DOWN, or as IDLE where it is not
    "os": {"system": "Linux 6.1 State={state} x"},
    "arch": {"arch": "x86_64 State={state}"},
    "version": {"version": "24.11.5 State={state}"},
    "surroundings": {"system": "x RealMemory=1 AllocMem=0 State={state} ThreadsPerCore=1 Reason=x"},
    "a line": {"system": "x\nNodeName=gpu0 Arch=x State={state} ThreadsPerCore=1"},
}
POWERED_DOWN = "IDLE+CLOUD+POWERED_DOWN"
FAST = """
import runpy, sys, time
nap = time.sleep
time.sleep = lambda seconds: nap(seconds / 20)
runpy.run_path(sys.argv[1], run_name="__main__")
"""


class Slurm:
    """As much of Slurm as the guard talks to; an unknown command is a failure.

    A limit is in minutes, and a new end moves it by an integer number of them, rounded towards zero
    (24.11.5): the end that squeue prints is up to 90 s after the one that was asked for.
    """

    def __init__(self, now: Callable[[], float], folder: Path) -> None:
        self.now, self.folder = now, folder
        self.states: dict[str, str] = {}
        self.sent = {"arch": "x86_64", "version": "24.11.5", "system": "Linux 6.1"}
        self.jobs: dict[str, float | None] = {}
        self.since: dict[str, float] = {}
        self.limits: dict[str, int] = {}
        self.done: list[str] = []

    def __call__(self, argv: Sequence[str]) -> str:
        assert argv[0] == "sh", argv
        return self._program(*argv[2:])

    def _program(self, *words: str) -> str:
        """The real wind-down.sh, with commands that print files and write down what changes."""
        if words != ("powered-off",):
            (self.folder / "jobs").write_text("".join(map(self._row, self.jobs)))
        shown = [
            NODE.format(**self.sent, name=n, state=s, rest=REASON if "DRAIN" in s else "")
            for n, s in self.states.items()
        ]
        (self.folder / "shown").write_text("".join(shown))
        done = self.folder / "done"
        done.write_text("")
        printed = wind_down.ran(self.folder, *words)
        for line in done.read_text().splitlines():
            self.done.append(line.removeprefix("update "))
            self._limited(line)
        return printed

    def _row(self, job: str) -> str:
        """A job that had run for 345 s when squeue was first asked; NONE without a limit."""
        start = self.since.setdefault(job, self.now() - 345)
        left = self.jobs[job]
        end = start + self.limits[job] * 60 if job in self.limits else left and self.now() + left
        return f"{job} R {start:.0f} {'NONE' if end is None else f'{end:.0f}'}\n"

    def _limited(self, words: str) -> None:
        match = re.search(r"jobid=(\d+) (timelimit|endtime)=(\S+)", words)
        if not match:
            return
        job, what, value = match.groups()
        if what == "timelimit":
            self.limits[job] = int(value)
        else:
            end = datetime.fromisoformat(value).timestamp() - self.since[job]
            self.limits[job] += int((end - self.limits[job] * 60 + 30) / 60)


class Controller:
    """A controller with a guard, and the cloud of a world."""

    def __init__(self, world: World, **conf: Any) -> None:
        folder = Path(tempfile.mkdtemp(dir=world.folder))
        self.world, self.slurm, self.state = world, Slurm(world.loop.time, folder), dict[str, Any]()
        self.conf = {
            "cluster": "lab",
            "nodes": ["gpu0", "gpu1"],
            "elastic": [],
            "total": None,
            "grace": 600,
            "ending": 0,
            "clouds": {world.name: ""},
            "clients": {world.name: calls_of(world.name)},
        } | conf
        self.silent = False

    @property
    def sim(self) -> Sim:
        return self.world.sim

    def call(self, cloud: str, method: str, path: str, body: Any) -> Any:
        assert cloud == self.world.name
        if self.silent:
            raise OSError("no way there")
        self.world.loop.clock += 1.1
        parts = urlsplit(path)
        headers = {"authorization": f"Bearer {SECRET}", "content-type": "application/json"}
        answer = self.sim.handle(
            Request(method, parts.path, dict(parse_qsl(parts.query)), headers, body)
        )
        assert answer.status < 300, answer
        return answer.body

    def round(self, after: float = 0.0) -> rental_guard.Round:
        self.world.loop.clock += after
        clock = self.world.loop

        def wait(seconds: float) -> None:
            clock.clock += seconds

        turn = rental_guard.Round(
            self.conf, self.state, self.call, self.slurm, now=clock.time, wait=wait
        )
        turn.run()
        assert self.sim.violations == []
        return turn

    def alive(self) -> list[str]:
        return sorted(
            label.node if (label := label_of(m.name, "lab")) else m.name for m in self.sim.alive()
        )


@pytest.fixture(params=CLOUDS)
def up(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    world = World(request.param, tmp_path)
    run(world.loop, world.up())
    return world


def test_what_is_spent_is_the_clouds_bill(up: World) -> None:
    controller = Controller(up)
    for _ in range(12):
        turn = controller.round(300)
        assert not turn.messages and not turn.failed
    # Lambda reports no launch time to a client that set no tag: counted from the first poll.
    assert controller.state["spent"] == pytest.approx(up.sim.bill(), rel=0.12)
    assert controller.alive() == ["gpu0", "gpu1"]


def test_a_spent_budget_drains_warns_and_ends(up: World) -> None:
    controller = Controller(up, total=1.0)
    controller.slurm.jobs = {"7": 73 * HOUR, "8": 120, "9": None}
    while not controller.state.get("reached"):
        controller.round(300)
    done = controller.slurm.done
    assert done[0] == f"nodename=gpu0,gpu1 state=drain reason={wind_down.REASON}"
    assert [d.split()[:1] for d in done[1:]] == [["jobid=7"]] * 2 + [["jobid=9"]] * 2
    assert done[1] == "jobid=7 timelimit=17" and "endtime=" in done[2]
    assert controller.alive() == ["gpu0", "gpu1"]
    for _ in range(5):  # an end that Slurm has taken is not set, or reported, again
        assert controller.round(60).messages == [] and controller.alive() == ["gpu0", "gpu1"]
    assert len(controller.slurm.done) == 5 + 5
    last = controller.round(400)
    assert controller.alive() == []
    assert last.messages[-1] == "the clouds list nothing any more"
    assert controller.state["spent"] == pytest.approx(up.sim.bill(), rel=0.12)
    # Whatever is launched past it goes at once.
    run(up.loop, up.up())
    controller.round(60)
    assert controller.alive() == []


def test_the_end_begins_so_early_that_the_budget_holds(up: World) -> None:
    controller = Controller(up, total=2.0, ending=600 + 2 * 60)
    controller.slurm.jobs = {"7": 73 * HOUR}
    controller.round()
    while controller.alive():
        controller.round(60)
        # The rate of what has ended stays reserved: nothing else begins in its place.
        assert not controller.state.get("reached") or controller.state["rate"] > 0
    assert 1.6 < up.sim.bill() <= 2.0
    for _ in range(2):
        controller.round(60)
    assert controller.state["reached"]
    assert "resume" not in " ".join(controller.slurm.done)


def test_without_jobs_nobody_waits_for_the_grace(up: World) -> None:
    controller = Controller(up)
    controller.round()
    controller.conf["total"] = 0.001
    controller.round(300)
    assert controller.alive() == []


def test_a_raised_budget_takes_the_drain_back(up: World) -> None:
    controller = Controller(up)
    controller.round()
    controller.conf["total"] = 0.001
    controller.slurm.jobs = {"7": HOUR}
    controller.slurm.states = {"gpu0": "IDLE+DRAIN"}
    controller.round(60)
    controller.conf["total"] = 500
    controller.round(60)
    assert controller.slurm.done[-1] == "nodename=gpu0 state=resume"
    assert "reached" not in controller.state and len(controller.alive()) == 2


def test_powered_down_nodes_go_at_the_second_look_and_strays_after_an_hour(up: World) -> None:
    controller = Controller(up, nodes=["gpu0"], elastic=["gpu0"])
    controller.slurm.states = {"gpu0": "IDLE+CLOUD+POWERED_DOWN"}
    controller.round(60)
    assert controller.alive() == ["gpu0", "gpu1"]
    controller.round(60)
    assert controller.alive() == ["gpu1"]  # not in the file, for two minutes: being added, perhaps
    controller.round(HOUR)
    assert controller.alive() == []


@pytest.mark.parametrize("sent", FORGED.values(), ids=FORGED)
def test_what_a_node_sends_ends_no_machine(sent: dict[str, str], up: World) -> None:
    controller = Controller(up, elastic=["gpu0", "gpu1"])
    controller.slurm.states = {"gpu1": "IDLE+CLOUD", "gpu0": "IDLE+CLOUD"}
    controller.slurm.sent |= {k: text.format(state=POWERED_DOWN) for k, text in sent.items()}
    controller.round(60)
    controller.round(60)
    assert controller.alive() == ["gpu0", "gpu1"]


@pytest.mark.parametrize("kind", ["os", "arch", "version"])
def test_what_a_node_sends_keeps_no_machine(kind: str, up: World) -> None:
    controller = Controller(up, elastic=["gpu0", "gpu1"])
    controller.slurm.states = {"gpu1": POWERED_DOWN, "gpu0": POWERED_DOWN}
    controller.slurm.sent |= {k: t.format(state="IDLE+CLOUD") for k, t in FORGED[kind].items()}
    controller.round(60)
    controller.round(60)
    assert controller.alive() == []


def test_a_cloud_that_does_not_answer_goes_on_to_cost(up: World) -> None:
    controller = Controller(up)
    controller.round(60)
    before = controller.state["spent"]
    controller.silent = True
    turn = controller.round(HOUR)
    assert turn.failed and "was not listed" in turn.messages[0]
    price = sum(m.price for m in up.sim.alive())
    assert controller.state["spent"] - before == pytest.approx(price, rel=0.01)
    controller.silent = False
    assert not controller.round(60).failed


@pytest.mark.parametrize(
    "name", ["corral-lab-gpu0-00000000000000", "corral-other-gpu0-9c1185a5c5e9fc", "my-own-box"]
)
def test_machines_of_others_are_not_the_clusters(name: str, up: World) -> None:
    controller = Controller(up, nodes=[])
    up.sim.alive()[0].name = name
    controller.round(60)
    controller.round(2 * HOUR)
    assert controller.alive() == [name]


def test_it_runs_as_it_is_installed(up: World, tmp_path: Path) -> None:
    """The program and the modules next to it, by a Python that knows nothing of Corral."""
    module, root = calls_of(up.name), tmp_path / "root"
    texts = {f"usr/local/lib/corral/clouds/{p}": t for p, t in agents.modules(module).items()}
    texts["usr/local/lib/corral/guard.py"] = re.sub(
        r'Path\("(/(?:etc|usr|var)/)', rf'Path("{root}\1', agents.program("rental_guard.py")
    )
    texts[f"etc/corral/guard/{up.name}.key"] = f"{SECRET}\n"
    server = CloudServer({up.name: up.sim})
    began, at = time.monotonic(), up.loop.clock + 60
    up.sim.now = lambda: at + (time.monotonic() - began) * 40
    threading.Thread(target=server.serve_forever, daemon=True).start()
    conf = {
        "cluster": "lab",
        "nodes": ["gpu0", "gpu1"],
        "elastic": [],
        "total": 0.0,
        "grace": 0,
        "ending": 0,
        "clouds": {up.name: server.url(up.name)},
        "clients": {up.name: module},
    }
    texts["etc/corral/guard.json"] = json.dumps(conf)
    for path, text in texts.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    try:
        argv = [sys.executable, "-I", "-S", "-c", FAST, str(root / "usr/local/lib/corral/guard.py")]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=100)
    finally:
        server.shutdown()
        server.server_close()
    assert (done.returncode, done.stderr) == (0, ""), done
    assert "the clouds list nothing any more" in done.stdout
    assert up.sim.alive() == [] and up.sim.violations == []
