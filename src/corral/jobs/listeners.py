"""Which program of a node a tunnel into a job leads to, of those that listen there. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv6Address
from typing import Final

from corral.errors import Code, CorralError
from corral.inspect.machine import LISTENING, ListeningSocket, uid_of
from corral.inspect.question import Answers, Question

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


def questions(user: str) -> tuple[Question[object], ...]:
    """What a node is asked for a tunnel of a user; needs no root."""
    return uid_of(user), LISTENING


def read_listeners(answers: Answers, user: str) -> tuple[int, tuple[Listener, ...]]:
    """The user's uid, and the listeners.

    Raises:
        CorralError: PARSE_FAILED.
    """
    uid, sockets = uid_of(user).read(answers), LISTENING.read(answers)
    if uid is None or sockets is None:
        raise CorralError(
            Code.PARSE_FAILED,
            "the node's table of TCP sockets could not be read",
            tail="\n".join(answers.values())[-1000:],
        )
    return uid, tuple(map(_listener, sockets))


def _listener(socket: ListeningSocket) -> Listener:
    address = socket.address
    v6 = isinstance(address, IPv6Address)
    near = address.is_unspecified or address.is_loopback
    if address.is_unspecified:
        # "::" takes IPv4 too, unless its program forbids that: sshd tries both of localhost.
        name = "localhost" if v6 else "127.0.0.1"
    else:
        name = f"[{address}]" if v6 else str(address)
    return Listener(name, socket.port, socket.uid, near)


def listener_of(
    seen: tuple[int, Sequence[Listener]], port: int, *, job: str, node: str, user: str
) -> Listener:
    """The listener that a tunnel into a job leads to.

    Args:
        seen: what ``read_listeners`` gave.
        port: its port.
        job: as Slurm calls the job.
        node: the node that was asked.
        user: whose job it is.

    Raises:
        CorralError: NOT_FOUND, nothing listens there; FORBIDDEN, it is another user's program.
    """
    uid, listeners = seen
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
