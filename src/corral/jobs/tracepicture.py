"""Traces of all ranks as one picture (SVG): when each computed or communicated. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from corral.jobs.trace import RankTrace, Spans, length

WIDTH: Final = 1000
LEFT: Final = 90
LANE: Final = 16
ROW: Final = 2 * LANE + 22
TOP: Final = 64
SHADES: Final = 8
MOST: Final = 64
"""Ranks drawn at most: the first ones."""

_COMPUTE: Final = "#2f7d4f"
_TALK: Final = "#c2571a"


def picture(traces: Sequence[RankTrace], title: str) -> str:
    """The picture; each rank's time begins at 0, where its first recorded step begins.

    Args:
        traces: one per rank.
        title: what was run.
    """
    drawn = traces[:MOST]
    longest = max((t.wall for t in drawn), default=1.0) or 1.0
    height = TOP + ROW * len(drawn) + 34
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 20} {height}" '
            'font-family="sans-serif" font-size="12">',
            f'<rect width="{LEFT + WIDTH + 20}" height="{height}" fill="white"/>',
            *_head(title, len(traces)),
            *(line for i, t in enumerate(drawn) for line in _rank(t, TOP + ROW * i, longest)),
            *_axis(longest, TOP + ROW * len(drawn)),
            "</svg>",
            "",
        ]
    )


def _head(title: str, ranks: int) -> Iterator[str]:
    more = f" (the first {MOST} of {ranks} ranks)" if ranks > MOST else ""
    yield f'<text x="8" y="20" font-size="15">{escape(title)}{more}</text>'
    for x, colour, word in ((LEFT, _COMPUTE, "compute"), (LEFT + 110, _TALK, "communication")):
        yield f'<rect x="{x}" y="34" width="12" height="12" fill="{colour}"/>'
        yield f'<text x="{x + 18}" y="44">{word}</text>'
    yield f'<text x="{LEFT + 250}" y="44" fill="#666">white: neither; lines: steps</text>'


def _rank(trace: RankTrace, y: int, longest: float) -> Iterator[str]:
    scale = WIDTH / longest
    yield f'<text x="8" y="{y + LANE + 4}">rank {trace.rank}</text>'
    wide = trace.wall * scale
    yield (
        f'<rect x="{LEFT}" y="{y}" width="{wide:.1f}" height="{2 * LANE}" fill="none" '
        'stroke="#bbb"/>'
    )
    for spans, top, colour in ((trace.compute, y, _COMPUTE),
                               (trace.communication, y + LANE, _TALK)):  # fmt: skip
        yield from _lane(spans, trace.begin, scale, top=top, colour=colour)
    for mark in trace.marks:
        x = LEFT + (mark - trace.begin) * scale
        yield f'<path d="M{x:.1f} {y - 3}v{2 * LANE + 6}" stroke="#333" stroke-width="0.7"/>'
    words = "   ".join(
        f"{name} {100 * part / (trace.wall or 1):.0f} %"
        for name, part in (
            ("compute", length(trace.compute)),
            ("communication", length(trace.communication)),
            ("overlap", trace.overlap),
            ("idle", trace.idle),
        )
    )
    yield f'<text x="{LEFT}" y="{y + 2 * LANE + 14}" font-size="11" fill="#444">{words}</text>'


def _lane(spans: Spans, begin: float, scale: float, *, top: int, colour: str) -> Iterator[str]:
    """A pixel is as dark as much of it is covered: a million kernels are a thousand pixels."""
    cover = [0.0] * (WIDTH + 1)
    for a, b in spans:
        first, last = (a - begin) * scale, (b - begin) * scale
        pixel = int(first)
        while pixel < last and pixel < WIDTH:
            cover[pixel] += min(last, pixel + 1) - max(first, pixel)
            pixel += 1
    start, shade = 0, 0
    for pixel, covered in enumerate([*cover, 0.0]):
        now = 0 if covered <= 0 else max(1, round(min(1.0, covered) * SHADES))
        if now != shade:
            if shade:
                yield (
                    f'<rect x="{LEFT + start}" y="{top}" width="{pixel - start}" height="{LANE}" '
                    f'fill="{colour}" fill-opacity="{shade / SHADES:g}"/>'
                )
            start, shade = pixel, now


def _axis(longest: float, y: int) -> Iterator[str]:
    for tenth in range(0, 11, 2):
        x = LEFT + WIDTH * tenth / 10
        label = longest * tenth / 10 / 1000
        yield f'<text x="{x:.0f}" y="{y + 16}" text-anchor="middle">{label:.4g} ms</text>'
