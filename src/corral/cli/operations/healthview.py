"""How the nodes' health looks."""

from __future__ import annotations

from typing import Final

from rich.console import RenderableType
from rich.text import Text

from corral import api
from corral.cli.terminal.text import clean, plural, table
from corral.prove.health import HealthLine
from corral.spec.hostlist import fold

STYLES: Final = {"ok": "green", "warn": "yellow", "fail": "bold red", "none": "dim"}


def health_view(health: api.ClusterHealth) -> list[RenderableType]:
    """A row for each check: nodes with equal results share one; what fails comes first."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for line in sorted(health.lines, key=_gravest):
        groups.setdefault((line.check, line.word, line.text), []).append(line.node)
    rows = [
        (check, Text(word, STYLES[word]), fold(nodes), Text(clean(text)))
        for (check, word, text), nodes in groups.items()
        if word != "none"
    ]
    shown: list[RenderableType] = [table(("check", "", "nodes", "what it sees"), rows)]
    shown += [Text(f"{error.node}: {clean(error.message)}", "bold red") for error in health.silent]
    shown += [Text(clean(sentence), "bold") for sentence in health.common]
    return [*shown, _summary(health)]


def _gravest(line: HealthLine) -> int:
    return ("fail", "warn", "ok", "none").index(line.word)


def _summary(health: api.ClusterHealth) -> Text:
    nodes = plural(len(health.nodes), "node")
    if health.healthy:
        return Text(f"{nodes}: all checks pass", "green")
    ill = {line.node for line in health.lines if line.word == "fail"}
    ill |= {error.node for error in health.silent}
    return Text(f"{len(ill)} of {nodes} {'is' if len(ill) == 1 else 'are'} not healthy", "bold red")
