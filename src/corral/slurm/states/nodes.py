"""Node states, and the answer of ``scontrol show node --oneliner``.

That form works alike from 21.08 to 26.05, gives base state and flags in words (``IDLE+DRAIN``),
and needs one call for all nodes; ``sinfo`` squeezes the same into one word and a sign, ``--json``
changes with each release.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from corral.errors import Code, CorralError

SHOW_NODES: Final = ("scontrol", "show", "node", "--oneliner")
"""The command whose answer ``parse_nodes`` reads."""

_FIELD: Final = re.compile(r"(?:^| )([A-Z][A-Za-z_]*)=")
# src/api/node_info.c: OS= is the node's own word; free text follows all that Slurm vouches for.
_OS: Final = re.compile(r" OS=(.*?) +(?=RealMemory=\d+ AllocMem=)")
_TRAILING: Final = (
    "Comment|Extra|InstanceId|InstanceType|ReservationName|TLSCertTokenSet|TLSCertLastRenewal"
    "|Topology|Parameters"
)
_TRAILING_FIELD: Final = re.compile(rf"(?:^| )({_TRAILING})=")
_TAIL: Final = re.compile(rf" (?=(?:Reason|{_TRAILING})=)")
# Slurm signs the first line of a reason; --oneliner puts eight spaces before further lines.
_REASON: Final = re.compile(
    r"Reason=(?P<text>.*?)(?: \[(?P<user>[^@\[\] ]*)@(?P<when>[^\[\] ]*)\])"
    rf"(?P<more> {{4,}}.*?)?(?P<rest> (?:{_TRAILING})=.*)?"
)
_UNSIGNED: Final = re.compile(rf"Reason=(?P<text>.*?)(?P<rest> (?:{_TRAILING})=.*)?")
_EMPTY: Final = frozenset({"", "(null)", "N/A", "none", "None"})


class NodeBase(StrEnum):
    """Base states: a node is in exactly one (node_states[] of slurm_protocol_defs.c)."""

    UNKNOWN = "UNKNOWN"
    DOWN = "DOWN"
    IDLE = "IDLE"
    ALLOCATED = "ALLOCATED"
    ERROR = "ERROR"
    MIXED = "MIXED"
    FUTURE = "FUTURE"


NODE_FLAGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "BLOCKED": "held by a job that wants its whole neighbourhood",
        "CLOUD": "rented when a job needs it",
        "COMPLETING": "a job is being cleaned up",
        "DRAIN": "takes no new jobs",
        "DYNAMIC_FUTURE": "registers itself, not yet seen",
        "DYNAMIC_NORM": "registered itself",
        "EXTERNAL": "known to another scheduler",
        "FAIL": "about to be taken out by request",
        "INVALID": "reports less than its configuration says",
        "INVALID_REG": "reports less than its configuration says",
        "MAINTENANCE": "in a maintenance reservation",
        "MAINT": "in a maintenance reservation",
        "NOT_RESPONDING": "slurmd does not answer the controller",
        "PERFCTRS": "performance counters in use",
        "PLANNED": "kept free for a larger job",
        "POWER_DOWN": "will be powered down",
        "POWER_DRAIN": "will be powered down once its jobs end",
        "POWER_UP": "will be powered up",
        "POWERED_DOWN": "powered down",
        "POWERING_DOWN": "being powered down",
        "POWERING_UP": "being powered up",
        "REBOOT_ISSUED": "rebooting",
        "REBOOT_REQUESTED": "reboots once its jobs end",
        "RES": "reserved",
        "RESERVED": "reserved",
        "RESUME": "being resumed",
        "UNDRAIN": "drain is being lifted",
    }
)
"""Flags beside the base state, in words."""

_BROKEN: Final = frozenset({"NOT_RESPONDING", "INVALID_REG", "INVALID", "FAIL"})
_CLOSED: Final = frozenset(
    {"DRAIN", "MAINTENANCE", "MAINT", "POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN",
     "POWERING_UP", "REBOOT_ISSUED", "REBOOT_REQUESTED"}
)  # fmt: skip


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
        base, *flags = text.strip().rstrip("*").upper().split("+")
        known = NodeBase.__members__.get(base)
        if known is None:
            raise CorralError(
                Code.PARSE_FAILED,
                f"{text[:60]!r} is not a node state",
                hint="a newer Slurm than Corral knows? corral doctor shows the versions",
            )
        starred = {"NOT_RESPONDING"} if text.strip().endswith("*") else set[str]()
        return cls(known, frozenset(flags) | starred)

    def __str__(self) -> str:
        return "+".join([self.base.value, *sorted(self.flags)])

    @property
    def drained(self) -> bool:
        """Takes no new jobs because somebody or something drained it."""
        return "DRAIN" in self.flags

    @property
    def broken(self) -> bool:
        """Down, silent or registered with less than configured."""
        return self.base in (NodeBase.DOWN, NodeBase.ERROR) or bool(self.flags & _BROKEN)

    @property
    def in_service(self) -> bool:
        """Neither drained nor down: there is nothing to resume, also where it is powered down."""
        return not self.drained and not self.broken

    @property
    def usable(self) -> bool:
        """A job could be started here now or once the jobs on it end."""
        open_base = self.base in (NodeBase.IDLE, NodeBase.MIXED, NodeBase.ALLOCATED)
        return open_base and not self.broken and not self.flags & _CLOSED

    @property
    def idle(self) -> bool:
        """Usable, and no job on it nor being cleaned up."""
        return self.base is NodeBase.IDLE and self.usable and "COMPLETING" not in self.flags


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """One node as the controller sees it.

    Attributes:
        name: NodeName.
        state: base state and flags.
        address: NodeAddr.
        cpus: CPUs configured.
        cpus_used: CPUs allocated.
        memory_mib: RealMemory.
        gres: Gres as configured, "" for none.
        partitions: partitions that hold it.
        features: available features.
        version: slurmd's version, "" while it never registered.
        reason: why it is drained or down, "" for none.
        reason_by: who set the reason, "" when unknown.
        reason_at: when, as Slurm wrote it.
        fields: every field of the answer, as Slurm wrote it.
    """

    name: str
    state: NodeState
    address: str
    cpus: int
    cpus_used: int
    memory_mib: int
    gres: str
    partitions: tuple[str, ...]
    features: tuple[str, ...]
    version: str
    reason: str
    reason_by: str
    reason_at: str
    fields: Mapping[str, str]


def parse_nodes(text: str) -> tuple[NodeInfo, ...]:
    """Read the answer of ``SHOW_NODES``.

    Raises:
        CorralError: a line is no node, or a number or state cannot be read.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if lines == ["No nodes in the system"]:
        return ()
    return tuple(_node(line) for line in lines)


