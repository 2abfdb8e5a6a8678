"""The report of a month as tables, for the terminal and as one HTML page."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from corral.api.operations.usage_report import KINDS, Usage, UsageReport, waits
from corral.durations import clock
from corral.report.page import Note, render_tables

_USE: Final = "What became of the hours"
_ACCOUNTS: Final = "Accounts"
_CAUSES: Final = "What took nodes out of service"
_NODES: Final = "Nodes out of service"
_WORDS: Final = {
    _USE: "Capacity is what the cluster had in the month. Goodput is the part of it that jobs had "
    "which completed. Failed: an error of the job or of a node. Requeued: runs that were preempted "
    "or started again. Stopped: by their user or a limit of time. Running: not ended in the month. "
    "Checks: Corral's own. Waiting is not a part of it: hours that jobs asked for and waited for.",
    _ACCOUNTS: "Runs of jobs, each of a requeued one; their hours; the time from when a job might "
    "start to its start, of runs that began in the month. CPU-hours are those of all runs; jobs "
    "without GPUs, and those with shards of one, are in no GPU-hour and cost nothing.",
    _CAUSES: "As the doctor reads the reasons of Slurm's outages: F numbers are those of corral "
    "doctor. Planned: drained by Corral for its own changes, or with a reason that begins so.",
    _NODES: "Hours in which a node was drained or down, and why; running jobs of a drained node "
    "count as used, too.",
}
_FAILURE: Final = re.compile(r"F\d+")
Table = tuple[tuple[str, ...], list[tuple[str, ...]]]


def usage_tables(seen: UsageReport) -> dict[str, Table]:
    """Head and rows of each table by its title."""
    return {
        _USE: _use(seen),
        _ACCOUNTS: _accounts(seen),
        _CAUSES: _causes(seen),
        _NODES: _nodes(seen),
    }


def gpuless_note(seen: UsageReport) -> str:
    """What the GPU-hours leave out; "" where they leave out nothing."""
    if seen.unit != "GPU" or not seen.total.gpuless:
        return ""
    return (
        f"{seen.total.gpuless:.2f} of {seen.total.cpu_hours:.2f} CPU-hours were of jobs without "
        "GPUs, or with shards of one: they are in no GPU-hour and cost nothing, and GPUs next to "
        "them count as idle"
    )


def usage_page(seen: UsageReport) -> str:
    """The report of a month as one HTML page that loads nothing."""
    notes = [
        Note(title, _WORDS[title] if rows else "none", head, tuple(rows))
        for title, (head, rows) in usage_tables(seen).items()
    ]
    until = datetime.fromtimestamp(seen.month.end).astimezone()
    words = (
        f"{seen.part(seen.total.allocated):.0%} of {seen.capacity:.1f} {seen.unit}-hours in use, "
        f"goodput {seen.part(seen.total.hours['completed']):.0%}; until {until:%Y-%m-%d %H:%M %Z}"
    )
    if note := gpuless_note(seen):
        words += f"; {note}"
    subject = f"{seen.cluster}, {seen.month.name}"
    return render_tables(subject, words, notes, made="corral report")


def _use(seen: UsageReport) -> Table:
    rows = [
        *((kind, seen.total.hours[kind]) for kind in KINDS),
        ("idle", seen.idle),
        ("down", seen.down),
    ]
    unit = f"{seen.unit}-hours"
    return (
        ("", unit, "of capacity"),
        [
            *((name, f"{hours:.2f}", f"{seen.part(hours):.1%}") for name, hours in rows),
            ("capacity", f"{seen.capacity:.2f}", "100.0%" if seen.capacity else ""),
            ("waiting", f"{seen.total.waited:.2f}", ""),
        ],
    )


def _accounts(seen: UsageReport) -> Table:
    priced = seen.price is not None
    gpus = seen.unit == "GPU"
    head = ("account", "runs", f"{seen.unit}-hours", "completed", "failed", "waiting")
    shares = list(seen.accounts.items())
    if len(shares) > 1:
        shares.append(("all", seen.total))
    rows = [_account(name, share, seen.price, gpus=gpus) for name, share in shares]
    queue = ("median wait", "90 %", "longest")
    last = (*(("CPU-hours", "without GPUs") if gpus else ()), *(("cost",) if priced else ()))
    return ((*head, *queue, *last), rows)


def _account(name: str, share: Usage, price: float | None, *, gpus: bool) -> tuple[str, ...]:
    queue = waits(share.waits)
    return (
        name,
        str(share.runs.total()),
        f"{share.allocated:.2f}",
        f"{share.hours['completed']:.2f}",
        f"{share.hours['failed']:.2f}",
        f"{share.waited:.2f}",
        clock(int(queue.median)),
        clock(int(queue.p90)),
        clock(queue.longest),
        *([f"{share.cpu_hours:.2f}", f"{share.gpuless:.2f}"] if gpus else []),
        *([] if price is None else [f"{share.allocated * price:.2f}"]),
    )


def _causes(seen: UsageReport) -> Table:
    rows = [
        (f"{cause.hours:.2f}", str(cause.nodes), str(cause.times), _named(cause.id, cause.title))
        for cause in seen.causes
    ]
    return ((f"{seen.unit}-hours", "nodes", "times", "cause"), rows)


def _named(number: str, title: str) -> str:
    return f"{number}: {title}" if _FAILURE.fullmatch(number) else title


def _nodes(seen: UsageReport) -> Table:
    lemon = dict.fromkeys(seen.lemons, " (lemon)")
    return (
        ("node", "hours", "times", "causes"),
        [
            (
                f"{name}{lemon.get(name, '')}",
                f"{down.hours:.2f}",
                str(down.times),
                "; ".join(down.causes),
            )
            for name, down in seen.nodes.items()
        ],
    )
