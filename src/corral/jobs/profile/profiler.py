"""Shell that profiles a job's ranks: by PyTorch's own profiler, or by Nsight Systems. Pure.

Each rank's recording is in the job's folder under ``profile``: ``rank-N.json.gz`` (a Chrome
trace) or ``rank-N.nsys-rep``, with ``rank-N.csv`` from ``nsys stats`` next to it.
"""

from __future__ import annotations

from typing import Final, Literal

from corral.agents import program
from corral.hosts.quote import NOTHING, Script, filled, sh, shipped

Profiler = Literal["none", "torch", "nsys"]
FOLDER: Final = "profile"
REPORTS: Final = ("cuda_gpu_kern_sum", "cuda_gpu_mem_time_sum", "nvtx_sum", "osrt_sum")
"""What ``nsys stats`` is asked for (Nsight Systems 2022.4 and newer, nsys stats --help-reports)."""

INCOMPLETE: Final = "Importation succeeded with non-fatal errors"
"""What nsys prints where it could not read all that it had recorded (2023.4.4, seen)."""

# --kill: a program under test that leaves children behind would keep nsys waiting for ever.
# --osrt-threshold: with the default, 1 us, three seconds of two ranks over gloo gave 174 MB each
# and took minutes to write (2023.4.4 on containers, seen).
# No CPU samples: they need a lower perf_event_paranoid than job users have on most machines.
_NSYS_WORDS: Final = """\
nsys profile --trace=cuda,nvtx,osrt,cudnn,cublas --sample=none --cpuctxsw=none --kill=sigterm \\
  --osrt-threshold=100000 --force-overwrite=true \\
  --output="$corral_folder/profile/rank-%q{{RANK}}\""""


def words(profiler: Profiler, *, python: bool) -> Script:
    """What precedes the rank's own program, behind its interpreter for the one of PyTorch."""
    if profiler == "torch" and python:
        return sh('"$corral_job/lib/traced.py"')
    if profiler == "nsys":
        return sh(_NSYS_WORDS)
    return NOTHING


def rank_setup(profiler: Profiler) -> Script:
    """Shell of each rank: refuses clearly where the profiler is not installed."""
    if profiler != "nsys":
        return NOTHING
    return sh("{script}\n", script=shipped("jobs/nsys-rank.sh"))


def after(profiler: Profiler) -> Script:
    """Shell behind the ranks: what each recording contains, as CSV."""
    if profiler != "nsys":
        return NOTHING
    reports = ",".join(REPORTS)
    program = filled("jobs/nsys-stats.sh", reports=reports, incomplete=sh(INCOMPLETE))
    return sh("{script}\n", script=program)


def files(profiler: Profiler) -> dict[str, bytes]:
    """What is sent with the job."""
    if profiler != "torch":
        return {}
    return {"lib/traced.py": program("jobs/traced.py").encode()}
