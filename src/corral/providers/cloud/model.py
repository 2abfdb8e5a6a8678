"""Rented machines as data: offers, labels, instances, and what every cloud can be asked.

A cloud is found again by label only: each instance carries the cluster, the node and a nonce in its
name (and in tags, where there are some). Prices are US dollars an hour.
Copied to controllers, whose Python may be 3.10 (``cloud.calls``).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Final, Protocol, runtime_checkable

PREFIX: Final = "corral-"
NAME_AT_MOST: Final = 60
"""The least that a cloud was seen to take; others document 64 or no limit."""

_MARK: Final = 8
_NONCE: Final = 6
LABEL_ROOM: Final = NAME_AT_MOST - len(PREFIX) - 2 - _MARK - _NONCE
"""Characters that the names of cluster and node may have together."""

_TAIL: Final = re.compile(rf"[0-9a-f]{{{_MARK + _NONCE}}}")


class _Word(str, Enum):  # StrEnum is of Python 3.11
    __str__ = str.__str__


class State(_Word):
    """What an instance is doing, in one vocabulary for all clouds."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPED = "stopped"
    BROKEN = "broken"  # it exists and costs money, and will not work (unhealthy, ERROR)
    ENDING = "ending"
    GONE = "gone"

    @property
    def exists(self) -> bool:
        """True while it can cost money and must be ended."""
        return self not in (State.ENDING, State.GONE)


class Capacity(_Word):
    """How likely a launch is to be taken; an advice, never a promise."""

    NONE = "none"
    LOW = "low"
    SOME = "some"
    HIGH = "high"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Label:
    """Whose an instance is: cluster, node, and a nonce that distinguishes two launches."""

    cluster: str
    node: str
    nonce: str

    @property
    def name(self) -> str:
        """The instance's name: ``corral-lab-gpu0-1a2b3c4d5e6f7a``.

        A digest of cluster and node comes before the nonce: without it nobody could distinguish
        node ``b-c`` of cluster ``a`` from node ``c`` of cluster ``a-b``.
        """
        return f"{PREFIX}{self.cluster}-{self.node}-{_mark(self.cluster, self.node)}{self.nonce}"


def _mark(cluster: str, node: str) -> str:
    return hashlib.sha256(f"{cluster}\0{node}".encode()).hexdigest()[:_MARK]


def label_of(name: str, cluster: str = "") -> Label | None:
    """The label in an instance's name, None when it is not Corral's (or not of that cluster)."""
    head, _, tail = name.rpartition("-")
    if not head.startswith(PREFIX) or not _TAIL.fullmatch(tail):
        return None
    words = head[len(PREFIX) :].split("-")
    for cut in range(1, len(words)):
        candidate, node = "-".join(words[:cut]), "-".join(words[cut:])
        if _mark(candidate, node) == tail[:_MARK]:
            return Label(candidate, node, tail[_MARK:]) if cluster in ("", candidate) else None
    return None


@dataclass(frozen=True, slots=True)
class Offer:
    """Something a cloud has on sale.

    Attributes:
        provider: its word in the cluster file.
        type: the cloud's own name of it.
        region: where, "" when the cloud chooses.
        gpu: the GPU's name as the cloud writes it, "" for none.
        gpus: GPUs of one instance.
        vcpus: logical CPUs, 0 when the cloud does not report it.
        memory_mib: memory, 0 when the cloud does not report it.
        price: dollars an hour of one instance, None when the cloud reports none before launch.
        capacity: whether it is available now, as far as the cloud reports.
    """

    provider: str
    type: str
    region: str
    gpu: str
    gpus: int
    vcpus: int
    memory_mib: int
    price: float | None
    capacity: Capacity


@dataclass(frozen=True, slots=True)
class Instance:
    """One rented machine as the cloud reports it.

    Attributes:
        provider: the cloud.
        id: the cloud's id.
        name: its name there.
        label: the label in its name, None when it is not Corral's.
        state: what it does.
        address: public address, "" while it has none.
        private_address: address inside the cloud, "" when it has none.
        port: port of its sshd.
        user: the account that takes the key.
        type: the cloud's name of what it is.
        region: where it is.
        price: dollars an hour, None when the cloud does not report it.
        created: Unix seconds, None when the cloud does not report it.
        detail: the cloud's own word for the state.
        group: id of the cloud's cluster that it is a member of; such a one ends with its cluster.
        rank: its place in that cluster. Its label is made from the cluster's, which names a group
            in the place of a node.
    """

    provider: str
    id: str
    name: str
    label: Label | None
    state: State
    address: str = ""
    private_address: str = ""
    port: int = 22
    user: str = "root"
    type: str = ""
    region: str = ""
    price: float | None = None
    created: float | None = None
    detail: str = ""
    group: str = ""
    rank: int = 0


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """One launch.

    Attributes:
        label: cluster and node that it is for.
        offer: machine type and region.
        public_key: the key that must be able to log in.
        boot: user data, run as root at its first start.
        dead_man_h: hours after which it ends automatically unless the limit is extended, 0 for
            never.
        image: image or template, "" for the cloud's own choice.
        disk_gib: size of its disk, where the cloud asks for one.
        volumes: file systems of the account to attach.
        launched: Unix seconds; kept in a tag where the cloud does not report it. 0: not kept.
    """

    label: Label
    offer: Offer
    public_key: str
    boot: str = ""
    dead_man_h: int = 0
    image: str = ""
    disk_gib: int = 100
    volumes: tuple[str, ...] = ()
    launched: float = 0.0


