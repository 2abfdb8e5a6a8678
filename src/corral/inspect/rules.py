"""Rules over what machines report: each is written once here, and ``RULES`` says who uses it.

A rule finds facts (this name resolves to another address); the observer that uses it says what they
mean there: a failed check of the proof, a failure of the doctor's catalogue, a line of the status.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from corral.inspect.machine import CLOCK, NO_ANSWER
from corral.inspect.question import MachineState


class Observer(StrEnum):
    """Who uses a rule."""

    PROOF = "proof"
    DOCTOR = "doctor"
    STATUS = "status"


class UnitState(StrEnum):
    """What a systemd unit does, from what ``systemctl is-active`` prints."""

    ACTIVE = "active"
    CHANGING = "changing"
    DOWN = "down"
    UNKNOWN = "unknown"


_CHANGING: Final = frozenset({"reloading", "activating", "deactivating"})


def unit_state(answer: str) -> UnitState:
    """The state of a unit from its line of ``services.units``."""
    word = (answer.split() or [""])[0]
    if word == "active":
        return UnitState.ACTIVE
    if word in _CHANGING:
        return UnitState.CHANGING
    return UnitState.DOWN if word else UnitState.UNKNOWN


class NameFault(StrEnum):
    """What is wrong with a name on a node."""

    MISSING = "has no address"
    UNANSWERED = "was not looked up in time"
    LOOPBACK = "is an address of the machine itself"
    ALSO_LOOPBACK = "is an address of the machine itself after another"
    OTHER = "is another address"
    LATER = "is first another address"


@dataclass(frozen=True, slots=True)
class NameProblem:
    """A name that a node resolves wrongly.

    Attributes:
        name: the name.
        fault: what is wrong.
        addresses: what it resolves to there.
        due: the address it should have, "" when unknown.
    """

    name: str
    fault: NameFault
    addresses: tuple[str, ...]
    due: str


def name_problems(
    state: MachineState, names: Sequence[str], due: Mapping[str, str]
) -> Iterator[NameProblem]:
    """The names that the node resolves to nothing, to itself or to other addresses than are due."""
    answers = state.pairs("names")
    for name in names:
        addresses = tuple(answers.get(name, "").split())
        wanted = due.get(name, "")
        fault = _name_fault(addresses, wanted)
        if fault is not None:
            yield NameProblem(name, fault, addresses, wanted)


def _name_fault(addresses: tuple[str, ...], due: str) -> NameFault | None:
    if NO_ANSWER in addresses:
        return NameFault.UNANSWERED
    if not addresses:
        return NameFault.MISSING
    if addresses[0].startswith("127."):
        return NameFault.LOOPBACK
    if any(address.startswith("127.") for address in addresses):
        return NameFault.ALSO_LOOPBACK
    if due and due not in addresses:
        return NameFault.OTHER
    return NameFault.LATER if due and due != addresses[0] else None


@dataclass(frozen=True, slots=True)
class Offset:
    """Between which seconds a node's clock is ahead of ours; the round trip explains the rest."""

    least: float
    most: float

    @property
    def surely(self) -> float:
        """Seconds ahead that the round trip cannot explain; negative: behind."""
        return max(self.least, 0.0) + min(self.most, 0.0)


def clock_offset(state: MachineState) -> Offset | None:
    """How far the node's clock is off; None when it was not read."""
    clock = state.get(CLOCK)
    return None if clock is None else Offset(clock - state.received, clock - state.sent)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        name: its name.
        asks: the questions whose answers it judges.
        used_by: observers, and what the rule decides there: checks of the proof, failures of the
            doctor's catalogue, subjects of the status.
    """

    name: str
    asks: tuple[str, ...]
    used_by: Mapping[Observer, tuple[str, ...]]


RULES: Final = (
    Rule(
        "unit_state",
        ("units",),
        MappingProxyType(
            {
                Observer.PROOF: ("smoke.services",),  # all that are not active
                Observer.DOCTOR: ("F03", "F38", "F73"),  # those that are down
                Observer.STATUS: ("units",),  # all that are not active
            }
        ),
    ),
    Rule(
        "name_problems",
        ("names",),
        MappingProxyType(
            {
                Observer.PROOF: ("smoke.names",),
                Observer.DOCTOR: ("F05", "F06", "F66"),  # not LATER: the due address works
            }
        ),
    ),
    Rule(
        "clock_offset",
        ("clock",),
        MappingProxyType({Observer.PROOF: ("smoke.clocks",), Observer.DOCTOR: ("F02",)}),
    ),
)
"""All rules that several observers use. Whether a node takes jobs is one too: ``NodeState.usable``
(``slurm.states.nodes``), which the page asks as well."""
