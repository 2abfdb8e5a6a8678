"""The end of ``./test``: what it counts as failed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]
CASES = "<testcase name='a'/><testcase name='b'/>"
JUNIT = f"<testsuites><testsuite time='61'>{CASES}</testsuite></testsuites>"


def summary(out: Path) -> int:
    spec = importlib.util.spec_from_file_location("summary", REPO / ".ci/summary.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main(out)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "lint").write_text("ruff\t0\n")
    (tmp_path / "suites").write_text("embedded\t0\n")
    (tmp_path / "embedded.xml").write_text(JUNIT)
    return tmp_path


def test_a_test_that_ran_again_counts_once(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (out / "embedded.xml").write_text(JUNIT.replace(CASES, CASES + CASES))
    assert summary(out) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "3 passed, 0 failed, 0 skipped"


def test_all_good(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert summary(out) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "3 passed, 0 failed, 0 skipped"


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("lint", "ruff\t1\n"),
        ("suites", "embedded\t2\n"),
        ("suites", ""),
        ("embedded.xml", ""),
        ("embedded.xml", JUNIT.replace("'b'/>", "'b'><failure/></testcase>")),
    ],
)
def test_failures_count(
    out: Path, file: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (out / file).write_text(text)
    assert summary(out) == 1
    assert ", 1 failed, " in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize(
    ("ran", "number", "failed"),
    [(2, 1, 0), (2, 3, 0), (2, 4, 1), (399, 4, 1), (600, 6, 0), (600, 7, 1)],
)
def test_a_few_tests_may_run_again(
    out: Path, ran: int, number: int, failed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = "".join(f"<testcase name='{n}'/>" for n in range(ran))
    (out / "embedded.xml").write_text(JUNIT.replace(CASES, cases))
    lines = [f"tests/embedded/test_x.py::test_{n}\tassert {n}\n" for n in range(number)]
    (out / "embedded.reruns").write_text("".join(lines))
    assert summary(out) == failed
    printed = capsys.readouterr().out
    assert "failed and ran again: tests/embedded/test_x.py::test_0: assert 0" in printed
    assert printed.splitlines()[-1] == f"{ran + 1} passed, {failed} failed, 0 skipped"
