"""Text for people: machines' output made harmless, durations, small tables."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Span, Text

# Zs and Zl count as unprintable to Python; a no-break space is harmless, the others are not.
_KEPT: Final = frozenset("\n\t\u00a0\u3000")
_SGR: Final = re.compile(r"\x1b\[[0-9;:]{0,64}m")
_SEEN: Final = Style(conceal=False, blink=False)
_MINUTE: Final = 60.0
_HOUR: Final = 3600.0
Cell = str | Text


def clean(text: str) -> str:
    r"""Text from a machine with nothing in it that a terminal obeys.

    Escape sequences, carriage returns, bidirectional overrides and lone surrogates stand as their
    escapes (``\x1b``); line feeds and tabs stay.
    """
    if text.isprintable():
        return text
    return "".join(c if c in _KEPT or c.isprintable() else _escape(c) for c in text)


def coloured(text: str) -> Text:
    """A line of a job with its own colours (SGR), and all else as ``clean`` returns it.

    Of a progress bar only its last state is left. Nothing is hidden: no concealed text.
    """
    last = text.rstrip("\r").rpartition("\r")[2]
    ends = [0, *(end for match in _SGR.finditer(last) for end in match.span()), len(last)]
    parts = [last[a:b] for a, b in pairwise(ends)]
    # Between two colours text, at each odd place a colour.
    safe = "".join(part if i % 2 else clean(part) for i, part in enumerate(parts))
    made = Text.from_ansi(safe) if "\x1b" in safe else Text(safe)
    made.spans = [Span(s.start, s.end, _visible(s.style)) for s in made.spans]
    return made


def _visible(style: str | Style) -> Style:
    return (Style.parse(style) if isinstance(style, str) else style) + _SEEN


class SafeConsole(Console):
    """A console through which no text gives a terminal a command, wherever the text is from.

    Job names, nodes' names, logs and errors of machines are other people's text: each is cleaned
    here, at the only exit, so that no view can forget it. Styles and the console's own control
    codes are not text.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render with every text cleaned."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else clean(text), style, control)


def one_line(text: str) -> str:
    """The text cleaned and in one line."""
    return clean(" ".join(text.split("\n"))).replace("\t", " ").strip()


def _escape(char: str) -> str:
    if unicodedata.category(char) == "Cs":
        return f"\\u{ord(char):04x}"
    return char.encode("unicode_escape").decode()


def duration(seconds: float) -> str:
    """Seconds as people read them: ``0.4 s``, ``12.3 s``, ``3 m 05 s``, ``2 h 04 m``."""
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    if seconds < _HOUR:
        minutes, rest = divmod(int(seconds), 60)
        return f"{minutes} m {rest:02} s"
    hours, rest = divmod(int(seconds) // 60, 60)
    return f"{hours} h {rest:02} m"


def elapsed(seconds: int) -> str:
    """How long a job ran: Slurm counts in seconds, so ``under 1 s``, ``9 s``, ``3 m 05 s``."""
    if seconds < 1:
        return "under 1 s"
    return f"{seconds} s" if seconds < _MINUTE else duration(seconds)


def size(count: int) -> str:
    """Bytes as people read them: ``812 MB``."""
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if value < 1000:  # noqa: PLR2004  # decimal units
            return f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def binary(count: int) -> str:
    """Bytes of buffers and messages, which are powers of two: ``512 MiB``."""
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 1 << power:
            return f"{count / (1 << power):.4g} {unit}"
    return f"{count} B"


def labels(names: Iterable[str]) -> Callable[[str], str]:
    """What pads names that begin lines below each other: to the longest, 28 columns at most."""
    width = min(max(map(len, names), default=0), 28)
    return lambda name: f"  {name:<{width}}  "


@dataclass(frozen=True, slots=True)
class Column:
    """Title and alignment: numbers are aligned to the right."""

    title: str
    justify: Literal["left", "right"] = "left"


def right(*titles: str) -> tuple[Column, ...]:
    """Columns of numbers, aligned to the right."""
    return tuple(Column(title, "right") for title in titles)


def table(head: Sequence[str | Column], rows: Sequence[Sequence[Cell]]) -> Table:
    """A table without lines: the only one of all verbs.

    Args:
        head: the columns; a title alone is aligned to the left.
        rows: the cells; texts are cleaned.
    """
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for given in head:
        column = Column(given) if isinstance(given, str) else given
        made.add_column(one_line(column.title), justify=column.justify, overflow="fold")
    for row in rows:
        made.add_row(*(c if isinstance(c, Text) else Text(one_line(c)) for c in row))
    return made
