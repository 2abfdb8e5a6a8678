"""Where machines come from: the Provider protocol and its data.

A provider observes (read-only), plans (pure: from what was declared and what was observed) and
applies. It keeps no state file: what exists is found by label. Nothing here runs on a node; how a
node is reached is given as data (``SshTarget``) to the transport.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar, Protocol

from corral.errors import Code, CorralError, NodesFailedError
from corral.events import Emit
from corral.hosts.target import SshTarget
from corral.inspect.facts import Facts, Traits
from corral.spec.nodes import Node


class Action(StrEnum):
    """What a provider does with one machine."""

    CREATE = "create"
    START = "start"
    ENROL = "enrol"  # it runs, but this machine's key is not in it (lost folder, killed create)
    RELEASE_ADDRESS = "release-address"  # it runs, but an ended container left its address occupied
    RECREATE = "recreate"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class MachineAction:
    """One action on one machine, with one line for people."""

    node: str
    action: Action
    summary: str


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine as it was seen.

    Attributes:
        node: the node it is.
        exists: it is there at all.
        running: it is started.
        address: the address it has or will have.
        enrolled: this machine's key opens it and its host key is pinned.
        made_from: digest of what it was made from, "" when the provider does not make machines.
        memory_mib: memory it may use, 0 when that is the machine's own.
        gpus: GPUs of this machine that it has: device file by uuid.
        boots_until: unix seconds until which a running machine that does not answer may be
            booting, 0 when that is not known.
        contested: something else answers at its address that its provider can remove.
    """

    node: str
    exists: bool
    running: bool
    address: str
    enrolled: bool = True
    made_from: str = ""
    memory_mib: int = 0
    gpus: Mapping[str, str] = field(default_factory=dict[str, str])
    boots_until: float = 0.0
    contested: bool = False


@dataclass(frozen=True, slots=True)
class Observed:
    """What a provider saw.

    Attributes:
        machines: one per declared node, in the order of the nodes, existing or not.
        strays: machines of this cluster that are declared no longer.
        network: the subnet that the provider gave or will give, "" when it gives none.
        refusal: why what is missing cannot be made (no such type, budget): a plan raises it, while
            whoever looks only, ends or uses what is there goes on.
    """

    machines: Mapping[str, Machine]
    strays: tuple[str, ...] = ()
    network: str = ""
    refusal: CorralError | None = None


@dataclass(slots=True)
class Memory:
    """What a provider keeps between calls of one run: the last observation."""

    observed: Observed = field(default_factory=lambda: Observed(MappingProxyType({})))

    def machine(self, node: str) -> Machine:
        """The machine as last seen.

        Raises:
            CorralError: NOT_FOUND, the node is not this provider's or was not observed.
        """
        machine = self.observed.machines.get(node)
        if machine is None:
            raise CorralError(
                Code.NOT_FOUND,
                f"no machine is known for node {node}",
                node=node,
                hint="observe first",
            )
        return machine


class Provider(Protocol):
    """Where the nodes of one cluster come from. Made from the cluster file: ``cls(spec)``."""

    name: ClassVar[str]
    """The word in the cluster file."""

    owned: ClassVar[bool]
    """Its machines belong to the user; nobody makes or ends them."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The declared nodes that are this provider's."""
        ...

    async def read_machines(self) -> Observed:
        """Read what is there; changes nothing. Call it before the methods below."""
        ...

    def plan(self, observed: Observed) -> tuple[MachineAction, ...]:
        """What is to be done, from what is declared and what was observed. Pure."""
        ...

    async def prepare(self, emit: Emit) -> None:
        """Make what machines are made from (images), when it is not there yet."""
        ...

    async def apply(self, actions: Sequence[MachineAction], emit: Emit) -> None:
        """Do what was planned, all machines at once, until sshd answers on each.

        Raises:
            CorralError: PROVIDER_FAILED and others; NodesFailedError for several nodes.
        """
        ...

    def address(self, node: str) -> str:
        """The address a node has, or will have when it is created."""
        ...

    def ssh_target(self, node: str) -> SshTarget:
        """How the node is reached."""
        ...

    def predict(self, node: str) -> Facts:
        """What a machine that does not exist yet will be, as far as it can be known."""
        ...

    def traits(self, node: str) -> Traits:
        """What roles must know about the node beyond its facts."""
        ...

    async def destroy(self, emit: Emit) -> tuple[str, ...]:
        """Remove all of the cluster that this provider made; safe to repeat.

        Returns:
            what was removed, such as ``container corral-lab-node0``.

        Raises:
            CorralError: PROVIDER_FAILED, something is left.
        """
        ...

    async def leftovers(self) -> list[str]:
        """Everything that still carries the cluster's label."""
        ...


def raise_failed(ends: Sequence[BaseException | None]) -> None:
    """Raise what bringing up several machines ended with, if any of them failed.

    Raises:
        CorralError: that of the one machine; NodesFailedError for several. What is not an error of
            ours is raised as it is, before all others.
    """
    failed = tuple(e for e in ends if isinstance(e, CorralError))
    for other in ends:
        if other is not None and not isinstance(other, CorralError):
            raise other
    if len(failed) == 1:
        raise failed[0]
    if failed:
        first = failed[0]
        raise NodesFailedError(
            first.code,
            f"{len(failed)} nodes did not come up; the first: {first}",
            command=first.command,
            tail=first.tail,
            hint=first.hint,
            errors=failed,
        )
