"""Who may log in how: sshd without passwords where the file says so, as the last stage. Pure."""

from __future__ import annotations

from corral.roles.site import Site
from corral.state.base import StageWanted, Wanted
from corral.state.logins import KeysOnly, confirmed

KEEP = "keep"


def stages(site: Site) -> tuple[StageWanted, ...]:
    """One stage where a group says ``ssh.password_login: off``, else none."""
    groups = [n for n in site.nodes if n.group.capabilities.owned]
    nodes = tuple(n.name for n in groups if n.group.ssh.password_login != KEEP)
    if not nodes:
        return ()
    return (
        StageWanted(
            "logins",
            "logins by key only",
            (Wanted(nodes, (KeysOnly(),)),),
            tuple(confirmed(node) for node in nodes),
        ),
    )
