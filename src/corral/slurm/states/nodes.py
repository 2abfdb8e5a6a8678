"""Node states: what a base state and its flags mean, and whether a job could be started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Final

from corral.errors import Code, CorralError
from corral.tables import Row, read_table


class NodeBase(StrEnum):
    """Base states: a node is in exactly one (node_states[] of slurm_protocol_defs.c)."""

    UNKNOWN = "UNKNOWN"
    DOWN = "DOWN"
    IDLE = "IDLE"
    ALLOCATED = "ALLOCATED"
    ERROR = "ERROR"
    MIXED = "MIXED"
    FUTURE = "FUTURE"


class Effect(StrEnum):
    """What a flag does to a node whose base state is idle, mixed or allocated."""

    NONE = "none"
    CLOSED = "closed"
    BROKEN = "broken"


class Flag(Row):
    """A flag next to the base state.

    Attributes:
        effect: on whether jobs are started.
        means: in words.
        silent: its slurmd does not answer slurmctld.
        misconfigured: its slurmd registered with less than slurm.conf declares.
        serviced: people or a reboot are at work on the node.
    """

    effect: Effect
    means: str
    silent: bool = False
    misconfigured: bool = False
    serviced: bool = False


class Base(Row):
    """A base state and what it means in words."""

    base: NodeBase
    means: str


@cache
def node_bases() -> Mapping[NodeBase, str]:
    """What each base state means (``node_bases.yaml``)."""
    rows = read_table("corral.slurm.states", "node_bases.yaml", tuple[Base, ...])
    return MappingProxyType({row.base: row.means for row in rows})


@cache
def node_flags() -> Mapping[str, Flag]:
    """All flags that are known (``node_flags.toml``), as scontrol and slurmrestd write them."""
    return MappingProxyType(read_table("corral.slurm.states", "node_flags.toml", dict[str, Flag]))


POWERED_DOWN: Final = "POWERED_DOWN"
"""The flag of a node whose machine Slurm has ended."""
POWERED_OFF: Final = frozenset({POWERED_DOWN, "POWERING_DOWN"})
"""Flags of a node whose machine Slurm has ended, or is ending."""
POWERING_UP: Final = "POWERING_UP"
"""The flag of a node that is waited for."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node's state: one base state and any flags."""

    base: NodeBase
    flags: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str) -> NodeState:
        """Read ``IDLE+DRAIN`` (also ``DOWN*``, sinfo's sign for a node that does not answer).

        Flags that a later release may bring are kept, not refused.

        Raises:
            CorralError: the base state is unknown.
        """
        base, *flags = text.strip().replace("*", "").upper().split("+")
        known = NodeBase.__members__.get(base)
        if known is None:
            raise CorralError(
                Code.PARSE_FAILED,
                f"{text[:60]!r} is not a node state",
                hint="a newer Slurm than Corral knows? corral doctor shows the versions",
            )
        starred = {"NOT_RESPONDING"} if "*" in text else set[str]()
        return cls(known, frozenset(flags) | starred)

    def __str__(self) -> str:
        return "+".join([self.base.value, *sorted(self.flags)])

    @property
    def drained(self) -> bool:
        """Takes no new jobs because somebody or something drained it."""
        return "DRAIN" in self.flags

    @property
    def resumable(self) -> bool:
        """Drained or down: what ``State=RESUME`` takes back."""
        return self.drained or self.base in (NodeBase.DOWN, NodeBase.ERROR)

    @property
    def misconfigured(self) -> bool:
        """Its machine has less than slurm.conf declares."""
        return any(flag.misconfigured for flag in self._known)

    @property
    def silent(self) -> bool:
        """Its slurmd does not answer slurmctld."""
        return any(flag.silent for flag in self._known)

    @property
    def registered(self) -> bool:
        """Its slurmd is registered with what is configured, and answers."""
        away = self.base in (NodeBase.DOWN, NodeBase.UNKNOWN, NodeBase.FUTURE)
        return not away and not self.silent and not self.misconfigured

    @property
    def broken(self) -> bool:
        """Down, silent or registered with less than configured."""
        down = self.base in (NodeBase.DOWN, NodeBase.ERROR)
        return down or Effect.BROKEN in self._effects

    @property
    def serviced(self) -> bool:
        """In a maintenance reservation, or to be rebooted."""
        return any(flag.serviced for flag in self._known)

    @property
    def in_service(self) -> bool:
        """Neither drained nor broken: there is nothing to resume, also where it is powered down."""
        return not self.drained and not self.broken

    @property
    def unknown_flags(self) -> tuple[str, ...]:
        """Flags that no Slurm up to 26.05 has: what they do to the node is unknown."""
        return tuple(sorted(self.flags - node_flags().keys()))

    @property
    def usable(self) -> bool:
        """A job could be started here now or once the jobs on it end, and nothing is unknown."""
        open_base = self.base in (NodeBase.IDLE, NodeBase.MIXED, NodeBase.ALLOCATED)
        return open_base and self._effects <= {Effect.NONE} and not self.unknown_flags

    @property
    def words(self) -> tuple[str, ...]:
        """What each flag means."""
        known = node_flags()
        return tuple(
            known[flag].means
            if flag in known
            else f"{flag} is unknown to Corral: whether it takes jobs is unknown"
            for flag in sorted(self.flags)
        )

    @property
    def _effects(self) -> set[Effect]:
        return {flag.effect for flag in self._known}

    @property
    def _known(self) -> list[Flag]:
        if not self.flags:
            return []
        table = node_flags()
        return [table[flag] for flag in self.flags if flag in table]

    @property
    def idle(self) -> bool:
        """Usable, and no job on it nor being cleaned up."""
        return self.base is NodeBase.IDLE and self.usable and "COMPLETING" not in self.flags
