"""The command line that is probably meant in place of one with a fault: always one that parses."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any, Final

import typer

from corral.cli.main import EPILOG, VERBS, load_verb

_DESTRUCTIVE: Final = frozenset({"apply", "cancel", "down", "keys", "reap", "restore"})
"""Verbs for which no shorter command line is proposed: it could do more than was meant."""
_CONSENT: Final = frozenset({"--yes", "-y", "--force", "-f"})
"""Options without which no command does more."""
EXTRA: Final = re.compile(r"unexpected extra arguments?(?:\(s\))? \((.*)\)")
"""The parser's message about words that are too many."""
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
    # Without the dashes, which make --user and --cluster similar.
    long = {option.lstrip("-"): option for option in options if option.startswith("--")}
    near = same or difflib.get_close_matches(name.lstrip("-"), long, n=1, cutoff=0.75)
    return next((long.get(word, word) for word in near), "") or next(
        (option for option in options if option.startswith(name)), ""
    )


def renamed(name: str, option: str, words: Sequence[str]) -> str:
    """The command line with another option in the place of one."""
    own, rest = split(words)
    return line([*(re.sub(rf"^{re.escape(name)}(?==|$)", option, word) for word in own), *rest])


def without_option(name: str, words: Sequence[str]) -> str:
    """The command line without an unknown option; "" where its value may be the next word."""
    own, _ = split(words)
    at = next((i for i, word in enumerate(own) if word.partition("=")[0] == name), None)
    if at is None or (_DESTRUCTIVE & {*words[:1]} and name not in _CONSENT):
        return ""
    following = words[at + 1 : at + 2]
    if "=" not in words[at] and following and not following[0].startswith("-"):
        return ""
    return line([*words[:at], *words[at + 1 :]])


def without_extra(message: str, words: Sequence[str]) -> str:
    """The command line without the arguments that the parser's message calls unexpected."""
    extra = EXTRA.search(message)
    if extra is None or _DESTRUCTIVE & {*words[:1]}:
        return ""
    rest = [*words]
    for word in reversed(extra[1].split()):
        if word in rest:
            del rest[len(rest) - 1 - rest[::-1].index(word)]
    return line(rest)


def with_hostlist(message: str, command: Any, words: Sequence[str]) -> str:
    """The command line with the nodes that several words name as one hostlist, or ""."""
    extra = EXTRA.search(message)
    nodes = next((p for p in command.params if p.metavar == "NODES" and p.nargs == 1), None)
    if extra is None or nodes is None or nodes.param_type_name != "argument":
        return ""
    more = extra[1].split()
    rest = [word for word in words if word not in more]
    for at, word in enumerate(rest):
        joined = ",".join([word, *more])
        tried = [*rest[:at], joined, *rest[at + 1 :]]
        if not word.startswith("-") and accepted(tried) and given(nodes, tried) == joined:
            return line(tried)
    return ""


def given(parameter: Any, words: Sequence[str]) -> Any:
    """What a command line that parses has for a parameter."""
    path, command = command_of(words)
    context = command.make_context(path[-1], [*words[len(path) - 1 :]])
    return context.params[parameter.name]


def with_value(parameter: Any, command: Any, message: str, words: Sequence[str]) -> str:
    """The command line with a value that an option takes: the limit that was passed, or an example.

    An option that is missing is added. Without an example the value is the option's word for it.
    """
    limit = _LIMIT.search(message)
    values = [limit[1]] if limit else _example_values(parameter, command)
    names = [re.split(r"[\[|]", w)[0] or w for w in (parameter.metavar or "VALUE").split()]
    default = [str(parameter.default)] if parameter.default else []
    others = [names[: parameter.nargs], default, choices(parameter)[:1], ["1"]]
    tries = [values] if values else others
    lines = (_with_values(parameter, each, words) for each in tries if each)
    return next(filter(None, lines), "")


def choices(parameter: Any) -> list[str]:
    """The words that an option takes, where it takes no others."""
    kind = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [str(member.value) for member in kind]
    return []


def _with_values(parameter: Any, values: Sequence[str], words: Sequence[str]) -> str:
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


def with_argument(parameter: Any, command: Any, message: str, words: Sequence[str]) -> str:
    """The command line with an argument that is missing, as the verb's examples have it."""
    del message
    for example in map(shlex.split, examples(command)):
        path, other = command_of(example[1:])
        if other is None or other.name != command.name or not accepted(example[1:]):
            continue
        given = command.make_context(path[-1], example[len(path) :]).params[parameter.name]
        values: list[Any] = [*given] if isinstance(given, (list, tuple)) else [given]
        behind = ["--"] * ("--" in example)
        if given and (corrected := line([*words, *behind, *map(str, values)])):
            return corrected
    return ""


def with_options_moved(
    words: Sequence[str], start: int, below: Sequence[str]
) -> Iterator[list[str]]:
    """Command lines with the options in front of a command moved behind it.

    Args:
        words: the command line.
        start: how many of its words name the group.
        below: the commands of that group.
    """
    own, _ = split(words)
    for similar in (False, True):
        for at in range(start + 1, len(own)):
            word = own[at]
            near = [word] if word in below else difflib.get_close_matches(word, below, n=1)
            if word.startswith("-") or not near or (word in below) is similar:
                continue
            named = [*words[:start], near[0], *words[at + 1 :]]
            path, command = command_of(named)
            end = len(path) - 1
            if own[at - 1] in _with_values_of(command):  # -c run jobs: the cluster is called run
                continue
            yield [*named[:end], *words[start:at], *named[end:]]


def _with_values_of(command: Any) -> set[str]:
    """The options of a command that take a value."""
    options = (p for p in command.params if p.param_type_name == "option" and not p.is_flag)
    return {name for parameter in options for name in parameter.opts}


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
    return _examples_in(getattr(command, "epilog", None) or "")


def first_examples() -> Iterator[str]:
    """The command lines below the help of the program."""
    return _examples_in(EPILOG)


def _examples_in(text: str) -> Iterator[str]:
    return (line.strip() for line in text.splitlines() if line.startswith("  corral"))
