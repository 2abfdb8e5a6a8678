"""Reports that tests render: recorded proofs, and one with all that a report can hold."""

from __future__ import annotations

import json
from pathlib import Path

from corral.prove.figures import Axis, Better, Level, Mark, Matrix, Plot, Series
from corral.prove.model import CheckResult, Evidence, Proof, Verdict
from corral.report.page import Note, Report, Section, proof_report

RECORDED = Path(__file__).parents[2] / "recorded" / "reports"
BANDWIDTH = Plot(
    "all_reduce",
    Axis("message size", "B", log=True),
    Axis("bus bandwidth", "GB/s"),
    (Series("in", ((1048572.0, 10.0), (4194304.0, 300.0))), Series("out", ((2097152.0, 7.0),))),
    (Level(Mark.LIMIT, 400.0, "limit 400 GB/s"), Level(Mark.REFERENCE, 360.0, "healthy: 360"),
     Level(Mark.WARN, 300.0), Level(Mark.FAIL, 259.0)),
)  # fmt: skip
PAIRS = Matrix(
    "pairs", ("a", "b"), ("a", "b"), ((None, 46.0), (21.0, None)), "GB/s", warn=42.0, fail=32.0
)


def recorded(name: str) -> Report:
    """A recorded proof as a report."""
    return proof_report(Proof.from_dict(json.loads((RECORDED / f"{name}.json").read_text())))


def latency(names: tuple[str, ...]) -> Matrix:
    return Matrix(
        "latency",
        names,
        names,
        ((None, 4.0, 9.5), (4.1, None, 6.0), (4.2, 3.9, None)),
        "us",
        Better.LESS,
        5.0,
        8.0,
    )


def scaling() -> Plot:
    return Plot(
        "tokens per second",
        Axis("nodes"),
        Axis("speed", "tokens/s"),
        tuple(
            Series(f"model {i}", tuple((float(n), n * 1000.0 * (i + 1)) for n in (1, 2, 4, 8)))
            for i in range(9)
        ),
    )


def full() -> Report:
    """Every field of a report, with charts of all kinds."""
    names = tuple(f"node{i}" for i in range(24))
    cells = tuple(
        tuple(None if i == j else 40.0 - 9 * (i == 7) for j in range(24)) for i in range(24)
    )
    figures = {"busbw_gb_s": 21.123456, "nodes": 3, "word": "slow", "bytes": 12345678.0}
    charts = (BANDWIDTH, PAIRS, Matrix("every pair", names, names, cells, "GB/s"))
    check = CheckResult(
        "net.pairs",
        "Each pair of nodes",
        "net",
        Verdict.FAIL,
        "node7 is slow with all",
        "look at its cable",
        (Evidence("node7", "corral bench", "42\n<b>", figures, charts),),
        12.34,
    )
    others = (
        CheckResult("smoke.nodes", "Nodes are up", "smoke", Verdict.PASS, "3 nodes", "", (), 0.5),
        CheckResult("gpu.count", "GPUs are there", "gpu", Verdict.WARN, "7 of 8", "reseat it"),
        CheckResult("rest.auth", "REST refuses", "rest", Verdict.SKIP, "off in the file"),
    )
    report = proof_report(
        Proof("lab", 1795304182.0, (check, *others)),
        [
            Note("Since 2026-11-01", "1 worse.", ("", "check"), (("worse", "net.pairs"),)),
            Note("Quiet", "nothing changed."),
        ],
    )
    before = Section(
        "measured.training",
        "Training",
        "skip",
        "2 times as fast",
        "none",
        "measured before",
        (scaling(), latency(names[:3])),
        (),
        3.0,
        "unknown",
    )
    return Report(
        report.subject,
        report.word,
        report.verdict,
        report.at,
        report.sections,
        report.notes,
        before=(before,),
    )
