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


def compare_view(comparison: Comparison) -> list[RenderableType]:
    """What changed, worse first, and the outcome in one line."""
    rows = [
        (
            Text(difference.change.value, STYLES[difference.change]),
            clean(difference.check),
            clean(difference.node),
            clean(difference.figure) or "verdict",
            clean(difference.before),
            clean(difference.after),
            clean(difference.words),
        )
        for difference in comparison.differences
    ]
    head = ("", "check", "node", "what", *right("before", "after"), "")
    line = Text(f"{_moment(comparison.before)} to {_moment(comparison.after)}: ")
    line.append(comparison.words, "bold red" if comparison.worse else "green")
    return [*([table(head, rows)] if rows else []), line]


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
