"""A controller made of programs on PATH: the room's scripts run for real, against a fake Slurm.

Each program takes exactly the arguments Corral gives it and ends with status 97 on any other, so
that a wrong flag fails the test. What they answer is in files of the folder ``$FAKE``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from corral.hosts.fleet import Fleet
from corral.hosts.local import Local
from corral.jobs.handle import JobHandle

REJECT = '*) echo "$0: unexpected: $*" >> "$FAKE/rejected"; exit 97 ;;'
PROGRAMS = {
    # Drops nothing here: the tests run as one user.
    "setpriv": """
while :; do case $1 in
  --reuid=*|--regid=*|--init-groups|--reset-env) shift ;;
  sh|cat) exec "$@" ;;
  REJECT
esac; done""",
    "id": """
case "$*" in
  -u) cat "$FAKE/uid" 2>/dev/null || echo 0 ;;  # who asks: root, where the test sets no other
  "-u corral"|"-g corral") exec /usr/bin/id "$1" ;;
  "-u ghost") exit 1 ;;
  REJECT
esac""",
    "stat": 'case "$1 $2" in "-c %u") echo 0 ;; "-c %U") echo mallory ;; '
    '"-c %A") exec /usr/bin/stat -c %A "$3" ;; '
    '"-c %u %U %a") echo "0 root $(/usr/bin/stat -c %a -- "$4")" ;; REJECT esac',
    "chown": "case $1 in -h) ;; REJECT esac",
    "squeue": """
echo "$*" >> "$FAKE/squeue.calls"
case "$*" in
  *--format=%u) sed -n 1p "$FAKE/owner" 2>/dev/null; exit 0 ;;
  --noheader\\ --array\\ --all\\ --format=*) ;;
  REJECT
esac
[ "${SLURM_TIME_FORMAT-}" = %s ] || { echo "$0: times of people" >> "$FAKE/rejected"; exit 97; }
text=$(cat "$FAKE/down" 2>/dev/null) && { echo "$text" >&2; exit 1; }
[ -e "$FAKE/job.sed" ] || { echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1; }
for word; do case $word in --format=*) format=${word#--format=} ;; esac; done
echo "$format" | sed -f "$FAKE/job.sed\"""",
    "scontrol": """
case "$*" in
  "--oneliner show job "*) cat "$FAKE/scontrol.job" 2>/dev/null || exit 1 ;;
  "--oneliner show nodes --details") cat "$FAKE/nodes" ;;
  "show config") cat "$FAKE/config" 2>/dev/null ;;
  REJECT
esac""",
    "sacct": """
for word; do case $word in --delimiter=*) mark=${word#--delimiter=} ;; esac; done
case "$*" in
  *--format=User%64) sed -n 1p "$FAKE/owner" 2>/dev/null ;;
  --noheader\\ --parsable2\\ *) sed "s/,/$mark/g" "$FAKE/sacct" 2>/dev/null; exit 0 ;;
  REJECT
esac""",
    "sacctmgr": """
case "$*" in
  "--noheader --parsable2 show associations user=corral format=Account,QOS")
    cat "$FAKE/associations" ;;
  "--noheader --parsable2 show qos format=Name") cat "$FAKE/qos" ;;
  REJECT
esac""",
    "sbatch": """
case "$*" in "--parsable job.sh"|--test-only|"--test-only --chdir=/shared --partition=main") ;;
  "--parsable --chdir=/shared")
    [ -e "$FAKE/refuse" ] || { cat > "$FAKE/sent"; echo 42; exit 0; } ;;
  REJECT
esac
[ -e "$FAKE/refuse" ] && { cat "$FAKE/refuse" >&2; exit 1; }
[ "$1" = --test-only ] || { echo 42; exit 0; }
[ "${SLURM_TIME_FORMAT-}" = %s ] || { echo "$0: times of people" >> "$FAKE/rejected"; exit 97; }
cat > "$FAKE/tested"; cat "$FAKE/expected" >&2""",
    "scancel": 'case "$*" in 42) echo "$1" >> "$FAKE/cancelled" ;; REJECT esac',
}
NODE = (
    "NodeName={name} Arch=x86_64 CPUAlloc=0 CPUEfctv={cpus} CPUTot={cpus} AvailableFeatures=cpu "
    "Gres={gres} NodeAddr=10.0.0.{n} RealMemory=4000 State={state} Partitions=main Version=24.11.5"
)


@dataclass(frozen=True, slots=True)
class FakeSlurm:
    """The folder the fake programs read from and write to."""

    folder: Path
    shared: Path

    @property
    def fleet(self) -> Fleet:
        return Fleet({"node0": Local("node0")})

    def put(self, name: str, text: str) -> None:
        """Write an answer atomically: a program never sees half of it."""
        new = self.folder / f".{name}"
        new.write_text(text)
        new.replace(self.folder / name)

    def queue(
        self, state: str, *, reason: str = "None", nodes: str = "", start: str = "N/A"
    ) -> None:
        """What squeue prints of the job from now on."""
        fields = {
            "%i": "42", "%A": "42", "%T": state, "%r": reason, "%P": "main", "%u": "corral",
            "%a": "corral", "%D": "2", "%C": "2", "%b": "gres/gpu:1", "%m": "1000M", "%M": "0:05",
            "%l": "30:00", "%V": "1795230000", "%S": start, "%N": nodes, "%j": "train",
        }  # fmt: skip
        self.put("job.sed", "".join(f"s|{k}|{v}|g\n" for k, v in fields.items()))

    def ends(self, state: str, exit_code: str, reason: str = "None") -> None:
        """What Slurm reports after the job's end."""
        self.put(
            "scontrol.job",
            f"JobId=42 JobName=train UserId=corral(2000) JobState={state} Reason={reason} "
            f"ExitCode={exit_code} RunTime=00:00:05 NodeList=node[0-1] NumNodes=2\n",
        )
        self.queue(state, reason=reason, nodes="node[0-1]")

    def nodes(
        self, count: int = 3, *, cpus: int = 2, gres: str = "gpu:slot:2", down: int = 0
    ) -> None:
        """What Slurm's nodes are; the last ``down`` of them do not answer."""
        self.put(
            "nodes",
            "".join(
                NODE.format(
                    name=f"node{n}",
                    n=n,
                    cpus=cpus,
                    gres=gres,
                    state="IDLE" if n < count - down else "DOWN+NOT_RESPONDING",
                )
                + "\n"
                for n in range(count)
            ),
        )

    def rejected(self) -> str:
        """Calls that no program expected."""
        file = self.folder / "rejected"
        return file.read_text() if file.exists() else ""

    def asked(self) -> int:
        """How often squeue was called."""
        file = self.folder / "squeue.calls"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def job(self, logs: int = 2) -> JobHandle:
        """A job with its own folder."""
        folder = self.shared / "job"
        folder.mkdir(exist_ok=True)
        return JobHandle(42, "train", "corral", str(folder), logs, "node0")


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """The fake programs first on PATH, and two empty folders."""
    programs, folder, shared = tmp_path / "bin", tmp_path / "fake", tmp_path / "shared"
    for made in (programs, folder, shared):
        made.mkdir()
    for name, text in PROGRAMS.items():
        file = programs / name
        file.write_text(f"#!/bin/sh\n{text.replace('REJECT', REJECT)}\n")
        file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE", str(folder))
    fake = FakeSlurm(folder, shared)
    fake.nodes()
    return fake
