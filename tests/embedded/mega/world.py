"""What there is in the simulated project: one JSON file, changed under a lock."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

VARIABLE = "CORRAL_TEST_MEGA_WORLD"
MACHINE = "a3-megagpu-8g"


def empty(**more: Any) -> dict[str, Any]:
    """A project with room for two A3 Mega machines in us-central1-c, and nothing in it."""
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
        "disks": {},
        "images": {},
        "made": {},
        "fail": {},
        **more,
    }


def folder() -> Path:
    return Path(os.environ[VARIABLE])


def create(at: Path, **more: Any) -> None:
    at.mkdir(parents=True, exist_ok=True)
    (at / "world.json").write_text(json.dumps(empty(**more)))


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


def note(program: str, argv: list[str]) -> None:
    with (folder() / "calls").open("a") as calls:
        calls.write(f"{program} {' '.join(argv)}\n")
