"""Writes docs/reference/failures.md from the catalogue: ``python -m corral.doctor.reference``.

A test compares the committed page with ``page()``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from corral.doctor.catalog import catalog
from corral.doctor.cluster_diagnosis import RULES
from corral.doctor.logs.message_reader import readings
from corral.doctor.logs.narrower_causes import causes
from corral.doctor.model import Failure, FixBy, Layer

_INTRODUCTION: Final = """\
# Failures

<!-- Generated: python -m corral.doctor.reference > docs/reference/failures.md -->

Every failure that `corral doctor` knows, in the order of causes: of two findings the one further
up is the cause. *Seen*: how it is found, by a rule that asks the machines,
by its messages in logs and reasons, or both. *Fixed*: what `corral doctor --fix` does.
"""
_READ: Final = """\
Where no failure accounts for a log, its first error line that gives a reason is read. Examples:
"""
_LAYERS: Final[Mapping[Layer, str]] = MappingProxyType(
    {
        Layer.MACHINE: "The machine",
        Layer.NETWORK: "Names and network",
        Layer.IDENTITY: "Keys and identities",
        Layer.SOFTWARE: "Software and drivers",
        Layer.CONFIG: "Configuration",
        Layer.SERVICE: "Daemons and database",
        Layer.NODE: "What Slurm reports about a node",
        Layer.JOB: "Jobs",
    }
)
_FIXED_BY: Final[Mapping[FixBy, str]] = MappingProxyType(
    {
        FixBy.NONE: "by you",
        FixBy.APPLY: "by the cluster file's plan",
        FixBy.RESUME: "the node is resumed once the cause is gone",
    }
)


def page() -> str:
    """The page as Markdown."""
    parts = [_INTRODUCTION]
    for layer, title in _LAYERS.items():
        parts.append(f"\n## {title}\n")
        for failure in (f for f in catalog().values() if f.layer is layer):
            parts += _entry(failure)
    parts += _messages()
    return "".join(parts)


def _messages() -> Iterator[str]:
    yield "\n## Messages that are read\n\n"
    yield _READ
    yield "\n| message | read as |\n|---|---|\n"
    for reading in readings():
        line, sentence = next(iter(reading.examples.items()))
        yield f"| `{_cell(line)}` | {reading.kind}: {_cell(sentence)} |\n"


def _cell(text: str) -> str:
    return text.strip().replace("|", "\\|").replace("`", "'").replace("<", "&lt;")


def _entry(failure: Failure) -> Iterator[str]:
    yield f"\n### {failure.id} {failure.name}\n\n"
    yield f"{_sentence(failure.title)}\n\n"
    yield f"* Cause: {failure.cause}.\n"
    yield f"* Do: {failure.fix}.\n"
    for row in causes():
        if row.failure == failure.id:
            title = row.title or failure.title
            yield f"* Where the log shows it: {_cell(title)}. {_sentence(_cell(row.cause))}\n"
    seen = ["rule"] if failure.id in RULED else []
    seen += ["messages"] if failure.patterns else []
    hardware = " (tested from recorded texts: it needs the hardware)" if failure.hardware else ""
    yield f"* Seen: {', '.join(seen) or 'in a text only'}{hardware}.\n"
    yield f"* Fixed: {_FIXED_BY[failure.fix_by]}.\n"
    yield f"* Source: {failure.source}.\n"


def _ruled() -> Iterator[str]:
    for probe in RULES:
        head = (probe.__doc__ or "").partition(":")[0]
        yield from (word for word in head.replace(",", " ").split() if word in catalog())


RULED: Final = frozenset(_ruled())
"""Failures that a rule finds by asking the machines."""


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


if __name__ == "__main__":
    sys.stdout.write(page())
