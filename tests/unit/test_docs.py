"""The pages agree with the code: cluster files are good, commands parse, all error codes listed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
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


CURL = """\
#!/bin/sh
# Records its arguments, the files of headers that it is given, and its standard input.
for word in "$@"; do
  printf '%s\\n' "$word" >>"$RECORD/arguments"
  case $word in
    @-) cat >>"$RECORD/input" ;;
    @*) cat "${word#@}" >>"$RECORD/headers" ;;
  esac
done
case "$*" in
  */api/login) echo '{"csrf": "CSRF-SECRET"}' ;;
  */api/tokens) echo '{"token": "corral_SECRET"}' ;;
esac
"""


def test_the_example_of_functions_is_the_file_that_runs() -> None:
    """``tests/embedded/test_functions.py`` runs it."""
    text = (REPO / "examples/functions/run.py").read_text()
    assert f"```python\n{text}```" in (REPO / "docs/guide/jobs.md").read_text()


def test_examples_of_the_api_have_no_secret_in_a_command_line(tmp_path: Path) -> None:
    """Other users see arguments: the script that makes a token is run with a curl that records."""
    tools, temporary, record = (tmp_path / name for name in ("bin", "tmp", "record"))
    for folder in (tools, temporary, record):
        folder.mkdir()
    (tools / "curl").write_text(CURL)
    (tools / "scontrol").write_text("#!/bin/sh\necho SLURM_JWT=SLURM-SECRET\n")
    for tool in tools.iterdir():
        tool.chmod(0o755)
    path = f"{tools}:{os.environ['PATH']}"
    known = {"PATH": path, "TMPDIR": str(temporary), "RECORD": str(record)}
    texts = [text for page, text in blocks("bash") if page.name == "api.md"]
    assert len(texts) == 2
    for text in texts:
        subprocess.run(["bash", "-eu", "-c", text], cwd=tmp_path, env=known, check=True)
        (tmp_path / "ci.header").write_text("Authorization: Bearer corral_SECRET\n")
    arguments = (record / "arguments").read_text()
    assert arguments.count("api/") >= 9
    assert "SECRET" not in arguments
    assert "Bearer" not in arguments
    assert (record / "input").read_text().count('"token": "SLURM_JWT=SLURM-SECRET') == 2
    assert "X-CSRF-Token: CSRF-SECRET" in (record / "headers").read_text()
    token = tmp_path / "ci.token"
    assert token.read_text() == "corral_SECRET\n"
    assert token.stat().st_mode & 0o777 == 0o600
    assert not list(temporary.iterdir())


def test_shell_of_the_api_page_names_no_token() -> None:
    texts = [t for kind in ("sh", "bash", "console") for p, t in blocks(kind) if p.name == "api.md"]
    assert not re.findall(r"curl[^\n]*(?:Bearer|\$CORRAL_TOKEN|\$csrf|\$\{?slurm)", "".join(texts))


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
