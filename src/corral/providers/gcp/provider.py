"""Provider gcp: machines that Google's Cluster Toolkit makes, all of a cluster at once."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind
from corral.extras import missing_extra
from corral.hosts import sshkeys
from corral.hosts.keysetup import KNOWN_HOSTS, keys_dir
from corral.hosts.openssh import OpenSSH, control_dir
from corral.hosts.target import SshTarget
from corral.inspect.facts import Facts, Traits
from corral.inspect.slurm import UP
from corral.providers.base import Action, Machine, MachineAction, Memory, Observed
from corral.providers.cloud.errors import CloudError, Reason
from corral.providers.cloud.response import records
from corral.providers.gcp.deployment import Making
from corral.providers.gcp.figures import figures
from corral.providers.gcp.image import Image, made_at
from corral.providers.gcp.machines import cpus_of, gpu_machine_of, gpu_machines, zone_type_of
from corral.providers.gcp.preflight import Answers, Trouble, require_none, troubles
from corral.providers.gcp.recovery import (
    IMAGE_MACHINE,
    Origin,
    delete_disk,
    delete_machine,
    disk_deletion,
    made_then,
)
from corral.providers.gcp.section import Gcp
from corral.providers.gcp.toolkit_cluster import login_of, section_of
from corral.providers.gcp.warm_up import warm_up
from corral.runtime.tasks import concurrently
from corral.spec.models import ClusterSpec
from corral.spec.nodes import Node, controller_of, nodes_of

if TYPE_CHECKING:
    from corral.providers.gcp.google import Google

NODES_S: Final = 1800.0
"""Seconds after Terraform's end until all machines run and Slurm answers: their first boot."""
POLL_S: Final = 10.0
GCLOUD_KEY: Final = "~/.ssh/google_compute_engine"
"""What ``gcloud compute ssh`` makes and OS Login knows."""


