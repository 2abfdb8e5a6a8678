"""Reads what sdiag and sshare print: the scheduler's figures and the accounts' shares. Pure.

sdiag's text, not its ``--json``, which came with 23.02 and changes with each data parser.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from corral.slurm.policy import COUNTED, ROOT, Call, Cycle, Scheduler, Share
from corral.tables import Row, read_table

DIAGNOSTICS: Final = ("sdiag",)
"""The command whose answer ``scheduler`` reads."""
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
_SINCE: Final = re.compile(r"(Data since) .*\((\d+)\)\s*$")
_RPC: Final = re.compile(r"\s*([A-Z]\w*)\s.*count:(\d+)\s+ave_time:(\d+)\s+total_time:(\d+)\s*$")


class CycleExit(Row):
    """Why a scheduling cycle ended: sdiag's word and what it means."""

    word: str
    means: str


@cache
def cycle_exits() -> Mapping[str, str]:
    """What each of sdiag's words for the end of a cycle means (``cycle_exits.yaml``)."""
    rows = read_table("corral.slurm", "cycle_exits.yaml", tuple[CycleExit, ...])
    return MappingProxyType({row.word: row.means for row in rows})


def scheduler(text: str) -> Scheduler:
    """Read sdiag's answer; a line of another form is left out.

    Requests are counted by type alone: users' names have no bound. Why cycles ended is not read.
    """
    values, calls = _read(text)
    get = values.get
    jobs = {word: get(("", f"Jobs {word}")) for word in COUNTED}
    return Scheduler(
        since=get(("", "Data since")),
        threads=get(("", "Server thread count")),
        agents=get(("", "Agent queue size")),
        agent_threads=get(("", "Agent thread count")),
        database=get(("", "DBD Agent queue size")),
        jobs={word: count for word, count in jobs.items() if count is not None},
        main=Cycle(
            count=get(("main", "Total cycles")),
            last=get(("main", "Last cycle")),
            mean=get(("main", "Mean cycle")),
            longest=get(("main", "Max cycle")),
            depth=get(("main", "Mean depth cycle")),
            queue=get(("main", "Last queue length")),
        ),
        backfill=Cycle(
            count=get(("backfill", "Total cycles")),
            last=get(("backfill", "Last cycle")),
            mean=get(("backfill", "Mean cycle")),
            longest=get(("backfill", "Max cycle")),
            depth=get(("backfill", "Depth Mean")),
            last_depth=get(("backfill", "Last depth cycle")),
            queue=get(("backfill", "Last queue length")),
            last_at=get(("backfill", "Last cycle when")) or None,
        ),
        backfilled=get(("backfill", "Total backfilled jobs (since last slurm start)")),
        by_type=tuple(sorted(calls, key=lambda call: (-call.total, call.name))),
    )


def _read(text: str) -> tuple[dict[tuple[str, str], int], list[Call]]:
    """Values by section ("" for the lines before the first one) and sdiag's words; requests."""
    values: dict[tuple[str, str], int] = {}
    calls: list[Call] = []
    section: str | None = ""
    for line in text.split("\n"):
        named = [name for begins, name in _SECTIONS if line.startswith(begins)]
        if named:
            section = named[0] or None
        elif section == "rpc":
            if match := _RPC.match(line):
                name, *counts = match.groups()
                calls.append(Call(name, *map(int, counts)))
        elif section is not None and (
            match := _VALUE.match(line) or _SINCE.match(line) or _EPOCH.match(line)
        ):
            values.setdefault((section, match[1]), int(match[2]))
    return values, calls


def shares(text: str) -> Iterator[Share]:
    """Read sshare's answer; a line of another form is left out, and so is the tree's root."""
    for line in text.split("\n"):
        fields = [field.strip() for field in line.split("|")]
        if len(fields) == 5 and fields[0] not in ("", ROOT):  # noqa: PLR2004
            account, user, *numbers = fields
            part, effective, factor = map(_number, numbers)
            # Jobs are of users: an account's factor, which a classic tree has, is of no job.
            yield Share(
                account, user, part=part, effective=effective, factor=factor if user else None
            )


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:  # "parent", or nothing
        return None
    return value if 0 <= value < float("inf") else None
