"""What a job's task reports about itself: the cores and GPUs it can really reach. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from corral.agents import program
from corral.hosts.quote import call

_RANGE: Final = re.compile(r"(\d+)(?:-(\d+))?")
_LINE: Final = re.compile(r"^@ (\S+)(?: (.*))?$", re.MULTILINE)
DEVICES: Final = program("proof-devices.pl")
PROBE: Final = call("prove/node.sh", "task_probe", DEVICES)


@dataclass(frozen=True, slots=True)
class Probe:
    """What one job saw on one node.

    Attributes:
        given: CPUs that Slurm gave.
        allowed: CPUs the job could really run on after it tried to get more.
        gpus: ids of the GPUs that Slurm gave.
        devices: GPU device file to the errno of opening it.
    """

    given: int
    allowed: int
    gpus: tuple[int, ...]
    devices: Mapping[str, int]


def lines(text: str) -> list[tuple[str, str]]:
    """The ``@ key rest`` lines of a job's output; what else it printed is left out."""
    return [(key, rest or "") for key, rest in _LINE.findall(text)]


def parse_probes(text: str) -> dict[str, Probe]:
    """Read the probe lines of a job, by node."""
    given: dict[str, tuple[int, int]] = {}
    gpus: dict[str, tuple[int, ...]] = {}
    devices: dict[str, dict[str, int]] = {}
    for key, rest in lines(text):
        match (key, rest.split()):
            case ("cpus", [node, count, allowed]) if count.isdigit():
                given[node] = int(count), cpu_count(allowed)
            case ("gpus", [node, ids]):
                gpus[node] = cpu_ids(ids)
            case ("dev", [node, path, errno]) if errno.isdigit():
                devices.setdefault(node, {})[path] = int(errno)
            case _:
                pass
    return {
        node: Probe(*counts, gpus.get(node, ()), devices.get(node, {}))
        for node, counts in given.items()
    }


def cpu_ids(text: str) -> tuple[int, ...]:
    """Numbers of a list such as ``0,2-3``."""
    numbers: list[int] = []
    for first, last in _RANGE.findall(text):
        numbers += range(int(first), int(last or first) + 1)
    return tuple(numbers)


def cpu_count(text: str) -> int:
    """How many numbers a list such as ``0,2-3`` holds."""
    return len(cpu_ids(text))