class GcpProvider:
    """The nodes of groups with ``provider: gcp``.

    Args:
        spec: the cluster file.
        google: the API to ask; None: Google's, with this machine's credentials.
        poll: seconds between two polls while machines come up.
    """

    name: ClassVar[str] = "gcp"
    owned: ClassVar[bool] = False

    def __init__(
        self, spec: ClusterSpec, google: Google | None = None, poll: float = POLL_S
    ) -> None:
        gcp = section_of(spec)
        if gcp is None:
            raise CorralError(Code.SPEC_INVALID, "no project and zone given", hint="add gcp:")
        self._spec, self._gcp, self._given, self._poll = spec, gcp, google, poll
        self.cluster = spec.name
        self._nodes = {n.name: n for n in nodes_of(spec) if n.group.provider == self.name}
        self._making = Making(spec, gcp.toolkit, poll)
        self._memory = Memory()
        self._instances: dict[str, dict[str, Any]] = {}
        self._troubles: tuple[Trouble, ...] = ()

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The declared nodes of gcp groups."""
        return tuple(self._nodes.values())

    async def read_machines(self) -> Observed:
        """Ask Google for the cluster's machines; before there are any, also what would stop it.

        Raises:
            CorralError: NOT_FOUND, no credentials; PROVIDER_FAILED, the API refuses.
        """
        google = await self._open()
        try:
            instances = await self._listed(google)
            self._instances = {str(instance["name"]): instance for instance in instances}
            self._troubles = ()
            if controller_of(self._spec) not in self._instances:
                answers = await ask(google, self._gcp, self._spec, self._machines())
                self._troubles = troubles(self._spec, self._gcp, answers)
        finally:
            await self._close(google)
        machines = {n.name: self._machine(n.name) for n in self.nodes}
        strays = tuple(
            name
            for name, instance in self._instances.items()
            if name not in self._nodes and _role(instance) == "compute"
        )
        self._memory.observed = Observed(machines, strays)
        return self._memory.observed

    async def _listed(self, google: Google) -> list[dict[str, Any]]:
        """The cluster's machines; none where the zone does not exist: the preflight reports it."""
        try:
            return await google.instances(self._gcp.zone, self.cluster)
        except CloudError as error:
            if error.reason is Reason.MISSING and await google.zone(self._gcp.zone) is None:
                return []
            raise

    def _machines(self) -> Counter[str]:
        """How many machines of each type the cluster has."""
        types = (str(instance.get("machineType", "")) for instance in self._instances.values())
        return Counter(url.rpartition("/")[2] for url in types)

    def _machine(self, node: str) -> Machine:
        instance = self._instances.get(node)
        if instance is None:
            return Machine(node, exists=False, running=False, address="")
        runs = instance.get("status") == "RUNNING"
        return Machine(node, exists=True, running=runs, address=_inner(instance))

    def plan(self, observed: Observed) -> tuple[MachineAction, ...]:
        """All of it by gcluster, where machines are missing or too many, or it has to run again."""
        actions = [
            MachineAction(n, Action.REMOVE, f"{n} is declared no longer") for n in observed.strays
        ]
        missing = [n for n in self.nodes if not observed.machines[n.name].exists]
        for node in missing:
            actions.append(MachineAction(node.name, Action.CREATE, self._line(node)))
        for node in self.nodes:
            machine = observed.machines[node.name]
            if machine.exists and not machine.running:
                status = self._instances[node.name].get("status")
                text = f"{node.group.machine or 'controller'} is {status}"
                actions.append(MachineAction(node.name, Action.START, text))
        text = ""
        if self._making.unfinished:
            text = "gcluster's last run failed, was killed or removed it: it makes what is missing"
        elif self._making.changed:
            text = "the file has changed since gcluster made this: Terraform changes what that asks"
        if text and not actions:
            actions.append(MachineAction(controller_of(self._spec), Action.RECREATE, text))
        return tuple(actions)

    def _line(self, node: Node) -> str:
        how = self._gcp.provisioning
        name = f" {self._gcp.reservation}" if self._gcp.reservation else ""
        what = node.group.machine or "controller"
        if what in gpu_machines():
            what += f" by {how}{name}"
        text = f"{what} in {self._gcp.zone}, by gcluster {self._gcp.toolkit}"
        if self._troubles and not node.group.machine:
            text += f"; Google would refuse it: {self._troubles[0].text}"
        return text

    async def prepare(self, emit: Emit) -> None:
        """Nothing: the image is a part of what gcluster makes."""

    async def apply(self, actions: Sequence[MachineAction], emit: Emit) -> None:
        """Have gcluster make what the file declares, and wait until Slurm answers.

        Raises:
            CorralError: NOT_GOOD, Google would refuse it, and nothing was made; MISSING_TOOL;
                PROVIDER_FAILED, with Google's message: what was made stays, and the same again
                goes on from there; TIMED_OUT.
        """
        if not actions:
            return
        await self._making.program.require()
        require_none(self._spec, self._troubles)
        await self._clear(emit)
        await self._making.make(self._images, emit, self._origin_of)
        for action in actions:
            sshkeys.unpin(keys_dir(self.cluster) / KNOWN_HOSTS, action.node)
        await self._until_it_answers(emit)
        created = [action.node for action in actions if action.action is Action.CREATE]
        controller = controller_of(self._spec)
        ssh = OpenSSH(controller, self.ssh_target(controller), control_dir=control_dir())
        await warm_up(self._spec, created, ssh, emit)

    async def _until_it_answers(self, emit: Emit) -> None:
        """All declared machines run, and slurmctld answers on the controller."""
        controller, began = controller_of(self._spec), time.monotonic()
        emit(
            Event(Kind.NODE_STARTED, "machines", controller, "boots; then slurm-gcp sets up Slurm")
        )
        last = "it does not exist"
        while time.monotonic() - began < NODES_S:
            observed = await self.read_machines()
            away = [n for n, m in observed.machines.items() if not m.running]
            if controller not in away:
                last = await self._ping(controller)
                if not last and not away:
                    took = time.monotonic() - began
                    emit(Event(Kind.NODE_DONE, "machines", controller, "Slurm answers", took))
                    return
                last = last or f"{', '.join(away)} not there yet"
            await asyncio.sleep(self._poll)
        error = CorralError(
            Code.TIMED_OUT,
            f"after {NODES_S / 60:.0f} minutes it is not up: {last}",
            node=controller,
            hint=f"corral ssh {controller}, and read /var/log/slurm/setup.log and slurmctld.log; "
            "refused machines are logged in /var/log/slurm/resume.log",
        )
        emit(Event(Kind.NODE_FAILED, "machines", controller, error.message))
        raise error

    async def _ping(self, controller: str) -> str:
        """Why Slurm does not answer there, "" when it does."""
        ssh = OpenSSH(controller, self.ssh_target(controller), control_dir=control_dir())
        try:
            return "" if (await ssh.run(UP.shell, timeout=60)).ok else "slurmctld does not answer"
        except CorralError as error:
            if error.code in (Code.UNREACHABLE, Code.TIMED_OUT):
                return error.message
            raise

    def address(self, node: str) -> str:
        """The address on the system network, "" while there is no machine."""
        return self._memory.machine(node).address

    def ssh_target(self, node: str) -> SshTarget:
        """By its public address where it has one, else through Google's IAP (gcloud's tunnel)."""
        ssh = self._node(node).group.ssh
        outer = _outer(self._instances.get(node, {}))
        # IAP is open on the toolkit's networks (modules/network/vpc, allow_iap_ssh_ingress).
        tunnel = (
            f"gcloud compute start-iap-tunnel {node} %p --listen-on-stdin --verbosity=warning"
            f" --project={self._gcp.project} --zone={self._gcp.zone}"
        )
        key = Path(ssh.key or GCLOUD_KEY).expanduser()
        return SshTarget(
            outer or node,
            port=ssh.port,
            user=ssh.user if ssh.user != "root" else login_of(self._spec) or "root",
            key=key if ssh.key or key.exists() else None,
            known_hosts=keys_dir(self.cluster) / KNOWN_HOSTS,
            user_config=True,
            pin_new=True,
            only_key=False,
            options=() if outer else ("-o", f"ProxyCommand={tunnel}"),
            connect_timeout=30,
        )

    def predict(self, node: str) -> Facts:
        """What the machine type is known to be; its image is Ubuntu."""
        machine = self._node(node).group.machine
        own = gpu_machine_of(self._spec)
        big = gpu_machines().get(machine or "")
        cpus = cpus_of(own.servers.controller)
        gib = cpus * (2 if "-highcpu-" in own.servers.controller else 4)
        if plain := figures().cpu_machines.get(machine or ""):
            cpus, gib = plain.cpus, plain.gib
        if big:
            cpus, gib = big.cpus, big.memory_gib
        old = self._gcp.toolkit == "v1.39.0"
        return Facts(
            node=node,
            os_id="ubuntu",
            os_version="22.04" if old else "24.04",
            kernel="",
            cpus=cpus,
            sockets=2 if big else 1,
            cores_per_socket=big.cores_per_socket if big else cpus // own.threads_per_core,
            threads_per_core=own.threads_per_core,
            memory_mib=gib * 1024,
            cgroup="v2",
            systemd=True,
            address="",
        )

    def traits(self, node: str) -> Traits:
        """Nothing beyond the facts."""
        self._node(node)
        return Traits()

    async def destroy(self, emit: Emit) -> tuple[str, ...]:
        """Have gcluster remove all deployments, the last one first, and list what is left.

        The image stays: gcluster does not remove what Packer made, and it costs little.

        Raises:
            CorralError: PROVIDER_FAILED, gcluster failed, or machines, disks or networks are left;
                TIMED_OUT, all but the disk of an image is removed that Google is still making.
        """
        await self._clear_machines(emit)
        gone = await self._making.remove(emit)
        # Afterwards, as it waits for an image that Google is making, and machines cost meanwhile.
        await self._clear_disks(emit)
        (keys_dir(self.cluster) / KNOWN_HOSTS).unlink(missing_ok=True)
        left, disks, images, unknown = await self._left()
        if left or disks:
            raise CorralError(
                Code.PROVIDER_FAILED,
                f"gcluster succeeded, and {len(left + disks)} things of {self.cluster} are left",
                tail="\n".join(left + disks),
                hint=self._what_next(left, disks),
            )
        kept = (*(f"kept {image}" for image in images), *unknown)
        return (*gone, *(f"{self.cluster}: {text}" for text in kept))

    def _what_next(self, left: Sequence[str], disks: Sequence[str]) -> str:
        """What a person does about what is left."""
        # Corral deletes a disk only where it knows of the killed run that left it.
        by_hand = "the command printed with each disk deletes it"
        if not left:
            return f"{by_hand}, then this command again"
        if self._making.killed:
            text = "corral up, which adopts what a killed run made, then this command again"
        else:
            text = "the same command tries again; what something else uses must go first"
        return f"{by_hand}; {text}" if disks else text

    async def _clear(self, emit: Emit) -> None:
        """Delete what killed runs left that were making an image."""
        await self._clear_machines(emit)
        await self._clear_disks(emit)

    async def _clear_machines(self, emit: Emit) -> None:
        """Delete machines that an image was to be made on by a run that was killed."""
        await self._making.program.runs.settle(emit)
        killed = self._making.killed
        if not killed:
            return
        place = f"projects/{self._gcp.project}/zones/{self._gcp.zone}/instances"
        google = await self._open()
        try:
            origins = [
                (name, await google.origin("google_compute_instance", f"{place}/{name}"))
                for name in await self._image_machines(google)
            ]
        finally:
            await self._close(google)
        for name, origin in origins:
            if origin and made_then(origin.made, killed.get(origin.deployment, ())):
                await delete_machine(self._gcp.project, self._gcp.zone, name, disk=True)
                text = f"deleted {name}: a run that was killed was making the image on it"
                emit(Event(Kind.NOTE, "machines", message=text))

    async def _clear_disks(self, emit: Emit) -> None:
        """Delete disks of which killed runs made an image, once Google has finished it.

        One that has no label, no machine and no image may be another cluster's: it is named.

        Raises:
            CorralError: PROVIDER_FAILED; TIMED_OUT.
        """
        killed = tuple(w for windows in self._making.killed.values() for w in windows)
        if not killed:
            return
        images = await self._making.finished(self._images, emit)
        mine = self._image_disks(images)
        google = await self._open()
        try:
            disks = await google.image_disks(self._gcp.zone)
        finally:
            await self._close(google)
        place = (self._gcp.project, self._gcp.zone)
        for disk in disks:
            name = str(disk["name"])
            if disk.get("users") or not made_then(made_at(disk) or 0.0, killed):
                continue
            if name in mine:
                await delete_disk(*place, name)
                text = f"deleted disk {name}: a run that was killed made the image of it"
            else:
                text = (
                    f"disk {name} has no label, and may be of the image that a killed run was "
                    f"making: if nobody else makes one: {disk_deletion(*place, name)}"
                )
            emit(Event(Kind.NOTE, "machines", message=text))

    def _image_disks(self, images: Sequence[Image]) -> set[str]:
        """Names of the disks that this cluster's images are made of."""
        place = f"projects/{self._gcp.project}/zones/{self._gcp.zone}/disks/"
        mine = (i.disk for i in images if i.deployment in self._making.deployments)
        return {disk.removeprefix(place) for disk in mine if disk.startswith(place)}

    async def _image_machines(self, google: Google) -> list[str]:
        """Machines that an image of this cluster is made on now, or was to be."""
        return [
            str(machine["name"])
            for deployment in self._making.deployments
            for machine in await google.deployed(self._gcp.zone, deployment)
            if IMAGE_MACHINE.fullmatch(str(machine["name"]))
        ]

    async def _origin_of(self, type: str, id: str) -> Origin | None:
        google = await self._open()
        try:
            return await google.origin(type, id)
        finally:
            await self._close(google)

    async def leftovers(self) -> list[str]:
        """Machines, disks, networks, file systems and buckets of the cluster, and its images."""
        return [text for texts in await self._left() for text in texts]

    async def _left(self) -> tuple[list[str], list[str], list[str], list[str]]:
        """What costs money, disks that images are made of, images, and what is unknown."""
        google = await self._open()
        try:
            zone = self._gcp.zone
            left = [
                f"{what} {resource['name']}"
                for what, resources in (
                    ("machine", await google.instances(zone, self.cluster)),
                    ("disk", await google.disks(zone, self.cluster)),
                    ("network", await google.networks(f"{self.cluster}-")),
                )
                for resource in resources
                if not (what == "network" and resource["name"] == self._existing_network())
            ]
            left += [f"machine {name}" for name in await self._image_machines(google)]
            stores, unknown = await self._stores(google)
            images = await google.images(self._making.family)
            mine = self._image_disks(images)
            names = [str(disk["name"]) for disk in await google.image_disks(zone)]
            place = (self._gcp.project, zone)
            disks = [f"disk {n} ({disk_deletion(*place, n)})" for n in names if n in mine]
        finally:
            await self._close(google)
        delete = f"gcloud compute images delete {{}} --project {self._gcp.project}"
        kept = [f"image {i.name} ({delete.format(i.name)})" for i in images]
        return [*left, *stores], disks, kept, unknown

    async def _stores(self, google: Google) -> tuple[list[str], list[str]]:
        """File systems and buckets that are left, and kinds that this account may not list."""
        left: list[str] = []
        unknown: list[str] = []
        kinds = {s.kind for s in self._gcp.file_systems() if s.existing is None}
        for kind in sorted(kinds & figures().stores.keys()):
            what = figures().stores[kind].what
            try:
                for deployment in self._making.deployments:
                    stores = await google.stores(kind, self._gcp.zone, deployment)
                    left += [f"{what} {store['name']}" for store in stores]
            except CloudError as error:
                if error.reason is not Reason.FORBIDDEN:
                    raise
                unknown.append(f"whether a {what} of {kind} is left is unknown: {error.message}")
        return left, unknown

    def _existing_network(self) -> str:
        """Name of the network that was there before, whatever it begins with; "" for none."""
        return self._gcp.network.name if self._gcp.network else ""

    async def _images(self) -> list[Image]:
        google = await self._open()
        try:
            return await google.images(self._making.family)
        finally:
            await self._close(google)

    async def _open(self) -> Google:
        if self._given is not None:
            return self._given
        try:
            from corral.providers.gcp.google import Google  # noqa: PLC0415  # wants httpx
        except ModuleNotFoundError as error:
            raise missing_extra("clouds", "Google Cloud", error.name or str(error)) from error
        return await Google.open(self._gcp.project)

    async def _close(self, google: Google) -> None:
        if self._given is None:
            await google.close()

    def _node(self, name: str) -> Node:
        node = self._nodes.get(name)
        if node is None:
            raise CorralError(
                Code.NOT_FOUND,
                f"no gcp node called {name}",
                node=name,
                hint=f"gcp nodes: {', '.join(self._nodes) or 'none'}",
            )
        return node


