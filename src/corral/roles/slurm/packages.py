"""Which packages of Slurm each machine gets, from which source, and how an upgrade goes. Pure.

From the distribution packages are installed when they are missing, whatever their version. From a
set of debs (``Site.debs``) all machines get exactly its version: machines without Slurm in the
first stage; the others by a rolling upgrade in the order slurmdbd, slurmctld, slurmd, clients
(upgrades.html). Jobs live on in their slurmstepd, so no node is drained for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from corral.errors import CorralError
from corral.hosts.quote import call
from corral.inspect.slurm import NODE_VERSIONS
from corral.roles.inventory import Site
from corral.roles.role import Role, Share
from corral.slurm.conf.cluster import DATABASE
from corral.slurm.packages import NAMES, Family, Part, mixed, refuse_mixed, refuse_upgrade
from corral.slurm.version import SlurmVersion
from corral.spec.models import ClusterSpec
from corral.spec.nodes import guarded_of, state_of
from corral.spec.slurm.hostlist import fold
from corral.state.base import (
    ROLL_TAG,
    Desired,
    Gate,
    Resource,
)
from corral.state.databases import SlurmBackup
from corral.state.packages import DebRepository, Packages, SlurmPackages

_ID = "packages:slurm"
_DISTRIBUTION = NAMES[Family.DISTRIBUTION]
BRINGING = (
    _ID,
    *(f"packages:{name}" for name in ("controller", "munge", "slurm-client", "slurmd")),
)
"""Ids of all resources that bring packages of Slurm or munge."""
_ELSEWHERE = (Part.CLIENT, Part.SLURMD, Part.ADOPT, Part.HEADERS)
"""Parts that the controller's own stage does not bring."""
CONVERSION_S = 3600.0
"""Seconds that slurmdbd may take to bring a large database to its schema (upgrades.html: tens of
minutes)."""


PAUSED = f"{ROLL_TAG}upgrade of Slurm"
"""Drain reason of a node between its new packages and the restart of its slurmd: a job that began
there would meet a slurmstepd that is newer than slurmd. Jobs that run go on."""

BACK = call("gates/slurm.sh", "node_back", PAUSED)
"""After its slurmd was restarted: wait until it registered as new, and let it take jobs again."""


def parts_of_spec(spec: ClusterSpec) -> tuple[Part, ...]:
    """What the cluster needs of Slurm on any of its machines."""
    parts = [Part.CLIENT, Part.SLURMCTLD, Part.SLURMD]
    if spec.slurm.accounting:
        parts.append(Part.SLURMDBD)
    if spec.slurm.rest:
        parts.append(Part.SLURMRESTD)
    if guarded_of(spec):
        parts.append(Part.ADOPT)
    if spec.software.containers == "pyxis":
        parts.append(Part.HEADERS)
    return tuple(parts)


def parts_of(site: Site, node: str) -> tuple[Part, ...]:
    """What one machine needs of Slurm."""
    parts = [Part.CLIENT]
    if node == site.controller:
        parts += [p for p in parts_of_spec(site.spec) if p not in _ELSEWHERE]
    elif node in site.controllers:
        parts.append(Part.SLURMCTLD)
    if any(n.name == node for n in site.compute):
        parts.append(Part.SLURMD)
    if node in guarded_of(site.spec):
        parts.append(Part.ADOPT)
    return tuple(parts)


def old(site: Site) -> tuple[str, ...]:
    """Machines that have another Slurm than the set's, the controller first.

    Raises:
        CorralError: NOT_GOOD, one of them may not get the set's version.
    """
    if site.debs is None:
        return ()
    outdated: list[str] = []
    for node in site.names:
        text = site.facts[node].slurm
        if text and SlurmVersion.parse(text) != site.debs.version:
            try:
                refuse_upgrade(SlurmVersion.parse(text), site.debs.version)
            except CorralError as error:
                error.node = node
                raise
            outdated.append(node)
    return tuple(sorted(outdated, key=lambda n: n not in site.controllers))


def check(site: Site) -> None:
    """Check that the installed versions can work together.

    Raises:
        CorralError: NOT_GOOD, what is installed does not fit, and no source helps.
    """
    versions = {n: SlurmVersion.parse(f.slurm) for n, f in site.facts.items() if f.slurm}
    controller = versions.get(site.controller)
    if site.debs is None and controller is not None:
        refuse_mixed(controller, {n: v for n, v in versions.items() if n != site.controller})


def notice(site: Site) -> str:
    """One line about versions that differ and still fit, "" when they are alike."""
    return mixed({n: SlurmVersion.parse(f.slurm) for n, f in site.facts.items() if f.slurm})


def common(site: Site) -> tuple[Resource, ...]:
    """Packages of every machine: Slurm's commands, munge where it is used."""
    munge = ("munge",) if site.auth == "munge" else ()
    if site.debs is None:
        return (Packages("slurm-client", (*_DISTRIBUTION[Part.CLIENT], *munge)),)
    resources: tuple[Resource, ...] = (Packages("munge", munge),) if munge else ()
    return (*resources, DebRepository(site.debs))


