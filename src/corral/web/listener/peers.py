"""Who is at the other end of a connection: its address; on this machine, its user. Linux.

On loopback everybody has all of 127.0.0.0/8 (``corral ui``, ssh tunnels, whose end is the user's
own sshd), so that there a limit goes by the socket's user, which the kernel knows.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

_SOCK_DIAG: Final = 4
"""NETLINK_SOCK_DIAG, sock_diag(7)."""
_BY_FAMILY: Final = 20
_LISTENING: Final = 10
_HEADER: Final = struct.Struct("=IHHII")
_QUESTION: Final = struct.Struct("=BBBBI")
_ENDS: Final = struct.Struct("!HH16s16s")
_ANY: Final = struct.pack("=I", 0) + b"\xff" * 8
"""Any interface, INET_DIAG_NOCOOKIE."""
_STATE: Final = _HEADER.size + 1
_PORTS: Final = slice(_HEADER.size + 4, _HEADER.size + 8)
_OWNER: Final = struct.Struct("=II")
_OWNER_AT: Final = _HEADER.size + 64
SERVICES: Final = 1000
"""User numbers below are the system's own (SYS_UID_MAX of login.defs): of services, not people."""


@dataclass(frozen=True, slots=True)
class Peer:
    """What limits for who is not logged in go by.

    Attributes:
        name: ``10.0.0.7``, ``fd00::/64``, ``loopback uid 1000``, ``loopback uid unknown``.
        uid: the socket's user, where it is on this machine and the kernel knows it.
    """

    name: str
    uid: int | None = None

    @property
    def service(self) -> bool:
        """A service of this machine, such as a reverse proxy: no person's process."""
        return self.uid is not None and self.uid < SERVICES


class Peers:
    """Names the peers of accepted connections.

    It is to be asked as a connection is accepted: once its peer has closed the socket, the kernel
    knows no user of it any more (and shows 0, which is root's number).
    """

    def __init__(self) -> None:
        self._asked = 0
        self._kernel: socket.socket | None = None
        with suppress(OSError):  # a kernel or a sandbox without it: users are unknown
            self._kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG)

    def of(self, accepted: socket.socket) -> Peer:
        """The peer of a connection."""
        try:
            ours, theirs = accepted.getsockname(), accepted.getpeername()
        except OSError:  # closed meanwhile: nobody is answered
            return Peer("unknown")
        if not on_this_machine(theirs[0]):
            return Peer(network_of(theirs[0]))
        uid = None
        with suppress(OSError, struct.error):
            uid = self._uid(accepted.family, theirs, ours)
        return Peer(f"loopback uid {'unknown' if uid is None else uid}", uid)

    def _uid(self, family: int, theirs: tuple[str, int], ours: tuple[str, int]) -> int | None:
        if self._kernel is None:
            return None
        self._asked += 1
        places = [
            socket.inet_pton(family, address[0]).ljust(16, b"\0") for address in (theirs, ours)
        ]
        ends = _ENDS.pack(theirs[1], ours[1], *places) + _ANY
        question = _QUESTION.pack(family, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF) + ends
        header = _HEADER.pack(_HEADER.size + len(question), _BY_FAMILY, 1, self._asked, 0)
        self._kernel.send(header + question)
        while True:  # the answer is there at once; one to a question before is passed over
            answer = self._kernel.recv(4096, socket.MSG_DONTWAIT)
            _, kind, _, number, _ = _HEADER.unpack_from(answer)
            if number == self._asked:
                break
        # Where the connection is gone the kernel takes a listening socket of that port for it.
        if kind != _BY_FAMILY or answer[_STATE] == _LISTENING or answer[_PORTS] != ends[:4]:
            return None
        uid, inode = _OWNER.unpack_from(answer, _OWNER_AT)
        return uid if inode else None  # without an inode nobody has it open any more


def on_this_machine(host: str) -> bool:
    """Whether it is an address of loopback."""
    try:
        return _plain(host).is_loopback
    except ValueError:
        return False


def network_of(host: str) -> str:
    """An address; of IPv6 its /64, all of which one machine may have."""
    try:
        address = _plain(host)
    except ValueError:
        return host
    if address.version == 4:  # noqa: PLR2004
        return str(address)
    return str(ipaddress.ip_network((address, 64), strict=False))


def _plain(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
