"""Shared folders: who serves, who mounts, and what must be there already. Pure.

In this order: what is declared no longer is unmounted, then the server's exports become what is
declared, then all mount (docs/guide/machines.md). A node that comes gets an export line and
mounts; no other node mounts again.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Final

from corral.hosts.quote import sh
from corral.roles.inventory import Site
from corral.roles.machine.containers import declared
from corral.roles.role import Role, Share
from corral.spec.models import Storage
from corral.spec.nodes import sole_user
from corral.state.base import (
    Desired,
    DesiredStage,
    Gate,
    Resource,
    Seen,
)
from corral.state.packages import Packages
from corral.state.service import Service
from corral.state.storage.exports import ExistingFolder, Export, Exports, ServedFolder
from corral.state.storage.fstab import NFS_OPTIONS, FormerMounts, Mount
from corral.state.storage.job_folders import JobFolders, remedy

NCONNECT_SINCE: Final = (5, 3)
"""nconnect= came with Linux 5.3 (nfs(5)); an older kernel refuses the mount."""
NCONNECT: Final = 4
_FSID: Final = uuid.UUID("6f0e1d52-9b1c-4d0c-9a7e-5b8d3c2a1f04")


def _owned(site: Site) -> tuple[str, ...]:
    """Machines that the user owns; containers get folders of their host."""
    return tuple(n.name for n in site.nodes if n.group.capabilities.owned)


def _nfs(site: Site) -> list[Storage]:
    return [s for s in site.spec.storage if s.kind == "nfs"]


def _mounts_of(site: Site) -> dict[str, tuple[Mount, ...]]:
    """What each machine mounts; where no systemd runs, nothing can be mounted."""
    nfs = _nfs(site)
    return {n: _mounts(site, nfs, n) for n in _owned(site) if not site.is_pod(n)}


def unmounted(site: Site) -> tuple[Share, ...]:
    """What is declared no longer is unmounted; what must be there already is looked at."""
    mine = _owned(site)
    if not mine:
        return ()
    mounts = _mounts_of(site)
    former: dict[tuple[str, ...], list[str]] = {}
    for node, node_mounts in mounts.items():
        former.setdefault(tuple(m.path for m in node_mounts), []).append(node)
    gone = tuple(Desired(tuple(n), (FormerMounts(keep),)) for keep, n in former.items())
    looked = tuple(ExistingFolder(s.mount) for s in site.spec.storage if s.kind == "existing")
    there = (Desired(mine, looked),) if looked else ()
    made = tuple(ServedFolder(s.mount) for s in site.spec.storage if s.kind == "provider")
    # Where the cluster is one machine, a folder of it is shared by all nodes.
    here = tuple(n.name for n in site.nodes if n.group.capabilities.here)
    kept = (Desired(here, made),) if made and here else ()
    return (Share((*gone, *there, *kept), title="folders that are shared no longer"),)


def job_folders_place(site: Site) -> tuple[str, str] | None:
    """The node that makes the folders of jobs, and the first shared storage there; None: no such.

    Where Corral serves the storage it is the server: there root is root.
    """
    if not site.spec.storage:
        return None
    first = site.spec.storage[0]
    served = first.kind == "nfs" and bool(first.server)
    path = (first.path if served else None) or first.mount
    return (first.server if served else None) or site.controller, path


def job_folders(site: Site) -> tuple[Share, ...]:
    """What jobs' files are put into, on the first shared storage, made where root is root."""
    place = job_folders_place(site)
    if place is None:
        return ()
    first = site.spec.storage[0]
    keeper, path = place
    folders = JobFolders(
        path,
        tuple((user.name, user.uid) for user in site.users),
        images=declared(site.spec) is not None,
        foreign=first.kind == "existing",
        keeper=sole_user(site.spec),
    )
    desired = (Desired((keeper,), (folders,)),)
    return (Share(desired, title="folders for jobs on shared storage"),)


