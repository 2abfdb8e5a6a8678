"""The page is self-contained, escapes everything, is readable, and draws what it is given."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from importlib import resources

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.errors import CorralError
from corral.prove.figures import (
    Axis,
    Better,
    Level,
    Mark,
    Matrix,
    Plot,
    Series,
    chart_from,
)
from corral.prove.model import CheckResult, Evidence, Proof, Verdict
from corral.report.charts import heat_rows, verdict_of, written
from corral.report.page import Note, Report, cleaned, proof_report, render
from tests.unit.report.samples import BANDWIDTH, PAIRS
from tests.unit.report.seen import Seen

CSS = resources.files("corral.report").joinpath("templates/report.css").read_text()
HOSTILE = (
    "</pre></style><script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp;\x00\x1b[31m\u202e"
)
PLOT, MATRIX = BANDWIDTH, PAIRS


def proof(text: str = "fine", *charts: Plot | Matrix) -> Proof:
    evidence = Evidence(text, text, text, {text or "x": text, "busbw_gb_s": 1.5}, charts)
    return Proof(
        "lab",
        1795304182.0,
        (
            CheckResult("net.pairs", text, "net", Verdict.FAIL, text, text, (evidence,), 1.0),
            CheckResult("smoke.nodes", "All nodes are up", "smoke", Verdict.PASS, "3 nodes"),
        ),
    )


def test_it_needs_no_other_file() -> None:
    seen = Seen(text := render(proof_report(proof("fine", PLOT, MATRIX))))
    assert not {"link", "iframe", "img", "object", "base"} & set(seen.tags)
    links = [v for name, v in seen.attributes if name in {"href", "src", "srcset", "action"}]
    assert links
    assert all(link.startswith("#") for link in links)
    assert not re.findall(r"url\(|@import|fetch\(|XMLHttpRequest|import\(", text)
    assert any("default-src 'none'" in value for _, value in seen.attributes)


def test_the_indentation_of_its_template_is_not_in_it() -> None:
    """It would make a report with a heat map of 1,000 cells twice as large."""
    text = render(proof_report(proof("fine", PLOT, MATRIX)))
    assert not re.findall("^ +<", text, re.MULTILINE)


def test_only_the_scripts_of_the_policy_run() -> None:
    seen = Seen(render(proof_report(proof("fine", PLOT))))
    content = next(value for _, value in seen.attributes if "script-src" in value)
    allowed = set(re.findall(r"'sha256-([^']+)'", content))
    assert "unsafe" not in content.partition("script-src")[2].partition(";")[0]
    data, *run = seen.scripts
    assert json.loads(data)["title"] == PLOT.title
    digests = {base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in run}
    assert digests == allowed


def test_the_verdict_comes_first_with_what_to_do() -> None:
    text = Seen(render(proof_report(proof("dgx05 is slow")))).text
    order = [
        "NOT proven",
        "2 checks: 1 failed, 1 passed",
        "What to look at",
        "What to do:",
        "All of",
    ]
    places = [text.index(words) for words in order]
    assert places == sorted(places)


def hostile(text: str = HOSTILE) -> Report:
    """A report in which every text attacks the page."""
    charts = (
        Plot(
            text,
            Axis(text),
            Axis("y", text),
            (Series(text, ((1.0, 2.0),)),),
            (Level(Mark.WARN, 1.0, text),),
        ),
        Matrix(text, (text,), (text,), ((1.0,),), text),
    )
    notes = [Note(text, text, (text,), ((text,),))]
    report = proof_report(proof(text, *charts), notes)
    return replace(report, subject=text, verdict=text, made=text, noun=text)


def test_hostile_text_stays_text() -> None:
    clean = Seen(render(hostile("fine")))
    seen = Seen(text := render(hostile()))
    assert seen.tags == clean.tags
    assert [name for name, _ in seen.attributes] == [name for name, _ in clean.attributes]
    assert "<script>alert(1)</script>" in seen.text
    assert not re.findall("[\x00\x1b\u202e]", text)
    assert "<script>alert" not in text


@settings(max_examples=25, deadline=None)
@given(st.text())
def test_any_text_is_one_text(text: str) -> None:
    """In text, attributes and the data of plots."""
    plot = Plot(text, Axis("x"), Axis("y"), (Series(text, ((1.0, 2.0),)),))
    clean = Seen(render(proof_report(proof("fine", plot))))
    page = render(proof_report(proof(text or "x", plot)))
    seen = Seen(page)
    assert [tag for tag in seen.tags if tag != "pre"] == [t for t in clean.tags if t != "pre"]
    assert " ".join(cleaned(text).split()) in seen.words
    assert json.loads(seen.scripts[0])["title"] == cleaned(text)


def test_what_plots_show() -> None:
    seen = Seen(render(proof_report(proof("fine", PLOT))))
    assert chart_from(json.loads(seen.scripts[0])) == PLOT
    assert "bus bandwidth against message size" in seen.words
    assert "limit 400 GB/s; healthy: 360; warn 300 GB/s; fail 259 GB/s" in seen.words
    assert "4 MiB 300" in seen.words, "a row of the table"


def test_a_plot_without_points_shows_that_nothing_was_measured() -> None:
    empty = Plot("none", Axis("x"), Axis("y"), (Series("s", ()),))
    seen = Seen(render(proof_report(proof("fine", empty))))
    assert "nothing was measured" in seen.words
    assert ("class", "plot") not in seen.attributes


def test_what_heat_maps_show() -> None:
    seen = Seen(render(proof_report(proof("fine", MATRIX))))
    assert "\u2716 21 fail" in seen.words
    classes = [value.split() for name, value in seen.attributes if name == "class"]
    assert ["cell", "bad", "fail"] in classes
    assert ["cell", "good"] in classes
    assert classes.count(["none"]) == 2
    assert verdict_of(MATRIX, 40.0) == "warn"
    less = Matrix("us", ("a",), ("a",), ((9.0,),), "us", Better.LESS, 4.0, 8.0)
    assert verdict_of(less, 9.0) == "fail"
    assert verdict_of(less, 3.0) == ""


@pytest.mark.parametrize("better", [Better.LESS, Better.MORE])
def test_no_failing_cell_has_a_good_colour(better: Better) -> None:
    """Where all cells failed, the best of them was blue."""
    limit = 8.0 if better is Better.LESS else 10.0
    ((_, cells),) = heat_rows(
        Matrix("m", ("a",), ("a", "b"), ((9.0, 9.5),), "us", better, fail=limit)
    )
    assert [(c.verdict, c.good, c.percent) for c in cells if c] == [("fail", False, 100)] * 2


def test_large_matrices_have_their_numbers_in_a_table() -> None:
    names = tuple(f"n{i}" for i in range(40))
    cells = tuple(tuple(1.0 if i != j else None for j in range(40)) for i in range(40))
    seen = Seen(render(proof_report(proof("fine", Matrix("m", names, names, cells)))))
    assert ("class", "heat many") in seen.attributes
    assert ("class", "numbers") in seen.attributes


def luminance(text: str) -> float:
    """Relative luminance of WCAG 2.2, 0 to 1."""
    number = int(text.removeprefix("#"), 16)
    parts = [part / 255 for part in (number >> 16, number >> 8 & 255, number & 255)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(ink: str, ground: str) -> float:
    high, low = sorted((luminance(ink), luminance(ground)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def colours(block: str) -> dict[str, str]:
    return dict(re.findall(r"(--[a-z0-9]+): (#[0-9a-f]{6});", block))


LIGHT, DARK = map(colours, CSS.split("}", 2)[:2])


@pytest.mark.parametrize("mode", [LIGHT, {**LIGHT, **DARK}], ids=["light", "dark"])
def test_contrast(mode: dict[str, str]) -> None:
    assert set(LIGHT) - set(DARK) == {"--best", "--middle", "--worst"}
    for ground in ("--ground", "--card"):
        for name in ("--ink", "--muted", "--link", "--pass", "--warn", "--fail", "--skip"):
            assert contrast(mode[name], mode[ground]) >= 4.5, (name, ground)
    for name in [f"--s{i}" for i in range(8)] + ["--limit", "--reference"]:
        assert contrast(mode[name], mode["--ground"]) >= 4.5, name
    # Numbers in cells are black; a mixture of two colours is lighter than the darker one.
    assert all(contrast("#000000", mode[f"--{name}"]) >= 4.5 for name in ("best", "worst"))


@pytest.mark.parametrize("chart", [PLOT, MATRIX], ids=["plot", "matrix"])
def test_charts_survive_json(chart: Plot | Matrix) -> None:
    assert chart_from(json.loads(json.dumps(chart.as_dict()))) == chart


@pytest.mark.parametrize("data", [{}, {"kind": "pie"}, {"kind": "plot", "title": "x"}])
def test_what_is_no_chart_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(CorralError):
        chart_from(data)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 0.0, -1.0])
def test_what_cannot_be_drawn_is_refused(bad: float) -> None:
    with pytest.raises(CorralError):
        Plot("p", Axis("x", log=True), Axis("y"), (Series("s", ((bad, 1.0),)),))


def test_a_matrix_of_another_shape_is_refused() -> None:
    with pytest.raises(CorralError):
        Matrix("m", ("a", "b"), ("a",), ((1.0,),))


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(1.5, "", "1.5"), (12400, "", "12400"), (67108864, "B", "64 MiB"), (3e-7, "", "3e-07")],
)
def test_numbers_for_people(value: float, unit: str, text: str) -> None:
    assert written(value, unit) == text


@pytest.mark.parametrize(
    ("verdicts", "words"),
    [
        ((Verdict.WARN,), "worth checking"),
        ((Verdict.PASS, Verdict.FAIL), "not as it must be"),
        ((Verdict.SKIP,), "measured, nothing to compare with"),
    ],
)
def test_a_measurement_is_not_called_unproven(verdicts: tuple[Verdict, ...], words: str) -> None:
    """Two of two H200 at 69 % of their limit: the page's heading was "NOT proven" (seen)."""
    results = tuple(CheckResult("measure.scaling", "T", "measure", v, "s") for v in verdicts)
    text = Seen(render(proof_report(Proof("lab", 1.0, results)))).text
    assert words in text
    assert "proven" not in text
