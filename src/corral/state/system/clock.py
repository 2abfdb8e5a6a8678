"""The machine's clock: kept by chrony, and right. Pure.

Munge refuses messages that are five minutes old, auth/slurm's tokens live one minute by default,
and logs of different clocks cannot be read together (F02).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, call
from corral.state.base import Change, Context, Seen

WORDS: Final = {
    "off": "it is off",
    "unsynchronised": "it follows no source yet",
    "absent": "chrony does not run yet",
}

_PROGRAM: Final = "state/machine.sh"


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock that chrony keeps.

    Attributes:
        near: seconds of offset from which on it is set right at once instead of slowly.
        limit: seconds of offset that fail the change when they stay.
        wait: seconds that chrony gets to reach its sources.
    """

    near: float = 1.0
    limit: float = 5.0
    wait: int = 90

    @property
    def id(self) -> str:
        return "clock"

    @property
    def watches(self) -> tuple[str, ...]:
        """The service that keeps it."""
        return ("service:chrony",)

    def probe(self) -> Script:
        """good, off, unsynchronised or absent."""
        return call(_PROGRAM, "clock_state", self.near)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Nothing while it is good; else step it, and fail where it stays wrong."""
        if seen.text == "good" and not any(w in context.changed for w in self.watches):
            return None
        why = WORDS.get(seen.text, "chrony is starting again")
        return Change(
            self.id,
            f"clock right within {self.limit:g} s ({why})",
            seen.text,
            "good",
            self._script(),
        )

    def _script(self) -> Script:
        return call(_PROGRAM, "clock_set", self.near, self.limit, self.wait)
