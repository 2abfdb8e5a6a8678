"""Shell that keeps a job going: the signal before its time limit, nodes that fail, starting again.

Used by ``corral.jobs.script`` for jobs with ``requeue``. Pure.
"""

from __future__ import annotations

from typing import Final

AGAIN: Final = 75
"""Exit status by which a script asks to be started again (EX_TEMPFAIL of sysexits.h)."""

MARGIN_S: Final = 20
"""Seconds before the time limit at which the job is requeued even if its ranks have not left."""

# Slurm signals the batch shell alone (--signal=B:), which signals the ranks through srun and waits
# for them to save and leave. A script without a handler dies of SIGUSR1: it then goes on from what
# it saved before.
# `wait` returns early when the trap runs, with a status over 128: then srun is still there.
WAITING: Final = """\
near=""
near() {{
  near=1
  echo "corral: the time limit is near: ranks get SIGUSR1, to save and leave" >&2
  kill -USR1 "$ranks" 2>/dev/null
  (sleep {patience}; scontrol requeue "$SLURM_JOB_ID") >/dev/null 2>&1 &
}}
newest() {{ ls "$CORRAL_CHECKPOINTS" 2>/dev/null | grep '[.]sha256$' | sort | tail -n 1; }}
had=$(newest)
trap near USR1
"""

WAIT: Final = """\
ranks=$!
while wait "$ranks"; status=$?; [ "$status" -gt 128 ] && kill -0 "$ranks" 2>/dev/null; do :; done
"""

# Ranks that lose their peers fail long before Slurm calls the dead node down (SlurmdTimeout): the
# job would count as failed. So each node is asked, and one that cannot start a process is gone.
# Each is asked alone: a launch over all of them waits for the dead one.
# After `scontrol requeue` Slurm ends this script; until then it must not end.
STARTING_AGAIN: Final = """\
gone() {{
  for node in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
    timeout -k 5 {probe} srun --overlap --nodes=1 --ntasks=1 --nodelist="$node" --input=none \\
      --output=none --error=none --cpus-per-task=1 --gres=none true >/dev/null 2>&1 ||
      echo "$node" &
  done
  wait
}}
again() {{
  echo "corral: $1: the job starts again" >&2
  scontrol requeue "$SLURM_JOB_ID" || return
  sleep 600
}}
if [ "$status" -ne 0 ]; then
  if [ -n "$near" ] || [ "$status" -eq {again} ]; then
    if [ -n "$had" ] && [ "$had" = "$(newest)" ]; then
      echo "corral: this run saved no checkpoint after $had: starting again would not end" >&2
    else
      again "it has more to do"
    fi
  else
    dead=$(gone | sort | tr '\\n' ' ')
    [ -z "$dead" ] || again "no answer from ${{dead% }}"
  fi
fi
"""
