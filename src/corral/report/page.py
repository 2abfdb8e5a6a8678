"""A report as one page: verdict first, then what is wrong, the plots, all evidence."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from corral.escapes import without_controls
from corral.prove.figures import Chart
from corral.prove.model import CheckResult, Evidence, Proof, Verdict
from corral.report import charts

if TYPE_CHECKING:
    from jinja2 import Environment

Word = Literal["pass", "warn", "fail", "skip"]
_SIGNS: Final = {"pass": "\u2713", "warn": "!", "fail": "\u2716", "skip": "\u2013"}
_ORDER: Final[tuple[Word, ...]] = ("fail", "warn", "pass", "skip")
_WORDS: Final = {"pass": "passed", "warn": "warned", "fail": "failed", "skip": "skipped"}
_MEASURED: Final = {
    "fail": "not as it must be",
    "warn": "worth checking",
    "pass": "as it should be",
    "skip": "measured, nothing to compare with",
}
SCRIPTS: Final = ("web/static/vendor/uPlot.iife.min.js", "report/templates/plots.js")
STYLES: Final = ("web/static/vendor/uPlot.min.css", "report/templates/report.css")


def _gravest_first(sections: Sequence[Section]) -> Sequence[Section]:
    return sorted(sections, key=lambda section: _ORDER.index(section.word))


@dataclass(frozen=True, slots=True)
class Section:
    """One thing that was found out.

    Attributes:
        id: the check's id, or another stable name.
        title: in words.
        word: what came of it.
        summary: one line.
        hint: what to do, "" for nothing.
        group: its heading.
        charts: plots that are shown in full; those of the evidence are added to them.
        evidence: what it rests on, folded.
        seconds: how long it took.
        label: shown instead of ``word``, "" for ``word``.
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
        return (*self.charts, *(chart for evidence in self.evidence for chart in evidence.charts))

    @property
    def anchor(self) -> str:
        """Its place on the page."""
        return f"c-{re.sub('[^A-Za-z0-9._-]', '-', self.id)}"


@dataclass(frozen=True, slots=True)
class Note:
    """A table between the verdict and the plots, such as what changed since last time."""

    title: str
    words: str
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """A complete page.

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

    @property
    def counts(self) -> str:
        """How many sections came to which verdict."""
        words = [section.label or _WORDS[section.word] for section in _gravest_first(self.sections)]
        parts = [f"{words.count(word)} {word}" for word in dict.fromkeys(words)]
        total = f"{len(words)} {self.noun}" + ("" if len(words) == 1 else "s")
        return f"{total}: {', '.join(parts) or 'none'}"

    @property
    def troubles(self) -> tuple[Section, ...]:
        """Sections that failed or warned, failures first."""
        return tuple(
            section for section in _gravest_first(self.sections) if section.word in ("fail", "warn")
        )

    @property
    def groups(self) -> dict[str, tuple[Section, ...]]:
        """All sections by the group they are under, in their order."""
        listed = (*self.sections, *self.before)
        names = dict.fromkeys(section.group for section in listed)
        return {
            name: tuple(section for section in listed if section.group == name) for name in names
        }


def proof_report(proof: Proof, notes: Sequence[Note] = ()) -> Report:
    """A proof as a report; a measurement (``corral bench scaling``) proves nothing but itself."""
    sections = tuple(_section(result) for result in proof.results)
    if sections and all(section.group == "measure" for section in sections):
        worst: Word = next(
            word for word in _ORDER if any(section.word == word for section in sections)
        )
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
    """The page: one file that loads nothing, and runs only the scripts that its policy names."""
    return (
        _templates()
        .get_template("report.html")
        .render(
            report=report,
            when=datetime.fromtimestamp(report.at, UTC),
            policy=policy(),
            scripts=map(_file, SCRIPTS),
            styles=map(_file, STYLES),
            signs=_SIGNS,
            charts=charts,
            cleaned=cleaned,
        )
        .lstrip()
    )


def render_tables(subject: str, verdict: str, notes: Sequence[Note], *, made: str) -> str:
    """A page of tables: one file that loads and runs nothing.

    Args:
        subject: what it is about.
        verdict: one line about it.
        notes: the tables, in order.
        made: what made it, for the foot of the page.
    """
    page = _templates().get_template("tables.html")
    named = {"subject": subject, "verdict": verdict, "notes": notes, "made": made}
    styles = [_file("report/templates/report.css")]
    return page.render(named, policy=policy(), styles=styles).lstrip()


def policy() -> str:
    """The content security policy of every report: its own scripts, by their digests."""
    digests = (
        base64.b64encode(hashlib.sha256(_file(name).encode()).digest()).decode() for name in SCRIPTS
    )
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; base-uri 'none'; "
        "form-action 'none'"
    )


def cleaned(value: Any) -> Any:
    """Text without terminal colours; characters that no page may hold become U+FFFD."""
    if isinstance(value, str):
        return without_controls(value)
    if isinstance(value, dict):
        return {name: cleaned(item) for name, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [cleaned(item) for item in cast("Sequence[Any]", value)]
    return value


def _templates() -> Environment:
    # Here, because most commands make no report: importing Jinja2 takes 50 ms.
    from jinja2 import Environment, FunctionLoader, StrictUndefined  # noqa: PLC0415
    from markupsafe import Markup  # noqa: PLC0415

    def finalize(value: object) -> object:
        return value if isinstance(value, Markup) else cleaned(value)

    return Environment(
        loader=FunctionLoader(_template),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        finalize=finalize,
    )


def _template(name: str) -> str:
    """A template without its indentation, which doubles the size of a large heat map."""
    return re.sub("^ +", "", _file(f"report/templates/{name}"), flags=re.MULTILINE)


def _file(name: str) -> str:
    return resources.files("corral").joinpath(name).read_text(encoding="utf-8")
