"""Use case: reach a port of a running job's node from this machine."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final

from corral.api.page.page_server import tunnel_to, until_up
from corral.api.workload.queue import JobOutcome, JobRef
from corral.apply.session import Session
from corral.errors import Code, CorralError
from corral.hosts.fleet import Fleet
from corral.hosts.ports import free_port
from corral.hosts.process import Child
from corral.hosts.transport import check
from corral.inspect.machine import uid_of
from corral.inspect.question import inquiry
from corral.jobs import control
from corral.jobs.explanation import running_on
from corral.jobs.handle import JobHandle
from corral.jobs.listeners import Listener, listener_of, questions, read_listeners
from corral.slurm.states.jobs import JobState
from corral.spec.client import ClientSpec
from corral.spec.models import ClusterSpec
from corral.spec.nodes import users_of

HERE: Final = "127.0.0.1"

JobEnd = Callable[[], Coroutine[Any, Any, JobOutcome]]


@dataclass(frozen=True, slots=True)
class Forwarded:
    """A port of a job's node that this machine reaches.

    Attributes:
        job: as Slurm calls it.
        node: the node.
        port: the port there.
        local_port: the port of this machine's loopback.
    """

    job: str
    node: str
    port: int
    local_port: int

    @property
    def url(self) -> str:
        """Its address here, for a browser."""
        return f"http://{HERE}:{self.local_port}/"

    def as_dict(self) -> dict[str, Any]:
        """The address to open, and what it leads to."""
        return {"url": self.url, **asdict(self)}


@asynccontextmanager
async def forward(
    spec: ClusterSpec,
    job_id: JobRef,
    port: int,
    *,
    user: str = "",
    node: str = "",
    local_port: int = 0,
) -> AsyncGenerator[tuple[Forwarded, JobEnd]]:
    """Keep a tunnel to a port of a running job's node while the context is open.

    Args:
        spec: the cluster.
        job_id: the job, or a part of an array; it need not have been submitted by Corral.
        port: where a program listens on the node, on its loopback or another address of it.
        user: whose job it must be; "" for the cluster's first user.
        node: one of the job's nodes; "" for its first.
        local_port: where to listen on this machine's loopback; 0 for ``port`` where it is free,
            else any.

    Yields:
        the tunnel, and a coroutine function that returns when the job has ended; it raises
        UNREACHABLE when the tunnel ends before.

    Raises:
        CorralError: NOT_FOUND, no such job, or nothing listens there; NOT_GOOD, the job is not
            running; USAGE, it is another user's, or the port here is in use; FORBIDDEN, the port
            there is another user's; UNREACHABLE.
    """
    owner = acting_as(spec, user)
    async with await Session.open(spec, root=False) as session:
        session.require_running()
        fleet, controller, ref = session.fleet, session.controller, str(job_id)
        job, name = await running_on(fleet, controller, ref, user=owner, node=node, verb="forward")
        far = await listening(fleet, name, port, job=ref, user=owner)
        number, _, task = ref.partition("_")
        handle = JobHandle(
            int(number), job.name, owner, "", 0, controller, task=int(task) if task else None
        )
        async with tunnel_into(session.spec, fleet, handle, name, far, local_port) as opened:
            yield opened


def acting_as(spec: ClusterSpec, user: str) -> str:
    """Whose jobs are meant: the user named, else the cluster's first.

    Raises:
        CorralError: FORBIDDEN, a profile acts as its own user alone.
    """
    own = users_of(spec)[0].name
    if isinstance(spec, ClientSpec) and user not in ("", own):
        raise CorralError(
            Code.FORBIDDEN,
            f"profile {spec.profile.name} acts as {own}, not as {user}",
            hint="leave out --user; an administrator with the cluster file may act for others",
        )
    return user or own


async def listening(fleet: Fleet, node: str, port: int, *, job: str, user: str) -> Listener:
    """What listens on a port of a node, for a user's job.

    Raises:
        CorralError: as ``listener_of``; UNREACHABLE, the node does not let this user in.
    """
    doing = f"looking for listeners of {user}"
    asked = inquiry(questions(user))
    result = check(await fleet.run(node, asked.script, timeout=60), doing)
    sections = asked.read(result.stdout)
    sections.succeeded(uid_of(user).name, node, doing, stderr=result.stderr)
    seen = read_listeners(sections.require(asked.names, node, doing), user)
    return listener_of(seen, port, job=job, node=node, user=user)


@asynccontextmanager
async def tunnel_into(  # noqa: PLR0917
    spec: ClusterSpec,
    fleet: Fleet,
    handle: JobHandle,
    node: str,
    far: Listener,
    local_port: int = 0,
) -> AsyncGenerator[tuple[Forwarded, JobEnd]]:
    """Keep a tunnel to a listener while the context is open; yields what ``forward`` yields.

    Raises:
        CorralError: USAGE, the port here is in use; UNREACHABLE.
    """
    here = _port_here(local_port, far.port)
    argv = await tunnel_to(spec, (f"{HERE}:{here}", f"{far.address}:{far.port}"), node=node)
    async with await Child.start(argv, quiet=True) as tunnel:
        await until_up(tunnel, node)
        forwarded = Forwarded(handle.ref, node, far.port, here)
        yield forwarded, lambda: _end_of_job(fleet, handle, tunnel, node)


def _port_here(asked: int, same: int) -> int:
    """The port asked for; else the same as on the node where it is free here, else any."""
    try:
        with socket.create_server((HERE, asked or same)):
            return asked or same
    except OSError as error:
        if asked:
            why = "is in use" if not isinstance(error, PermissionError) else "needs root"
            raise CorralError(
                Code.USAGE,
                f"port {asked} of this machine {why}",
                hint="name another with --port, or leave it out: a free one is taken",
            ) from error
        return free_port()


async def _end_of_job(fleet: Fleet, handle: JobHandle, tunnel: Child, node: str) -> JobOutcome:
    """Wait for the job's end.

    Raises:
        CorralError: UNREACHABLE, the tunnel ended before; NOT_FOUND, Slurm forgot the job.
    """
    watched = asyncio.create_task(control.follow(fleet, handle, on_line=lambda _: None, quiet=True))
    broken = asyncio.create_task(tunnel.wait())
    try:
        await asyncio.wait({watched, broken}, return_when=asyncio.FIRST_COMPLETED)
        # Where nodes admit those alone who have a job there, the login ends with the job.
        if not watched.done() and await _runs(fleet, handle):
            raise CorralError(
                Code.UNREACHABLE,
                f"the tunnel to {node} broke; job {handle.ref} keeps running",
                node=node,
                tail=await tunnel.stderr_tail(),
                hint="run the same command again",
            )
        return await watched
    finally:
        for task in (watched, broken):
            task.cancel()
        await asyncio.gather(watched, broken, return_exceptions=True)


async def _runs(fleet: Fleet, handle: JobHandle) -> bool:
    return (await control.state(fleet, handle)).state is JobState.RUNNING
