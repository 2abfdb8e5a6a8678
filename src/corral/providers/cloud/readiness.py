"""From launched to reachable: first boot, running, sshd's greeting, its host key pinned."""

from __future__ import annotations

import asyncio
from typing import Final

from corral.errors import Code, CorralError
from corral.hosts.ports import greets
from corral.hosts.quote import Script, filled, sh
from corral.providers.cloud.errors import CloudError
from corral.providers.cloud.model import CloudApi, Instance, State
from corral.state_dir import cluster_dir

PATIENCE_S: Final = 1500.0
"""The largest machines were measured at 478 s and are reported to take 15 minutes."""

POLL_S: Final = 5.0


class Watch:
    """One list call for all nodes that are pending at one cloud, however many they are."""

    def __init__(self, api: CloudApi) -> None:
        self._api = api
        self._lock = asyncio.Lock()
        self._seen: dict[str, Instance] = {}
        self._when = float("-inf")

    async def instance(self, identity: str) -> Instance | None:
        """The instance, as of at most ``POLL_S`` seconds ago."""
        await self.every()
        return self._seen.get(identity)

    async def every(self) -> tuple[Instance, ...]:
        """All instances, as of at most ``POLL_S`` seconds ago."""
        async with self._lock:
            now = asyncio.get_running_loop().time()
            if now - self._when >= POLL_S:
                self._seen = {instance.id: instance for instance in await self._api.instances()}
                self._when = asyncio.get_running_loop().time()
        return tuple(self._seen.values())


async def until_reachable(
    watch: Watch, node: str, identity: str, patience: float = PATIENCE_S
) -> Instance:
    """Wait until the cloud reports that an instance runs and its sshd greets.

    Raises:
        CorralError: PROVIDER_FAILED, it broke or vanished; TIMED_OUT.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + patience
    last = "it is in no list yet"
    while loop.time() < end:
        try:
            instance = await watch.instance(identity)
        except CloudError as error:
            if not error.transient:
                raise
            last, instance = error.message, None
        if instance is not None:
            _require_alive(instance, node)
            last = f"the cloud reports {instance.detail}"
            if instance.state is State.RUNNING and instance.address:
                if await greets(instance.address, instance.port):
                    return instance
                last = f"no sshd greets on {instance.address}:{instance.port}"
        await asyncio.sleep(POLL_S)
    raise CorralError(
        Code.TIMED_OUT,
        f"instance {identity} cannot be reached after {patience / 60:.0f} minutes: {last}",
        node=node,
        hint="it costs money: corral down ends it; corral up continues to wait",
    )


def _require_alive(instance: Instance, node: str) -> None:
    if instance.state in (State.BROKEN, State.GONE, State.ENDING):
        raise CorralError(
            Code.PROVIDER_FAILED,
            f"{instance.provider} reports that instance {instance.id} is {instance.detail}",
            node=node,
            hint="corral up ends it and launches another one",
        )


def boot_script(public_key: str, user: str) -> Script:
    """User data that lets the cluster's key in for the account that Corral logs in with."""
    return sh("#!/bin/sh\n{script}", script=filled("boot-key.sh", user=user, key=public_key))


KNOWN_HOSTS: Final = "known_hosts"


def forget(cluster: str, node: str) -> None:
    """Forget a node's host key: the next machine of that name has another."""
    path = cluster_dir(cluster, create=False) / KNOWN_HOSTS
    if path.is_file():
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(line for line in lines if line.split()[:1] != [node]))
