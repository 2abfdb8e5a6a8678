"""All roles together: a Site gives the wanted state of every machine, in stages. Pure."""

from __future__ import annotations

from corral.errors import Code, CorralError
from corral.roles import base, compute, controller
from corral.roles.site import Site
from corral.roles.slurm_conf import cluster_conf
from corral.slurm.conf.cluster import render
from corral.state.base import StageWanted


def wanted(site: Site) -> tuple[StageWanted, ...]:
    """The stages of a whole cluster: machines, keys, accounting, controller, compute.

    Raises:
        CorralError: the machines cannot hold what the file declares.
    """
    for storage in site.spec.storage:
        if storage.kind == "nfs":
            raise CorralError(
                Code.SPEC_INVALID,
                f"storage {storage.mount}: NFS servers are not built yet",
                hint="mount it yourself and declare kind: existing, or rehearse with --rehearse",
            )
    files = render(cluster_conf(site))
    return (
        *base.stages(site),
        *controller.stages(site, files),
        compute.stage(site, files),
    )
