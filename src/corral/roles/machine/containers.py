"""Containers in jobs: Enroot on every machine, Pyxis as a plugin of its Slurm. Pure."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Final, Literal

from corral.errors import Code, CorralError
from corral.inspect.facts import Facts
from corral.roles.inventory import Site
from corral.roles.role import Role, Share
from corral.roles.slurm import packages
from corral.slurm.conf.conf_file import TextFile
from corral.slurm.conf.model import Contribution
from corral.slurm.packages import NAMES, Family, Part
from corral.spec.models import ClusterSpec
from corral.spec.sections.software import Pyxis
from corral.state.base import Desired, Resource
from corral.state.files import Directory, File, Gone
from corral.state.packages import Artifact, Packages
from corral.state.system.enroot import PLUGIN, EnrootPackages, PyxisPlugin, UserNamespaces
from corral.tables import Row, read_table

ENROOT_CONF: Final = "/etc/enroot/enroot.conf.d/50-corral.conf"
CGROUP_HOOK: Final = "/etc/enroot/hooks.d/10-cgroups.sh"
NEEDS: Final = ("ca-certificates", "curl", "gawk", "jq", "parallel", "squashfs-tools", "zstd")

_CONF: Final = """\
# Written by Corral. Each user's folders are made by /etc/slurm/prolog.d/50-all-enroot-dirs.
ENROOT_RUNTIME_PATH /run/enroot/user-$(id -u)
ENROOT_CACHE_PATH {local}/cache/user-$(id -u)
ENROOT_DATA_PATH {local}/data/user-$(id -u)
ENROOT_TEMP_PATH {local}/tmp/user-$(id -u)
ENROOT_ROOTFS_WRITABLE yes
ENROOT_MOUNT_HOME yes
ENROOT_RESTRICT_DEV yes
"""

_NAME_FILES: Final = (
    "name enroot and enroot+caps of a release for this system in software.pyxis.enroot, each with "
    "file and sha256"
)

# Not optional: Slurm would then run a job's command outside of the container that could not be
# made, on the machine itself (24.11.5 with Pyxis 0.24.0, seen).
PLUGSTACK: Final = f"""\
# Written by Corral.
required {PLUGIN}
"""


class KnownFile(Row):
    """A file of the vendor's release, with the digest that others pin."""

    part: Literal["enroot", "source"]
    name: str
    address: str
    sha256: str
    systems: tuple[str, ...]
    machine: str
    seen: str


@cache
def known_files() -> tuple[KnownFile, ...]:
    """The table ``container_files.yaml``."""
    return read_table("corral.roles", "container_files.yaml", tuple[KnownFile, ...])


def declared(spec: ClusterSpec) -> Pyxis | None:
    """What the file asks for."""
    software = spec.software
    return (software.pyxis or Pyxis()) if software.containers == "pyxis" else None


def notice(spec: ClusterSpec) -> str:
    """How jobs get their software where the file asks for no containers, "" where that is plain.

    "" for rehearsals too, and where the provider sets machines up: its image has Enroot and Pyxis.
    With containers whose files the cluster file does not name: who states their digests.
    """
    pyxis = declared(spec)
    if pyxis is not None:
        return _origins(pyxis)
    real = [
        g
        for g in spec.groups
        if not (g.capabilities.containers or g.capabilities.configures) and (g.gpu_kinds or g.cloud)
    ]
    if not real:
        return ""
    prefix = "jobs run without containers (software.containers): "
    if not spec.storage:
        return prefix + "they have the nodes' own software, as no folder is shared (storage)"
    return prefix + (
        "corral run makes a Python environment of a lock file on shared storage, which needs "
        "neither Pyxis nor root"
    )


def _origins(pyxis: Pyxis) -> str:
    files = [f for f in known_files() if not getattr(pyxis, f.part)]
    if not files:
        return ""
    by_source: dict[str, list[str]] = {}
    for file in files:
        by_source.setdefault(file.seen, []).append(file.name)
    texts = [f"of {' and '.join(names)}: {seen}" for seen, names in by_source.items()]
    return "digests that the cluster file leaves to Corral: " + "; ".join(texts)


