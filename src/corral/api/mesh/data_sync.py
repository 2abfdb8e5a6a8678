"""The use case ``data sync``: a folder of one node copied to others, over the control network.

rsync over ssh, from node to node. For the time of one run the source has its own key that
opens the targets from its address only; the targets' host keys are read over Corral's own
connections.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from corral.apply.connection import Connection
from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind, ignore
from corral.hosts.fleet import Fleet
from corral.hosts.quote import Script, call, sh
from corral.hosts.transport import Result, check
from corral.inspect.facts import Facts
from corral.roles.machine.mesh import addresses
from corral.spec.models import ClusterSpec
from corral.spec.slurm.hostlist import expand, fold
from corral.state.storage.job_folders import remedy

LIMIT_S: Final = 24 * 3600.0
"""Seconds that one node's copy may take; the key on the targets ends with it."""
_PROGRAM: Final = "data-sync.sh"
_HOME: Final = "/root/.ssh/authorized_keys"


@dataclass(frozen=True, slots=True)
class Copied:
    """What one node got.

    Attributes:
        node: its name.
        files: files that were sent.
        bytes: their size.
        seconds: how long it took.
        error: why it failed, None when it holds all.
    """

    node: str
    files: int = 0
    bytes: int = 0
    seconds: float = 0.0
    error: CorralError | None = None

    def as_dict(self) -> dict[str, Any]:
        """Files, bytes and seconds; the error as a dictionary."""
        error = self.error.as_dict() if self.error else None
        return {**asdict(self), "error": error}


@dataclass(frozen=True, slots=True)
class _Target:
    node: str
    address: str
    port: int
    host_key: str


async def sync_data(
    spec: ClusterSpec,
    folder: str,
    emit: Emit = ignore,
    *,
    source: str = "",
    nodes: str = "",
    delete: bool = False,
) -> tuple[Copied, ...]:
    """Copy a folder of one node to others, where it gets the same place.

    Only what differs is sent; an interrupted copy resumes. One node after the other:
    they share the source's line.

    Args:
        spec: the cluster.
        folder: absolute path on the source.
        emit: receives an event for each node.
        source: node that has it; "" for the controller.
        nodes: hostlist of those that get it; "" for all others.
        delete: remove there what the source has not.

    Returns:
        one record per node; a failure of one stops no other.

    Raises:
        CorralError: USAGE, no such folder or node; NOT_GOOD, the source cannot reach other nodes.
    """
    if not re.fullmatch(r"(/[^/\0\n]+)+", folder) or ".." in folder.split("/"):
        raise CorralError(
            Code.USAGE, f"{folder!r} is not an absolute path", hint="such as /data/imgs"
        )
    async with await Connection.open(spec) as session:
        session.require_running()
        start = source or session.controller
        facts = {n: f for n, f in (await session.known_facts()).items() if f}
        targets = _chosen(session.fleet, start, nodes)
        _sendable(start, facts)
        known = addresses(spec, facts, session.addresses())
        run = _Run(session.fleet, start, known[start], emit)
        return await run.all(folder, targets, known, delete=delete)


def _chosen(fleet: Fleet, start: str, nodes: str) -> list[str]:
    targets = expand(nodes, strict=True) if nodes else [n for n in fleet.nodes if n != start]
    unknown = [n for n in (start, *targets) if n not in fleet.nodes]
    if unknown:
        hint = f"nodes: {fold(fleet.nodes)}"
        raise CorralError(
            Code.NOT_FOUND, f"no running node is called {', '.join(unknown)}", hint=hint
        )
    if start in targets:
        raise CorralError(Code.USAGE, f"{start} is the source", hint="leave it out of --to")
    return targets


def _sendable(start: str, facts: Mapping[str, Facts]) -> None:
    mesh = facts[start].mesh if start in facts else None
    if mesh is not None and mesh.member and not mesh.kernel:
        raise CorralError(
            Code.NOT_GOOD,
            "its tailnet is in user space: it can be reached, and reaches nobody",
            node=start,
            hint="copy from a node with an interface in the tailnet: --from",
        )


def guarded(folder: str, *, make: bool = False) -> Script:
    """End with an error where a user could replace a folder that root reads or writes.

    Args:
        folder: an absolute path.
        make: make what is missing, as root's.
    """
    return call(_PROGRAM, "folder_guard", folder, "yes" if make else "no")


