"""Use cases: proofs, comparisons and measurements as self-contained pages."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from corral.api.evidence.past_proofs import WORDS
from corral.api.output import check_folder, is_device, write_output
from corral.errors import Code, CorralError
from corral.prove.compare import Comparison
from corral.prove.fabric.charts import bench_charts, pair_matrix
from corral.prove.fabric.verdict import Outcome
from corral.prove.model import Evidence, Proof
from corral.report.charts import written
from corral.report.page import Note, Report, Section, Word, proof_report, render

if TYPE_CHECKING:
    from corral.api.evidence.collective_bench import Benched

_HEAD: Final = ("", "check", "node", "what", "before", "after", "")
_GRAVEST: Final[tuple[Word, ...]] = ("fail", "warn", "pass")


def proof_page(
    proof: Proof, since: Comparison | None = None, before: Sequence[Section] = ()
) -> str:
    """A proof as one HTML page.

    Args:
        proof: the proof.
        since: what changed since an earlier one, shown after the verdict.
        before: what was measured before (``last_measured``), drawn for comparison; no verdict
            counts it.
    """
    notes = [] if since is None else [changes_note(since)]
    if before:
        notes.append(_before_note(before))
    return render(replace(proof_report(proof, notes), before=tuple(before)))


def _before_note(before: Sequence[Section]) -> Note:
    text = "By corral bench, and kept; the verdict above does not count it."
    rows = tuple(
        (section.id.partition(".")[2], section.label or section.word, section.summary)
        for section in before
    )
    return Note("Last measured", text, ("what", "verdict", "when, and what was seen"), rows)


def changes_note(changes: Comparison) -> Note:
    """A comparison as a table."""
    rows = tuple(
        (
            difference.change.value,
            difference.check,
            difference.node,
            difference.figure or "verdict",
            difference.before,
            difference.after,
            difference.words,
        )
        for difference in changes.differences
    )
    return Note(f"Since {moment(changes.before)}", f"{changes.words}.", _HEAD if rows else (), rows)


def moment(at: float) -> str:
    """Unix seconds as people read them, in UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"


def bench_page(name: str, measurement: Benched, at: float | None = None) -> str:
    """A measurement of collectives as one HTML page.

    Args:
        name: the cluster.
        measurement: the measurement.
        at: unix seconds; None: now.
    """
    sections: list[Section] = []
    for table, verdict in measurement.benchmark.tables:
        (chart,) = bench_charts([(table, verdict)])
        what = verdict.collective.value if verdict.collective else table.label or "collective"
        output = "\n".join(verdict.reasons)
        evidence = Evidence("", f"job {measurement.job} on {measurement.nodes}", output)
        sections.append(
            Section(
                what,
                f"{what} over {_several(table.nodes, 'node')}, {_several(table.ranks, 'rank')}",
                WORDS[verdict.outcome],
                "; ".join(
                    (
                        f"{verdict.busbw:.4g} GB/s at {written(float(verdict.size), 'B')}",
                        *verdict.reasons[:1],
                    )
                ),
                "",
                "collectives",
                (chart,),
                (evidence,),
                label="unknown" if verdict.outcome is Outcome.UNKNOWN else "",
            )
        )
    if measurement.pairs:
        slow = measurement.slow
        sections.append(
            Section(
                "pairs",
                "Each pair of nodes",
                "warn" if slow.sentences else "pass",
                "; ".join(slow.sentences) or "no node and no link stands out",
                "",
                "collectives",
                (pair_matrix(measurement.pairs, slow.usual),),
            )
        )
    return render(_bench_report(name, sections, time.time() if at is None else at))


def _several(count: int, what: str) -> str:
    return f"{count or '?'} {what}{'' if count == 1 else 's'}"


def _bench_report(name: str, sections: list[Section], at: float) -> Report:
    worst = _worst(sections)
    verdict = {
        "fail": "slower than it must be",
        "warn": "slower than it should be",
        "pass": "as fast as it should be",
        "skip": "measured, nothing to compare with",
    }[worst]
    return Report(
        name, worst, verdict, at, tuple(sections), made="corral bench run", noun="measurement"
    )


def _worst(sections: list[Section]) -> Word:
    # Collectives that nothing is known to compare with are not proven by pairs that are alike.
    judged = any(section.word == "pass" and section.id != "pairs" for section in sections)
    for word in _GRAVEST:
        if any(section.word == word for section in sections) and (word != "pass" or judged):
            return word
    return "skip"


def write_page(path: Path, text: str) -> None:
    """Write a page; what is there is replaced completely or not at all.

    Raises:
        CorralError: USAGE, it cannot be written.
    """
    check_folder(path)
    try:
        if is_device(path):  # a rename would replace /dev/stdout itself
            write_output(path, text.encode())
            return
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                out.write(text)
            mask = os.umask(0)
            os.umask(mask)
            Path(name).chmod(0o666 & ~mask)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise CorralError(
            Code.USAGE,
            f"{path} cannot be written: {error.strerror}",
            hint="name a file in a folder that is there and that you may write to",
        ) from error
