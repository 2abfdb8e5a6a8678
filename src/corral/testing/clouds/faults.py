"""Faults that a simulated cloud shows at chosen calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum


class Fault(StrEnum):
    """What goes wrong with a call. ``AFTER`` ones have taken effect."""

    LOST = "lost"  # the request never arrives
    LIMITED = "429"
    FAILED = "500"  # refused with a failure, nothing done
    UNSEEN = "unseen"  # done, and the answer never comes
    GATEWAY = "502 after"  # done, and a gateway reports that it failed
    HALF = "half"  # done, and the answer is cut off
    STRANGE = "strange"  # done, and the answer is valid JSON of another shape
    SLOW_LIST = "slow list"  # done, and lists do not show what is new for a while


AFTER = frozenset((Fault.UNSEEN, Fault.GATEWAY, Fault.HALF, Fault.STRANGE, Fault.SLOW_LIST))


class Killed(BaseException):
    """The process that made the call ends here, by a signal: nothing of it runs any more."""


def _killed() -> None:
    raise Killed


@dataclass(slots=True)
class Faults:
    """Which call shows what.

    Args:
        at: fault by the number of the call, from 0.
        kill_before, kill_after: numbers of calls at which ``kill`` is called, before it takes
            effect or after; -1 for none.
        kill: what ends the caller: raises ``Killed``, or sends a signal.
    """

    at: dict[int, Fault] = field(default_factory=dict[int, Fault])
    kill_before: int = -1
    kill_after: int = -1
    kill: Callable[[], None] = _killed

    def of(self, call: int) -> Fault | None:
        """The fault of a call."""
        return self.at.get(call)
