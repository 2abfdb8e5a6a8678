"""TCP ports that programs of a node listen on, from the kernel's own tables. Pure."""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass, replace
from typing import Final

from corral.errors import Code, CorralError
from corral.hosts.quote import Script, call

_LISTEN: Final = "0A"
"""TCP_LISTEN of the kernel's net/tcp_states.h."""
_FIELDS: Final = 8
SHOWN: Final = 10
"""Ports that an error names at most."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A socket that takes connections.

    Attributes:
        address: where, as ``ssh -L`` takes it.
        port: TCP port.
        uid: whose it is.
        near: it takes connections from the node itself, by its loopback.
    """

    address: str
    port: int
    uid: int
    near: bool


def listeners_script(user: str) -> Script:
    """Prints the uid of a user and the node's tables of TCP sockets; needs no root."""
    return call("jobs/user.sh", "listeners_list", user)


def read_listeners(text: str) -> tuple[int, tuple[Listener, ...]]:
    """The user's uid, and the listeners.

    Raises:
        CorralError: PARSE_FAILED.
    """
    first, _, table = text.partition("\n")
    try:
        rows = [line.split() for line in table.splitlines()]
        listeners = [_listener(row) for row in rows if len(row) >= _FIELDS and row[3] == _LISTEN]
        return int(first), tuple(listeners)
    except (ValueError, struct.error) as error:
        raise CorralError(
            Code.PARSE_FAILED, "the node's table of TCP sockets could not be read", tail=str(error)
        ) from error


def _listener(row: list[str]) -> Listener:
    text, _, port = row[1].partition(":")
    # The kernel prints 32-bit words in the byte order of the node, which is little-endian on all
    # machines that Slurm's packages are built for.
    words = struct.unpack(f">{len(text) // 8}I", bytes.fromhex(text))
    address = ipaddress.ip_address(struct.pack(f"<{len(words)}I", *words))
    v6 = isinstance(address, ipaddress.IPv6Address)
    near = address.is_unspecified or address.is_loopback
    if address.is_unspecified:
        # "::" takes IPv4 too, unless its program forbids that: sshd tries both of localhost.
        name = "localhost" if v6 else "127.0.0.1"
    else:
        name = f"[{address}]" if v6 else str(address)
    return Listener(name, int(port, 16), int(row[7]), near)


def listener_of(text: str, port: int, *, job: str, node: str, user: str) -> Listener:
    """The listener that a tunnel into a job leads to.

    Args:
        text: what ``listeners_script`` printed.
        port: its port.
        job: as Slurm calls the job.
        node: the node that was asked.
        user: whose job it is.

    Raises:
        CorralError: NOT_FOUND, nothing listens there; FORBIDDEN, it is another user's program;
            PARSE_FAILED.
    """
    uid, listeners = read_listeners(text)
    here = [each for each in listeners if each.port == port]
    if not here:
        own = sorted({each.port for each in listeners if each.uid == uid})
        ports = ", ".join(map(str, own[:SHOWN]))
        raise CorralError(
            Code.NOT_FOUND,
            f"nothing listens on port {port} of {node}",
            node=node,
            hint=f"{user}'s programs there listen on: {ports}"
            if own
            else f"no program of {user} listens there; start the server in job {job}, or name "
            "another of its nodes with --node",
        )
    # Root's are the node's own services; another user's could take what is meant for this one's.
    mine = [each for each in here if each.uid in (uid, 0)]
    if not mine:
        raise CorralError(
            Code.FORBIDDEN,
            f"port {port} of {node} belongs to another user (uid {here[0].uid}), not to {user}",
            node=node,
            hint=f"let the server in job {job} listen on another port",
        )
    best = min(mine, key=lambda each: (each.uid != uid, not each.near))
    # One that takes IPv6 alone leaves the port's IPv4 side to others.
    shared = best.address == "localhost" and len(mine) < len(here)
    return replace(best, address="[::1]") if shared else best
