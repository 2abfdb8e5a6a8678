"""What there is in the simulated project: one JSON file, changed under a lock."""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

VARIABLE = "CORRAL_TEST_MEGA_WORLD"
MACHINE = "a3-megagpu-8g"


def empty(**more: Any) -> dict[str, Any]:
    """A project with room for two A3 Mega machines in us-central1-c, and nothing in it.

    ``networks``, ``instances``, ``storage``, ``disks`` and ``images`` are Google's, ``made`` is
    what Terraform's states know of them, ``locks`` are on these states.
    """
    return {
        "project": "my-project",
        "zones": {"us-central1-c": [MACHINE, "c2-standard-8"]},
        "quotas": {"NETWORKS": 15, "SUBNETWORKS": 100},
        "region_quotas": {
            "C2_CPUS": 100,
            "SSD_TOTAL_GB": 10000,
            "PREEMPTIBLE_NVIDIA_H100_MEGA_GPUS": 16,
        },
        "reservations": {
            "my-reservation": {"machine": MACHINE, "count": 2, "used": 0, "status": "READY"}
        },
        "networks": {},
        "instances": {},
        "storage": {},
        "disks": {},
        "images": {},
        "created": {},
        "made": {},
        "locks": {},
        "fail": {},
        **more,
    }


def folder() -> Path:
    return Path(os.environ[VARIABLE])


def create(at: Path, **more: Any) -> None:
    at.mkdir(parents=True, exist_ok=True)
    (at / "world.json").write_text(json.dumps(empty(**more)))


def now() -> str:
    """As Google writes a time."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


@contextlib.contextmanager
def changing(at: Path | None = None) -> Iterator[dict[str, Any]]:
    """The world, written back at the end."""
    at = at or folder()
    with (at / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = at / "world.json"
        world = json.loads(path.read_text())
        yield world
        path.with_suffix(".new").write_text(json.dumps(world))
        path.with_suffix(".new").replace(path)


def read(at: Path | None = None) -> dict[str, Any]:
    return json.loads(((at or folder()) / "world.json").read_text())


def expanded(deployment: Path) -> dict[str, Any]:
    """The blueprint that gcluster left in a deployment folder."""
    text = (deployment / ".ghpc/artifacts/expanded_blueprint.yaml").read_text()
    try:
        return json.loads(text)
    except ValueError:
        from ruamel.yaml import YAML  # noqa: PLC0415  # slow to import

        return YAML(typ="safe").load(text)


def note(program: str, argv: list[str]) -> None:
    with (folder() / "calls").open("a") as calls:
        calls.write(f"{program} {' '.join(argv)}\n")
    step(f"{program} {' '.join(argv[:3])}")


def step(name: str, at: Path | None = None) -> None:
    """Count a step where the folder has the file ``steps``; kill whom ``kill.json`` names at it.

    ``{"step": N, "who": ["corral"]}``: the process whose number is in ``corral.pid``, at step N or
    the first one after it at which all of them run and whose name has ``name``. ``killed.json``
    has the step at which it was.
    """
    at = at or folder()
    if not (at / "steps").exists():
        return
    with (at / "steps").open("r+") as steps:
        fcntl.flock(steps, fcntl.LOCK_EX)
        number = len(steps.readlines()) + 1
        who = [path.stem for path in sorted(at.glob("*.pid"))]
        steps.write(json.dumps({"step": number, "name": name, "alive": who}) + "\n")
        steps.flush()
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            kill = json.loads((at / "kill.json").read_text())
            at_this = 0 < kill["step"] <= number and kill.get("name", "") in name
            if at_this and set(kill["who"]) <= set(who):
                (at / "kill.json").unlink()
                victims = [int((at / f"{victim}.pid").read_text()) for victim in kill["who"]]
                killed = json.dumps({"step": number, "name": name, "pids": victims})
                (at / "killed.json").write_text(killed)
                for victim in victims:
                    os.kill(victim, signal.SIGKILL)
