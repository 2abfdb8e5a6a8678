"""Removing a cluster's objects, found by label only, and starting what a reboot stopped."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind
from corral.providers.containers import layout, stale_objects
from corral.providers.containers.podman import REMOVAL_S, Podman, bridge
from corral.runtime.tasks import concurrently

# Verb, how names are listed, how one is removed; in the order that uses nothing any more.
_KINDS: Final = (
    ("container", ("ps", "--all", "--format", "{{.Names}}"), ("rm", "--force", "--ignore")),
    (
        "network",
        ("network", "ls", "--format", "{{.Name}}"),
        ("network", "rm", "--force"),
    ),
    (
        "volume",
        ("volume", "ls", "--format", "{{.Name}}"),
        ("volume", "rm", "--force"),
    ),
)
_MOUNTS: Final = Path("/proc/self/mountinfo")
_STOPPED: Final = ("exited", "created", "configured", "stopped")


async def listed(podman: Podman, kind: str, cluster: str) -> list[str]:
    """Names of the cluster's objects of one kind: container, network or volume."""
    verb = next(v for k, v, _ in _KINDS if k == kind)
    text = await podman.text(*verb, "--filter", f"label={layout.CLUSTER}={cluster}")
    return sorted(text.split())


async def leftovers(podman: Podman, cluster: str) -> list[str]:
    """All objects of the cluster, as ``container NAME``."""
    kinds = [kind for kind, _, _ in _KINDS]
    listings = await concurrently(*(listed(podman, kind, cluster) for kind in kinds))
    return [f"{kind} {n}" for kind, names in zip(kinds, listings, strict=True) for n in names]


async def destroy(podman: Podman, cluster: str, emit: Emit) -> tuple[str, ...]:
    """Remove them, kind by kind; what another process removed meanwhile is not an error.

    Raises:
        CorralError: BUSY, something is mounted in a volume. Nothing is removed then.
    """
    await _refuse_mounts(podman, cluster)
    # Before the containers: netavark removes bridge and firewall rules with the last one only where
    # no other link is on the bridge.
    gone = await forgotten(podman, cluster, emit)
    for kind, _, verb in _KINDS:
        if kind == "network":
            gone += await forgotten(podman, cluster, emit, ends=True)
        names = await listed(podman, kind, cluster)
        if not names:
            continue
        emit(Event(Kind.NOTE, "machines", message=f"removing {kind}s {', '.join(names)}"))
        if kind == "container":
            await kill(podman, *names)
        await podman.text(*verb, *names, timeout=REMOVAL_S)
        gone += [f"{kind} {name}" for name in names]
    return tuple(gone)


async def _refuse_mounts(podman: Podman, cluster: str) -> None:
    """``podman volume rm`` deletes through mounts in its folder (seen with podman 4.3)."""
    label = f"label={layout.CLUSTER}={cluster}"
    volumes = await podman.records("volume", "ls", "--filter", label)
    folders = [Path(str(fields["Mountpoint"])) for fields in volumes]
    if mounts := mounts_in(folders, await asyncio.to_thread(_MOUNTS.read_text)):
        raise CorralError(
            Code.BUSY,
            f"nothing is removed: in a volume of {cluster} something is mounted, which removing "
            f"the volume would delete: {', '.join(map(str, mounts))}",
            hint=f"umount {shlex.join(map(str, mounts))}",
        )


def mounts_in(folders: Iterable[Path], mountinfo: str) -> tuple[Path, ...]:
    """Mount points below the folders, the deepest first, from the text of /proc/self/mountinfo.

    Pure. A volume's own folder may be a mount (a volume of type tmpfs or nfs): podman unmounts it.
    """
    below = set(folders)
    points = {Path(_unescaped(line.split()[4])) for line in mountinfo.splitlines()}
    return tuple(sorted((p for p in points if below & set(p.parents)), reverse=True))


def _unescaped(field: str) -> str:
    """proc(5): space, tab, newline and backslash are octal in mountinfo."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


async def forgotten(podman: Podman, cluster: str, emit: Emit, *, ends: bool = False) -> list[str]:
    """Remove network namespaces of the cluster that podman forgot.

    Args:
        podman: what knows the others.
        cluster: the cluster.
        emit: receives what was removed, and why nothing could be read.
        ends: the network is removed next, so its bridge goes too.
    """
    network = layout.network(cluster)
    interface = bridge(network, await podman.records("network", "ls"))
    left = await stale_objects.remove(podman, network, interface)
    if left.unknown:
        text = f"not looked for what earlier containers of {network} left: {left.unknown}"
        emit(Event(Kind.NOTE, "machines", message=text))
    elif ends:
        await stale_objects.remove_bridge(interface)
    gone = [str(namespace) for namespace in left.namespaces]
    if gone:
        text = f"removed what ended containers left: {', '.join(gone)}"
        emit(Event(Kind.NOTE, "machines", message=text))
    return gone


async def kill(podman: Podman, *names: str) -> None:
    """End containers at once, those that run; ``rm --time 0`` would, but podman 3.4 has it not."""
    await podman.ended("kill", "--signal", "KILL", *names)


async def restart(podman: Podman, name: str, node: str) -> None:
    """Start a stopped node; one that podman wrongly believes to run is cleaned up first."""
    text = await podman.text("inspect", "--format", "{{.State.Status}} {{.Id}}", name, node=node)
    status, identity = text.split()
    if status not in _STOPPED:
        await asyncio.to_thread(stale_objects.bury, stale_objects.Places.of(podman.base), identity)
        await podman.ended("stop", "--time", "0", name, node=node)
    await podman.text(
        "start",
        name,
        node=node,
        timeout=180.0,
        what=f"container {name} does not start",
        hint=f"corral down and up re-create it; its output: podman logs {name}",
    )
