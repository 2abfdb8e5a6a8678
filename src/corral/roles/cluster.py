"""All roles together: a Site gives the wanted state of every machine, in stages. Pure."""

from __future__ import annotations

from corral.roles import (
    base,
    compute,
    containers,
    controller,
    guard,
    login,
    logins,
    membership,
    mesh,
    mesh_pod,
    metrics,
    mlflow,
    nvidia,
    own_code,
    page,
    people,
    proof,
    slurm_packages,
    storage,
)
from corral.roles.site import Site
from corral.roles.slurm_conf import cluster_conf
from corral.slurm.conf.cluster import render
from corral.spec.gcp_made import made_by_toolkit
from corral.state.base import StageWanted, Wanted
from corral.state.resumed import Resumed


def wanted(site: Site) -> tuple[StageWanted, ...]:
    """The stages of a whole cluster: machines, keys, accounting, controller, compute.

    Raises:
        CorralError: the machines cannot hold what the file declares.
    """
    if made_by_toolkit(site.spec):
        return ()  # slurm-gcp sets its machines up, and would undo what others change
    slurm_packages.check(site)
    if mesh.outside(site.spec, site.facts):
        return mesh.stages(site)
    mesh_pod.check(site)
    files = render(cluster_conf(site))
    stages = (
        *mesh.stages(site),
        membership.stage(site),
        *base.stages(site),
        *storage.stages(site),
        *people.stages(site),
        *storage.job_folders(site),
        *slurm_packages.before_services(site),
        *nvidia.stages(site),
        *containers.stages(site),
        *controller.stages(site, files),
        *nvidia.running(site),
        *compute.stages(site, files),
        *mlflow.stages(site),
        *own_code.stages(site),
        *page.stages(site),
        *metrics.stages(site),
        *login.stages(site),
        people.access_stage(site),
        StageWanted(
            "resume",
            "nodes back that a stopped corral left drained",
            (Wanted((site.controller,), (Resumed(),)),),
        ),
        proof.stage(site),
        guard.stage(site),
        *logins.stages(site),
    )
    return mesh_pod.adapted(site, stages, files)
