"""Containers in jobs: Enroot on every machine, Pyxis as a plugin of its Slurm. Pure."""

from __future__ import annotations

from typing import Final

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

# Not optional: Slurm would then run a job's command outside of the container that could not be
# made, on the machine itself (24.11.5 with Pyxis 0.24.0, seen).
PLUGSTACK: Final = f"""\
# Written by Corral.
required {PLUGIN}
"""


def declared(site: Site) -> Pyxis | None:
    """What the file asks for."""
    return site.spec.software.pyxis if site.spec.software.containers == "pyxis" else None


def notice(spec: ClusterSpec) -> str:
    """How jobs get their software where the file asks for no containers, "" where that is plain.

    "" for rehearsals too, and where the provider sets machines up: its image has Enroot and Pyxis.
    """
    real = [
        g
        for g in spec.groups
        if not (g.capabilities.containers or g.capabilities.configures) and (g.gpu or g.cloud)
    ]
    if spec.software.containers != "none" or not real:
        return ""
    prefix = "jobs run without containers (software.containers): "
    if not spec.storage:
        return prefix + "they have the nodes' own software, as no folder is shared (storage)"
    return prefix + (
        "corral run makes a Python environment of a lock file on shared storage, which needs "
        "neither Pyxis nor root"
    )


def installed(site: Site) -> tuple[Share, ...]:
    """Enroot and Pyxis on all machines, before slurmd starts with the plugin."""
    pyxis = declared(site)
    if pyxis is None:
        return ()
    debs = tuple(_artifact(a.file, a.sha256) for a in pyxis.enroot)
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
    pyxis = declared(site)
    if pyxis is None or not nodes:
        return ()
    source = _source(pyxis)
    family = site.debs.family if site.debs else Family.DISTRIBUTION
    (headers,) = NAMES[family][Part.HEADERS]
    watches = (source.id, "packages:slurm")
    return (Desired(nodes, (PyxisPlugin(source.path, source.sha256, headers, watches),)),)


def slurmd_inputs(site: Site) -> tuple[str, ...]:
    """What slurmd reads of it at its start."""
    return (PLUGIN,) if declared(site) else ()


def slurm_conf(site: Site) -> Contribution:
    """The plugin, by plugstack.conf; without it the one that is there stays."""
    files = (TextFile("plugstack.conf", PLUGSTACK),) if declared(site) else ()
    return Contribution(files=files)


def _source(pyxis: Pyxis) -> Artifact:
    return _artifact(pyxis.source.file, pyxis.source.sha256)


def _artifact(place: str, sha256: str) -> Artifact:
    return Artifact(place, sha256, place.rpartition("/")[2])


ROLE: Final = Role("containers", {"containers": installed}, slurm_conf)
