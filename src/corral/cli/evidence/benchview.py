"""How benchmarks of collectives look."""

from __future__ import annotations

from typing import Final

from rich.console import RenderableType
from rich.text import Text

from corral.api.evidence.bench import RunFailure
from corral.cli.terminal.text import binary, clean, one_line, plural, right, table
from corral.prove.fabric.model import Table
from corral.prove.fabric.transport import Transport
from corral.prove.fabric.verdict import Outcome, Verdict

STYLES: Final = {
    Outcome.PASS: "green",
    Outcome.WARN: "yellow",
    Outcome.FAIL: "bold red",
    Outcome.UNKNOWN: "dim",
}


def view(measured: Table, verdict: Verdict) -> list[RenderableType]:
    """One table with its verdict."""
    name = measured.collective.value if measured.collective else "a collective"
    who = f"{plural(measured.ranks, 'rank')}" if measured.ranks else "ranks not known"
    where = f" on {plural(measured.nodes, 'node')}" if measured.nodes else ""
    rows = [
        (
            binary(row.size),
            f"{min((t.time_us for t in row.timings), default=0):.1f}",
            f"{max((t.algbw for t in row.timings), default=0):.2f}",
            f"{row.best:.2f}",
        )
        for row in measured.rows
    ]
    head = Text.assemble(
        (f"{clean(measured.label)} " if measured.label else "", "dim"), (name, "bold")
    )
    outcome = Text.assemble(
        (verdict.outcome.value, STYLES[verdict.outcome]),
        f": {verdict.busbw:.4g} GB/s at {binary(verdict.size)}",
    )
    if verdict.reference is not None and verdict.reference.limit:
        outcome.append(f"; limit {verdict.reference.limit:.4g} GB/s", "dim")
    if verdict.reference is not None and verdict.reference.source:
        outcome.append(f"; reference: {one_line(verdict.reference.source)}", "dim")
    return [
        head.append(f", {who}{where}"),
        table(right("size", "us", "algbw GB/s", "busbw GB/s"), rows),
        outcome,
        *(Text(f"  {clean(reason)}") for reason in verdict.reasons),
    ]


def failure_view(failure: RunFailure) -> list[RenderableType]:
    """A run that gave no complete measurement."""
    head = Text.assemble(("fail", STYLES[Outcome.FAIL]), f": {clean(failure.cause)}")
    if failure.finding:
        head.append(f" ({failure.finding})", "dim")
    hint = [Text(f"  hint: {clean(failure.hint)}")] if failure.hint else []
    return [head, *hint, *(Text(f"  {clean(line)}", "dim") for line in failure.lines)]


def transport_view(transport: Transport) -> Text:
    """What NCCL used."""
    parts = [f"NCCL {transport.version}" if transport.version else "NCCL"]
    if transport.network:
        parts.append(
            f"network {transport.network} ({', '.join(transport.devices) or 'devices unknown'})"
        )
    parts += [f"{count} x {kind}" for kind, count in transport.channels]
    if transport.gpu_direct:
        parts.append(f"{transport.gpu_direct} with GPUDirect RDMA")
    return Text(f"used: {clean(', '.join(parts))}", "dim")