def installed(site: Site) -> tuple[Share, ...]:
    """Enroot and Pyxis on all machines, before slurmd starts with the plugin.

    Raises:
        CorralError: NOT_GOOD, Corral knows no Enroot for a machine's system.
    """
    pyxis = declared(site.spec)
    if pyxis is None:
        return ()
    debs = _enroot(site, pyxis)
    late = packages.old(site)
    now = tuple(n for n in site.names if n not in late or n == site.controller)
    resources: tuple[Resource, ...] = (
        Packages("enroot-needs", NEEDS),
        *debs,
        EnrootPackages(tuple(d.path for d in debs), tuple(d.id for d in debs)),
        UserNamespaces(),
        Directory(pyxis.local),
        File(ENROOT_CONF, _CONF.format(local=pyxis.local)),
        _source(pyxis),
    )
    desired = (Desired(site.names, resources), *_nested(site), *plugin(site, now))
    return (Share(desired, title="Enroot and Pyxis on all machines"),)


def _enroot(site: Site, pyxis: Pyxis) -> tuple[Artifact, ...]:
    if pyxis.enroot:
        return tuple(_artifact(a.file, a.sha256) for a in pyxis.enroot)
    files = [f for f in known_files() if f.part == "enroot"]
    for name in site.names:
        _refuse(site.facts[name], files)
    return tuple(_known(f, pyxis) for f in files)


def _refuse(facts: Facts, files: list[KnownFile]) -> None:
    system = f"{facts.os_id} {facts.os_version}"
    if all(system in f.systems for f in files):
        return
    raise CorralError(
        Code.NOT_GOOD,
        f"Corral knows no Enroot for {system}, only for {', '.join(files[0].systems)}",
        node=facts.node,
        hint=_NAME_FILES,
    )


def _known(file: KnownFile, pyxis: Pyxis) -> Artifact:
    place = f"{pyxis.mirror}/{file.name}" if pyxis.mirror else file.address
    known = f"Corral knows, with the digest of {file.seen}"
    artifact = replace(_artifact(place, file.sha256, file.name), named_by=known)
    return replace(artifact, machine=file.machine, hint=_NAME_FILES)


def _nested(site: Site) -> tuple[Desired, ...]:
    """Without the hook that mounts a job's cgroups, on machines that are containers themselves.

    Their cgroup v1 hierarchies are mounted twice in one place, and the hook takes the wrong one
    ("enroot-mount: failed to mount: /sys/fs/cgroup/systemd", enroot 4.1.2, seen).
    """
    nodes = tuple(
        n for n in site.names if not site.traits[n].own_clock and site.facts[n].cgroup != "v2"
    )
    return (Desired(nodes, (Gone(CGROUP_HOOK),)),) if nodes else ()


def plugin(site: Site, nodes: tuple[str, ...]) -> tuple[Desired, ...]:
    """The plugin on machines that have the Slurm they are to have.

    A plugin that was compiled for another release keeps slurmd from starting and every job from
    running (F22), so machines whose Slurm is upgraded get it in the same stage.
    """
    pyxis = declared(site.spec)
    if pyxis is None or not nodes:
        return ()
    source = _source(pyxis)
    family = site.debs.family if site.debs else Family.DISTRIBUTION
    (headers,) = NAMES[family][Part.HEADERS]
    watches = (source.id, "packages:slurm")
    return (Desired(nodes, (PyxisPlugin(source.path, source.sha256, headers, watches),)),)


def slurmd_inputs(site: Site) -> tuple[str, ...]:
    """What slurmd reads of it at its start."""
    return (PLUGIN,) if declared(site.spec) else ()


def slurm_conf(site: Site) -> Contribution:
    """The plugin, by plugstack.conf; without it the one that is there stays."""
    files = (TextFile("plugstack.conf", PLUGSTACK),) if declared(site.spec) else ()
    return Contribution(files=files)


def _source(pyxis: Pyxis) -> Artifact:
    if pyxis.source:
        return _artifact(pyxis.source.file, pyxis.source.sha256)
    return next(_known(f, pyxis) for f in known_files() if f.part == "source")


def _artifact(place: str, sha256: str, name: str = "") -> Artifact:
    return Artifact(place, sha256, name or place.rpartition("/")[2])


ROLE: Final = Role("containers", {"containers": installed}, slurm_conf)
