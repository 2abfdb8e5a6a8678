"""The pages agree with the code: cluster files are good, commands parse, all error codes listed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.cli.main import VERBS, load_verb
from corral.errors import CODES
from corral.spec.load import load

REPO = Path(__file__).parents[2]
PAGES = [
    *(REPO / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((REPO / "docs").rglob("*.md")),
]


def name_of(file: Path) -> str:
    return str(file.relative_to(REPO))


def blocks(language: str) -> Iterator[tuple[Path, str]]:
    """Code blocks of one language, with their page."""
    fence = re.compile(rf"^( *)```{language}\n(.*?)^\1```$", flags=re.M | re.S)
    for page in PAGES:
        for block in fence.finditer(page.read_text()):
            yield page, block[2]


def commands() -> Iterator[tuple[Path, str]]:
    """Command lines of corral: lines of sh blocks, and pieces in backquotes."""
    lines = [(page, line) for page, text in blocks("sh") for line in text.splitlines()]
    for page in PAGES:
        quoted = re.findall(r"`(corral(?: [^`\n]+)?)`", page.read_text())
        lines += [(page, line) for line in quoted]
    for page, line in lines:
        words = shlex.split(line, comments=True)
        if words[:1] == ["corral"] and len(words) > 1:
            yield page, shlex.join(words)


@pytest.mark.parametrize(
    ("page", "text"),
    [(page, text) for page, text in blocks("yaml") if text.startswith("corral: v1")],
    ids=lambda v: name_of(v) if isinstance(v, Path) else "",
)
def test_cluster_files_in_pages_are_good(page: Path, text: str, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    assert load(file).findings == ()


@pytest.mark.parametrize("file", sorted((REPO / "examples").glob("*.yaml")), ids=name_of)
def test_examples_are_good(file: Path) -> None:
    assert load(file).findings == ()


def wrong_in(line: str, commands: dict[str, Any]) -> str:
    """What a command line has that corral has not; ``corral up`` need not be complete."""
    _, verb, *words = shlex.split(line)
    if verb == "VERB" or verb.startswith("-"):
        return ""
    if verb not in VERBS:
        return f"corral has no verb {verb}"
    if verb not in commands:
        commands[verb] = load_verb(verb)
    command = commands[verb]
    if words and words[0] in getattr(command, "below", {}):  # corral ui token
        command = command.below[words.pop(0)]
    if words and words[0] in getattr(command, "commands", {}):  # corral image list
        command = command.commands[words.pop(0)]
    known = {o for p in command.params for o in (*p.opts, *p.secondary_opts)} | {"--help"}
    own = words[: words.index("--")] if "--" in words else words
    options = [w for w in own if w.startswith("-")]
    # -N3 is -N with its value.
    wrong = [w for w in options if w.partition("=")[0] not in known and w[:2] not in known - {"--"}]
    return f"corral {verb} has no {wrong}" if wrong else ""


def test_commands_in_pages_parse() -> None:
    seen: dict[str, Any] = {}
    lines = sorted(set(commands()))
    assert len(lines) > 100
    wrong = [
        f"{name_of(page)}: {problem}" for page, line in lines if (problem := wrong_in(line, seen))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "line", ["corral upp", "corral up --nonsense", "corral image list --nonsense"]
)
def test_wrong_commands_are_seen(line: str) -> None:
    assert wrong_in(line, {})


def test_every_error_code_is_explained() -> None:
    page = (REPO / "docs/guide/troubleshooting.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \| ([^|]+) \|", page, flags=re.M)
    assert dict((code, meaning.strip()) for code, meaning in rows) == {
        code.value: info.meaning for code, info in CODES.items()
    }


SEEDS = REPO / "docs/seeds.md"


def rows_of(text: str) -> dict[str, list[str]]:
    """The steps of each guide: the section's name, and its rows."""
    sections = re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", text, flags=re.M | re.S)
    return {
        name: [line for line in body.splitlines() if re.match(r"\| (?!step \|)", line)]
        for name, body in sections
    }


def test_the_counts_of_the_four_guides_are_those_of_their_rows() -> None:
    text = SEEDS.read_text()
    for name, rows in rows_of(text).items():
        missing = sum("**not yet**" in row for row in rows)
        partly = sum("**partly**" in row and "**not yet**" not in row for row in rows)
        counts = (len(rows), len(rows) - missing - partly, partly, missing)
        assert f"| {name} | {' | '.join(map(str, counts))} |" in text
        assert len(rows) > 20
        assert all(len(row.split(" | ")) in {3, 4} for row in rows)


def unknown_tests(text: str) -> list[str]:
    """Names of tests that are in no file of the row that names them."""
    unknown: list[str] = []
    for row in (row for rows in rows_of(text).values() for row in rows):
        files = [REPO / name for name in re.findall(r"`(tests/[\w/]+\.py)`", row)]
        source = "".join(file.read_text() for file in files)
        unknown += [n for n in re.findall(r"`(test_\w+)`", row) if f"def {n}(" not in source]
    return unknown


def test_tests_that_the_four_guides_name_exist() -> None:
    text = SEEDS.read_text()
    assert text.count("`test_") > 20
    assert unknown_tests(text) == []
    assert unknown_tests("## A\n| x | `tests/unit/test_docs.py` (`test_nothing`) | y |") == [
        "test_nothing"
    ]
