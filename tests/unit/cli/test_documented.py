"""Every command line of corral's in the documentation is one that corral takes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from typer.main import get_command

from corral.cli.main import VERBS, app, load_verb

ROOT: Final = Path(__file__).parents[3]
# Decisions and measurements record what was typed at their time.
DATED: Final = ("docs/decisions", "docs/measurements")
TEXTS: Final = sorted(
    path
    for pattern in (
        "*.md",
        "docs/**/*.md",
        "examples/**/*.md",
        "examples/**/*.yaml",
        "examples/**/*.py",
        "examples/**/*.sh",
        "src/corral/**/*.py",
    )
    for path in ROOT.glob(pattern)
    if not str(path.relative_to(ROOT)).startswith(DATED) and path.name != "CHANGELOG.md"
)
FENCE: Final = re.compile(r"^( *)```(sh|console|bash|text)?\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
INLINE: Final = re.compile(r"`(corral [^`\n]*(?:\n[^`\n]+)?)`")


def fenced(text: str) -> Iterator[str]:
    for _, _, block in FENCE.findall(text):
        for line in re.sub(r"\\\n\s*", " ", block).splitlines():
            yield from typed(line.strip().removeprefix("$ ").removeprefix("sudo "))


def typed(line: str) -> Iterator[str]:
    """The command lines of corral's in a line of a shell: in pipes, lists and substitutions."""
    if "corral " not in line:
        return
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    try:
        for token in [*lexer, ";"]:
            if token and not set(token) <= set("();<>|&"):
                words.append(token)
                continue
            if words[:1] == ["corral"]:
                yield shlex.join(words)
            words = []
    except ValueError:
        return  # prose with an apostrophe


def inline(text: str) -> Iterator[str]:
    outside = FENCE.sub("", text)
    for span in INLINE.findall(outside):
        yield from typed(" ".join(span.split()))


def epilogs() -> Iterator[str]:
    """Examples in the help of each command."""
    for _, command in commands(get_command(app), ()):
        for line in (command.epilog or "").splitlines():
            yield from typed(line.strip())


def commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    children = getattr(command, "commands", None)
    for name, group in getattr(command, "below", {}).items():
        yield from commands(group, (*path, name))
    if not children:
        yield path, command
        return
    for name in children:
        child = load_verb(name) if not path and name in VERBS else children[name]
        yield from commands(child, (*path, name))


@cache
def documented() -> list[tuple[str, str]]:
    places: dict[tuple[str, str], None] = {}
    for path in TEXTS:
        text = path.read_text()
        lines = [] if path.suffix == ".py" else [*fenced(text)]
        lines += inline(text) if path.suffix in (".md", ".py") else yaml(text)
        places.update(dict.fromkeys((str(path.relative_to(ROOT)), line) for line in lines))
    places.update(dict.fromkeys(("help", line) for line in epilogs()))
    return list(places)


def yaml(text: str) -> Iterator[str]:
    """Comments of an example file: ``#   corral up FILE   what it does``."""
    for line in re.findall(r"^#\s+(corral .*)$", text, re.MULTILINE):
        yield re.split(r"\s{2,}", line)[0]


def words_of(line: str) -> tuple[list[str], bool]:
    """The words, and whether the line is only a name or a pattern: then it need not be complete."""
    partial = "..." in line or "…" in line
    line = line.replace("...", "").replace("…", "")
    line = re.sub(r"\{[^{}]*\}", "12", line)  # a value of an f-string
    words = shlex.split(re.sub(r"\[(-[^\]]*|[A-Z]+)\]", r"\1", line))
    return words[1:], partial


def verb_of(words: list[str]) -> tuple[Any, list[str], list[str]]:
    """The command that the first words name, its name, and the words behind."""
    command: Any = get_command(app)
    path: list[str] = []
    while words:
        name = words[0]
        known = getattr(command, "commands", None) or getattr(command, "below", {})
        if name not in known:
            break
        command = load_verb(name) if not path else known[name]
        path.append(name)
        words = words[1:]
    return command, path, words


def fault(line: str) -> str:
    """Why corral would not take a line, "" when it would."""
    words, partial = words_of(line)
    command, path, rest = verb_of(words)
    if not path:
        named = words[:1] in (["--help"], ["-h"], ["--version"], ["VERB"])
        options = {name for param in command.params for name in param.opts}
        return "" if named or (len(words) == 1 and words[0] in options) else f"no verb {words}"
    if not rest or rest[0] in ("--help", "-h"):
        return ""  # the name of a verb
    if getattr(command, "commands", None):
        return f"corral {' '.join(path)} has no command {rest[0]}"
    if len(rest) == 1 and rest[0].startswith("--"):  # the name of an option
        known = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
        return "" if rest[0].partition("=")[0] in known else f"no option {rest[0]}"
    return parsed(command, path, rest, partial=partial)


def parsed(command: Any, path: list[str], words: list[str], *, partial: bool) -> str:
    """What the verb's own parser has against the words."""
    try:
        command.make_context(" ".join(path), list(words), resilient_parsing=False)
    except Exception as error:  # whatever the parser raises is the finding
        message = getattr(error, "message", "") or str(error)
        missing = type(error).__name__ in ("MissingParameter", "NoArgsIsHelpError")
        return "" if partial and missing else f"{type(error).__name__}: {message}"
    return ""


@pytest.mark.parametrize("source", sorted({source for source, _ in documented()}))
def test_what_is_documented_is_what_corral_takes(source: str) -> None:
    wrong = {line: why for where, line in documented() if where == source and (why := fault(line))}
    assert wrong == {}


def test_the_documentation_is_read() -> None:
    assert len(documented()) > 300
    assert fault("corral drain node0 --reason x") == ""


@pytest.mark.parametrize(
    "line",
    [
        "corral upp lab.yaml",
        "corral plan lab.yaml --frobnicate",
        "corral plan --frobnicate",
        "corral plan a b c",
        "corral ssh node0 -x",
        "corral keys roll",
        "corral logs twelve",
        "corral run --nodes x a.py",
        "corral drain --reason x",
    ],
)
def test_a_wrong_line_is_found(line: str) -> None:
    assert fault(line)
