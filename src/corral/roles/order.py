"""All stages of a cluster in their order, and which role has a share in which. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

from corral.roles.apt_run import in_one_run
from corral.roles.inventory import ConfiguredSite, Site
from corral.roles.machine import (
    base,
    containers,
    directory,
    fabric,
    host_based,
    imex,
    mesh,
    nvidia,
    people,
    storage,
    upkeep,
)
from corral.roles.role import Role, Share
from corral.roles.services import (
    backup,
    corral_wheels,
    metrics,
    mlflow,
    notify,
    page,
    proof,
    rental_guard,
)
from corral.roles.slurm import (
    auth_key,
    backup_controller,
    client_file,
    compute,
    controller,
    elastic_nodes,
    health,
    hung_reconfigure,
    login_nodes,
    lost_jobs,
    packages,
    partitions,
    pods,
    prolog,
    reservations,
    x11,
)
from corral.roles.slurm_conf import cluster_conf
from corral.slurm.conf.cluster import slurm_files
from corral.spec.sections.provider_setup import is_configured
from corral.state.base import DesiredStage


@dataclass(frozen=True, slots=True)
class Stage:
    """One row of the order: all nodes finish it before the next one begins.

    Attributes:
        name: of the stage, in plans and journals.
        roles: who has a share in it, in the order in which a node gets the shares.
        title: for people, where no role gives one.
        one_apt_run: the first packages of each machine bring the later ones along.
        batches: each share is a separate stage: NAME-1, NAME-2 and so on.
    """

    name: str
    roles: tuple[Role, ...]
    title: str = ""
    one_apt_run: bool = False
    batches: bool = False


ORDER: Final = (
    Stage("mesh", (mesh.ROLE,)),
    Stage("members", (base.MEMBERSHIP,)),
    Stage(
        "base",
        (
            base.ROLE,
            prolog.ROLE,
            fabric.ROLE,
            health.ROLE,
            hung_reconfigure.ROLE,
            lost_jobs.ROLE,
            proof.ROLE,
            packages.ROLE,
            x11.ROLE,
            notify.ROLE,
            upkeep.ROLE,
            auth_key.ROLE,
            backup_controller.ROLE,
        ),
        "names, users, packages and folders",
        one_apt_run=True,
    ),
    Stage("keys", (auth_key.ROLE, upkeep.ROLE)),
    Stage("unmount", (storage.ROLE,)),
    Stage("exports", (storage.ROLE,)),
    Stage("mounts", (storage.ROLE,)),
    Stage("homes", (people.ROLE,)),
    Stage("people", (people.ROLE,)),
    Stage("job-folders", (storage.ROLE,)),
    Stage("directory", (directory.ROLE,), "people of the directory"),
    Stage("stop-backup", (backup_controller.ROLE,), "the backup controller stands aside"),
    Stage("upgrade-controller", (packages.ROLE,)),
    Stage("drivers", (nvidia.ROLE,)),
    Stage("reboots", (nvidia.ROLE,)),
    Stage("containers", (containers.ROLE,)),
    Stage("accounting", (controller.ROLE,)),
    Stage("controller", (controller.ROLE,)),
    Stage("backup-controller", (backup_controller.ROLE,)),
    Stage("gpus", (nvidia.ROLE, imex.ROLE)),
    Stage("upgrade", (compute.ROLE,), batches=True),
    Stage("compute", (compute.ROLE, controller.SLURMRESTD)),
    Stage("reservations", (reservations.ROLE,)),
    Stage("tracking", (mlflow.ROLE,)),
    Stage("code", (corral_wheels.ROLE,)),
    Stage("page", (page.ROLE,)),
    Stage("metrics", (metrics.ROLE,)),
    Stage("login", (login_nodes.ROLE, client_file.ROLE)),
    Stage("access", (people.ROLE, host_based.ROLE)),
    Stage("resume", (base.MEMBERSHIP,)),
    Stage("proof", (proof.ROLE,)),
    Stage("backup", (backup.ROLE,)),
    Stage("guard", (rental_guard.ROLE,)),
    Stage("logins", (upkeep.PASSWORD_LOGIN,)),
    Stage("group-accounts", (directory.ROLE,), "accounts of the directory's groups"),
)
"""Why so: the keys are copied once they are made; machines that leave are drained while slurmctld
still knows them; shared folders are mounted before homes are made on them; a machine reboots for
its driver before daemons start; slurmdbd is there before slurmctld asks for it, and slurmctld
before slurmd registers; who may log in changes last, when all of it works. The top of shared
storage is made safe before homes of the directory's people are made in it. Users of the file come
before the directory's, whose names may clash with theirs; members' accounts come behind
all else, which a clash then does not hold up."""

IN_SLURM_FILES: Final = (
    compute.ROLE,
    mesh.ROLE,
    pods.ROLE,
    fabric.ROLE,
    imex.ROLE,
    prolog.ROLE,
    health.ROLE,
    people.ROLE,
    partitions.ROLE,
    containers.ROLE,
    elastic_nodes.ROLE,
    metrics.ROLE,
    proof.ROLE,
    notify.ROLE,
    x11.ROLE,
)
"""The roles that add to Slurm's files; what they add is written in this order."""
_IN_STAGES: Final = tuple(role for row in ORDER for role in row.roles)
ROLES: Final = tuple({role.name: role for role in (*_IN_STAGES, *IN_SLURM_FILES)}.values())
"""All roles, each once, in the order in which they check the machines."""


def desired_stages(site: Site) -> tuple[DesiredStage, ...]:
    """The stages of a cluster.

    Raises:
        CorralError: the machines cannot hold what the file declares.
    """
    if is_configured(site.spec):
        return ()  # their provider sets machines up, and would undo what others change
    for role in ROLES:
        role.check(site)
    for row in ORDER:
        if shares := [share for role in row.roles for share in role.ahead(site)]:
            return _joined(row, shares)
    configured_site = configured(site)
    stages = tuple(stage for row in ORDER for stage in _stages(row, configured_site))
    for role in ROLES:
        role.review(site, stages)
    return stages


def configured(site: Site) -> ConfiguredSite:
    """The site with Slurm's files.

    Raises:
        CorralError: a value cannot be written in them, or the release cannot do what is asked.
    """
    given = tuple(role.slurm_conf(site) for role in IN_SLURM_FILES if role.slurm_conf)
    conf = cluster_conf(site, given)
    known = {field.name: getattr(site, field.name) for field in fields(Site)}
    return ConfiguredSite(**known, conf=conf, slurm_files=slurm_files(conf))


def _stages(row: Stage, site: ConfiguredSite) -> tuple[DesiredStage, ...]:
    shares = [share for role in row.roles for share in role.stages[row.name](site)]
    if not row.batches:
        return _joined(row, shares)
    return tuple(
        DesiredStage(f"{row.name}-{number}", share.title, share.desired, share.gates, share.roll)
        for number, share in enumerate(shares, 1)
    )


def _joined(row: Stage, shares: Sequence[Share]) -> tuple[DesiredStage, ...]:
    """The shares of a stage as one; none where no role has one."""
    if not shares:
        return ()
    desired = tuple(
        entry for share in shares for entry in share.desired if entry.nodes and entry.resources
    )
    return (
        DesiredStage(
            row.name,
            next((share.title for share in shares if share.title), row.title),
            in_one_run(desired) if row.one_apt_run else desired,
            tuple(gate for share in shares for gate in share.gates),
            next((share.roll for share in shares if share.roll), None),
        ),
    )
