"""Login nodes: Slurm's commands on machines that run neither jobs nor the controller. Pure."""

from __future__ import annotations

from typing import Final

from corral.errors import Code, CorralError
from corral.hosts.quote import sh
from corral.inspect.slurm import COMMANDS_WORK
from corral.roles.inventory import Site
from corral.roles.role import Role, Share
from corral.roles.slurm import hung_reconfigure
from corral.roles.slurm.auth_key import former_keys, key_paths
from corral.roles.slurm.controller import conf_server
from corral.slurm.packages import Family
from corral.slurm.version import has
from corral.spec.impacts import Impact
from corral.spec.slurm.hostlist import expand
from corral.spec.slurm.releases import Feature, since
from corral.state.base import Desired, Gate
from corral.state.files import File
from corral.state.packages import Packages
from corral.state.service import Service

DEFAULTS: Final = "/etc/default/sackd"


def nodes(site: Site) -> tuple[str, ...]:
    """Declared login nodes that neither run jobs nor the controller."""
    declared = expand(site.spec.access.login) if site.spec.access.login else []
    busy = {site.controller, *(n.name for n in site.compute)}
    return tuple(n for n in declared if n not in busy)


def on_login_nodes(site: Site) -> tuple[Share, ...]:
    """sackd, which fetches the controller's files and signs commands there.

    Raises:
        CorralError: NOT_GOOD, this Slurm has no sackd.
    """
    names = nodes(site)
    if not names:
        return ()
    if not has(site.version, Feature.SACKD):
        raise CorralError(
            Code.NOT_GOOD,
            f"Slurm {site.version} has no sackd, which login nodes without jobs need",
            node=names[0],
            hint=f"Slurm {since(Feature.SACKD)} and later, or put the login node's group into a "
            "partition",
        )
    smd = site.debs is not None and site.debs.family is Family.SCHEDMD
    text = f'# Written by Corral.\nSACKD_OPTIONS="--conf-server {conf_server(site)}"\n'
    resources = (
        Packages("slurm-login", ("slurm-smd-sackd" if smd else "sackd",)),
        *former_keys(site),
        File(DEFAULTS, text),
        *hung_reconfigure.around("sackd"),
        Service("sackd", (DEFAULTS, *key_paths(site)), impact=Impact.NONE),
    )
    gates = tuple(
        Gate(
            f"Slurm's commands work on {node}",
            node,
            COMMANDS_WORK.shell,
            60,
            "read: journalctl -u sackd",
            sh("journalctl --no-pager -o cat -n 15 -u sackd"),
        )
        for node in names
    )
    return (Share((Desired(names, resources),), gates, "sackd on login nodes"),)


ROLE: Final = Role("login_nodes", {"login": on_login_nodes})
