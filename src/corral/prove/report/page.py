"""A report as one page: verdict first, then what is wrong, the plots, all evidence. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from corral.prove.figures import Chart, Matrix, Plot
from corral.prove.model import CheckResult, Evidence, Figure, Proof, Verdict
from corral.prove.report.heat import heat_svg, verdict_of
from corral.prove.report.scales import written
from corral.prove.report.style import STYLE
from corral.prove.report.svg import legend, plot_svg
from corral.prove.report.tree import Node, add, h, page

Word = Literal["pass", "warn", "fail", "skip"]
_SIGNS: Final = {"pass": "\u2713", "warn": "!", "fail": "\u2716", "skip": "\u2013"}
_ORDER: Final[tuple[Word, ...]] = ("fail", "warn", "pass", "skip")
_WORDS: Final = {"pass": "passed", "warn": "warned", "fail": "failed", "skip": "skipped"}
_MEASURED: Final = {
    "fail": "not as it must be",
    "warn": "worth a look",
    "pass": "as it should be",
    "skip": "measured, nothing to compare with",
}
MOST_ROWS: Final = 200
"""Rows of a table beside a plot; the JSON has all."""


@dataclass(frozen=True, slots=True)
class Section:
    """One thing that was found out.

    Attributes:
        id: the check's id, or another stable name.
        title: in words.
        word: what came of it.
        summary: one line.
        hint: what to do, "" for nothing.
        group: what it stands under.
        charts: plots that are shown in full; those of the evidence are added to them.
        evidence: what it rests on, folded.
        seconds: how long it took.
        label: what is said in the place of ``word``, "" for ``word`` itself.
    """

    id: str
    title: str
    word: Word
    summary: str
    hint: str = ""
    group: str = ""
    charts: tuple[Chart, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    seconds: float = 0.0
    label: str = ""

    @property
    def drawn(self) -> tuple[Chart, ...]:
        """All its charts."""
        return (*self.charts, *(chart for one in self.evidence for chart in one.charts))


@dataclass(frozen=True, slots=True)
class Note:
    """A table between the verdict and the plots, such as what changed since last time."""

    title: str
    words: str
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """A whole page.

    Attributes:
        subject: what it is about, such as the cluster's name.
        word: the verdict.
        verdict: the verdict in words, such as "proven".
        at: unix seconds.
        sections: what was found out, in order.
        notes: tables after the verdict.
        made: what made it, for the foot of the page.
        noun: what the sections are, such as "check".
        before: what was measured before and belongs to no verdict of this page; drawn and folded.
    """

    subject: str
    word: Word
    verdict: str
    at: float
    sections: tuple[Section, ...]
    notes: tuple[Note, ...] = ()
    made: str = "corral prove"
    noun: str = "check"
    before: tuple[Section, ...] = ()


def proof_report(proof: Proof, notes: Sequence[Note] = ()) -> Report:
    """A proof as a report; a measurement (``corral bench scaling``) proves nothing but itself."""
    sections = tuple(_section(result) for result in proof.results)
    if sections and all(one.group == "measure" for one in sections):
        worst: Word = next(word for word in _ORDER if any(one.word == word for one in sections))
        words, made = _MEASURED[worst], "corral bench"
        return Report(
            proof.cluster, worst, words, proof.at, sections, tuple(notes), made, "measurement"
        )
    word: Word = "pass" if proof.good else "fail"
    if proof.good and (proof.count(Verdict.WARN) or not proof.proven):
        word = "warn"
    return Report(
        proof.cluster,
        word,
        proof.words,
        proof.at,
        sections,
        tuple(notes),
    )


def _section(result: CheckResult) -> Section:
    return Section(
        result.check,
        result.title,
        result.verdict.value,
        result.summary,
        result.hint,
        result.group,
        (),
        result.evidence,
        result.seconds,
    )


def render(report: Report) -> str:
    """The page: one file, which loads nothing and runs no script."""
    when = datetime.fromtimestamp(report.at, UTC)
    stamp = h("time", f"{when:%Y-%m-%d %H:%M} UTC", datetime=f"{when:%Y-%m-%dT%H:%M:%SZ}")
    header = h(
        "header",
        h("h1", f"{report.subject}: ", badge(report.word, report.verdict)),
        h("p", _counts(report), ", ", stamp, class_="lead"),
    )
    body = [
        *_troubles(report.sections),
        *(part for note in report.notes for part in _note(note)),
        *_figures((*report.sections, *report.before)),
        *_all((*report.sections, *report.before)),
    ]
    footer = h(
        "footer",
        h("p", f"Made by {report.made}. This page stands alone: it loads nothing, runs no script, "
          "and can be kept or mailed as it is."),
    )  # fmt: skip
    title = f"{report.subject}: {report.verdict}"
    return page(title, STYLE, header, h("main", *body), footer)


def badge(word: Word, text: str = "") -> Node:
    """A verdict by sign, word and colour."""
    return h("span", f"{_SIGNS[word]} {text or word}", class_=f"badge {word}")


def _counts(report: Report) -> str:
    sections = report.sections
    said = [
        one.label or _WORDS[one.word] for word in _ORDER for one in sections if one.word == word
    ]
    parts = [f"{said.count(word)} {word}" for word in dict.fromkeys(said)]
    total = f"{len(sections)} {report.noun}" + ("" if len(sections) == 1 else "s")
    return f"{total}: {', '.join(parts) or 'none'}"


def _anchor(section: Section) -> str:
    kept = "".join(c if c.isascii() and (c.isalnum() or c in ".-_") else "-" for c in section.id)
    return f"c-{kept}"


def _troubles(sections: Sequence[Section]) -> Iterator[Node]:
    bad = [one for word in ("fail", "warn") for one in sections if one.word == word]
    if not bad:
        return
    yield h("h2", "What to look at")
    for one in bad:
        box = h("section", class_=f"trouble {one.word}")
        add(box, h("h3", badge(one.word), " ", h("a", one.id, href=f"#{_anchor(one)}"),
                   f": {one.title}"))  # fmt: skip
        add(box, h("p", one.summary))
        if one.hint:
            add(box, h("p", h("strong", "What to do: "), one.hint))
        yield box


def _note(note: Note) -> Iterator[Node]:
    yield h("h2", note.title)
    yield h("p", note.words)
    if note.rows:
        yield h("div", _table(note.head, note.rows), class_="scroll")


def _figures(sections: Sequence[Section]) -> Iterator[Node]:
    drawn = [(one, chart) for one in sections for chart in one.drawn]
    if not drawn:
        return
    yield h("h2", "Figures")
    box = h("div", class_="figures")
    for section, chart in drawn:
        add(box, figure(chart, section))
    yield box


def figure(chart: Chart, section: Section | None = None) -> Node:
    """One chart with its words, and its numbers folded below it."""
    caption = h("figcaption", chart.title)
    if section is not None:
        add(caption, " ")
        add(caption, badge(section.word, section.label))
    if isinstance(chart, Plot):
        picture = [plot_svg(chart), legend(chart)]
    else:
        picture = [h("div", heat_svg(chart), class_="scroll"), _key(chart)]
    numbers = h(
        "details", h("summary", "numbers"), h("div", _numbers(chart), class_="inside scroll")
    )
    return h("figure", caption, *picture, numbers)


def _key(matrix: Matrix) -> Node:
    way = {"more": "blue is more, orange is less", "less": "blue is less, orange is more"}
    words = [": ".join(w for w in (matrix.unit, way.get(matrix.better.value, "")) if w)]
    beyond = "above" if matrix.better.value == "less" else "below"
    if matrix.warn is not None:
        words.append(f"! warns {beyond} {written(matrix.warn)}")
    if matrix.fail is not None:
        words.append(f"\u2716 fails {beyond} {written(matrix.fail)}")
    return h("p", "; ".join(word for word in words if word), class_="muted")


def _numbers(chart: Chart) -> Node:
    if isinstance(chart, Matrix):
        rows = [
            (name, *("" if cell is None else f"{written(cell)} {verdict_of(chart, cell)}".strip()
                     for cell in cells))
            for name, cells in zip(chart.rows, chart.cells, strict=True)
        ]  # fmt: skip
        return _table((chart.unit, *chart.columns), rows[:MOST_ROWS])
    places = sorted({x for one in chart.series for x, _ in one.points})[:MOST_ROWS]
    values = [dict(one.points) for one in chart.series]
    rows = [
        (written(x, chart.x.unit), *(written(v[x]) if x in v else "" for v in values))
        for x in places
    ]
    names = (f"{one.name} ({chart.y.unit})" if chart.y.unit else one.name for one in chart.series)
    return _table((chart.x.name, *names), rows)


def _all(sections: Sequence[Section]) -> Iterator[Node]:
    yield h("h2", "All of it, with its evidence")
    for group in dict.fromkeys(one.group for one in sections):
        members = [one for one in sections if one.group == group]
        if group:
            yield h("h3", group)
        for one in members:
            yield _folded(one)


def _folded(one: Section) -> Node:
    head = h(
        "summary",
        badge(one.word, one.label),
        " ",
        h("span", one.id, class_="what"),
        " ",
        one.summary,
    )
    took = f" Took {one.seconds:.1f} s." if one.seconds else ""
    inside = h("div", h("p", f"{one.title}.{took}", class_="muted"), class_="inside")
    if one.hint:
        add(inside, h("p", h("strong", "What to do: "), one.hint))
    if not one.evidence:
        add(inside, h("p", "No evidence was kept.", class_="muted"))
    for item in one.evidence:
        for part in _evidence(item):
            add(inside, part)
    return h("details", head, inside, id=_anchor(one))


def _evidence(item: Evidence) -> Iterator[Node]:
    where = f"{item.node}: " if item.node else ""
    if item.command:
        yield h("p", h("strong", where), h("code", item.command))
    elif where:
        yield h("p", h("strong", where))
    if item.output.strip():
        yield h("pre", item.output, tabindex="0")
    if item.figures:
        yield h("div", _table(("figure", "value"), [*map(_figure, item.figures.items())]),
                class_="scroll")  # fmt: skip


def _figure(pair: tuple[str, Figure]) -> tuple[str, str]:
    name, value = pair
    return name, written(value) if isinstance(value, float) else str(value)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Node:
    body = h("tbody", *(h("tr", *(h("td", cell) for cell in row)) for row in rows))
    if not head:
        return h("table", body)
    top = h("tr", *(h("th", name, scope="col") for name in head))
    return h("table", h("thead", top), body)
