"""Questions about CPUs and memory; for facts. Pure.

Functions here raise ValueError on nonsense; ``facts.parse_facts`` makes it a CorralError.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import sh
from corral.inspect.question import Answers, Question


def memory_mib(text: str, key: str = "MemTotal") -> int:
    """A line of /proc/meminfo, in MiB."""
    line = re.search(rf"^{key}:\s+(\d+) kB", text, re.MULTILINE)
    if line is None:
        raise ValueError(f"no {key}")
    return int(line[1]) // 1024


def _assigned(answer: str) -> dict[str, int]:
    return {key: int(number) for key, number in re.findall(r"\b(\w+)=(\d+)", answer)}


def _listed(answer: str) -> list[tuple[str, str]]:
    rows = (line.split(",") for line in answer.splitlines() if line[:1].isdigit())
    return [(row[2] or "0", row[1] or "0") for row in rows]


def _count(answer: str) -> int:
    return int(answer)


def _paired(answer: str) -> list[tuple[str, str]]:
    pairs = (line.split() for line in answer.splitlines())
    return [(pair[0], pair[1]) for pair in pairs]


MEMORY: Final = Question("memory", sh("grep MemTotal: /proc/meminfo"), memory_mib)
# slurmd's own view is what slurmctld will compare with; lscpu counts online CPUs only.
SLURMD: Final = Question(
    "slurmd", sh("if command -v slurmd >/dev/null; then slurmd -C 2>/dev/null; fi"), _assigned
)
LSCPU: Final = Question(
    "lscpu",
    sh("if command -v lscpu >/dev/null; then LC_ALL=C lscpu -p=CPU,CORE,SOCKET; fi"),
    _listed,
)
TOPOLOGY: Final = Question(
    "topology",
    sh(
        """\
if ! command -v lscpu >/dev/null; then
  for d in /sys/devices/system/cpu/cpu[0-9]*/topology; do
    {{ read -r p <"$d/physical_package_id" && read -r c <"$d/core_id"; }} 2>/dev/null &&
      echo "$p $c"
  done
fi"""
    ),
    _paired,
)
PROCESSORS: Final = Question("processors", sh("grep -c '^processor' /proc/cpuinfo"), _count)
QUESTIONS: Final = (
    MEMORY,
    SLURMD,
    LSCPU,
    TOPOLOGY,
    PROCESSORS,
)


@dataclass(frozen=True, slots=True)
class Layout:
    """How the CPUs are arranged, and memory in MiB."""

    cpus: int
    sockets: int
    cores: int
    threads: int
    memory: int


def layout(parts: Answers) -> Layout:
    """CPUs and memory: slurmd's view, else the kernel's."""
    known = SLURMD.read_or_empty(parts)
    if known:
        sockets = known.get("SocketsPerBoard") or known.get("Sockets") or 1
        return _checked(
            Layout(
                cpus=known["CPUs"],
                sockets=sockets * known.get("Boards", 1),
                cores=known["CoresPerSocket"],
                threads=known["ThreadsPerCore"],
                memory=known["RealMemory"],
            )
        )
    return _checked(_counted(_places(parts), MEMORY.read(parts)))


def _places(parts: Answers) -> list[tuple[str, str]]:
    """(socket, core) of each CPU that is online."""
    places = LSCPU.read_or_empty(parts) or TOPOLOGY.read_or_empty(parts)
    return places or [("0", str(n)) for n in range(PROCESSORS.read(parts))]


def _counted(places: list[tuple[str, str]], memory: int) -> Layout:
    cpus = len(places)
    cores = len(set(places))
    sockets = len({socket for socket, _ in places})
    if sockets and cores % sockets == 0 and cpus % cores == 0:
        return Layout(cpus, sockets, cores // sockets, cpus // cores, memory)
    return Layout(cpus, 1, cpus, 1, memory)  # unlike cores: no product fits


def _checked(reported: Layout) -> Layout:
    if min(reported.cpus, reported.sockets, reported.cores, reported.threads, reported.memory) < 1:
        raise ValueError(f"impossible CPU layout or memory: {reported}")
    return reported
