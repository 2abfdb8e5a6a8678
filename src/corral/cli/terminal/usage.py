"""What is wrong with a command line, in words, with the command that is probably meant."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, Final

import typer

from corral.cli.main import VERBS, load_verb
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
    path, command = _command(words)
    message = in_words(error.format_message() or "what to do is missing")
    if "No such command" in message:
        hint = _verb(path, command, words)
    elif name := getattr(error, "option_name", ""):
        hint = _option(name, path, command, words)
    else:
        parameter = getattr(error, "param", None)
        if value := _given(parameter, words):
            message = message.replace("Invalid value for", f"Invalid value {value!r} for", 1)
        hint = _parameter(parameter, command)
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


def _command(words: Sequence[str]) -> tuple[list[str], Any]:
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


def _verb(path: list[str], command: Any, words: Sequence[str]) -> str:
    wrong = words[len(path) - 1 :]
    known = [*(getattr(command, "commands", {}) if command is not None else VERBS)]
    if command is None and wrong and wrong[0] in words_of_others().verbs:
        return words_of_others().verbs[wrong[0]]
    meant = difflib.get_close_matches(wrong[0], known, n=1) if wrong else []
    if meant:
        return shlex.join([*path, meant[0], *wrong[1:]])
    return f"{' '.join(path)} has: {', '.join(known)}"


def _option(name: str, path: list[str], command: Any, words: Sequence[str]) -> str:
    options = {option: p for p in command.params for option in p.opts} if command else {}
    if name in options:
        return _parameter(options[name], command)
    if path[-1] == "run" and name in words_of_others().options:
        return f"sbatch's {name} is {words_of_others().options[name]} here"
    if path[-1] == "run" and name.startswith("--"):
        passed = next((w for w in words if w.partition("=")[0] == name), name)
        other = f"; an option of sbatch goes as --sbatch={passed}"
    else:
        other = ""
    near = difflib.get_close_matches(name, options, n=1, cutoff=0.75)
    near = near or [option for option in options if option.startswith(name)][:1]
    if near:
        corrected = (re.sub(rf"^{re.escape(name)}(?==|$)", near[0], word) for word in words)
        return f"{shlex.join(['corral', *corrected])}{other}"
    return f"{' '.join(path)} has no such option{other}, for example: {_example(command)}"


def _parameter(parameter: Any, command: Any) -> str:
    """What a parameter takes, and an example of the verb's."""
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
    if example := _example(command, parameter.opts if parameter is not None else ()):
        parts.append(f"for example: {example}")
    return "; ".join(parts)


def _example(command: Any, options: Sequence[str] = ()) -> str:
    """The verb's first example, or its first with one of these options."""
    lines = [*_examples(command)]
    having = (line for line in lines if set(options) & set(line.split()))
    return next(having, next(iter(lines), ""))


def _examples(command: Any) -> Iterator[str]:
    for line in (getattr(command, "epilog", None) or "").splitlines():
        if line.startswith("  corral"):
            yield line.strip()
