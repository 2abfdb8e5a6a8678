"""A socket of which systemd starts one process for each connection, for one user. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

from corral.state.base import Resource
from corral.state.files import File
from corral.state.service import UNITS, Service

_SOCKET: Final = """\
# Written by Corral: %ABOUT%.
[Unit]
Description=%TITLE%
PartOf=%NAME%-listen.service

[Socket]
ListenStream=%PATH%
SocketUser=%USER%
SocketGroup=%USER%
SocketMode=0600
DirectoryMode=0755
Accept=yes
MaxConnections=256

[Install]
WantedBy=sockets.target
"""
# Service knows services only: this one keeps the socket as long as it is on.
_LISTEN: Final = """\
# Written by Corral: opens %NAME%.socket.
[Unit]
Description=Listen for the Corral page
BindsTo=%NAME%.socket
After=%NAME%.socket

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true

[Install]
WantedBy=multi-user.target
"""


@dataclass(frozen=True, slots=True)
class SocketUnit:
    """The socket.

    Attributes:
        name: of its unit.
        path: where it is.
        user: who alone may connect.
        about: what it is for, for who reads the file.
        title: the unit's description.
    """

    name: str
    path: str
    user: str
    about: str
    title: str

    def resources(self, service: str) -> tuple[Resource, ...]:
        """The socket, the service of each connection, and what opens the socket.

        Args:
            service: the text of the service.
        """
        files = (
            File(f"{UNITS}/{self.name}.socket", self._filled(_SOCKET)),
            File(f"{UNITS}/{self.name}@.service", service),
            File(f"{UNITS}/{self.name}-listen.service", self._filled(_LISTEN)),
        )
        return (*files, Service(f"{self.name}-listen", tuple(file.path for file in files)))

    def _filled(self, text: str) -> str:
        for name, value in asdict(self).items():
            text = text.replace(f"%{name.upper()}%", value)
        return text
