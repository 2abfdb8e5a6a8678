"""What a running job uses, from a line of sstat. Pure."""

from __future__ import annotations

import re
from typing import Final

from corral.slurm.duration import seconds

FIELDS: Final = ("JobID", "NTasks", "AveCPU", "MaxRSS", "TRESUsageInTot")
"""What ``in_words`` wants of sstat, in this order, with ``--parsable2``."""

_SIZE: Final = re.compile(r"([0-9.]+)([KMGTP]?)")
_KIB: Final = {"": 1 / 1024, "K": 1.0, "M": 1024.0, "G": 1048576.0, "T": 1073741824.0}
_ENOUGH: Final = 10.0


def in_words(line: str) -> str:
    """``1.2 GiB of memory, CPU time 3 m, GPUs 87 %``; "" for a line of another kind.

    The batch step and the external step (``12.batch``, ``12.extern``) run no ranks. ``-`` stands
    for no line at all: Slurm gathers nothing (JobAcctGatherType), or the nodes do not answer.
    """
    if line == "-":
        return "memory and CPU time unknown: sstat prints nothing"
    parts = line.split("|")
    if len(parts) != len(FIELDS) or not parts[0].rpartition(".")[2].isdecimal():
        return ""
    ranks, cpu, largest, tres = parts[1:]
    used = dict(pair.split("=", 1) for pair in tres.split(",") if "=" in pair)
    words: list[str] = []
    memory = _mib(used.get("mem", ""))
    if memory:
        most = _mib(largest)
        each = f" (largest rank {_gib(most)})" if most and ranks not in ("", "1") else ""
        words.append(f"{_gib(memory)} of memory{each}")
    spent = seconds(cpu.partition(".")[0]) if cpu else None
    if spent:
        words.append(f"{spent} s of CPU time a rank")
    if "gres/gpuutil" in used:
        words.append(f"GPUs {used['gres/gpuutil']} %")
    if _mib(used.get("gres/gpumem", "")):
        words.append(f"GPU memory {_gib(_mib(used['gres/gpumem']))}")
    return ", ".join(words)


def _mib(text: str) -> float:
    match = _SIZE.fullmatch(text)
    return float(match[1]) * _KIB.get(match[2], 0.0) / 1024 if match else 0.0


def _gib(mib: float) -> str:
    if mib < 1024:  # noqa: PLR2004  # MiB in a GiB
        return f"{mib:.0f} MiB"
    return f"{mib / 1024:.1f} GiB" if mib / 1024 < _ENOUGH else f"{mib / 1024:.0f} GiB"
