"""Two proofs compared side by side."""

from __future__ import annotations

import time
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from corral.cli.terminal.text import clean, right, table
from corral.prove.compare import Change, Comparison

STYLES: Final = {
    Change.WORSE: "bold red",
    Change.BETTER: "green",
    Change.NEW: "cyan",
    Change.GONE: "dim",
}


def compare_view(found: Comparison) -> list[RenderableType]:
    """What changed, worse first, and the outcome in one line."""
    rows = [
        (
            Text(one.change.value, STYLES[one.change]),
            clean(one.check),
            clean(one.node),
            clean(one.figure) or "verdict",
            clean(one.before),
            clean(one.after),
            clean(one.words),
        )
        for one in found.differences
    ]
    head = ("", "check", "node", "what", *right("before", "after"), "")
    line = Text(f"{_moment(found.before)} to {_moment(found.after)}: ")
    line.append(found.words, "bold red" if found.worse else "green")
    return [*([table(head, rows)] if rows else []), line]


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
