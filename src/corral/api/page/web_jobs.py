"""Use cases of a job's page: its live log and its script, read with its owner's rights."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from corral.api.here import reached
from corral.errors import Code, CorralError
from corral.hosts.quote import Script, sh
from corral.hosts.transport import check
from corral.jobs import submit as submission
from corral.jobs.follow_script import as_user
from corral.jobs.model import JobHandle, JobSpec
from corral.jobs.roof import JOBS, not_ours, roof_script
from corral.spec.hostlist import expand
from corral.spec.models import ClusterSpec

FOLLOW_S: Final = 12 * 3600.0
_MOST: Final = 256
"""Logs of ranks that are followed at once."""
_START: Final = 200_000  # bytes of a log's end that are shown at once
_LEAST: Final = 4_000  # of each rank's, where there are many
# Next to batch.log are the ranks' logs of a job that Corral submitted; job.json states how many
# there will be: in the same folder, for a task of an array in the one above. tail -F waits for
# those that are not there yet, and follows what a requeue writes again. Where there are several
# ranks it prints a header where it goes over to another file, named as it is in their folder:
# Ranks makes the rank's number of it. The batch log, which is there, is the last of them: tail
# takes the last file for the one that it has printed of, and prints no header before its lines.
_FOLLOW: Final = """\
path={path} f={path} n=0 i=0 many=-q each={start}
case $f in
*/task-*/batch.log) about=${{f%/*/*}}/job.json ;;
*/batch.log) about=${{f%/*}}/job.json ;;
*) about= ;;
esac
if [ -n "$about" ]; then
  n=$(sed -n 's/.*"logs": *\\([0-9][0-9]*\\).*/\\1/p' "$about" 2>/dev/null | head -n 1)
  cd "${{f%/*}}" 2>/dev/null && f=./batch.log || n=0
fi
set --
while [ "$i" -lt "${{n:-0}}" ] && [ "$i" -lt {most} ]; do
  rank=./rank-$i.log i=$((i + 1))
  if [ -n {follow} ] || [ -r "$rank" ]; then set -- "$@" "$rank"; fi
done
if [ "${{n:-0}}" -lt 2 ]; then
  set -- "$f" "$@"
else
  set -- "$@" "$f"
  many=-v each=$(({start} / n))
  [ "$each" -gt {least} ] || each={least}
fi
i=0
while [ ! -r "$f" ] && [ $i -lt 30 ]; do i=$((i + 1)); sleep 0.5; done
[ -r "$f" ] || {{
  echo "corral: there is no $path on $(hostname) that its owner can read"
  exit 4
}}
exec timeout {limit} tail -c "$each" "$many" {flag} -- "$@" 2>/dev/null"""
_HEADER: Final = re.compile(r"==> \./(?:rank-(\d+)|batch)\.log <==")


class Ranks:
    """Puts its rank in front of each line of several ranks' logs, as ``corral logs`` does.

    A line of tail's names the file of those after it, behind an empty line where it is not the
    first: an empty line is passed on with the next one. A job can print such a line too, and
    deceives its owner about its own ranks.

    Args:
        on_line: called with each line.
    """

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._front = ""
        self._empty = False

    def __call__(self, line: str) -> None:
        """One more line."""
        if header := _HEADER.fullmatch(line):
            self._empty = False
            self._front = f"{header[1]}: " if header[1] else ""
            return
        self.end()
        if line:
            self._on_line(f"{self._front}{line}")
        else:
            self._empty = True

    def end(self) -> None:
        """No line comes any more, or another one than a header."""
        if self._empty:
            self._on_line(self._front)
        self._empty = False


async def job_log(
    spec: ClusterSpec,
    user: str,
    path: str,
    nodes: str,
    *,
    follow: bool,
    on_line: Callable[[str], None],
    here: bool = False,
) -> None:
    """A job's output file as it grows; cancel this coroutine to stop.

    Args:
        spec: the cluster.
        user: owner of the job: the file is read with this user's rights, never with root's.
        path: the file, as Slurm names it.
        nodes: hostlist of the job's nodes: its output is on the first of them, or is shared.
        follow: go on until cancelled.
        on_line: called with each line.
        here: this process is on the controller and runs as that user.

    Raises:
        CorralError: NOT_FOUND, no such file; UNREACHABLE.
    """
    async with reached(spec, here=here) as (fleet, controller):
        first = next(iter(expand(nodes)), "") if nodes else ""
        node = first if first in fleet.nodes else controller
        script = as_user(user, _follow(path, follow=follow))
        ranks = Ranks(on_line)
        result = await fleet.run(node, script, timeout=FOLLOW_S if follow else 60, on_line=ranks)
        ranks.end()
    if result.status == 4:  # noqa: PLR2004  # see _FOLLOW
        raise CorralError(
            Code.NOT_FOUND,
            f"no output in {path}",
            node=node,
            hint="the job has not begun to write, or writes somewhere else",
        )


def _follow(path: str, *, follow: bool) -> Script:
    return sh(
        _FOLLOW,
        path=path,
        start=_START,
        least=_LEAST,
        limit=int(FOLLOW_S),
        flag=sh("-F") if follow else sh(""),
        follow="yes" if follow else "",
        most=_MOST,
    )


async def job_text(spec: ClusterSpec, user: str, job_id: int, *, here: bool = False) -> str:
    """The batch script of a job, as Slurm keeps it until the job is forgotten.

    Raises:
        CorralError: NOT_FOUND, Slurm does not show it to this user.
    """
    async with reached(spec, here=here) as (fleet, controller):
        script = as_user(user, sh("scontrol write batch_script {id} -", id=job_id))
        result = await fleet.run(controller, script, timeout=30)
    if not result.ok:
        raise CorralError(
            Code.NOT_FOUND,
            f"Slurm has no script of job {job_id}",
            tail=result.tail,
            hint="it is kept while slurmctld knows the job (MinJobAge), and only for batch jobs",
        )
    return result.stdout


async def requeue_job(spec: ClusterSpec, user: str, job_id: int, *, here: bool = False) -> None:
    """Put a job back in the queue, as its owner: slurmrestd has no such request.

    Raises:
        CorralError: SLURM_REFUSED.
    """
    async with reached(spec, here=here) as (fleet, controller):
        script = as_user(user, sh("scontrol requeue {id}", id=job_id))
        result = await fleet.run(controller, script, timeout=30)
    if not result.ok:
        raise CorralError(
            Code.SLURM_REFUSED,
            f"Slurm did not requeue job {job_id}",
            tail=result.tail,
            hint="it was submitted with --no-requeue, or has not begun",
        )


async def submit_here(spec: ClusterSpec, job: JobSpec) -> JobHandle:
    """Submit a job from a process on the controller that runs as the job's user.

    Raises:
        CorralError: USAGE or NOT_FOUND, it cannot run as asked; SLURM_REFUSED.
    """
    async with reached(spec, here=True) as (fleet, controller):
        return await submission.submit(fleet, controller, spec, job)


async def make_room(spec: ClusterSpec, user: str) -> None:
    """As root on the controller: the user's own folder for jobs on the shared storage.

    Raises:
        CorralError: COMMAND_FAILED, somebody planted something in its place.
    """
    if not spec.storage:
        return
    async with reached(spec, here=True) as (fleet, controller):
        made = await fleet.run(controller, roof_script(spec.storage[0].mount, JOBS, user))
        if (taken := not_ours(made)) is not None:
            raise taken
        check(made, f"making the jobs' folder of {user}")
