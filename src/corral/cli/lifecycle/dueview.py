"""How it looks what the user's machines get back: equal lines folded over nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from rich.text import Text

from corral.api.lifecycle.machine_return import Returning
from corral.cli.terminal.text import labels, one_line, plural
from corral.spec.hostlist import fold

STYLES: Final = {"kept": "yellow", "left": "bold red", "new": "yellow", "none": "dim"}
VERBS: Final = {"kept": "stays: ", "left": "is left: ", "new": "was not there before: "}


def due_lines(returning: Returning) -> Iterator[Text]:
    """What would be restored, and what prevents it."""
    yield from folded((m.node, word, text) for m in returning.machines for word, text in m.lines)
    for machine in returning.machines:
        if machine.error:
            yield Text(f"  {machine.node}  cannot be asked: {machine.error.message}", "bold red")
    if returning.jobs:
        yield Text(
            f"  {plural(len(returning.jobs), 'job')} (id, user, nodes) hold nodes:", "bold red"
        )
        yield from (Text(f"    {one_line(job)}") for job in returning.jobs)


def given_lines(gone: Iterable[str]) -> Iterator[Text]:
    """``node: word what`` as the use case reports it; other things were removed."""
    lines: list[tuple[str, str, str]] = []
    for thing in gone:
        node, colon, rest = thing.partition(": ")
        if colon:
            word, _, text = rest.partition(" ")
            lines.append((node, word, text))
        else:
            yield Text(f"removed {thing}")
    yield from folded(lines)


def folded(lines: Iterable[tuple[str, str, str]]) -> Iterator[Text]:
    """(node, word, text) with the nodes of equal lines together, in the order they come."""
    groups: dict[tuple[str, str], list[str]] = {}
    for node, word, text in lines:
        groups.setdefault((word, text), []).append(node)
    label = labels(map(fold, groups.values()))
    for (word, text), nodes in groups.items():
        yield Text(
            f"{label(fold(nodes))}{VERBS.get(word, '')}{one_line(text)}",
            STYLES.get(word, ""),
        )
