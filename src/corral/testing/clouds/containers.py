"""Rented machines as containers of this machine: they boot with the user data they were given.

Each joins the network of the rehearsed cluster. Its labels hold the machine, so that the simulated
cloud finds its machines again after it was stopped itself.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import threading
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final

from corral.errors import CorralError
from corral.events import ignore
from corral.hosts.quote import filled, join, sh, shipped
from corral.providers.containers import cni, layout, machine
from corral.providers.containers.container import Container
from corral.providers.containers.gpus import host_gpus
from corral.providers.containers.image import Images
from corral.providers.containers.podman import Podman
from corral.spec.providers import CLOUDS, RENTALS
from corral.testing.clouds.world import Machine

LABEL: Final = "corral.cloud"
RENTED: Final = "corral.rented"
FIRST: Final = 128
"""Rented machines take the upper half of the cluster's network, its own nodes the lower."""


class Containers:
    """What backs the machines of one simulated cloud.

    Args:
        cloud: its name.
        cluster: the rehearsed cluster, whose network and shared folders they get.
        nodes: how many containers share this machine's memory.
        mounts: folders that all nodes share.
    """

    def __init__(self, cloud: str, cluster: str, nodes: int, mounts: tuple[str, ...] = ()) -> None:
        self.cloud, self.cluster, self.mounts = cloud, cluster, mounts
        self.memory = machine.memory_share(machine.host_memory_mib(), nodes)
        self.errors: dict[str, str] = {}
        self._ready: set[str] = set()
        self._ended: set[str] = set()
        self._lock = threading.Lock()

    def start(self, machine: Machine) -> None:
        """Begin to boot it, in a separate thread."""
        self._thread(lambda: self._boot(machine), machine)

    def end(self, machine: Machine) -> None:
        """Remove its container; one that still boots goes when it is there."""
        self._ended.add(machine.id)
        self._thread(lambda: self._remove(machine), machine)

    def ready(self, machine: Machine) -> bool:
        """Whether its boot script has run."""
        return machine.id in self._ready

    def known(self) -> list[Machine]:
        """Machines whose containers are there, from an earlier life of this cloud."""
        machines: list[Machine] = []
        for fields in asyncio.run(self._records()):
            kept: dict[str, Any] = json.loads(fields["Labels"][RENTED])
            kept["keys"] = tuple(kept["keys"])
            machines.append(Machine(**kept))
            self._ready.add(str(kept["id"]))
        return machines

    def _thread(self, work: Callable[[], Any], machine: Machine) -> None:
        def guarded() -> None:
            try:
                work()
            except CorralError as error:
                self.errors[machine.id] = f"{error} {error.tail}"
                machine.broken = True

        threading.Thread(target=guarded, daemon=True).start()

    def _boot(self, machine: Machine) -> None:
        asyncio.run(self._booted(machine))
        if machine.id in self._ended:
            self._remove(machine)

    async def _booted(self, rented: Machine) -> None:
        podman = Podman(machine.host_runtime())
        with self._lock:
            # One after the other: two that choose a free address at once would take the same.
            net = await self._network(podman)
            rented.address = self._free(net, await self._records())
            image = await Images(podman).ensure("auto", ignore)
            made = Container(
                cluster=self.cluster,
                node=rented.id,
                address=rented.address,
                image=image,
                memory_mib=self.memory,
                stand_ins=0 if rented.more.get("lame") else rented.gpus,
                own=(),
                driver=host_gpus.HostGpus(),
                mounts=self.mounts,
                made_from="",
                limits=machine.host_limits(),
            )
            await podman.text(*self._argv(made, rented), timeout=180.0)
        rented.port = 22
        await podman.text(
            *("exec", "--interactive", made.name, "/bin/sh", "-c", self._script(rented)),
            stdin=rented.boot.encode(),
            timeout=180.0,
        )
        self._ready.add(rented.id)

    def _argv(self, made: Container, rented: Machine) -> list[str]:
        """As a node's, with labels of the cloud: it is not a node of the cluster yet."""
        argv = made.run()
        at = argv.index(f"{layout.CLUSTER}={self.cluster}")
        del argv[at - 1 : at + 1]
        labels = {LABEL: f"{self.cluster}/{self.cloud}", RENTED: json.dumps(asdict(rented))}
        return [*argv[:1], *layout.labels(labels), *argv[1:]]

    def _script(self, rented: Machine) -> str:
        """What the cloud's own agent does at the first boot: account, keys, then the user data.

        First it makes sure to be in the container (``containers.enrol`` explains why).
        """
        user = RENTALS[self.cloud].user
        account = filled(
            "containers/rented-account.sh",
            user=user,
            rule=f"{user} ALL=(ALL) NOPASSWD:ALL",
            keys=list(rented.keys) or [""],
        )
        return join(
            [
                sh('[ "$(cat /etc/hostname)" = {id} ] || exit 4\nset -e', id=rented.id),
                account if user != "root" else sh(":"),
                # A container's uptime is its host's: slurmctld would wait for ever for a boot that
                # is later than its request (24.11). -b reports the daemon's start as the boot.
                sh(
                    "d=/etc/systemd/system/slurmd.service.d; install -d $d\n"
                    "printf '[Service]\\nExecStart=\\nExecStart=%s\\n' {run} > $d/00-boot.conf",
                    run="/usr/sbin/slurmd --systemd -b $SLURMD_OPTIONS",
                ),
                shipped("containers/rented-boot.sh"),
            ]
        )

    async def _network(self, podman: Podman) -> ipaddress.IPv4Network:
        """The cluster's network; made as the nodes' provider would when it is not there yet."""
        name = layout.network(self.cluster)
        if (await podman.ended("network", "exists", name)).status != 0:
            subnet = layout.subnet(self.cluster, 1, machine.host_routes())
            label = layout.labels({layout.CLUSTER: self.cluster})
            words = ("network", "create", "--disable-dns", "--subnet", str(subnet))
            await podman.text(*words, *label, name)
        await asyncio.to_thread(cni.fix_version, name)
        text = await podman.text("network", "inspect", name)
        return ipaddress.IPv4Network(_subnet(json.loads(text)))

    async def _records(self) -> list[Any]:
        podman = Podman(machine.host_runtime())
        label = f"label={LABEL}={self.cluster}/{self.cloud}"
        return list(await podman.records("ps", "--all", "--filter", label))

    def _free(self, net: ipaddress.IPv4Network, records: list[Any]) -> str:
        """A free address; each cloud has its own stretch of the upper half."""
        taken = {str(f["Labels"][layout.ADDRESS]) for f in records}
        first = FIRST + 40 * CLOUDS.index(self.cloud)
        return next(a for a in (str(net[first + i]) for i in range(40)) if a not in taken)

    def _remove(self, rented: Machine) -> None:
        podman = Podman(machine.host_runtime())
        name = layout.container(self.cluster, rented.id)
        asyncio.run(podman.ended("kill", "--signal", "KILL", name))
        asyncio.run(podman.ended("rm", "--force", "--ignore", name, timeout=120.0))


async def gateway(cluster: str) -> str:
    """The address at which the cluster's nodes reach this machine, "" while there is no network."""
    podman = Podman(machine.host_runtime())
    name = layout.network(cluster)
    if (await podman.ended("network", "exists", name)).status != 0:
        return ""
    text = await podman.text("network", "inspect", name)
    return str(ipaddress.IPv4Network(_subnet(json.loads(text)))[1])


def _subnet(data: Any) -> str:
    """The subnet in what ``podman network inspect`` prints: CNI's list, or netavark's."""
    first = data[0]
    if "subnets" in first:
        return str(first["subnets"][0]["subnet"])
    plugins = [p for p in first["plugins"] if "ipam" in p]
    return str(plugins[0]["ipam"]["ranges"][0][0]["subnet"])
