"""Node states: what a base state and its flags mean, and whether a job could be started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Final

from corral.errors import Code, CorralError


class NodeBase(StrEnum):
    """Base states: a node is in exactly one (node_states[] of slurm_protocol_defs.c)."""

    UNKNOWN = "UNKNOWN"
    DOWN = "DOWN"
    IDLE = "IDLE"
    ALLOCATED = "ALLOCATED"
    ERROR = "ERROR"
    MIXED = "MIXED"
    FUTURE = "FUTURE"


class Effect(Enum):
    """What a flag does to a node whose base state is idle, mixed or allocated."""

    NONE = "jobs are started there"
    CLOSED = "no job is started there, on purpose or for a while"
    BROKEN = "no job is started there, and something is wrong"


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag next to the base state: its effect, and what it means in words."""

    effect: Effect
    words: str


NODE_FLAGS: Final[Mapping[str, Flag]] = MappingProxyType(
    {
        "BLOCKED": Flag(Effect.NONE, "kept free of others by a job with --exclusive=topo"),
        "CLOUD": Flag(Effect.NONE, "rented when a job needs it"),
        "COMPLETING": Flag(Effect.NONE, "a job is being cleaned up"),
        "DRAIN": Flag(Effect.CLOSED, "takes no new jobs"),
        "DYNAMIC_FUTURE": Flag(Effect.NONE, "took a place that was declared for later"),
        "DYNAMIC_NORM": Flag(Effect.NONE, "registered itself"),
        "EXTERNAL": Flag(Effect.CLOSED, "not managed by Slurm"),
        "FAIL": Flag(Effect.BROKEN, "about to be taken out by request"),
        "INVALID": Flag(Effect.BROKEN, "reports less than its configuration declares"),
        "INVALID_REG": Flag(Effect.BROKEN, "reports less than its configuration declares"),
        "MAINT": Flag(Effect.CLOSED, "in a maintenance reservation"),
        "MAINTENANCE": Flag(Effect.CLOSED, "in a maintenance reservation"),
        "NOT_RESPONDING": Flag(Effect.BROKEN, "slurmd does not answer the controller"),
        "NO_RESPOND": Flag(Effect.BROKEN, "slurmd does not answer the controller"),
        "PERFCTRS": Flag(Effect.NONE, "performance counters in use"),
        "PLANNED": Flag(Effect.NONE, "kept free for a larger job"),
        "POWERED_DOWN": Flag(Effect.CLOSED, "powered down"),
        "POWERING_DOWN": Flag(Effect.CLOSED, "being powered down"),
        "POWERING_UP": Flag(Effect.CLOSED, "being powered up"),
        "POWER_DOWN": Flag(Effect.CLOSED, "will be powered down"),
        "POWER_DRAIN": Flag(Effect.CLOSED, "will be powered down once its jobs end"),
        "POWER_UP": Flag(Effect.CLOSED, "will be powered up"),
        "REBOOT_CANCELED": Flag(Effect.NONE, "its reboot was canceled"),
        "REBOOT_ISSUED": Flag(Effect.CLOSED, "rebooting"),
        "REBOOT_REQUESTED": Flag(Effect.CLOSED, "reboots once its jobs end"),
        "RES": Flag(Effect.NONE, "reserved"),
        "RESERVED": Flag(Effect.NONE, "reserved"),
        "RESUME": Flag(Effect.NONE, "being resumed"),
        "UNDRAIN": Flag(Effect.NONE, "drain is being lifted"),
    }
)
"""Flags next to the base state: NODE_STATE_* of slurm.h, in the words of scontrol and slurmrestd.

slurm.h has "do not allocate new work" for DRAIN and FAIL, "signal power down asap" for POWER_DRAIN
(slurmctld drains the node for it and takes POWER_DOWN out of those that jobs get, node_mgr.c), and
for BLOCKED, PLANNED, RES and UNDRAIN only who comes first. A flag that is not in this table is of a
later Slurm: half of those known close a node, so its effect is unknown, and ``usable`` is not
claimed.
"""

POWERED_OFF: Final = frozenset({"POWERED_DOWN", "POWERING_DOWN"})
"""Flags of a node whose machine Slurm has ended, or is ending."""
POWERING_UP: Final = "POWERING_UP"
"""The flag of a node that is waited for."""
_SILENT: Final = frozenset({"NOT_RESPONDING", "NO_RESPOND", "INVALID_REG", "INVALID"})


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
    def registered(self) -> bool:
        """Its slurmd is registered with what is configured, and answers."""
        away = self.base in (NodeBase.DOWN, NodeBase.UNKNOWN, NodeBase.FUTURE)
        return not away and not self.flags & _SILENT

    @property
    def broken(self) -> bool:
        """Down, silent or registered with less than configured."""
        down = self.base in (NodeBase.DOWN, NodeBase.ERROR)
        return down or Effect.BROKEN in self._effects

    @property
    def in_service(self) -> bool:
        """Neither drained nor down: there is nothing to resume, also where it is powered down."""
        return not self.drained and not self.broken

    @property
    def unknown_flags(self) -> tuple[str, ...]:
        """Flags that no Slurm up to 26.05 has: what they do to the node is unknown."""
        return tuple(sorted(self.flags - NODE_FLAGS.keys()))

    @property
    def usable(self) -> bool:
        """A job could be started here now or once the jobs on it end, and nothing is unknown."""
        open_base = self.base in (NodeBase.IDLE, NodeBase.MIXED, NodeBase.ALLOCATED)
        return open_base and self._effects <= {Effect.NONE} and not self.unknown_flags

    @property
    def words(self) -> tuple[str, ...]:
        """What each flag means."""
        known = {name: flag.words for name, flag in NODE_FLAGS.items()}
        return tuple(
            known.get(flag, f"{flag} is unknown to Corral: whether it takes jobs is unknown")
            for flag in sorted(self.flags)
        )

    @property
    def _effects(self) -> set[Effect]:
        return {NODE_FLAGS[flag].effect for flag in self.flags & NODE_FLAGS.keys()}

    @property
    def idle(self) -> bool:
        """Usable, and no job on it nor being cleaned up."""
        return self.base is NodeBase.IDLE and self.usable and "COMPLETING" not in self.flags
