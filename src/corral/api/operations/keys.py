"""Use cases of keys: install the cluster's key on its machines, forget a pinned host key."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from corral.api.operations.nodes import chosen
from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind, ignore
from corral.hosts import keysetup, sshkeys
from corral.hosts.jump import along
from corral.hosts.keysetup import Installed
from corral.hosts.openssh import Hops, OpenSSH, control_dir
from corral.hosts.sshkeys import known_fingerprints
from corral.hosts.target import SshTarget
from corral.passwords import JUMP
from corral.providers.lookup import here, providers_of
from corral.runtime.tasks import concurrently
from corral.spec.models import ClusterSpec
from corral.spec.providers import OWNED

AT_ONCE = 16
"""sshd starts to drop logins at ten unfinished ones (MaxStartups), on each machine for itself; this
many password logins at once are for the sake of this machine."""


async def install_keys(
    spec: ClusterSpec, emit: Emit = ignore, *, nodes: str = ""
) -> tuple[Installed, ...]:
    """Put the cluster's key on its machines, one password login each at most, and prove it.

    Args:
        spec: the cluster.
        emit: receives an event for each node.
        nodes: a hostlist; "" for all nodes that are reached by ssh.

    Raises:
        CorralError: USAGE, no node of the file is reached by ssh; NOT_FOUND.
    """
    folder = keysetup.keys_dir(spec.name)
    _targets(spec, nodes)
    await open_jump_hosts(spec.name, lambda: _targets(spec, nodes).values(), emit)
    targets = _targets(spec, nodes)
    gate = asyncio.Semaphore(AT_ONCE)
    begin = time.monotonic()

    async def installed(node: str, target: SshTarget) -> Installed:
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
    done = await concurrently(*(installed(node, target) for node, target in targets.items()))
    keysetup.note_proven(folder, frozenset(k.node for k in done if k.ok))
    emit(Event(Kind.PHASE_DONE, "keys", seconds=time.monotonic() - begin))
    return tuple(done)


async def open_jump_hosts(
    name: str, targets: Callable[[], Iterable[SshTarget]], emit: Emit
) -> None:
    """Have all jump hosts open; where no key of the user's logs in, the cluster's is put there.

    Args:
        name: the cluster's name.
        targets: what is reached; asked again after each jump host, since a proven key changes them.
        emit: receives an event for each jump host that got a key.

    Raises:
        CorralError: a jump host cannot be reached, or takes no key and no password.
    """
    folder = keysetup.keys_dir(name)
    done: set[str] = set()
    while True:
        hops = [hop for target in targets() for hop in along(target) if hop.alias not in done]
        if not hops:
            return
        await _open_jump_host(name, folder, hops[0], emit)
        done.add(hops[0].alias)


async def _open_jump_host(name: str, folder: Path, hop: SshTarget, emit: Emit) -> None:
    connection = Hops(control_dir()).of(hop)
    try:
        if connection is not None:
            await connection.ready()
    except CorralError as error:
        if "may not log in" not in error.message:
            raise
        user = hop.user or (await sshkeys.settings(hop, any_user=True)).get("user", "root")
        key = folder / keysetup.KEY
        public = keysetup.public_key(key, f"corral-{name}")
        put = await keysetup.install(hop.alias, replace(hop, user=user), key, public, kind=JUMP)
        if put.error is not None:
            put.error.node = ""
            put.error.message = f"jump host {hop.address}: {put.error.message}"
            raise put.error from error
        keysetup.note_proven(folder, frozenset({hop.alias}))
        emit(Event(Kind.NOTE, "keys", message=f"jump host {hop.address}: {put.how}"))


async def forget_host_keys(spec: ClusterSpec, nodes: str) -> dict[str, list[str]]:
    """Forget the pinned host keys of nodes; the next connection sees them for the first time.

    Args:
        spec: the cluster.
        nodes: a hostlist, or the address of a jump host as the file has it.

    Returns:
        fingerprints that were pinned, by node.

    Raises:
        CorralError: NOT_FOUND, USAGE.
    """
    gone: dict[str, list[str]] = {}
    targets = _targets(spec, "")
    hops = {hop.address: hop for target in targets.values() for hop in along(target)}
    jump = hops.get(nodes) if nodes not in targets else None
    for node, target in ({nodes: jump} if jump else _targets(spec, nodes)).items():
        name = jump.alias if jump else node
        gone[node] = list(known_fingerprints(name, "\n".join(target.pinned(name))))
        await OpenSSH(name, target, control_dir()).close()
        sshkeys.unpin(target.known_hosts or Path(), name)
    return gone


def _targets(spec: ClusterSpec, nodes: str) -> dict[str, SshTarget]:
    names = chosen(spec, nodes)
    targets = {
        node.name: provider.ssh_target(node.name)
        for provider in providers_of(spec)
        if provider.owned and not here(provider)
        for node in provider.nodes
        if node.name in names
    }
    if not targets:
        raise CorralError(
            Code.USAGE,
            f"no such node of {spec.name} is reached by keys of yours",
            hint=f"this is for groups of provider {OWNED}",
        )
    return targets