def controller(site: Site) -> tuple[Resource, ...]:
    """Packages of the controller: its daemons and MariaDB."""
    mariadb = ("mariadb-server",) if site.spec.slurm.accounting else ()
    if site.debs is not None:
        return (Packages("controller", mariadb),) if mariadb else ()
    parts = [p for p in parts_of(site, site.controller) if p not in _ELSEWHERE]
    names = [n for part in parts for n in (*_DISTRIBUTION[part], *(mariadb * (part is _DBD)))]
    return (Packages("controller", tuple(names)),)


_DBD = Part.SLURMDBD


def backup_controller(site: Site) -> tuple[Resource, ...]:
    """Slurmctld alone: its database and REST stay on the first one."""
    names = _DISTRIBUTION[Part.SLURMCTLD]
    return (Packages("backup-controller", names),) if site.debs is None else ()


def compute(site: Site) -> tuple[Resource, ...]:
    """Packages of compute nodes."""
    return (Packages("slurmd", _DISTRIBUTION[Part.SLURMD]),) if site.debs is None else ()


def at_once(site: Site) -> tuple[Share, ...]:
    """Slurm from the set on machines that have none or have it already: in the first stage."""
    late = old(site)
    return (Share(_exactly(site, [n for n in site.names if n not in late])),)


def adopt(site: Site) -> tuple[Resource, ...]:
    """pam_slurm_adopt of the distribution; a set brings its own with all of Slurm."""
    return (Packages("access", _DISTRIBUTION[Part.ADOPT]),) if site.debs is None else ()


def before_services(site: Site) -> tuple[Share, ...]:
    """The controllers' share of an upgrade, before their services are configured."""
    late = [n for n in site.controllers if n in old(site)]
    if not late or site.debs is None:
        return ()
    was = SlurmVersion.parse(site.facts[late[0]].slurm)
    database = DATABASE if site.spec.slurm.accounting else ""
    name = f"slurm-{was}-to-{site.debs.version}"
    copies = SlurmBackup(name, database, state_of(site.spec))
    backup = (Desired((site.controller,), (copies,)),) if site.controller in late else ()
    title = f"Slurm {was} to {site.debs.version} on {fold(late)}: copies, then packages"
    return (Share((*backup, *_exactly(site, late)), title=title),)


def rolling(site: Site) -> tuple[tuple[str, ...], ...]:
    """Nodes to upgrade after the controller's services, in batches: one, two, four and so on.

    The controller's own slurmd comes first: its program on disk is new already.
    """
    run_jobs = {n.name for n in site.compute}
    left = [n for n in old(site) if n not in site.controllers or n in run_jobs]
    batches: list[tuple[str, ...]] = []
    size = 1
    while left:
        batches.append(tuple(left[:size]))
        left, size = left[size:], size * 2
    return tuple(batches)


def batch(site: Site, nodes: Sequence[str]) -> tuple[Desired, ...]:
    """The packages of one batch."""
    return _exactly(site, [n for n in nodes if n not in site.controllers])


def runs_gate(site: Site, nodes: Sequence[str]) -> tuple[Gate, ...]:
    """The slurmd of these nodes report that they run the set's version."""
    if site.debs is None or not nodes:
        return ()
    return (
        Gate(
            f"slurmd {site.debs.version} runs on {fold(tuple(nodes))}",
            site.controller,
            call(
                "gates/slurm.sh",
                "nodes_run",
                site.debs.version,
                len(nodes),
                fold(tuple(nodes)),
            ),
            120,
            "read journalctl -u slurmd on the nodes named; the other nodes were not begun",
            NODE_VERSIONS.shell,
        ),
    )


def programs(site: Site, part: Part) -> tuple[str, ...]:
    """Program files whose change restarts a daemon; the distribution's restart theirs."""
    return () if site.debs is None else (f"/usr/sbin/{part.value}",)


def bringing(site: Site) -> tuple[str, ...]:
    """Ids of the resources that bring the daemons, for their services to watch."""
    return () if site.debs is None else (_ID,)


def patience(site: Site, seconds: float) -> float:
    """How long slurmdbd may take to answer: longer when it brings a database to a new schema."""
    return CONVERSION_S if site.controller in old(site) else seconds


def _exactly(site: Site, nodes: Sequence[str]) -> tuple[Desired, ...]:
    if site.debs is None:
        return ()
    by_parts: dict[tuple[Part, ...], list[str]] = {}
    for node in nodes:
        by_parts.setdefault(parts_of(site, node), []).append(node)
    return tuple(
        Desired(tuple(names), (SlurmPackages(site.debs, parts, PAUSED),))
        for parts, names in by_parts.items()
    )


ROLE: Final = Role(
    "packages", {"base": at_once, "upgrade-controller": before_services}, check=check
)
