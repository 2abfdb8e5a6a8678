"""The machine's clock: kept by chrony, and right. Pure.

Munge refuses messages that are five minutes old, auth/slurm's tokens live one minute by default,
and logs of different clocks cannot be read together (F02).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, sh
from corral.state.base import Change, Context, Seen

WORDS: Final = {
    "off": "it is off",
    "unsynchronised": "it follows no source yet",
    "absent": "chrony does not run yet",
}

# chronyc tracking (chronyc(1)): "System time : 0.000012 seconds slow of NTP time", "Leap status :
# Not synchronised". A word comes out, never a figure: a figure would differ at each probe.
_JUDGE: Final = sh(
    "LC_ALL=C timeout 10 chronyc -n tracking 2>/dev/null | awk -F' *: *' -v limit=\"$limit\" "
    '\'/^System time/ {{ split($2, a, " "); off = a[1] + 0 }} /^Leap status/ {{ leap = $2 }} '
    'END {{ if (leap == "") print "absent"; else if (leap == "Not synchronised") '
    'print "unsynchronised"; else if (off > limit) print "off"; else print "good" }}\''
)


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
        """``clock``."""
        return "clock"

    @property
    def watches(self) -> tuple[str, ...]:
        """The service that keeps it."""
        return ("service:chrony",)

    def probe(self) -> Script:
        """good, off, unsynchronised or absent."""
        return sh("limit={near}; {judge}", near=self.near, judge=_JUDGE)

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
        # Counted, not timed: the clock itself jumps here. makestep sets it at once where chrony
        # would need hours (chronyc(1)); it does nothing before a source is known.
        return sh(
            "i=0; limit={near}; while [ $i -lt {wait} ]; do "
            's=$({judge}); [ "$s" = good ] && exit 0; '
            "[ $(( i % 10 )) -ne 3 ] || chronyc burst 4/4 >/dev/null 2>&1 || :; "
            "[ $(( i % 5 )) -ne 4 ] || chronyc makestep >/dev/null 2>&1 || :; "
            "sleep 1; i=$(( i + 1 )); done; "
            'limit={limit}; s=$({judge}); [ "$s" = good ] && exit 0; '
            'echo "the clock is not within {limit} s of its time source: $s" >&2; '
            "chronyc -n tracking >&2; chronyc -n sources >&2; exit 1",
            near=self.near,
            limit=self.limit,
            wait=self.wait,
            judge=_JUDGE,
        )
