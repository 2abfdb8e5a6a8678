"""Shell that profiles a job's ranks: by PyTorch's own profiler, or by Nsight Systems. Pure.

Each rank's recording is in the job's folder under ``profile``: ``rank-N.json.gz`` (a Chrome
trace) or ``rank-N.nsys-rep``, with ``rank-N.csv`` from ``nsys stats`` next to it.
"""

from __future__ import annotations

from typing import Final, Literal

from corral.agents import program
from corral.hosts.quote import NOTHING, Script, sh

Profiler = Literal["none", "torch", "nsys"]
FOLDER: Final = "profile"
REPORTS: Final = ("cuda_gpu_kern_sum", "cuda_gpu_mem_time_sum", "nvtx_sum", "osrt_sum")
"""What ``nsys stats`` is asked for (Nsight Systems 2022.4 and newer, nsys stats --help-reports)."""

# The vendor's packages put nsys where no PATH leads to.
_NSYS: Final = """\
for bin in /opt/nvidia/nsight-systems/*/bin /usr/local/cuda/bin; do
  [ ! -x "$bin/nsys" ] || PATH=$PATH:$bin
done
"""

_NSYS_RANK: Final = f"""\
{_NSYS}command -v nsys >/dev/null 2>&1 || {{{{
  echo "corral: --profile nsys: Nsight Systems is not installed on $(hostname); \
--profile torch needs nothing but PyTorch" >&2
  exit 127
}}}}
mkdir -p "$CORRAL_JOB_FOLDER/profile"
"""

# --kill: a program under test that leaves children behind would keep nsys waiting for ever.
# --osrt-threshold: with the default, 1 us, three seconds of two ranks over gloo gave 174 MB each
# and took minutes to write (2023.4.4 on containers, seen).
# No CPU samples: they need a lower perf_event_paranoid than job users have on most machines.
_NSYS_WORDS: Final = """\
nsys profile --trace=cuda,nvtx,osrt,cudnn,cublas --sample=none --cpuctxsw=none --kill=sigterm \\
  --osrt-threshold=100000 --force-overwrite=true --output="$folder/profile/rank-%q{{RANK}}\""""

# Debian's package (2023.4.4) has the importer where its nsys does not look ("The importer binary
# and its dependencies were not found"): what a rank recorded stays raw, and is imported here.
_NSYS_STATS: Final = f"""\
{_NSYS}importer=$(ls /usr/lib/nsight-systems/host-linux-x64/QdstrmImporter \\
  /opt/nvidia/nsight-systems/*/host-linux-*/QdstrmImporter 2>/dev/null | tail -n 1)
for raw in "$folder"/profile/rank-*.qdstrm; do
  [ -s "$raw" ] && [ -n "$importer" ] || continue
  "$importer" --input-file "$raw" --output-file "${{{{raw%.qdstrm}}}}.nsys-rep" >/dev/null &&
    rm "$raw"
done
for report in "$folder"/profile/rank-*.nsys-rep; do
  [ ! -s "$report" ] || nsys stats --quiet --force-export=true --format csv --report {{reports}} \\
    --output - "$report" > "${{{{report%.nsys-rep}}}}.csv" || :
done
"""


def words(profiler: Profiler, *, python: bool) -> Script:
    """What precedes the rank's own program, behind its interpreter for the one of PyTorch."""
    if profiler == "torch" and python:
        return sh('"$job/lib/traced.py"')
    if profiler == "nsys":
        return sh(_NSYS_WORDS)
    return NOTHING


def rank_setup(profiler: Profiler) -> Script:
    """Shell of each rank: refuses clearly where the profiler is not installed."""
    return sh(_NSYS_RANK) if profiler == "nsys" else NOTHING


def after(profiler: Profiler) -> Script:
    """Shell behind the ranks: what each recording contains, as CSV."""
    return sh(_NSYS_STATS, reports=",".join(REPORTS)) if profiler == "nsys" else NOTHING


def files(profiler: Profiler) -> dict[str, bytes]:
    """What is sent with the job."""
    if profiler != "torch":
        return {}
    return {"lib/traced.py": program("jobs/traced.py").encode()}
