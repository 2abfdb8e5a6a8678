"""Use cases of a cluster's history: proofs and measurements that were kept, and compared."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from corral.api.evidence.collective_bench import all_measured
from corral.apply.connection import Connection
from corral.apply.journal import Journal, read_journal
from corral.errors import Code, CorralError
from corral.hosts.transport import check
from corral.prove.compare import Comparison, compare
from corral.prove.fabric.verdict import Outcome
from corral.prove.figures import Chart, chart_from
from corral.prove.measure.measurement import TITLES
from corral.prove.model import Evidence, Proof, Verdict
from corral.prove.rounds import parse_rounds, rounds_script
from corral.report.charts import written
from corral.report.page import Section, Word
from corral.spec.models import ClusterSpec
from corral.state_dir import cluster_dir

FILE: Final = "proofs.jsonl"
SCHEDULE: Final = "schedule"
BENCH: Final = "bench"
"""A measurement that was kept as a proof of one check: it is compared by its own id alone."""
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}([T ]?\d{2}(:?\d{2}(:?\d{2})?)?)?")


@dataclass(frozen=True, slots=True)
class Kept:
    """One proof of the history: its id (``20261121-030000``, UTC) and what was run.

    Attributes:
        id: stable; its beginning is enough where no other one begins so.
        proof: the proof.
        by: ``prove`` when a person ran it, ``schedule`` when the cluster did.
        partial: it was asked to run some of the checks only.
    """

    id: str
    proof: Proof
    by: str = "prove"
    partial: bool = False

    def as_dict(self) -> dict[str, object]:
        """Without the evidence."""
        counts = {verdict.value: self.proof.count(verdict) for verdict in Verdict}
        return {
            "id": self.id,
            "at": self.proof.at,
            "by": self.by,
            "partial": self.partial,
            "good": self.proof.good,
            "proven": self.proof.proven and not self.partial,
            "uncovered": list(self.proof.uncovered),
            "checks": len(self.proof.results),
            **counts,
            "failed": [r.check for r in self.proof.results if r.verdict is Verdict.FAIL],
        }


def keep_proof(proof: Proof, by: str = "prove", *, partial: bool = False) -> str:
    """Add a proof to its cluster's history; one that is there already is not added again.

    Returns:
        Its id.
    """
    path = _path(proof.cluster, create=True)
    name = f"{datetime.fromtimestamp(proof.at, UTC):%Y%m%d-%H%M%S}"
    taken = {str(record.get("id")) for record in read_journal(path)}
    if by == SCHEDULE and name in taken:
        return name
    number = 2
    proof_id = name
    while proof_id in taken:
        proof_id, number = f"{name}-{number}", number + 1
    Journal(path, by).write("proof", {"id": proof_id, "partial": partial, "proof": proof.as_dict()})
    return proof_id


def proofs(name: str) -> tuple[Kept, ...]:
    """All proofs of a cluster that were kept, oldest first; lines that cannot be read are left out.

    Raises:
        CorralError: USAGE, no cluster can be called so.
    """
    history: list[Kept] = []
    for record in read_journal(_path(name)):
        kept = _kept(record)
        if kept is not None:
            history.append(kept)
    return tuple(sorted(history, key=lambda entry: (entry.proof.at, entry.id)))


async def fetch_rounds(spec: ClusterSpec) -> int:
    """Take the rounds that the cluster ran automatically (``proof.every``) into the history.

    Returns:
        How many are new.

    Raises:
        CorralError: the controller does not answer.
    """
    known = [int(k.proof.at) for k in proofs(spec.name) if k.by == SCHEDULE]
    async with await Connection.open(spec) as session:
        answer = await session.fleet.run(
            session.controller, rounds_script(max(known, default=0)), timeout=60.0
        )
    rounds = parse_rounds(spec.name, check(answer, "reading the rounds").stdout)
    for proof in rounds:
        keep_proof(proof, SCHEDULE, partial=True)
    return len(rounds)


def compare_proofs(name: str, before: str, after: str) -> Comparison:
    """Compare two proofs of a cluster.

    Args:
        name: the cluster.
        before: an id or its beginning, a date (``2026-11-21``: the last one of that day), ``last``
            or ``previous``.
        after: the same.

    Raises:
        CorralError: NOT_FOUND, the proof does not exist; USAGE, both are the same one.
    """
    history = proofs(name)
    first, second = chosen_proof(history, before), chosen_proof(history, after)
    if first.id == second.id:
        raise CorralError(
            Code.USAGE,
            f"{before} and {after} are the same proof, {first.id}",
            hint="corral prove --history lists all of them",
        )
    return compare_kept(first, second)


def compare_kept(before: Kept, after: Kept) -> Comparison:
    """Compare two proofs of the history."""
    return compare(before.proof, after.proof, common=before.partial or after.partial)


def since_last(name: str, proof: Proof, *, partial: bool) -> Comparison | None:
    """What changed since the proof before this one; None where there is none to compare with."""
    run = [k for k in proofs(name) if k.proof.at < proof.at and k.by not in (SCHEDULE, BENCH)]
    earlier = [k for k in run if partial or not k.partial]
    if not earlier:
        return None
    return compare(earlier[-1].proof, proof, common=partial or earlier[-1].partial)


def chosen_proof(history: Sequence[Kept], word: str) -> Kept:
    """The proof that a word names.

    Raises:
        CorralError: NOT_FOUND, none, or more than one begins so.
    """
    if not history:
        raise CorralError(
            Code.NOT_FOUND, "no proof of this cluster was kept", hint="run corral prove first"
        )
    by_place = {"last": -1, "previous": -2}
    run = [kept for kept in history if kept.by not in (SCHEDULE, BENCH)] or history
    if word in by_place and len(run) >= -by_place[word]:
        return run[by_place[word]]
    if word in by_place:
        raise CorralError(
            Code.NOT_FOUND,
            f"there is no {word} proof yet: only one was made",
            hint="run corral prove once more; rounds of the schedule have ids and dates: corral "
            "prove --history",
        )
    exact = [kept for kept in history if kept.id == word]
    digits = re.sub(r"[-:T ]", "", word)
    begins = [kept for kept in history if digits and kept.id.replace("-", "").startswith(digits)]
    if exact:
        return exact[-1]
    if begins and _DATE.fullmatch(word):
        return next((kept for kept in reversed(begins) if kept.by != BENCH), begins[-1])
    if len(begins) == 1:
        return begins[0]
    many = f"{len(begins)} proofs begin with {word!r}" if begins else f"no proof is called {word!r}"
    raise CorralError(
        Code.NOT_FOUND,
        many,
        hint=f"an id such as {history[-1].id}, a date, last or previous; corral prove --history",
    )


def _path(name: str, *, create: bool = False) -> Path:
    return cluster_dir(name, create=create) / FILE


def _kept(record: Any) -> Kept | None:
    try:
        proof = Proof.from_dict(record["proof"])
        return Kept(str(record["id"]), proof, str(record["run"]), bool(record["partial"]))
    except (CorralError, KeyError, TypeError):
        return None


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