def fields_of(line: str) -> dict[str, str]:
    """Fields of any ``--oneliner`` line of scontrol; the first field of a name counts.

    Values may hold spaces, also text that looks like a field: trust only fields that stand before
    the first free text of the line.
    """
    return _pairs(line, _FIELD)


def _node_fields(line: str) -> dict[str, str]:
    """Fields of a node's line; ``Reason`` comes with ``ReasonBy`` and ``ReasonAt``.

    OS, Reason and Comment are taken out by what stands around them, so that no such text can
    change another field.
    """
    found: dict[str, str] = {}
    system = _OS.search(line)
    if system:
        found["OS"] = system[1]
        line = f"{line[: system.start()]} {line[system.end() :]}"
    head, *tail = _TAIL.split(line.rstrip(), maxsplit=1)
    found |= _pairs(head, _FIELD)
    if tail and tail[0].startswith("Reason="):
        found |= _reason(tail[0])
    elif tail:
        found |= _pairs(tail[0], _TRAILING_FIELD)
    return found


def _pairs(text: str, field: re.Pattern[str]) -> dict[str, str]:
    """``A=x B=y z`` as a mapping; the first field of a name counts."""
    found: dict[str, str] = {}
    marks = list(field.finditer(text))
    for at, mark in enumerate(marks):
        stop = marks[at + 1].start() if at + 1 < len(marks) else len(text)
        found.setdefault(mark.group(1), text[mark.end() : stop].strip())
    return found


def _reason(text: str) -> dict[str, str]:
    signed = _REASON.fullmatch(text)
    found = signed or _UNSIGNED.fullmatch(text)
    if found is None:  # only a line end inside the line could do that
        return {"Reason": text.removeprefix("Reason=")}
    parts = found.groupdict()
    rest = _pairs(parts["rest"] or "", _TRAILING_FIELD)
    more = (parts.get("more") or "").strip()
    by = {"ReasonBy": parts["user"], "ReasonAt": parts["when"]} if signed else {}
    return rest | by | {"Reason": f"{parts['text']} {more}".strip()}


def _node(line: str) -> NodeInfo:
    fields = _node_fields(line)
    if "NodeName" not in fields or "State" not in fields:
        raise CorralError(
            Code.PARSE_FAILED,
            "scontrol did not describe a node",
            command=" ".join(SHOW_NODES),
            tail=line[:200],
            hint="is slurmctld up? scontrol ping says so",
        )
    return NodeInfo(
        name=fields["NodeName"],
        state=NodeState.parse(fields["State"]),
        address=fields.get("NodeAddr", ""),
        cpus=_number(fields, "CPUTot"),
        cpus_used=_number(fields, "CPUAlloc"),
        memory_mib=_number(fields, "RealMemory"),
        gres=_text(fields, "Gres"),
        partitions=_list(fields, "Partitions"),
        features=_list(fields, "AvailableFeatures"),
        version=_text(fields, "Version"),
        reason=fields.get("Reason", ""),
        reason_by=fields.get("ReasonBy", ""),
        reason_at=fields.get("ReasonAt", ""),
        fields=MappingProxyType(fields),
    )


def _text(fields: Mapping[str, str], name: str) -> str:
    value = fields.get(name, "")
    return "" if value in _EMPTY else value


def _list(fields: Mapping[str, str], name: str) -> tuple[str, ...]:
    value = _text(fields, name)
    return tuple(value.split(",")) if value else ()


def _number(fields: Mapping[str, str], name: str) -> int:
    value = fields.get(name, "0")
    if not (value.isascii() and value.isdigit()):
        raise CorralError(Code.PARSE_FAILED, f"{fields['NodeName']}: {name}={value!r} is no number")
    return int(value)
