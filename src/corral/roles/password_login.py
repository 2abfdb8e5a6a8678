"""Who may log in how: sshd without passwords where the file asks for it, the last stage. Pure."""

from __future__ import annotations

from typing import Final

from corral.roles.inventory import Site
from corral.roles.role import Role, Share
from corral.state.base import Wanted
from corral.state.logins import KeysOnly, confirmed

KEEP = "keep"


def keys_only(site: Site) -> tuple[Share, ...]:
    """One stage where a group has ``ssh.password_login: off``, else none."""
    groups = [n for n in site.nodes if n.group.capabilities.owned]
    nodes = tuple(n.name for n in groups if n.group.ssh.password_login != KEEP)
    if not nodes:
        return ()
    return (
        Share(
            (Wanted(nodes, (KeysOnly(),)),),
            tuple(confirmed(node) for node in nodes),
            "logins by key only",
        ),
    )


ROLE: Final = Role("password_login", {"logins": keys_only})
