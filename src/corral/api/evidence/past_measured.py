"""What was last measured on a cluster, for the pages of its proofs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any, Final

from corral.api.evidence.collective_bench import all_measured
from corral.errors import CorralError
from corral.prove.fabric.verdict import Outcome
from corral.prove.figures import Chart, chart_from
from corral.prove.measure.remark import TITLES
from corral.prove.model import Evidence
from corral.report.charts import written
from corral.report.page import Section, Word

GROUP: Final = "measured before"
WORDS: Final[Mapping[Outcome, Word]] = {
    Outcome.PASS: "pass",
    Outcome.WARN: "warn",
    Outcome.FAIL: "fail",
    Outcome.UNKNOWN: "skip",
}


def last_measured(name: str) -> tuple[Section, ...]:
    """The newest kept measurement of each collective and of each other kind, with its plots.

    Args:
        name: the cluster's.

    Returns:
        A section for each, oldest first: collectives, pairs of nodes, network, storage, GPUs and
        training. Records that cannot be read are left out.
    """
    newest: dict[str, Section] = {}
    for record in all_measured(name):
        try:
            sections = [*(_collectives(record) if record["kind"] == "bench" else _other(record))]
        except (CorralError, KeyError, TypeError, ValueError):
            continue  # of another release, or spoiled: a proof's page does without
        for section in sections:
            newest.pop(section.id, None)
            newest[section.id] = section
    return tuple(newest.values())


def _collectives(record: Mapping[str, Any]) -> Iterator[Section]:
    charts = [chart_from(fields) for fields in record["charts"]]
    tables = record["tables"]
    for table, chart in zip_longest(tables, charts[: len(tables)]):
        what = str(table["collective"] or "collective")
        seen = (
            f"{float(table['busbw_gb_s']):.4g} GB/s at {written(float(table['size_bytes']), 'B')}"
        )
        texts = (seen, *map(str, table["reasons"]))
        drawn = () if chart is None else (chart,)
        yield _section(record, (what, what), (Outcome(table["outcome"]), *texts), drawn)
    for chart in charts[len(tables) :]:
        odd = [f"slow: {node}" for node in record["slow_nodes"]]
        odd += [f"slow: {node} with {peer}" for node, peer in record["slow_links"]]
        verdict = (Outcome.WARN, *odd) if odd else (Outcome.PASS, "no node and no link stands out")
        yield _section(record, ("pairs", "each pair of nodes"), verdict, (chart,))


def _other(record: Mapping[str, Any]) -> Iterator[Section]:
    kind = str(record["kind"])
    charts = tuple(chart_from(fields) for fields in record["charts"])
    texts = tuple(str(remark["text"]) for remark in record["remarks"])
    yield _section(record, (kind, TITLES[kind]), (Outcome(record["outcome"]), *texts), charts)


def _section(
    record: Mapping[str, Any],
    what: tuple[str, str],
    verdict: tuple[Outcome, *tuple[str, ...]],
    charts: tuple[Chart, ...],
) -> Section:
    """A section: its name and title, its outcome and sentences, its plots."""
    (name, title), (outcome, *texts) = what, verdict
    when = f"{datetime.fromtimestamp(float(record['at']), UTC):%Y-%m-%d %H:%M} UTC"
    job = f"job {record.get('job')} on {record.get('nodes')}"
    return Section(
        f"measured.{name}",
        f"{title}, measured {when}",
        WORDS[outcome],
        "; ".join((when, *texts[:1])),
        group=GROUP,
        charts=charts,
        evidence=(Evidence("", job, "\n".join(texts)),),
        label="unknown" if outcome is Outcome.UNKNOWN else "",
    )
