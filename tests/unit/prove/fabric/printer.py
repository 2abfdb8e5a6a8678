"""Prints tables as each generation of nccl-tests does, from its printf formats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from corral.prove.fabric.model import Collective, Timing, bus_factor


@dataclass(frozen=True)
class Generation:
    """One layout: which versions, how wide, what the check is called."""

    name: str
    own_columns: bool  # only the columns that the collective has (2.0 to 2.12)
    check: str
    old_chunks: bool = False  # (n-1)/n is in algbw already (2.0 to 2.9)
    per_iteration: bool = False
    stamps: bool = False
    cpu: bool = False
    narrow: bool = False  # getFloatStr: never wider than the column (2.17.7 and later)


GENERATIONS = (
    Generation("2.0", own_columns=True, check="error", old_chunks=True),
    Generation("2.10", own_columns=True, check="error"),
    Generation("2.13", own_columns=False, check="#wrong"),
    Generation("2.19", own_columns=False, check="#wrong", narrow=True),
    Generation("2.19 -S", own_columns=False, check="#wrong", narrow=True, stamps=True),
    Generation("2.19 -I", own_columns=False, check="#wrong", narrow=True, per_iteration=True),
    Generation("2.19 -C", own_columns=False, check="#wrong", narrow=True, cpu=True),
)

COLUMNS = {
    Collective.ALL_REDUCE: ("redop",),
    Collective.ALL_GATHER: (),
    Collective.REDUCE_SCATTER: ("redop",),
    Collective.BROADCAST: ("root",),
    Collective.REDUCE: ("redop", "root"),
    Collective.SENDRECV: (),
}
CHUNKED = (Collective.ALL_GATHER, Collective.REDUCE_SCATTER)


def measured(
    generation: Generation, collective: Collective, ranks: int, size: int, us: float
) -> Timing:
    """What the program computes from a time."""
    alg = size / us / 1000
    factor = bus_factor(collective, ranks)
    if generation.old_chunks and collective in CHUNKED:
        return Timing(us, alg * factor, alg * factor, wrong=0)
    return Timing(us, alg, alg * factor, wrong=0)


def _narrow(value: float, width: int) -> str:
    for decimals in (2, 1, 0):
        text = f"{value:{width}.{decimals}f}"
        if len(text) <= width:
            return text
    return f"{value:{width}.{1 if width >= 7 else 0}e}"


def _time(value: float, generation: Generation) -> str:
    if generation.narrow:
        return _narrow(value, 7)
    if value >= 10000:
        return f"{value:7.0f}"
    return f"{value:7.1f}" if value >= 100 else f"{value:7.2f}"


def _group(t: Timing, generation: Generation) -> str:
    bands = (
        (_narrow(t.algbw, 6), _narrow(t.busbw, 6))
        if generation.narrow
        else (f"{t.algbw:6.2f}", f"{t.busbw:6.2f}")
    )
    wrong = (
        "  N/A"
        if t.wrong is None
        else ("5e-07" if generation.check == "error" else f"{t.wrong:5g}")
    )
    text = f"  {_time(t.time_us, generation)}  {bands[0]}  {bands[1]}  {wrong}"
    return text + "     1.00     2.00     1.50     0.30" if generation.per_iteration else text


def table(
    generation: Generation,
    collective: Collective,
    rows: Sequence[tuple[int, Timing | None, Timing]],
    *,
    program: bool = True,
    footer: bool = True,
    element: str = "float",
    width: int = 4,
    ranks: int = 2,
) -> str:
    """The entire output."""
    reduces = collective in (Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.REDUCE)
    rooted = collective in (Collective.BROADCAST, Collective.REDUCE)
    own = COLUMNS[collective] if generation.own_columns else ("redop", "root")
    value = {"redop": "sum" if reduces else "none", "root": "0" if rooted else "-1"}
    measures = ["cputime" if generation.cpu else "time", "algbw", "busbw", generation.check]
    if generation.per_iteration:
        measures += ["i_min", "i_max", "i_p99", "i_cv%"]
    names = ["size", "count", "type", *own, *measures, *measures]
    if generation.stamps:
        names.append("timestamp")
    out = []
    if program:
        out.append(f"# Collective test starting: {collective.value}_perf")
    out += ["#", "#        out-of-place      in-place", "# " + "  ".join(f"{n:>7}" for n in names)]
    out.append("#        (B)    (elements)      (us)  (GB/s)  (GB/s)")
    for size, first, second in rows:
        count = size // width // (ranks if collective in CHUNKED else 1)
        left = f"{size:12d}  {count:12d}  {element:>8}" + "".join(f"  {value[c]:>6}" for c in own)
        body = " " * 32 if first is None else _group(first, generation)
        stamp = "  2026-03-01 10:20:30" if generation.stamps else ""
        out.append(left + body + _group(second, generation) + stamp)
    cells = [t.busbw for _, a, b in rows for t in (a, b) if t is not None]
    if footer:
        out.append("# Out of bounds values : 0 OK")
        out.append(f"# Avg bus bandwidth    : {sum(cells) / len(cells):g} ")
        out.append("#")
    return "\n".join(out) + "\n"
