"""Who stays, who leaves, and where the controller is; before anything else changes. Pure."""

from __future__ import annotations

from typing import Final

from corral.roles import proof
from corral.roles.inventory import Site
from corral.roles.role import Role, Share
from corral.spec.nodes import elastic_of, partitions_of
from corral.state.base import Resource, Wanted
from corral.state.members import WAIT_S, Leaving, Member, NoController, Roster
from corral.state.resumed import Resumed


def leaving(site: Site) -> tuple[Share, ...]:
    """Nodes that leave are drained while slurmctld still knows them."""
    here: list[Resource] = [
        Leaving(
            # Nodes that come and go do not leave: they stay in slurm.conf.
            tuple(dict.fromkeys(n.name for n in (*site.compute, *elastic_of(site.spec)))),
            (*(p.name for p in partitions_of(site.spec)), *(p.name for p in proof.partition(site))),
            WAIT_S,
        )
    ]
    # Where Corral logs in: an address in the mesh is of no use to a machine that is not in it.
    members = tuple(
        Member(n.name, n.address or n.name, n.group.ssh.port, n.group.ssh.user)
        for n in site.nodes
        if n.group.capabilities.owned
    )
    if members:
        here.append(Roster(members))
    desired = [Wanted((site.controller,), tuple(here))]
    others = tuple(n for n in site.names if n != site.controller)
    if others:
        desired.append(Wanted(others, (NoController(site.controller),)))
    return (Share(tuple(desired), title="nodes that leave are drained"),)


def resumed(site: Site) -> tuple[Share, ...]:
    """Nodes that are still drained since an earlier apply was stopped."""
    title = "nodes back that a stopped corral left drained"
    return (Share((Wanted((site.controller,), (Resumed(),)),), title=title),)


ROLE: Final = Role("membership", {"members": leaving, "resume": resumed})
