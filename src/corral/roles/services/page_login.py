"""Logins without a Slurm token: root's program that makes them (docs/decisions/0057). Pure."""

from __future__ import annotations

from typing import Final

from corral.roles.services.corral_wheels import PYTHON
from corral.roles.services.socket_unit import SocketUnit
from corral.spec.sections.page_login import PageLogin
from corral.state.base import Resource
from corral.state.files import File, Gone
from corral.state.service import Stopped

UNIT: Final = "corral-web-login"
"""Name of the socket and of its service (web/login/helper.py)."""
SOCKET: Final = "/run/corral-web/login.sock"

# It stays root, as slurmctld makes tokens of others for root and SlurmUser alone; without any
# capability, as munge and slurmctld are all that it needs of the machine. Secrets may be in a home.
_SERVICE: Final = f"""\
# Written by Corral: one login to the page, checked by root; its answer is the person's Slurm token.
[Unit]
Description=One login to the Corral page
CollectMode=inactive-or-failed

[Service]
ExecStart={PYTHON} -I -m corral.web.login.helper
StandardInput=socket
StandardOutput=socket
StandardError=journal
RuntimeMaxSec=120
MemoryMax=256M
TasksMax=32
LimitCORE=0
ProtectSystem=strict
ReadWritePaths=-/run/faillock
ProtectHome=read-only
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictSUIDSGID=yes
LockPersonality=yes
CapabilityBoundingSet=
NoNewPrivileges=yes
UMask=0077
"""


# Without sessions: nobody is logged in to the machine.
_PAM: Final = """\
# Written by Corral: logins to the page, by password; whether an account is open, in each.
@include common-auth
@include common-account
"""
PAM: Final = "/etc/pam.d/corral-web"


def resources(ways: PageLogin, user: str) -> tuple[Resource, ...]:
    """The program's units; or it stops, where nobody logs in by it.

    Args:
        ways: how people log in.
        user: the page's own.
    """
    if ways == PageLogin():
        return (Stopped(f"{UNIT}-listen"), Gone(PAM))
    socket = SocketUnit(
        UNIT, SOCKET, user, "what the page asks about a person who logs in", "Logins to the page"
    )
    return (File(PAM, _PAM), *socket.resources(_SERVICE))
