"""Where Corral's own code is on the controller, for the services that run it. Pure."""

from __future__ import annotations

from typing import Final

from corral.roles.inventory import Site
from corral.roles.own_wheel import own_wheel
from corral.roles.role import Role, Share
from corral.roles.wheels import wheels_of
from corral.state.base import Resource, Wanted
from corral.state.pyenv import PythonEnv

FOLDER: Final = "/opt/corral/web"
PYTHON: Final = f"{FOLDER}/bin/python"

HARDENED: Final = """\
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
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
UMask=0077
"""


def environment(site: Site) -> PythonEnv:
    """Corral with the page's server, for the controller's Python.

    Raises:
        CorralError: NOT_GOOD, the controller's Python is too old.
    """
    own, _ = own_wheel()
    wheels = (*wheels_of("web", site.facts[site.controller]), own)
    return PythonEnv(FOLDER, "Corral's own code", wheels)


def on_controller(site: Site) -> tuple[Share, ...]:
    """The code, where a declared service needs it."""
    services = site.spec.services
    if not (services.ui or services.metrics):
        return ()
    resources: tuple[Resource, ...] = (environment(site),)
    desired = (Wanted((site.controller,), resources),)
    return (Share(desired, title=f"Corral's code on {site.controller}"),)


ROLE: Final = Role("own_code", {"code": on_controller})
