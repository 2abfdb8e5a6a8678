"""The command line that is probably meant in place of one with a fault: always one that parses."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any, Final

import typer

from corral.cli.main import VERBS, load_verb

_DESTRUCTIVE: Final = frozenset({"apply", "cancel", "down", "keys", "reap", "restore"})
"""Verbs for which no shorter command line is proposed: it could do more than was meant."""
_EXTRA: Final = re.compile(r"unexpected extra arguments?(?:\(s\))? \((.*)\)")
_LIMIT: Final = re.compile(r"it must be at (?:least|most) (\S+)")


def command_of(words: Sequence[str]) -> tuple[list[str], Any]:
    """The verb that the words name, and the verb below it: their names and the command."""
    path, command = ["corral"], None
    for word in words:
        below = getattr(command, "commands", {}) | getattr(command, "below", {})
        if command is None and word in VERBS:
            command = load_verb(word)
        elif word in below:
            command = below[word]
        else:
            break
        path.append(word)
    return path, command


def accepted(words: Sequence[str]) -> bool:
    """Whether a command line parses, without the program's name; no verb is run."""
    path, command = command_of(words)
    if command is None or hasattr(command, "commands"):
        return False
    try:
        command.make_context(path[-1], [*words[len(path) - 1 :]])
    except (typer.TyperException, typer.Exit):  # Exit: --help, which prints
        return False
    return True


def line(words: Sequence[str]) -> str:
    """The words as a command of a shell where they parse, else ""."""
    return shlex.join(["corral", *words]) if accepted(words) else ""


def near_option(name: str, options: Sequence[str]) -> str:
    """The option that is probably meant by an unknown one, "" for none."""
    same = [option for option in options if option.lower() == name.lower()]
    near = same or difflib.get_close_matches(name, options, n=1, cutoff=0.75)
    return next(iter(near or [option for option in options if option.startswith(name)]), "")


def renamed(name: str, option: str, words: Sequence[str]) -> str:
    """The command line with another option in the place of one."""
    return line([re.sub(rf"^{re.escape(name)}(?==|$)", option, word) for word in words])


def without_option(name: str, words: Sequence[str]) -> str:
    """The command line without an unknown option; "" where its value may be the next word."""
    at = next((i for i, word in enumerate(words) if word.partition("=")[0] == name), None)
    if at is None or _DESTRUCTIVE & {*words[:1]}:
        return ""
    following = words[at + 1 : at + 2]
    if "=" not in words[at] and following and not following[0].startswith("-"):
        return ""
    return line([*words[:at], *words[at + 1 :]])


def without_extra(message: str, words: Sequence[str]) -> str:
    """The command line without the arguments that the parser's message calls unexpected."""
    extra = _EXTRA.search(message)
    if extra is None or _DESTRUCTIVE & {*words[:1]}:
        return ""
    rest = [*words]
    for word in reversed(extra[1].split()):
        if word in rest:
            del rest[len(rest) - 1 - rest[::-1].index(word)]
    return line(rest)


def with_value(parameter: Any, command: Any, message: str, words: Sequence[str]) -> str:
    """The command line with a value that an option takes: the limit that was passed, or an example.

    An option that is missing is added.
    """
    limit = _LIMIT.search(message)
    values = [limit[1]] if limit else _example_values(parameter, command)
    if not values:
        return ""
    own, rest = split(words)
    at = next((i for i, word in enumerate(own) if word.partition("=")[0] in parameter.opts), None)
    if at is None:
        return line([*own, max(parameter.opts, key=len), *values, *rest])
    end = at + 1
    while "=" not in own[at] and end <= min(at + len(values), len(own) - 1):
        if own[end].startswith("-"):
            break
        end += 1
    return line([*own[:at], own[at].partition("=")[0], *values, *own[end:], *rest])


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words up to ``--``, and those from it on."""
    at = words.index("--") if "--" in words else len(words)
    return [*words[:at]], [*words[at:]]


def _example_values(parameter: Any, command: Any) -> list[str]:
    for words in map(shlex.split, examples(command)):
        for at, word in enumerate(words):
            if word in parameter.opts:
                return words[at + 1 : at + 1 + parameter.nargs]
    return []


def examples(command: Any) -> Iterator[str]:
    """The command lines below a verb's help."""
    for text in (getattr(command, "epilog", None) or "").splitlines():
        if text.startswith("  corral"):
            yield text.strip()
