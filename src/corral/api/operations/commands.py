"""Use case: one of Slurm's client commands on the controller, as a user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from corral.apply.session import Session
from corral.hosts.quote import sh
from corral.jobs.follow_script import as_user
from corral.spec.models import ClusterSpec

LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command returned: its exit status, standard output and standard error."""

    status: int
    out: str
    err: str


async def slurm_command(
    spec: ClusterSpec, user: str, command: Sequence[str], stdin: str = ""
) -> CommandResult:
    """Run a command as a user of the cluster.

    Args:
        spec: the cluster.
        user: who asks; Slurm decides what this user may.
        command: program and arguments; never a shell's text.
        stdin: what it reads.

    Raises:
        CorralError: NOT_FOUND, the cluster is not up; UNREACHABLE; TIMED_OUT.
    """
    script = as_user(user, sh("timeout {limit} {words}", limit=int(LIMIT_S), words=list(command)))
    async with await Session.open(spec) as session:
        session.require_running()
        done = await session.fleet.run(
            session.controller, script, stdin=stdin.encode(), timeout=LIMIT_S + 10
        )
    return CommandResult(done.status, done.stdout, done.stderr)