def exposed(stages: Sequence[DesiredStage], observed: Mapping[str, Mapping[str, Seen]]) -> str:
    """Why jobs are refused on the first shared folder as it is; "" where they are not.

    Args:
        stages: the desired state.
        observed: what each node's probes answered: node -> resource id -> Seen.
    """
    for stage in stages:
        for entry in stage.desired:
            for resource in entry.resources:
                seen = observed.get(entry.nodes[0], {}).get(resource.id)
                if not isinstance(resource, JobFolders) or seen is None:
                    continue
                why = resource.exposed(seen)
                return f"corral run refuses: {why}; {remedy(why.split(' ')[0])}" if why else ""
    return ""


def servers(site: Site) -> tuple[str, ...]:
    """Nodes that serve a folder by NFS."""
    return tuple(dict.fromkeys(s.server for s in site.spec.storage if s.kind == "nfs" and s.server))


def exported(site: Site) -> tuple[Share, ...]:
    """Each server exports what is declared, and no other machine exports anything of Corral's."""
    mine = _owned(site)
    if not mine:
        return ()
    nfs, serving = _nfs(site), servers(site)
    desired: list[Desired] = []
    gates: list[Gate] = []
    for server in serving:
        folders = [s for s in nfs if s.server == server]
        clients = tuple(site.ip_address(n) for n in mine if n != server)
        exports = tuple(
            Export(s.path or "", clients, _fsid(site, s), s.root_squash) for s in folders
        )
        resources: tuple[Resource, ...] = (
            Packages("nfs-server", ("nfs-kernel-server",)),
            *(ServedFolder(s.path or "") for s in folders),
            Service("nfs-server"),
            Exports(exports),
        )
        desired.append(Desired((server,), resources))
        gates.append(_listens(server))
    others = tuple(n for n in mine if n not in serving)
    if others:
        desired.append(Desired(others, (Exports(),)))
    title = f"NFS served by {', '.join(serving)}" if serving else "NFS served by nobody"
    return (Share(tuple(desired), tuple(gates), title),)


def _listens(server: str) -> Gate:
    return Gate(
        "the NFS server listens",
        server,
        sh("ss -ltnH 'sport = :2049' | grep -q ."),
        30,
        "read: journalctl -u nfs-server; a kernel without nfsd cannot serve NFS",
        sh("journalctl --no-pager -o cat -n 15 -u nfs-server; exportfs -s"),
    )


def mounted(site: Site) -> tuple[Share, ...]:
    """Each change checks on its own node whether the folder answers."""
    if not _owned(site):
        return ()
    mounts = _mounts_of(site)
    alike: dict[tuple[Mount, ...], list[str]] = {}
    for node, node_mounts in mounts.items():
        if node_mounts:
            alike.setdefault(node_mounts, []).append(node)
    desired: list[Desired] = []
    for node_mounts, nodes in alike.items():
        nfs = any(not m.bind for m in node_mounts)
        first = (Packages("nfs-client", ("nfs-common",)),) if nfs else ()
        desired.append(Desired(tuple(nodes), (*first, *node_mounts)))
    return (Share(tuple(desired), title="shared folders mounted on all nodes"),)


def _mounts(site: Site, nfs: list[Storage], node: str) -> tuple[Mount, ...]:
    mounts: list[Mount] = []
    for storage in nfs:
        path = storage.path or ""
        if storage.server != node:
            server = site.ip_address(storage.server or "")
            host = f"[{server}]" if ":" in server else server
            mounts.append(Mount(f"{host}:{path}", storage.mount, _options(site, node)))
        elif path != storage.mount:
            mounts.append(Mount(path, storage.mount, "bind", bind=True))
    return tuple(mounts)


def _options(site: Site, node: str) -> str:
    """Hard: a process waits for its server and goes on; soft would give it a read error instead."""
    options = NFS_OPTIONS
    kernel = tuple(int(part) for part in site.facts[node].kernel.split(".")[:2] if part.isdigit())
    return options + (f",nconnect={NCONNECT}" if kernel >= NCONNECT_SINCE else "")


def _fsid(site: Site, storage: Storage) -> str:
    return str(uuid.uuid5(_FSID, f"{site.spec.name}:{storage.path}"))


ROLE: Final = Role(
    "storage",
    {"unmount": unmounted, "exports": exported, "mounts": mounted, "job-folders": job_folders},
)
