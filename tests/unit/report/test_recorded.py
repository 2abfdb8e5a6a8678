"""Nothing that a report holds is missing on its page, nor anything that earlier pages showed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from corral.api import Known
from corral.api.evidence.bench import judged
from corral.api.evidence.collective_bench import Benched
from corral.api.evidence.report_pages import bench_page
from corral.prove.fabric.corral_benchmark import read_program
from corral.prove.fabric.slow_parts import Pair
from corral.prove.figures import Plot
from corral.report.charts import written
from corral.report.page import Report, render
from tests.unit.report.samples import RECORDED, full, recorded
from tests.unit.report.seen import Seen

LOG = Path(__file__).parents[2] / "recorded" / "nccl" / "h200x4-own-benchmark.txt"
DRAWN = {"kind", "at", "log", "better", "mark", "word", "seconds", "made", "noun"}
"""Fields that are shown by a form, not by their value: each has its own test."""

REPLACED = ("Made by", "numbers")
"""The footer stated that no script runs; small heat maps hold their numbers."""


def collectives() -> str:
    reading, _ = read_program(LOG.read_text().splitlines())
    pairs = (
        Pair("node0", "node1", 300.0),
        Pair("node0", "node2", 30.0),
        Pair("node1", "node2", 30.0),
    )
    benched = Benched(7, "node[0-2]", judged(reading, Known(busbw=900)), pairs)
    return bench_page("lab", benched, 1795304182.0)


PAGES = {
    "embedded": lambda: render(recorded("embedded")),
    "network": lambda: render(recorded("network")),
    "collectives": collectives,
    "full": lambda: render(full()),
}


@pytest.mark.parametrize("name", PAGES)
def test_every_text_of_the_page_of_before_is_there(name: str) -> None:
    """The texts of the pages that the generator before Jinja2 made of the same records."""
    seen = Seen(PAGES[name]()).words
    before = (RECORDED / f"{name}.txt").read_text().splitlines()
    assert len(before) > 20
    gone = [line for line in before if line not in seen and not line.startswith(REPLACED)]
    assert gone == []


def values(thing: Any) -> Iterator[str]:
    """Every text and number in a record, as a page would show it."""
    if is_dataclass(thing):
        for field in fields(thing):
            if field.name not in DRAWN:
                yield from values(getattr(thing, field.name))
    elif isinstance(thing, Mapping):
        yield from values([*thing.keys(), *thing.values()])
    elif isinstance(thing, list | tuple):
        for part in thing:
            yield from values(part)
    elif isinstance(thing, str):
        yield from (" ".join(line.split()) for line in thing.splitlines())
    elif isinstance(thing, float):
        yield written(thing)
    elif thing is not None:
        yield str(thing)


def sizes(report: Report) -> set[str]:
    """Bytes on a horizontal axis are written as sizes."""
    return {
        written(x)
        for section in report.sections
        for chart in section.drawn
        if isinstance(chart, Plot) and chart.x.unit == "B"
        for series in chart.series
        for x, _ in series.points
    }


@pytest.mark.parametrize("name", ["embedded", "network", "full"])
def test_every_field_is_there(name: str) -> None:
    report = full() if name == "full" else recorded(name)
    seen = Seen(render(report)).words
    shown = set(values(report)) - sizes(report)
    assert len(shown) > 15
    assert sorted(text for text in shown if text not in seen) == []