async def ask(google: Google, gcp: Gcp, spec: ClusterSpec, machines: Mapping[str, int]) -> Answers:
    """All that the preflight needs, asked at once.

    Args:
        google: the API.
        gcp: the file's section.
        spec: the cluster.
        machines: how many of each type are there already.
    """
    region = gcp.zone.rpartition("-")[0]

    async def none() -> None:
        return None

    zone, machine, reservation, quotas, project, networks = await concurrently(
        google.zone(gcp.zone),
        google.machine_type(gcp.zone, zone_type_of(spec)),
        google.reservation(gcp.zone, gcp.reservation) if gcp.reservation else none(),
        google.region(region),
        google.project(),
        _networks(google),
    )
    name = gcp.network.name if gcp.network else ""
    there = next((network for network in networks if network["name"] == name), None)
    own = [n for n in networks if str(n["name"]).startswith(f"{spec.name}-") and n is not there]
    return Answers(
        zone,
        machine,
        reservation,
        quotas,
        project,
        networks=len(own),
        subnetworks=sum(len(network.get("subnetworks", ())) for network in own),
        machines=machines,
        network=there,
    )


async def _networks(google: Google) -> list[dict[str, Any]]:
    """All networks; none where the project does not exist: the preflight reports it."""
    try:
        return await google.networks("")
    except CloudError as error:
        if error.reason is Reason.MISSING and await google.project() is None:
            return []
        raise


def _inner(instance: Mapping[str, Any]) -> str:
    interfaces = records(instance.get("networkInterfaces", []))
    return str(interfaces[0].get("networkIP", "")) if interfaces else ""


def _outer(instance: Mapping[str, Any]) -> str:
    for nic in records(instance.get("networkInterfaces", [])):
        for access in records(nic.get("accessConfigs", [])):
            if access.get("natIP"):
                return str(access["natIP"])
    return ""


def _role(instance: Mapping[str, Any]) -> str:
    labels = cast("Mapping[str, str]", instance.get("labels", {}))
    return labels.get("slurm_instance_role", "")
