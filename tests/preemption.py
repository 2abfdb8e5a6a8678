"""``preemption.sh`` for real, against a Slurm of files and a clock that nobody waits for."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from corral.agents import program

# Files of $FAKE: now (seconds), jobs (NUMBER COMMENT LEAVES, or NUMBER:LABEL for an array's task),
# calls, node (its record), slurmctld (the time from which on it is up). In a comment "\n" is a line
# end, and "\0040" a blank.
PROGRAMS = {
    "date": 'read -r now <"$FAKE/now"; echo "$now"',
    "sleep": 'read -r now <"$FAKE/now"; echo $((now + $1)) >"$FAKE/now"',
    "timeout": 'shift; exec "$@"',
    "squeue": r"""
[ ! -e "$FAKE/mute" ] || exit 1
only='' format=''
while [ $# -gt 0 ]; do
  case $1 in -j) only=$2; shift ;; -o) format=$2; shift ;; esac
  shift
done
read -r now <"$FAKE/now"
while read -r job comment leaves; do
  number=${job%%:*}
  [ "$leaves" -gt "$now" ] && [ "${only:-$number}" = "$number" ] || continue
  case $format in
  '%A %i') echo "$number ${job##*:}" ;;
  %k) printf '%b\n' "$comment" ;;
  '%A %k') printf '%b\n' "$number $comment" ;;
  *) echo "squeue -o '$format' is not simulated" >&2; exit 1 ;;
  esac
done <"$FAKE/jobs"
exit 0""",
    "scontrol": """\
[ "$1" = -o ] || { echo "scontrol $*" >>"$FAKE/calls"; exit 0; }
read -r now <"$FAKE/now"
read -r up <"$FAKE/slurmctld" || up=0
[ "$now" -ge "$up" ] || exit 1
exec cat <"$FAKE/node" 2>&1""",
    "scancel": 'echo "scancel $*" >>"$FAKE/calls"',
    "curl": """\
read -r now <"$FAKE/now"
read -r notice <"$FAKE/notice"
echo "$*" >"$FAKE/asked"
[ "$now" -ge "$notice" ] && echo TRUE || echo FALSE""",
}
NODE = "gpu0"


def record(state: str, reason: str = "") -> str:
    """The node as ``scontrol -o show node`` prints it."""
    why = f" Reason={reason} [root@2026-11-29T10:00:00]" if reason else ""
    return f"NodeName={NODE} Arch=x86_64 CPUAlloc=0 State={state} ThreadsPerCore=1{why}\n"


def prepared(folder: Path) -> Path:
    """The programs on a PATH, in a folder that is ``$FAKE`` too."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "preemption.sh").write_text(program("../providers/gcp/programs/preemption.sh"))
    (folder / "node").write_text(record("IDLE"))
    (folder / "slurmctld").write_text("0\n")
    for name, text in PROGRAMS.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return folder


def acted(folder: Path, jobs: str, now: int, *words: str, seconds: int = 30) -> tuple[str, int]:
    """Run it; gives what it had Slurm do, line by line, and when it ended."""
    (folder / "now").write_text(f"{now}\n")
    (folder / "jobs").write_text(jobs)
    (folder / "calls").write_text("")
    subprocess.run(
        ["/bin/sh", folder / "preemption.sh", *(words or ("act",))],
        env={
            "PATH": f"{folder}:{os.environ['PATH']}",
            "FAKE": str(folder),
            "CORRAL_NOTICE_NODE": NODE,
            "CORRAL_NOTICE_SECONDS": str(seconds),
            "CORRAL_NOTICE_URL": "http://metadata/preempted",
            "CORRAL_NOTICE_HEADER": "Metadata-Flavor: Google",
            "CORRAL_NOTICE_TAKEN": "TRUE",
        },
        check=True,
        capture_output=True,
        timeout=120,
    )
    return (folder / "calls").read_text(), int((folder / "now").read_text())