class _Run:
    """One run: a key made, the folder sent, the key removed."""

    def __init__(self, fleet: Fleet, source: str, address: str, emit: Emit) -> None:
        self._fleet = fleet
        self._source = source
        self._address = address
        self._emit = emit
        self._mark = f"corral-sync-{secrets.token_hex(6)}"
        self._at = f"/run/{self._mark}"

    async def all(
        self, folder: str, nodes: Sequence[str], known: Mapping[str, str], *, delete: bool
    ) -> tuple[Copied, ...]:
        copies: list[Copied] = []
        make = call(_PROGRAM, "sync_begin", folder, self._at, self._mark)
        try:
            made = check(
                await self._fleet.run(self._source, make),
                f"preparing the copy of {folder}",
                hint="give a folder of that node; rsync comes by `corral up FILE`",
            )
            for node in nodes:
                copies.append(await self._copy(folder, node, known[node], made, delete=delete))
        finally:
            await self._clean(nodes)
        return tuple(copies)

    async def _copy(
        self, folder: str, node: str, address: str, made: Result, *, delete: bool
    ) -> Copied:
        begin = time.monotonic()
        self._emit(Event(Kind.NODE_STARTED, "sync", node))
        try:
            safe = await self._fleet.run(node, guarded(folder, make=True))
            check(safe, f"looking at {folder}", hint=f"as root there: {remedy(folder)}")
            target = await self._open(node, address, made.stdout.strip())
            sent = check(
                await self._fleet.run(
                    self._source, self._send(folder, target, delete=delete), timeout=LIMIT_S
                ),
                f"copying {folder} to {node}",
                hint="run it again: it continues where it was; corral mesh status shows the links",
            )
        except CorralError as error:
            self._emit(Event(Kind.NODE_FAILED, "sync", node, str(error)))
            return Copied(node, seconds=time.monotonic() - begin, error=error)
        files, size = _stats(sent.stdout)
        took = time.monotonic() - begin
        self._emit(Event(Kind.NODE_DONE, "sync", node, f"{files} files", took))
        return Copied(node, files, size, round(took, 3))

    async def _open(self, node: str, address: str, key: str) -> _Target:
        """Let the key in, and read port and host key of the node's own sshd.

        From the source's address; or from 127.0.0.1, which a tailnet in user space shows instead.
        """
        until = time.strftime("%Y%m%d%H%M", time.gmtime(time.time() + LIMIT_S))
        line = f'restrict,from="{self._address},127.0.0.1",expiry-time="{until}Z" {key}'
        script = call(_PROGRAM, "sync_admit", _HOME, line)
        answer = check(await self._fleet.run(node, script), "letting the source in")
        port, _, host_key = answer.stdout.strip().partition("\n")
        if not port.isdecimal() or not re.fullmatch(r"ssh-ed25519 [A-Za-z0-9+/=]+", host_key):
            raise CorralError(
                Code.PARSE_FAILED,
                "its sshd reported neither port nor key",
                node,
                tail=answer.stdout,
            )
        return _Target(node, address, int(port), host_key)

    def _send(self, folder: str, target: _Target, *, delete: bool) -> Script:
        shell = sh(
            "ssh -F none -i {at}/key -p {port} -o BatchMode=yes -o IdentitiesOnly=yes "
            "-o UserKnownHostsFile={at}/known -o GlobalKnownHostsFile=none "
            "-o StrictHostKeyChecking=yes -o HostKeyAlias={node} -o ConnectTimeout=30 "
            "-o ServerAliveInterval=15 -o ServerAliveCountMax=8",
            at=self._at,
            port=target.port,
            node=target.node,
        )
        known = f"{target.node} {target.host_key}\n"
        return call(
            _PROGRAM,
            "sync_send",
            self._at,
            known,
            *(["--delete"] if delete else []),
            *("-e", str(shell), "--", f"{folder}/", f"root@{target.address}:{folder}/"),
        )

    async def _clean(self, nodes: Sequence[str]) -> None:
        """Take the key out everywhere; what does not answer loses it by its expiry time."""
        gone = call(_PROGRAM, "sync_end", _HOME, self._mark)
        await self._fleet.all(gone, nodes, timeout=30)
        await self._fleet.each({self._source: sh("rm -rf {at}", at=self._at)}, timeout=30)


def _stats(text: str) -> tuple[int, int]:
    """(files, bytes) that rsync sent, from its --stats."""
    files = re.search(r"^Number of regular files transferred: ([\d,]+)", text, re.MULTILINE)
    size = re.search(r"^Total transferred file size: ([\d,]+)", text, re.MULTILINE)
    return tuple(int(m[1].replace(",", "")) if m else 0 for m in (files, size))  # type: ignore[return-value]
