"""Provider embedded: each node is a podman container with its own systemd, sshd and address."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final

from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind
from corral.hosts.ports import greets
from corral.hosts.target import SshTarget
from corral.inspect.facts import Facts
from corral.inspect.nvidia import HostGpu
from corral.plurals import plural
from corral.providers.base import (
    Action,
    Machine,
    MachineAction,
    Memory,
    Observed,
    Traits,
    raise_failed,
)
from corral.providers.containers import (
    cni,
    container,
    inventory,
    layout,
    machine,
    removal,
)
from corral.providers.containers.gpus import host_gpus
from corral.providers.containers.podman import Podman
from corral.providers.embedded.access import Access
from corral.runtime.tasks import concurrently
from corral.spec.models import ClusterSpec
from corral.spec.nodes import Node, nodes_of
from corral.state_dir import cluster_dir

if TYPE_CHECKING:
    from corral.providers.containers.image import Images

SSH_PORT: Final = 22
# OpenSSH 9's first choice, sntrup761, costs the client 80 ms a connection; what a post-quantum
# exchange guards against cannot happen on a bridge inside this machine.
KEX: Final = ("-o", "KexAlgorithms=^curve25519-sha256")
POLL_S: Final = 0.05
CHECK_S: Final = 2.0
AT_ONCE: Final = 16

_SUMMARY: Final = MappingProxyType(
    {
        Action.CREATE: "container {c} does not exist yet",
        Action.START: "container {c} is stopped",
        Action.ENROL: "container {c} does not know this machine's key",
        Action.RELEASE_ADDRESS: "what an ended container left has the address of container {c}",
        Action.RECREATE: "container {c} was made from another image, memory, GPUs or storage",
        Action.REMOVE: "node {n} is declared no longer",
    }
)


_MAKES: Final = (Action.CREATE, Action.RECREATE)


def _own(node: Node) -> bool:
    """Whether the node gets GPUs of this machine."""
    return node.group.host_gpus


class EmbeddedProvider:
    """The nodes of groups with ``provider: embedded``.

    Args:
        spec: the cluster file.
        podman: the podman to use; None: the one of this machine.
    """

    name: ClassVar[str] = "embedded"
    owned: ClassVar[bool] = False

    def __init__(self, spec: ClusterSpec, podman: Podman | None = None) -> None:
        self.cluster = spec.name
        self._nodes = {n.name: n for n in nodes_of(spec) if n.group.provider == self.name}
        self._mounts = layout.shared(spec.storage)
        self._podman = podman or Podman(machine.host_runtime())
        self._memory = Memory()
        self._on_host = tuple(n for n in self.nodes if _own(n))
        self._driver: host_gpus.HostGpus | None = None
        self._gpus: Mapping[str, tuple[HostGpu, ...]] = {}

    @cached_property
    def _images(self) -> Images:
        """Node images: of no use for machines that are there, and slow to import."""
        from corral.providers.containers import bundle  # noqa: PLC0415
        from corral.providers.containers.image import Images  # noqa: PLC0415

        pin = bundle.pinned(cluster_dir(self.cluster, create=False))
        return Images(self._podman, pin=pin)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The declared nodes of embedded groups."""
        return tuple(self._nodes.values())

    async def read_machines(self) -> Observed:
        """Ask podman for containers and networks with the cluster's label; changes nothing.

        Raises:
            CorralError: PROVIDER_FAILED, podman fails; FORBIDDEN, it fails and this is not root.
        """
        try:
            self._memory.observed = await inventory.read_machines(
                self._podman,
                cluster=self.cluster,
                nodes=self.nodes,
                pinned=Access(cluster_dir(self.cluster, create=False)).enrolled(),
            )
        except (CorralError, PermissionError) as error:
            # An account without subordinate ids cannot run podman, and root's folders are root's.
            expected = getattr(error, "code", Code.PROVIDER_FAILED) is Code.PROVIDER_FAILED
            if os.geteuid() == 0 or not expected:
                raise
            raise _without_root() from error
        await self._divide_gpus()
        if refusal := self._forbidden():
            self._memory.observed = replace(self._memory.observed, refusal=refusal)
        return self._memory.observed

    def _forbidden(self) -> CorralError | None:
        if os.geteuid() == 0:
            return machine.cgroup_refusal()
        # podman shows each user their own containers, and these are root's.
        exist = any(m.exists for m in self._memory.observed.machines.values())
        return None if exist else _without_root()

    async def _divide_gpus(self) -> None:
        """Which node has which GPU of this machine; it is looked at only when a node has none."""
        seen = self._memory.observed.machines
        held = {n.name: seen[n.name].gpus for n in self._on_host if seen[n.name].exists}
        self._gpus = {name: host_gpus.remembered(gpus) for name, gpus in held.items()}
        if all(len(held.get(n.name, ())) == n.group.computing_gpus for n in self._on_host):
            return
        try:
            self._driver = await host_gpus.host_gpus()
            others = await inventory.held_by_others(self._podman, self.cluster)
            self._gpus = host_gpus.divide(self._on_host, self._driver, held, others)
        except CorralError as error:
            self._memory.observed = replace(self._memory.observed, refusal=error)

    def plan(self, observed: Observed) -> tuple[MachineAction, ...]:
        """Pure: what each machine needs so that all declared ones run and can be reached."""
        strays = [self._action(n, Action.REMOVE) for n in observed.strays]
        needs = [(n, self._needs(n, observed.machines[n.name])) for n in self.nodes]
        return (*strays, *(self._action(n.name, a) for n, a in needs if a is not None))

    def _needs(self, node: Node, seen: Machine) -> Action | None:
        if not seen.exists:
            return Action.CREATE
        if seen.made_from != self._made_from(node):
            return Action.RECREATE
        if not seen.running:
            return Action.START
        if seen.contested:
            return Action.RELEASE_ADDRESS
        return None if seen.enrolled else Action.ENROL

    def _action(self, node: str, action: Action) -> MachineAction:
        name = layout.container(self.cluster, node)
        summary = _SUMMARY[action].format(c=name, n=node)
        gpus = self._gpus.get(node, ())
        if gpus and action in _MAKES:
            models = ", ".join(f"{gpu.device} {gpu.name}".strip() for gpu in gpus)
            method = f" {self._driver.method(gpus)}" if self._driver else ""
            summary += f"; it gets this machine's {models}{method}"
        elif action in _MAKES:
            summary += self._stand_ins(node)
        return MachineAction(node, action, summary)

    def _stand_ins(self, node: str) -> str:
        """What the node has for GPUs where it gets none of this machine."""
        declared = self._nodes[node]
        gpus = declared.group.gpu_kinds
        if not gpus or _own(declared):
            return ""
        kinds = ", ".join(f"{plural(gpu.count, 'stand-in')} of type {gpu.type}" for gpu in gpus)
        return f"; its GPUs are {kinds}: nothing computes on them"

    def _made_from(self, node: Node) -> str:
        uuids = [gpu.uuid for gpu in self._gpus.get(node.name, ())]
        driver = [host_gpus.driver_version()] if uuids else []
        return layout.made_from(node, self._mounts, [*driver, *uuids])

    async def prepare(self, emit: Emit) -> None:
        """Build or derive the images of all groups that are not there yet."""
        for group_image in dict.fromkeys(n.group.image for n in self.nodes):
            await self._images.ensure(group_image, emit)

    async def apply(self, actions: Sequence[MachineAction], emit: Emit) -> None:
        """Do it on all machines at once, and wait until sshd answers on each.

        Raises:
            CorralError: PROVIDER_FAILED, IMAGE_FAILED, ...; NodesFailedError for several nodes.
        """
        if not actions:
            return
        refusal = self._memory.observed.refusal
        if refusal is not None and any(a.action in _MAKES for a in actions):
            raise refusal
        access = Access(cluster_dir(self.cluster))
        key = await access.public_key()
        gone = [a for a in actions if a.action in (Action.RECREATE, Action.REMOVE)]
        await concurrently(*(self._remove(a.node, access) for a in gone))
        if any(a.action in _MAKES for a in actions):
            await self.prepare(emit)
            if self._on_host and self._driver is None:
                self._driver = await host_gpus.host_gpus()
        await self._common()
        await removal.forgotten(self._podman, self.cluster, emit)
        if note := machine.let_watch(len(self.nodes)):
            emit(Event(Kind.NOTE, "machines", message=note))
        gate = asyncio.Semaphore(AT_ONCE)
        live = [a for a in actions if a.action is not Action.REMOVE]
        ends = await asyncio.gather(
            *(self._bring_up(a, access, key, emit, gate) for a in live), return_exceptions=True
        )
        raise_failed(ends)

    async def _common(self) -> None:
        """The network and the volumes; each is labelled from birth."""
        label = layout.labels({layout.CLUSTER: self.cluster})
        net = layout.network(self.cluster)
        await self._podman.ensure(
            "network",
            net,
            *("--disable-dns", "--subnet", self._memory.observed.network, *label),
            hint="another network took the addresses meanwhile: run the same command again",
        )
        await asyncio.to_thread(cni.fix_version, net)
        for mount in self._mounts:
            name = layout.volume(self.cluster, mount)
            await self._podman.ensure("volume", name, *label, *layout.labels({layout.MOUNT: mount}))

    async def _remove(self, node: str, access: Access) -> None:
        name = layout.container(self.cluster, node)
        await removal.kill(self._podman, name)
        await self._podman.text("rm", "--force", "--ignore", name, node=node)
        access.unpin(node)

    async def _bring_up(
        self, action: MachineAction, access: Access, key: str, emit: Emit, gate: asyncio.Semaphore
    ) -> None:
        node, began = action.node, time.monotonic()
        async with gate:
            emit(Event(Kind.NODE_STARTED, "machines", node, action.summary))
            try:
                if action.action is Action.START:
                    await removal.restart(self._podman, layout.container(self.cluster, node), node)
                elif action.action not in (Action.ENROL, Action.RELEASE_ADDRESS):
                    await self._create(node)
                await self._enrol(node, access, key)
                await self._answers(node)
            except CorralError as error:
                emit(Event(Kind.NODE_FAILED, "machines", node, error.message))
                raise
            took = time.monotonic() - began
            emit(Event(Kind.NODE_DONE, "machines", node, "sshd answers", took))

    async def _create(self, node: str) -> None:
        """Run a new container, or wait for the one that a killed Corral's podman still makes."""
        planned = await self._container(node)
        try:
            await self._podman.text(*planned.run(), node=node, timeout=180.0)
        except CorralError as error:
            taken = "already in use" in error.tail
            name = layout.container(self.cluster, node)
            if not taken or not await inventory.comes(self._podman, name, planned.made_from):
                raise

    async def _container(self, node: str) -> container.Container:
        declared = self._node(node)
        group = declared.group
        own = self._gpus.get(node, ())
        return container.Container(
            cluster=self.cluster,
            node=node,
            address=self.address(node),
            image=await self._images.reference(group.image),
            memory_mib=self.traits(node).memory_mib,
            stand_ins=group.gpu_count if not own else 0,
            own=own,
            driver=self._driver or host_gpus.HostGpus(),
            mounts=self._mounts,
            made_from=self._made_from(declared),
            limits=machine.host_limits(),
        )

    async def _enrol(self, node: str, access: Access, key: str) -> None:
        name = layout.container(self.cluster, node)
        identity = await self._podman.text("inspect", "--format", "{{.Id}}", name, node=node)
        script = container.enrol(node, self._mounts)
        try:
            host_key = await self._podman.text(
                *("exec", "--interactive", name, "/bin/sh", "-c", script),
                stdin=f"{key}\n".encode(),
                node=node,
                what="the node's first key could not be put in",
                hint=f"look at what it printed: podman logs {name}",
            )
        except CorralError as error:
            last = await inventory.last_lines(self._podman, name)
            error.tail = "\n".join(text for text in (error.tail, last) if text)
            raise
        access.pin(node, host_key.strip(), identity.strip())

    async def _answers(self, node: str) -> None:
        """Wait until sshd greets.

        Raises:
            CorralError: PROVIDER_FAILED, with the node's last lines.
        """
        address, name = self.address(node), layout.container(self.cluster, node)
        problem = f"sshd does not answer on {address}:{SSH_PORT} after {inventory.BOOT_S:.0f} s"
        end = time.monotonic() + inventory.BOOT_S
        next_check = time.monotonic() + CHECK_S
        while time.monotonic() < end:
            if await greets(address, SSH_PORT):
                return
            if time.monotonic() > next_check:
                if not await inventory.runs(self._podman, name):
                    problem = "the node ended while it booted"
                    break
                next_check = time.monotonic() + CHECK_S
            await asyncio.sleep(POLL_S)
        raise CorralError(
            Code.PROVIDER_FAILED,
            problem,
            node=node,
            tail=await inventory.last_lines(self._podman, name),
            hint=f"look inside: podman exec -it {name} systemctl status ssh; podman logs {name}",
        )

    def address(self, node: str) -> str:
        """The address the node has or will have."""
        return self._memory.machine(node).address

    def ssh_target(self, node: str) -> SshTarget:
        """Root, by the cluster's own key; the host key is under the node's name."""
        access = Access(cluster_dir(self.cluster, create=False))
        return SshTarget(
            self.address(node),
            port=SSH_PORT,
            key=access.key,
            known_hosts=access.known_hosts,
            options=KEX,
        )

    def predict(self, node: str) -> Facts:
        """This machine's CPUs, the node's share of memory, the image's system."""
        system = self._images.system(self._node(node).group.image)
        return machine.host_facts(
            node,
            memory=self.traits(node).memory_mib,
            address=self.address(node),
            os_id=system.os_id,
            os_version=system.os_version,
        )

    def traits(self, node: str) -> Traits:
        """The memory limit, GPU files and shared folders; the clock is this machine's."""
        group = self._node(node).group
        share = machine.memory_share(machine.host_memory_mib(), len(self._nodes))
        seen = self._memory.machine(node).memory_mib
        return Traits(
            memory_mib=seen or group.memory_mib or share,
            gpu_devices=tuple(gpu.device for gpu in self._gpus.get(node, ()))
            or container.devices(group.gpu_count),
            shared=self._mounts,
            own_clock=False,
        )

    async def destroy(self, emit: Emit) -> tuple[str, ...]:
        """Remove containers, network, volumes and keys; safe to repeat.

        Raises:
            CorralError: PROVIDER_FAILED, something is left.
        """
        gone = await removal.destroy(self._podman, self.cluster, emit)
        files = Access(cluster_dir(self.cluster, create=False)).remove()
        left = await self.leftovers()
        if left:
            raise CorralError(
                Code.PROVIDER_FAILED,
                f"{len(left)} things of cluster {self.cluster} are left",
                tail="\n".join(left),
                hint="run the same command again; podman's own message is above",
            )
        return (*gone, *(f"file {path}" for path in files))

    async def leftovers(self) -> list[str]:
        """Containers, networks and volumes with the cluster's label, and key files."""
        files = Access(cluster_dir(self.cluster, create=False)).files()
        objects = await removal.leftovers(self._podman, self.cluster)
        return [*objects, *(f"file {path}" for path in files)]

    def _node(self, name: str) -> Node:
        node = self._nodes.get(name)
        if node is None:
            raise CorralError(
                Code.NOT_FOUND,
                f"no embedded node called {name}",
                node=name,
                hint=f"embedded nodes: {', '.join(self._nodes) or 'none'}",
            )
        return node


def _without_root() -> CorralError:
    return CorralError(
        Code.FORBIDDEN,
        "embedded clusters are containers of root on this machine, and you are not root",
        hint="run it with sudo; to use one that is up, as one of its users: corral login USER@HOST "
        "(docs/guide/login.md)",
    )
