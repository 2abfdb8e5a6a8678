"""What is wrong with a cluster file: one record per finding, with place, rule and what to write."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

SHOWN_AT_MOST: Final = 60


class Level(StrEnum):
    """How bad a finding is: an error stops everything, a warning and an info do not."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a cluster file.

    Attributes:
        rule: kebab-case id of the rule; the reference page lists them all.
        level: error, warning or info.
        message: what is wrong, one sentence without a full stop.
        hint: what to write instead.
        file: the file as the user named it.
        line: line in the file, from 1; 0 when it is about the file as a whole.
        column: column in the line, from 1; 0 when it is about the file as a whole.
        where: the field, such as ``groups[0].gpu.count``; "" for the entire file.
    """

    rule: str
    level: Level
    message: str
    hint: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    where: str = ""

    def as_dict(self) -> dict[str, str | int]:
        """What ``corral lint --json`` prints of it."""
        return {
            "rule": self.rule,
            "level": self.level.value,
            "message": self.message,
            "hint": self.hint,
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "where": self.where,
        }

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        hint = f". hint: {self.hint}" if self.hint else ""
        return one_line(f"{place}: {self.level} [{self.rule}]: {self.message}{hint}")


def has_errors(findings: Iterable[Finding]) -> bool:
    return any(finding.level is Level.ERROR for finding in findings)


def one_line(text: str) -> str:
    """The text with everything that is not printable written as an escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shown(value: object) -> str:
    """A value of the user's as it may appear in a message: one line, clipped, texts in quotes."""
    text = f'"{value}"' if isinstance(value, str) else str(value)
    text = one_line(text[: SHOWN_AT_MOST * 2])
    return text if len(text) <= SHOWN_AT_MOST else f"{text[:SHOWN_AT_MOST]}..."


def dotted(path: Iterable[str | int]) -> str:
    """A path as people write it: ``("groups", 0, "gpu")`` is ``groups[0].gpu``."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{one_line(part)}" for part in path)
    return "".join(parts).lstrip(".")


def near_file(path: Path, pattern: str = "*") -> str:
    """A hint with the file of the same folder that has a similar name; "" for none."""
    try:
        names = sorted(other.name for other in path.parent.glob(pattern) if other.is_file())
    except (OSError, ValueError):
        return ""
    meant = difflib.get_close_matches(path.name, names, n=1, cutoff=0.7)
    return f"did you mean {path.with_name(meant[0])}?" if meant else ""
