"""When budget.total is spent: no new jobs, a signal to those that run, then the end. Pure shell."""

from __future__ import annotations

from typing import Final

from corral.hosts.quote import Script, sh

REASON: Final = "corral: the budget is spent"
"""The guard on the controller drains with the same words (``agents/guard.py``)."""

_WIND_DOWN: Final = """\
timeout 20 scontrol update nodename={nodes} state=drain reason={reason}
when=$(date -d "+{grace} seconds" +%Y-%m-%dT%H:%M:%S)
timeout 20 squeue -h -w {nodes} -t R,S -o '%A %S' | sort -u | while read -r job start; do
  # Slurm sends each job the signal that it asked for (sbatch --signal) before its new end.
  left=$(timeout 20 squeue -h -j "$job" -o %e)
  end=$(date -d "$when" +%s)
  [ "$(date -d "$left" +%s 2>/dev/null || echo 9999999999)" -gt "$end" ] || continue
  # An end without a limit sends no signal (24.11.5): the limit comes first.
  limit=$(((end - $(date -d "$start" +%s)) / 60 + 2))
  timeout 20 scontrol update jobid="$job" timelimit=$limit >&2
  timeout 20 scontrol update jobid="$job" endtime="$when" >&2
done
timeout 20 squeue -h -w {nodes} -t R,S,CG -o '%A' | sort -u | wc -l"""


def wind_down(nodes: str, grace: int) -> Script:
    """Drain nodes and shorten what runs there to ``grace`` seconds; prints how many jobs run."""
    return sh(_WIND_DOWN, nodes=nodes, grace=grace, reason=REASON)
