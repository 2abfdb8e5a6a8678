"""Fields that go with the next version of the format, found and renamed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from corral.spec.findings import Finding, Level, dotted
from corral.spec.tree import Path, YamlNode, parse
from corral.tables import Row, read_table

RULE: Final = "deprecated-field"


class Deprecation(Row):
    """A field that goes, as ``deprecations.yaml`` explains."""

    field: str
    since: str
    why: str
    instead: str = ""
    by_hand: str = ""


class Table(Row):
    """The table ``deprecations.yaml``."""

    deprecated: tuple[Deprecation, ...]


@cache
def deprecations() -> tuple[Deprecation, ...]:
    """All of them, in the table's order."""
    return read_table("corral.spec.format", "deprecations.yaml", Table).deprecated


@dataclass(frozen=True, slots=True)
class Use:
    """A deprecated field in a file.

    Attributes:
        row: which one.
        path: where.
        key: its key in the text.
        taken: the key that comes in its place is there as well.
    """

    row: Deprecation
    path: Path
    key: YamlNode
    taken: bool

    @property
    def renamed(self) -> bool:
        """Whether a new key in its place means the same."""
        return bool(self.row.instead) and not self.taken

    @property
    def advice(self) -> str:
        """What to write by hand."""
        if self.taken:
            return f"take it out: {self.row.instead} is there as well"
        return self.row.by_hand


def uses(top: YamlNode) -> Iterator[Use]:
    """Deprecated fields of a file, each key of the text once: an alias is where its anchor is."""
    rows = {row.field: row for row in deprecations()}
    if not rows:
        return
    waiting: list[tuple[Path, YamlNode]] = [((), top)]
    seen: set[int] = set()
    while waiting:
        path, node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        for name, (key, value) in (node.pairs or {}).items():
            place = (*path, name)
            row = rows.get(".".join(part for part in place if isinstance(part, str)))
            if row:
                yield Use(row, place, key, row.instead in (node.pairs or {}))
            waiting.append((place, value))
        waiting += [((*path, i), entry) for i, entry in enumerate(node.entries or ())]


def findings(top: YamlNode, file: str) -> list[Finding]:
    """A warning about each of them."""
    return [
        Finding(
            RULE,
            Level.WARNING,
            f"{use.row.field} goes with the next version of the format (since {use.row.since}): "
            f"{use.row.why}",
            f"write {use.row.instead}, or: corral migrate FILE" if use.renamed else use.advice,
            file,
            use.key.line,
            use.key.column,
            dotted(use.path),
        )
        for use in uses(top)
    ]


@dataclass(frozen=True, slots=True)
class Migrated:
    """A file's text in the newest form.

    Attributes:
        text: with the new keys; comments and order as they were.
        changes: what was written, a line each.
        left: what a person must write, a line each.
    """

    text: str
    changes: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def migrated(text: str) -> Migrated:
    """A cluster file's text with new keys for those that go; as it is where it is not YAML."""
    top, faults = parse(text)
    if top is None or faults:
        return Migrated(text)
    old = sorted(uses(top), key=lambda use: use.key.begin)
    return Migrated(
        _with_new_keys(text, [use for use in old if use.renamed]),
        tuple(f"{dotted(u.path)}: now {u.row.instead}" for u in old if u.renamed),
        tuple(f"{dotted(u.path)}: {u.advice}" for u in old if not u.renamed),
    )


def _with_new_keys(text: str, old: Sequence[Use]) -> str:
    for use in reversed(old):
        text = text[: use.key.begin] + use.row.instead + text[use.key.end :]
    return text
