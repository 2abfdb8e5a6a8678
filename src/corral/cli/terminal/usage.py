"""What is wrong with a command line, in words, with the command that is probably meant."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, Final

import typer

from corral.cli.main import VERBS
from corral.cli.terminal import correction
from corral.errors import Code, CorralError
from corral.tables import Row, read_table


class WordsOfOthers(Row):
    """Words of other tools, and what is meant here.

    Attributes:
        verbs: commands of Slurm, and verbs that other tools have.
        options: those of sbatch that ``corral run`` has by another name.
    """

    verbs: Mapping[str, str]
    options: Mapping[str, str]


@cache
def words_of_others() -> WordsOfOthers:
    """The table."""
    return read_table("corral.cli.terminal", "words_of_others.yaml", WordsOfOthers)


_ALIKE: Final = re.compile(r" \(Possible options: [^)]*\)$")
"""What the parser proposes because it is spelt alike: the hint has what parses."""
_NUMBER: Final = re.compile(r"Input should be a valid (integer|number).*")
_BOUND: Final = re.compile(r"Input should be (greater|less) than( or equal to)? (\S+)")
_BOUND_WORDS: Final = MappingProxyType(
    {
        ("greater", True): "at least",
        ("less", True): "at most",
        ("greater", False): "more than",
        ("less", False): "less than",
    }
)


def explained(error: typer.TyperException, words: Sequence[str]) -> CorralError:
    """The error for people.

    Args:
        error: as the parser of the command line raised it.
        words: the command line, without the program's name.
    """
    path, command = correction.command_of(words)
    message = in_words(error.format_message() or "what to do is missing")
    message = _ALIKE.sub("", message)
    if "No such command" in message:
        if path == ["corral"] and {*words[:1]} & words_of_others().verbs.keys():
            message, _, _ = message.partition(" Did you mean")  # sbatch is not attach
        hint = _verb(path, command, words)
    elif name := getattr(error, "option_name", ""):
        hint = _option(name, path, command, words)
    else:
        parameter = getattr(error, "param", None)
        if value := _given(parameter, words):
            message = message.replace("Invalid value for", f"Invalid value {value!r} for", 1)
        hint = _parameter(parameter, command, words, message)
    more = f"see: {' '.join(path)} --help"
    return CorralError(Code.USAGE, message, hint="; ".join(filter(None, (hint, more))))


def _given(parameter: Any, words: Sequence[str]) -> str:
    """What the command line has as an option's value; "" for an argument's."""
    options = parameter.opts if getattr(parameter, "param_type_name", "") == "option" else ()
    for word, value in zip(words, [*words[1:], ""], strict=False):
        name, equals, inline = word.partition("=")
        if name in options:
            return inline if equals else value
    return ""


def in_words(message: str) -> str:
    """A message of pydantic's or the parser's in the words of the other messages."""
    message = _NUMBER.sub(r"it must be \1", message).replace("be integer", "be an integer")
    message = message.replace("be number", "be a number")
    bound = _BOUND.search(message)
    if bound is None:
        return message
    direction = _BOUND_WORDS[bound[1], bool(bound[2])]
    return message.replace(bound[0], f"it must be {direction} {bound[3]}")


def _verb(path: list[str], command: Any, words: Sequence[str]) -> str:
    wrong = words[len(path) - 1 :]
    known = [*(getattr(command, "commands", {}) if command is not None else VERBS)]
    if command is None and wrong and wrong[0] in words_of_others().verbs:
        return words_of_others().verbs[wrong[0]]
    meant = difflib.get_close_matches(wrong[0], known, n=1) if wrong else []
    if meant:
        corrected = [*words[: len(path) - 1], meant[0], *wrong[1:]]
        example = _example(correction.command_of(corrected)[1])
        return correction.line(corrected) or example or shlex.join(["corral", *corrected])
    example = _example(command) if command is not None else ""
    has = f"{' '.join(path)} has: {', '.join(known)}"
    return f"{has}; for example: {example}" if example else has


def _option(name: str, path: list[str], command: Any, words: Sequence[str]) -> str:
    options = {option: p for p in command.params for option in p.opts} if command else {}
    if name in options:
        return _parameter(options[name], command, words)
    if path[-1] == "run" and name in words_of_others().options:
        return f"sbatch's {name} is {words_of_others().options[name]} here"
    if path[-1] == "run" and name.startswith("--"):
        passed = next((w for w in words if w.partition("=")[0] == name), name)
        other = f"; an option of sbatch goes as --sbatch={passed}"
    else:
        other = ""
    if near := correction.near_option(name, [*options]):
        corrected = correction.renamed(name, near, words)
        return f"{corrected or _parameter(options[near], command)}{other}"
    without = correction.without_option(name, words)
    rest = f"without it: {without}" if without else f"for example: {_example(command)}"
    return f"{' '.join(path)} has no such option{other}, {rest}"


def _parameter(parameter: Any, command: Any, words: Sequence[str] = (), message: str = "") -> str:
    """What a parameter takes, and the command line with a value of it, or the verb's example."""
    parts: list[str] = []
    if parameter is not None:
        optional = parameter.param_type_name == "option"
        name = (
            max(parameter.opts, key=len)
            if optional
            else parameter.metavar or parameter.name.upper()
        )
        value = (parameter.metavar or "VALUE") if optional else ""
        parts.append(" ".join(filter(None, (name, value))))
        if about := getattr(parameter, "help", ""):
            parts[-1] += f": {about.rstrip('.')}"
        corrected = correction.with_value(parameter, command, message, words) if optional else ""
    else:
        corrected = correction.without_extra(message, words)
    if corrected:
        parts.append(f"such as: {corrected}" if parts else f"without it: {corrected}")
    elif example := _example(command, parameter.opts if parameter is not None else ()):
        parts.append(f"for example: {example}")
    return "; ".join(parts)


def _example(command: Any, options: Sequence[str] = ()) -> str:
    """The verb's first example, or its first with one of these options."""
    lines = [*correction.examples(command)]
    having = (line for line in lines if set(options) & set(line.split()))
    return next(having, next(iter(lines), ""))