@dataclass(frozen=True, slots=True)
class Extra:
    """Something that is not an instance and was made for a cluster: an ssh key, a startup script.

    A cloud's own cluster is one as well; ``size`` is how many machines it was launched with.
    """

    provider: str
    kind: str
    id: str
    name: str
    size: int = 0

    def __str__(self) -> str:
        return f"{self.provider} {self.kind} {self.name} ({self.id})"


@dataclass(frozen=True, slots=True)
class Volume:
    """A file system of the account."""

    provider: str
    id: str
    name: str
    region: str
    gib: float | None = None
    mount: str = ""


@dataclass(frozen=True, slots=True)
class CloudTraits:
    """What a cloud can and cannot do; reported by the plan and by lint."""

    dead_man: str = ""
    no_dead_man: str = ""
    limits: str = ""
    notes: tuple[str, ...] = field(default=())


def member_label(label: Label, rank: int) -> Label:
    """The label of one member of a cloud's own cluster, which bears one name for all of them."""
    return Label(label.cluster, label.node, f"{label.nonce}.{rank}")


class CloudApi(Protocol):
    """One account of one cloud. Every method raises ``CloudError``."""

    name: ClassVar[str]
    traits: ClassVar[CloudTraits]

    async def check(self) -> None:
        """Ask whether the key is taken and the account can pay; changes nothing."""
        ...

    async def offers(self) -> tuple[Offer, ...]:
        """All that is on sale, with what is not available now."""
        ...

    async def instances(self) -> tuple[Instance, ...]:
        """All instances of the account that still exist or have just ended."""
        ...

    async def launch(self, request: LaunchRequest) -> str:
        """Rent one; never repeated automatically when it is not known whether it took effect.

        Returns:
            its id.
        """
        ...

    async def terminate(self, instances: Sequence[Instance]) -> None:
        """End them for good; those that are gone already are not an error. Safe to repeat."""
        ...

    async def stop(self, instance: Instance) -> None:
        """Switch it off and keep its disk, where the cloud can do that."""
        ...

    async def extras(self, cluster: str) -> tuple[Extra, ...]:
        """What else was made for a cluster."""
        ...

    async def remove(self, extra: Extra) -> None:
        """Remove it; one that is gone already is not an error."""
        ...

    async def volumes(self) -> tuple[Volume, ...]:
        """File systems of the account."""
        ...

    async def close(self) -> None:
        """Give up the connection."""
        ...


@runtime_checkable
class ClusterApi(CloudApi, Protocol):
    """A cloud that also rents several machines as one, with their own network."""

    async def cluster_offers(self) -> tuple[Offer, ...]:
        """As ``offers``, for machines of such a cluster; the price is that of one machine."""
        ...

    async def launch_cluster(self, request: LaunchRequest, nodes: int) -> str:
        """Rent them, all or none; never repeated automatically, as ``launch``.

        Args:
            request: of each machine; the label names the group in the place of a node.
            nodes: how many.

        Returns:
            id of the cluster; ``instances`` shows its machines with ``group`` set to it.
        """
        ...


class VolumesApi(CloudApi, Protocol):
    """An account where file systems can be made."""

    async def make_volume(self, name: str, region: str, gib: int) -> Volume:
        """Make one; where it has no size, ``gib`` is not used."""
        ...


class FirewallApi(CloudApi, Protocol):
    """An account with one set of inbound rules: changed only by ``client.accounts.change``."""

    async def firewall_rules(self) -> tuple[dict[str, Any], ...]:
        """The set."""
        ...

    async def set_firewall_rules(self, rules: Sequence[dict[str, Any]]) -> None:
        """Replace it."""
        ...


class AccountKeysApi(CloudApi, Protocol):
    """An account with one set of ssh keys: changed only by ``client.accounts.change``."""

    async def ssh_keys(self) -> tuple[str, ...]:
        """The set."""
        ...

    async def set_ssh_keys(self, keys: Sequence[str]) -> None:
        """Replace it."""
        ...
