"""The checks of the node health program: ``health_checks.yaml`` and ``xids.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final, Literal

from corral.tables import Row, read_table

TAG: Final = "health."
"""Begins the id of every check, and so the drain reason of every node that the program drained."""
Do = Literal["drain", "fatal", "job", "derived"]


class HealthCheck(Row):
    """One check of a node's health.

    Attributes:
        id: stable; begins the drain reason.
        title: what is wrong when it fails, as a sentence without a full stop.
        reads: what it looks at.
        fails: when it fails.
        fix: what to do.
        source: where the rule comes from.
        failure: the failure of the doctor's catalogue that it shows.
        twice: it must fail twice in a row before the node is drained.
    """

    id: str
    title: str
    reads: str
    fails: str
    fix: str
    source: str
    failure: str
    twice: bool = False


class Xid(Row):
    """What an Xid asks for.

    Attributes:
        numbers: the Xids.
        do: drain: the node is drained; fatal: when the line has the word Fatal; derived: when the
            line names what to do; job: the job's matter, or only reported.
        action: words for the reason.
    """

    numbers: tuple[int, ...]
    do: Do
    action: str


@cache
def health_checks() -> Mapping[str, HealthCheck]:
    """Each check by its id, in the order in which they run."""
    rows = read_table("corral.roles", "health_checks.yaml", tuple[HealthCheck, ...])
    return MappingProxyType({row.id: row for row in rows})


@cache
def xids() -> tuple[Xid, ...]:
    """All Xids that are known, each in one row."""
    return read_table("corral.roles", "xids.yaml", tuple[Xid, ...])


def xid_words() -> str:
    """The table as the program reads it: ``79=drain=words_with_underscores``, spaces between."""
    return " ".join(
        f"{number}={row.do}={row.action.replace(' ', '_')}"
        for row in xids()
        for number in row.numbers
    )
