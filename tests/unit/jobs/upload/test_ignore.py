"""Ignore files of a hostile project: the same answers as pathspec's, in bounded time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from corral.errors import Code, CorralError
from corral.jobs.upload import ignore
from corral.jobs.upload.ignore import ALWAYS_OUT, MOST_LINES, IgnoreRules
from corral.jobs.upload.manifest import pack

PARTS = st.sampled_from([*"aab*?/", "**", "**/", "/**/", "[ab]", "[!a]", "[a-c]", "\\*", "."])
LINES = st.lists(PARTS, min_size=1, max_size=9).map("".join)
PATHS = st.text(alphabet="aabc.*/", min_size=1, max_size=12)


@settings(max_examples=500, deadline=None)
@given(LINES, PATHS, st.booleans())
@example("*a*b*ab", "xaabab", False)
@example("a**b/**/[!a]*a", "ab/c/ba", False)
@example("[a[^/]*b*", "a*b", True)
def test_the_answers_are_pathspecs_own(line: str, path: str, negated: bool) -> None:
    lines = ["*", f"!{line}"] if negated else [line]
    try:
        reference = GitIgnoreSpec.from_lines([*ALWAYS_OUT, *lines])
    except ValueError:
        return
    try:
        rules = IgnoreRules(lines)
    except CorralError as error:
        assert "wildcards that cannot be matched in bounded time" in error.message
        return
    for name in (path, f"{path}/", f"x/{path}"):
        assert rules.match_file(name) == reference.match_file(name), (line, name)


@pytest.mark.parametrize(
    "line",
    [
        "*a" * 40 + "*b", "*a*?" * 20 + "b", "**a" * 60 + "**b", "?*" * 50 + "b", "*" * 900 + "b",
        "*aa*a" * 30 + "/b", "*/" * 90 + "b", "*\\a" * 60 + "b", "a*[b]" * 3 + "c",
        "**/a/**/a/**/b", "[ab]*" * 4 + "c", "*a" * 20 + "*b/" + "*a" * 20 + "*b",
    ],
)  # fmt: skip
def test_no_line_takes_for_ever(line: str) -> None:
    """Backtracking over these takes hours: the limit of each test ends it."""
    try:
        rules = IgnoreRules([line])
    except CorralError as error:
        assert error.code is Code.USAGE
    else:
        for name in ("a" * 250, "a/" * 199 + "a", "ab" * 120, f"{'a' * 250}/" * 10):
            rules.match_file(name)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["*[ab]*[cd]*[ef]*[gh]*"], "5 wildcards that cannot be matched in bounded time: *[ab]"),
        (["a/**/b/**/c/**/d/**/e"], "4 wildcards"),
        (["x" * 1001], "a line of 1001 characters"),
        (["x"] * (MOST_LINES + 1), "5001 lines"),
    ],
)
def test_what_cannot_be_bounded_is_refused_with_its_file(
    tmp_path: Path, lines: list[str], reason: str
) -> None:
    (tmp_path / "train.py").write_text("pass")
    (tmp_path / ".corralignore").write_text("\n".join(lines))
    with pytest.raises(CorralError) as caught:
        asyncio.run(pack(tmp_path / "train.py"))
    assert caught.value.code is Code.USAGE
    assert f"{tmp_path / '.corralignore'} has {reason}" in caught.value.message


def test_all_lines_together_have_a_limit_too(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = IgnoreRules([f"*{n}*[a]x*b" for n in range(100)], "/p/.corralignore")
    monkeypatch.setattr(ignore, "BUDGET_S", 0.02)
    with pytest.raises(CorralError, match=r"/p/\.corralignore takes longer than"):
        for number in range(100_000):
            rules.match_file(f"{number}a")


def test_a_path_of_a_thousand_folders_is_refused() -> None:
    with pytest.raises(CorralError, match="deeper than 200 folders"):
        IgnoreRules(["*.pyc"]).match_file("a/" * 1000)
