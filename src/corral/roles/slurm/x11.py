"""Windows of jobs: Slurm's own forwarding of X11, and what it needs on nodes. Pure."""

from __future__ import annotations

from typing import Final

from corral.roles.inventory import Site
from corral.roles.role import Role, Share
from corral.slurm.conf.conf_file import Setting
from corral.slurm.conf.model import Contribution
from corral.state.base import Desired
from corral.state.packages import Packages


def on_nodes(site: Site) -> tuple[Share, ...]:
    """Xauth, by which slurmstepd and ssh keep the cookie of a display."""
    if not site.spec.slurm.x11:
        return ()
    return (Share((Desired(site.names, (Packages("x11", ("xauth",)),)),)),)


def slurm_conf(site: Site) -> Contribution:
    """The flag, which brings Contain and Alloc along (slurm.conf(5))."""
    if not site.spec.slurm.x11:
        return Contribution()
    return Contribution((Setting("PrologFlags", "X11"),))


ROLE: Final = Role("x11", {"base": on_nodes}, slurm_conf)
