"""Use cases of keys: install the cluster's key on its machines, forget a pinned host key."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from corral.api.nodes import chosen
from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind, ignore
from corral.hosts import keysetup, pins
from corral.hosts.keysetup import Installed
from corral.hosts.openssh import OpenSSH, control_dir
from corral.hosts.sshkeys import known_fingerprints
from corral.hosts.target import SshTarget
from corral.providers import providers_of
from corral.spec.models import ClusterSpec

AT_ONCE = 16
"""sshd starts to drop logins at ten unfinished ones (MaxStartups), on each machine for itself; this
many password logins at once are for the sake of this machine."""


async def install_keys(
    spec: ClusterSpec, emit: Emit = ignore, *, nodes: str = ""
) -> tuple[Installed, ...]:
    """Put the cluster's key on its machines, one password login each at most, and prove it.

    Args:
        spec: the cluster.
        emit: told of each node.
        nodes: a hostlist; "" for all nodes of provider ssh.

    Raises:
        CorralError: USAGE, no node of the file is reached by ssh; NOT_FOUND.
    """
    folder = keysetup.keys_dir(spec.name)
    targets = _targets(spec, nodes)
    gate = asyncio.Semaphore(AT_ONCE)
    begin = time.monotonic()

    async def one(node: str, target: SshTarget) -> Installed:
        async with gate:
            emit(Event(Kind.NODE_STARTED, "keys", node))
            key = keysetup.key_file(folder, target)
            public = keysetup.public_key(key, f"corral-{spec.name}")
            done = await keysetup.install(node, target, key, public)
            kind = Kind.NODE_DONE if done.ok else Kind.NODE_FAILED
            emit(Event(kind, "keys", node, str(done.error or done.how)))
            return done

    emit(Event(Kind.PHASE_STARTED, "keys", message="setting up keys", total=len(targets)))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for target in targets.values():  # made before the nodes start, so that all get the same
        keysetup.public_key(keysetup.key_file(folder, target), f"corral-{spec.name}")
    done = await asyncio.gather(*(one(node, target) for node, target in targets.items()))
    keysetup.note_proven(folder, frozenset(k.node for k in done if k.ok))
    emit(Event(Kind.PHASE_DONE, "keys", seconds=time.monotonic() - begin))
    return tuple(done)


async def forget_host_keys(spec: ClusterSpec, nodes: str) -> dict[str, list[str]]:
    """Forget the pinned host keys of nodes; the next connection sees them for the first time.

    Returns:
        fingerprints that were pinned, by node.

    Raises:
        CorralError: NOT_FOUND, USAGE.
    """
    gone: dict[str, list[str]] = {}
    for node, target in _targets(spec, nodes).items():
        file = target.known_hosts or Path()
        gone[node] = list(known_fingerprints(node, "\n".join(target.pinned(node))))
        await OpenSSH(node, target, control_dir()).close()
        pins.unpin(file, node)
    return gone


def _targets(spec: ClusterSpec, nodes: str) -> dict[str, SshTarget]:
    wanted = chosen(spec, nodes)
    found = {
        node.name: provider.ssh_target(node.name)
        for provider in providers_of(spec)
        if provider.name == "ssh"
        for node in provider.nodes
        if node.name in wanted
    }
    if not found:
        raise CorralError(
            Code.USAGE,
            f"no such node of {spec.name} is reached by keys of yours",
            hint="this is for groups of provider ssh",
        )
    return found
