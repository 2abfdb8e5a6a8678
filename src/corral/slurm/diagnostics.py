"""Reads what sdiag and sshare print: the scheduler's figures and the accounts' shares. Pure.

sdiag's text, not its ``--json``, which came with 23.02 and changes with each data parser.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

DIAGNOSTICS: Final = ("sdiag",)
"""The command whose answer ``diagnostics`` reads."""
SHARES: Final = (
    *("sshare", "--all", "--noheader", "--parsable2"),
    "--format=Account,User,NormShares,EffectvUsage,FairShare",
)
"""The command whose answer ``shares`` reads."""

_SECTIONS: Final = (
    ("Main schedule statistics", "main"),
    ("Main scheduler exit", ""),
    ("Backfilling stats", "backfill"),
    ("Backfill exit", ""),
    ("Latency for", ""),
    ("Remote Procedure Call statistics by message type", "rpc"),
    ("Remote Procedure Call statistics by user", ""),
    ("Pending RPC statistics", ""),
)
"""How the head of each section begins, and what its lines are called here; "" is not read."""
_VALUE: Final = re.compile(r"\s*([A-Z][^:]*?):\s*(\d+)\s*$")
_EPOCH: Final = re.compile(r"\s*([A-Z][^:]*?):.*\((\d+)\)\s*$")
_RPC: Final = re.compile(r"\s*([A-Z]\w*)\s.*count:(\d+)\s.*total_time:(\d+)\s*$")


@dataclass(frozen=True, slots=True)
class Calls:
    """Requests of one message type since slurmctld's figures began."""

    count: int
    microseconds: int


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """slurmctld's figures.

    Attributes:
        values: by section ("" for the lines before the first one) and sdiag's own words.
        calls: by message type.
    """

    values: Mapping[tuple[str, str], int]
    calls: Mapping[str, Calls]

    def get(self, section: str, words: str) -> int | None:
        """One value; None where this release, or a scheduler that has not run yet, prints none."""
        return self.values.get((section, words))


def diagnostics(text: str) -> Diagnostics:
    """Read sdiag's answer; a line of another form is left out."""
    values: dict[tuple[str, str], int] = {}
    calls: dict[str, Calls] = {}
    section: str | None = ""
    for line in text.split("\n"):
        named = [name for begins, name in _SECTIONS if line.startswith(begins)]
        if named:
            section = named[0] or None
        elif section == "rpc":
            if match := _RPC.match(line):
                calls[match[1]] = Calls(int(match[2]), int(match[3]))
        elif section is not None and (match := _VALUE.match(line) or _EPOCH.match(line)):
            values.setdefault((section, match[1]), int(match[2]))
    return Diagnostics(values, calls)


@dataclass(frozen=True, slots=True)
class Share:
    """An account, or a user in one, as the fair-share plugin counts it.

    Attributes:
        user: "" for the account itself.
        shares: NormShares, its part among its siblings (fair tree) or of the cluster (classic).
        usage: EffectvUsage, the part that it used, of the same.
        fair_share: the priority's factor, 0 to 1; None for accounts of a fair tree.
    """

    account: str
    user: str
    shares: float | None
    usage: float | None
    fair_share: float | None


def shares(text: str) -> Iterator[Share]:
    """Read sshare's answer; a line of another form is left out, and so is the tree's root."""
    for line in text.split("\n"):
        fields = [field.strip() for field in line.split("|")]
        if len(fields) == 5 and fields[0] not in ("", "root"):  # noqa: PLR2004
            account, user, *numbers = fields
            yield Share(account, user, *map(_number, numbers))


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:  # "parent", or nothing
        return None
    return value if 0 <= value < float("inf") else None
