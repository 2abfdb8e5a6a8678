"""SIGKILL at each step of A3 Mega's ``corral up``: to Corral, to gcluster, and to both.

After each kill ``up`` is run to its end, then ``down``; of every second one ``down`` comes first.
Nothing may be made twice or orphaned at the simulated Google. Without CORRAL_TEST_SLOW one step of
each kind, drawn with a seed (CORRAL_TEST_SEED, else 1). Of the journal's lines, which are most of
the steps, two of ten are taken (``points``), with CORRAL_TEST_SLOW too.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.mega.corral import live
from tests.embedded.mega.google import TOKEN, Server
from tests.embedded.mega.project import Mega

RELEASE = "v1.95.0"
PARTS = 10
VICTIMS = (("corral",), ("gcluster",), ("corral", "gcluster"))
LIMIT_S = 1500
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.embedded.mega.corral"])


class Life:
    """One project, and the processes that use it one after the other."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, kill: dict[str, Any]) -> None:
        self.folder = folder
        folder.mkdir()
        self.server = Server(folder)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.mega = Mega(folder, patch, RELEASE, self.server)
        self.mega.without_machines()
        self.mega.spec()
        (folder / "steps").touch()
        (folder / "kill.json").write_text(json.dumps(kill))
        names = [name for name in os.environ if name.startswith(("CORRAL_", "GOOGLE_"))]
        self.environ = {name: os.environ[name] for name in [*names, "PATH", "PYTHONPATH"]}

    def run(self, *verbs: str) -> int | None:
        process = PROCESSES.Process(
            target=in_world, args=(self.environ, verbs, self.folder / "mega.yaml")
        )
        process.start()
        process.join(LIMIT_S)
        if process.is_alive():
            process.kill()
            process.join()
        return process.exitcode

    def steps(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "steps").read_text().splitlines()]

    def output(self) -> str:
        return (self.folder / "output").read_text()

    def world(self, verb: str) -> dict[str, Any]:
        return json.loads((self.folder / f"world.{verb}.json").read_text())

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def in_world(environ: dict[str, str], verbs: Sequence[str], file: Path) -> None:
    """In the new process: the fork server has another test's environment."""
    os.environ.update(environ)
    live(verbs, file)


def known(world: dict[str, Any]) -> dict[str, Any]:
    """What Google and Terraform have, without times and random names."""
    names = ("networks", "instances", "storage", "disks", "made", "locks")
    return {name: world[name] for name in names} | {"images": len(world["images"])}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    """A life in which nobody is killed."""
    with pytest.MonkeyPatch.context() as patch:
        life = Life(tmp_path_factory.mktemp("reference") / "life", patch, {"step": 0})
        assert life.run("up") == 0, life.output()
        yield life
        life.close()


def points(life: Life) -> list[tuple[int, tuple[str, ...]]]:
    """Each step of ``up`` with those who run at it; of the journal's many lines two of ten."""
    steps = [s for s in life.steps() if "journal" not in s["name"] or s["step"] % 10 < 2]
    return [(s["step"], who) for s in steps for who in VICTIMS if set(who) <= set(s["alive"])]


def killed(
    reference: Life,
    point: tuple[int, tuple[str, ...]],
    folder: Path,
    patch: pytest.MonkeyPatch,
    *,
    removed: bool | None = None,
    at: str = "",
) -> None:
    """``removed``: ``down`` comes first; None: of every second step. ``at``: of the step's name."""
    number, who = point
    life = Life(folder, patch, {"step": number, "who": who, "name": at})
    try:
        first = life.run("up")
        where = f"SIGKILL to {' and '.join(who)} at step {number}\n"
        assert (folder / "killed.json").exists(), f"nobody was killed: {where}{life.output()}"
        name = json.loads((folder / "killed.json").read_text())["name"]
        where = f"{where.strip()}, {name}\n"
        assert first == (-signal.SIGKILL if "corral" in who else 1), where + life.output()
        if number % 2 if removed is None else removed:
            taken_down(life, where)
        ended = life.run("up", "down")
        assert ended == 0, where + life.output()
        up, down = life.world("up"), life.world("down")
        # Packer dies of one of its next lines: between its machine and its image the disk is lone.
        lone = up["disks"] if "gcluster" in who and name.startswith("packer") else {}
        assert len(lone) <= 1, where
        of = [image["disk"].rpartition("/")[2] for image in up["images"].values()]
        assert not set(lone) & set(of), where
        assert known(up) == known(reference.world("up")) | {"disks": lone}, where
        assert down["disks"] == lone, where
        assert all(f"gcloud compute disks delete {disk} " in life.output() for disk in lone), where
        assert not any(down[kind] for kind in ("networks", "instances", "storage")), where
        assert not any(down["made"].values()) and not down["locks"], where
        assert all(image in life.output() for image in down["images"]), where
        assert not (folder / "state/clusters/mega").exists(), where
        for path in (p for p in folder.rglob("*") if p.is_file()):
            assert TOKEN not in path.read_text(errors="replace"), where + str(path)
    finally:
        life.close()


def taken_down(life: Life, where: str) -> None:
    """``down`` at once: it removes all there is, or names all that is left."""
    ended = life.run("down")
    world = json.loads((life.folder / "world.json").read_text())
    left = [name for kind in ("networks", "instances", "storage") for name in world[kind]]
    assert (ended == 0) is (not left), where + life.output()
    _, phrase, printed = life.output().rpartition("things of mega are left")
    assert bool(phrase) is bool(left), where + life.output()
    assert all(name in printed for name in left), where + life.output()


@pytest.mark.parametrize("who", VICTIMS, ids="-and-".join)
def test_killed_at_a_step_that_is_drawn(
    who: tuple[str, ...],
    reference: Life,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    seed = os.environ.get("CORRAL_TEST_SEED", "1")
    point = random.Random(seed).choice([p for p in points(reference) if p[1] == who])
    with capsys.disabled():
        print(f"\nCORRAL_TEST_SEED={seed}: SIGKILL to {' and '.join(who)} at step {point[0]}")
    killed(reference, point, tmp_path / "life", monkeypatch)


@pytest.mark.parametrize("removed", [False, True])
def test_a_controller_that_terraform_forgot_is_made_again(
    removed: bool, reference: Life, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All machines are there by then, its nodes too, and yet ``up`` has to run gcluster."""
    point, at = (1, ("gcluster",)), ".controller made"
    killed(reference, point, tmp_path / "life", monkeypatch, removed=removed, at=at)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_killed_at_every_step(
    part: int, reference: Life, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every step but the journal's lines, of which ``points`` samples two of ten."""
    for number, point in enumerate(points(reference)[part::PARTS]):
        killed(reference, point, tmp_path / str(number), monkeypatch)
