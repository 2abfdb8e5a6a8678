"""What a job uses while it runs: sstat's figures, and its GPUs'; and of an ended one. Pure.

sstat reports GPUs only where Slurm was built with NVML and gres.conf has ``AutoDetect=nvml``
(gres.conf(5); neither holds for the distributions' packages). So the first rank of each node
starts a loop in the background, which calls ``nvidia-smi`` while the file ``followed`` in the job's
folder is fresh: a job that nobody follows pays a ``find`` every 30 s. It sees what the
job's cgroup lets it see, which is the job's own GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from corral.hosts.quote import NOTHING, Script, piece
from corral.plurals import plural
from corral.slurm.job_use import JobUse, Shares, StepUse, shares
from corral.slurm.records import Job

if TYPE_CHECKING:
    from corral.jobs.model import JobSpec

NO_USE: Final = "-"
"""The line for none: Slurm gathers nothing (JobAcctGatherType), or the nodes do not answer."""
UNKNOWN: Final = "memory and CPU time unknown: sstat prints nothing"
_ENOUGH: Final = 10.0


def in_words(use: StepUse) -> str:
    """``1.2 GiB of memory, CPU time 3 m, GPUs 87 %``; "" for nothing."""
    words: list[str] = []
    if use.memory:
        each = f" (largest rank {_gib(use.largest)})" if use.largest and use.tasks > 1 else ""
        words.append(f"{_gib(use.memory)} of memory{each}")
    if use.cpu_s:
        words.append(f"{use.cpu_s} s of CPU time a rank")
    if use.gpus_busy:
        words.append(f"GPUs {use.gpus_busy} %")
    if use.gpu_memory:
        words.append(f"GPU memory {_gib(use.gpu_memory)}")
    return ", ".join(words)


@dataclass(frozen=True, slots=True)
class EndedUse:
    """What an ended job used of what it was given.

    Attributes:
        job: as accounting has it.
        use: its processors and memory.
        busy_gpu_s: seconds that its GPUs were busy, of all together; None: not measured.
        gpus_asked: False: whether its GPUs were measured is unknown here.
    """

    job: Job
    use: JobUse
    busy_gpu_s: float | None = None
    gpus_asked: bool = True

    @property
    def shares(self) -> Shares:
        """Used of given."""
        return shares(self.job, float(self.job.elapsed or 0), self.use, self.busy_gpu_s)

    @property
    def words(self) -> str:
        """``3.8 of 4 CPUs (95 %), 1.2 GiB of 8.0 GiB of memory (15 %), 2 GPUs 41 % busy``."""
        job, share = self.job, self.shares
        words = ["CPU time not measured", "memory not measured"]
        if share.cpu is not None:
            words[0] = f"{share.cpu * job.cpus:.1f} of {plural(job.cpus, 'CPU')} ({share.cpu:.0%})"
        if share.memory is not None:
            used = _gib(self.use.memory or 0.0)
            words[1] = f"{used} of {_gib(float(job.memory))} of memory ({share.memory:.0%})"
        if job.gpus and share.gpu is None:
            words.append("GPUs not measured" if self.gpus_asked else "GPUs not known from here")
        elif share.gpu is not None:
            words.append(f"{plural(job.gpus or 0, 'GPU')} {share.gpu:.0%} busy")
        return ", ".join(words).replace("%", " %")

    def as_dict(self) -> dict[str, float | int | None]:
        """What it was given, used and the shares, as the page's list of jobs has them."""
        job, share = self.job, self.shares
        return {
            "elapsed": job.elapsed,
            "cpus": job.cpus,
            "memory": job.memory,
            "gpus": job.gpus,
            "cpu": share.cpu,
            "memory_used": share.memory,
            "gpu": share.gpu,
        }


def _gib(mib: float) -> str:
    if mib < 1024:  # noqa: PLR2004  # MiB in a GiB
        return f"{mib:.0f} MiB"
    return f"{mib / 1024:.1f} GiB" if mib / 1024 < _ENOUGH else f"{mib / 1024:.0f} GiB"


FOLLOWED: Final = "followed"
EVERY_S: Final = 30
"""nvidia-smi reads all of the driver's state at its start: each 10 s during a training on an H200
it took 0 to 3 % of the tokens/s (docs/measurements/2026-11-29-h200-sampling.md)."""
QUERY: Final = "utilization.gpu,memory.used,memory.total"
"""Per cent, MiB, MiB, as ``nvidia-smi --help-query-gpu`` has them."""

ABSENT: Final = "absent"
_FIELDS: Final = 3
_IDLE: Final = 10.0
"""Per cent under which a GPU among busy ones is named."""


def sample(job: JobSpec) -> Script:
    """Shell of each rank; nothing for a job without GPUs."""
    if not job.gpus_per_node:
        return NOTHING
    return piece(
        "jobs/batch/use-sample.sh",
        followed=FOLLOWED,
        query=QUERY,
        absent=ABSENT,
        every=EVERY_S,
    )


def gpus_in_words(nodes: Mapping[str, str]) -> str:
    """``GPUs 87 % busy (node1: GPU 3 at 2 %), memory 61 of 80 GiB each at most``; "" for nothing.

    Args:
        nodes: by node, what its ``nvidia-smi`` reported: the rows, each with ``;`` behind it.
    """
    rows = {node: [_row(row) for row in text.split(";") if row] for node, text in nodes.items()}
    if any(text.strip("; ") == ABSENT for text in nodes.values()):
        return "GPU use unknown: no nvidia-smi on the nodes"
    busy = {(n, i): row[0] for n, each in rows.items() for i, row in enumerate(each) if row}
    known = {key: value for key, value in busy.items() if value is not None}
    used = [row for each in rows.values() for row in each if row and row[1] is not None]
    words: list[str] = []
    if known:
        mean = sum(known.values()) / len(known)
        (node, gpu), least = min(known.items(), key=lambda pair: pair[1])
        idle = f" (least {node} GPU {gpu}: {least:.0f} %)" if least < _IDLE <= mean else ""
        words.append(f"GPUs {mean:.0f} % busy{idle}")
    elif busy:
        words.append("GPUs do not report how busy they are")  # [N/A]: a MIG slice
    if used:
        most = max(row[1] or 0.0 for row in used)
        total = max(row[2] or 0.0 for row in used)
        of = f" of {total / 1024:.0f}" if total else ""
        words.append(f"GPU memory at most {most / 1024:.1f}{of} GiB")
    return ", ".join(words)


def _row(text: str) -> tuple[float | None, float | None, float | None] | None:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != _FIELDS:
        return None
    busy, used, total = (_number(part) for part in parts)
    return busy, used, total


def _number(text: str) -> float | None:
    """A figure; None for ``[N/A]`` and its kind."""
    return float(text) if text.replace(".", "", 1).isdecimal() else None
