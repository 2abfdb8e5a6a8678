"""Options of sbatch and srun on our command line, and the command line that asks for the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import typer

from corral.cli.terminal import correction
from corral.errors import CorralError
from corral.jobs.directives import asked_of, is_field
from corral.slurm.directives import (
    Directive,
    Option,
    command_options,
    line_of,
    sbatch_options,
)
from corral.tables import Row, read_table

VERBS = frozenset({"run", "shell", "notebook"})
"""Verbs with options of a job."""


class Letter(Row):
    """A letter of sbatch that means another thing here.

    Attributes:
        letter: the letter.
        option: sbatch's long option.
        value: a pattern of the values that only sbatch's meaning has.
    """

    letter: str
    option: str
    value: str


class Elsewhere(Row):
    """Options of other programs for what is set in another place here.

    Attributes:
        options: their names.
        why: where it is set.
        instead: what to write or run.
    """

    options: tuple[str, ...]
    why: str
    instead: str


class WordsOfOthers(Row):
    """Words of other tools, and what is meant here.

    Attributes:
        verbs: commands of Slurm, and verbs that other tools have.
        options: long options of sbatch and srun, and what asks for the same here.
        renamed: those that a script cannot have: the words in their place.
        reasons: why an option is not needed, or what is used instead.
        letters: letters with another meaning here.
        elsewhere: by verb, options of other programs for what is set in another place.
        srun: options that no script has.
    """

    verbs: Mapping[str, str]
    options: Mapping[str, str]
    renamed: Mapping[str, tuple[str, ...]]
    reasons: Mapping[str, str]
    letters: tuple[Letter, ...]
    elsewhere: Mapping[str, tuple[Elsewhere, ...]]
    srun: tuple[Option, ...]


@cache
def words_of_others() -> WordsOfOthers:
    """The table."""
    return read_table("corral.cli.terminal", "words_of_others.yaml", WordsOfOthers)


@cache
def slurm_options() -> Mapping[str, Option]:
    """The options of sbatch and srun, by each of their names and by their letters."""
    rows = {o.name: o for o in (*words_of_others().srun, *sbatch_options().values())}
    letters = {f"-{o.short}": o for o in rows.values() if o.short}
    return letters | {f"--{name}": rows[o.same_as or name] for name, o in rows.items()}


@dataclass(frozen=True, slots=True)
class Foreign:
    """An option of Slurm on a command line.

    Attributes:
        name: as it was given: ``-n``, ``--ntasks``.
        option: what it is for Slurm.
        value: its value; "" for none.
    """

    name: str
    option: Option
    value: str

    @property
    def of(self) -> str:
        """The option with its program."""
        program = "sbatch" if self.option.name in sbatch_options() else "srun"
        return f"{program}'s --{self.option.name}"

    def meaning(self, verb: str) -> str:
        """What asks for the same in a verb of ours, or why nothing does."""
        name, words = self.option.name, words_of_others()
        if name in words.options:
            return f"{self.of} is {words.options[name]} here"
        if name in words.reasons:
            return f"{verb} does without {self.of}, since {words.reasons[name]}"
        if is_field(name) and not self.option.carried:
            return f"{self.of} is --{name} here"
        if self.option.carried:
            value = "" if self.option.value == "none" else "=VALUE"
            return f"{self.of} is passed on as --sbatch=--{name}{value}"
        return f"{verb} has no counterpart of {self.of}"

    @property
    def counted(self) -> str:
        """The value as a script can have it: of a type of GPUs with their number."""
        if self.option.value == "none":  # --requeue=1
            return ""
        typed = self.option.name in {"gpus", "gpus-per-node"}
        alone = typed and re.fullmatch(r"[A-Za-z][^:,=]*", self.value)
        return f"{self.value}:1" if alone else self.value

    @property
    def left_out(self) -> bool:
        """Nothing is in its place."""
        name = self.option.name
        return not (name in words_of_others().options or self.option.carried or is_field(name))


def foreign(words: Sequence[str], command: Any) -> tuple[list[Foreign], list[str]]:
    """The options of Slurm on a command line, and its other words.

    Args:
        words: of the verb, without what is behind ``--``.
        command: the verb.
    """
    parts = [*_parts_of(words, command)]
    slurms = [part.slurms for part in parts if part.slurms]
    rest = [word for part in parts if not part.slurms for word in words[part.start : part.end]]
    return slurms, rest


@dataclass(frozen=True, slots=True)
class _Part:
    """An option with its value, or another word.

    Attributes:
        slurms: the option of Slurm that it is; None for others.
        start, end: its words.
        positional: it is not an option.
    """

    slurms: Foreign | None
    start: int
    end: int
    positional: bool = False


def _parts_of(words: Sequence[str], command: Any) -> Iterator[_Part]:
    own = {option: p for p in command.params if p.param_type_name == "option" for option in p.opts}
    at = 0
    while at < len(words):
        word, following = words[at], words[at + 1] if at + 1 < len(words) else ""
        name, inline = _parts(word)
        start, at = at, at + 1
        ours, option = own.get(name), slurm_options().get(name)
        if ours and not _only_slurms(name, ours, inline, following):
            at += not ours.is_flag and word == name and at < len(words)
            yield _Part(None, start, at)
        elif option is None:
            yield _Part(None, start, at, positional=not word.startswith("-"))
        else:
            takes = word == name and option.value == "required"
            at += takes
            yield _Part(Foreign(name, option, following if takes else inline), start, at)


def _parts(word: str) -> tuple[str, str]:
    """An option and the value that is written with it."""
    if word.startswith("--"):
        name, _, value = word.partition("=")
        return name, value
    return (word[:2], word[2:]) if word.startswith("-") else (word, "")


def _only_slurms(name: str, parameter: Any, inline: str, following: str) -> bool:
    """Whether an option that we have too can only be meant as Slurm's: by its value."""
    value = inline or following
    if parameter.name == "gpus_per_node":
        return re.fullmatch(r"[A-Za-z][\w.-]*(:[0-9]+)?", value) is not None
    if parameter.name == "array":
        return "%" in value
    if parameter.is_flag and name.startswith("--"):
        return bool(inline) and name in slurm_options()
    letters = (letter for letter in words_of_others().letters if name == f"-{letter.letter}")
    return any(re.fullmatch(letter.value, value) for letter in letters)


def same(words: Sequence[str], path: Sequence[str], command: Any, about: Sequence[str] = ()) -> str:
    """The command line that asks for the same without options of Slurm; "" where there is none.

    In front of it are the names of options with nothing in their place.

    Args:
        words: the command line.
        path: the program and the verbs.
        command: the verb.
        about: the options that the message is about.
    """
    start = len(path) - 1
    given_words = correction.split(words[start:])
    own, behind = _with_command(*given_words, command)
    slurms, rest = foreign(own, command)
    if not slurms and (own, behind) == given_words:
        return ""
    try:
        given = command.make_context(path[-1], [*rest, *behind]).params
        fields = asked_of(_script(slurms), "", _fields(given)).fields
    except (CorralError, typer.TyperException, typer.Exit):
        return ""
    kept = [each for each in slurms if each.option.name != "pty" or _opens_a_shell(given)]
    instead = [*_renamed(kept), *_options(fields)]
    line = correction.line([*words[:start], *rest, *instead, *behind])
    dropped = [each for each in slurms if each.left_out or each not in kept]
    lost = [*dict.fromkeys(each.name for each in dropped)]
    if not lost or not line:
        return line
    return f"without {'it' if {*lost} == {*about} else ', '.join(lost)}: {line}"


def _opens_a_shell(given: Mapping[str, Any]) -> bool:
    """Whether --interactive can be added: a terminal runs no script."""
    return "interactive" in given and given.get("script") is None


def _with_command(own: list[str], behind: list[str], command: Any) -> tuple[list[str], list[str]]:
    """The words up to ``--`` and from it on, with the command of --wrap and of --pty behind it."""
    terminal = False
    for part in () if behind else _parts_of(own, command):
        name = part.slurms.option.name if part.slurms else ""
        terminal |= name == "pty"
        if name == "wrap" and part.slurms:
            text, more = _wrapped(part.slurms.value, own[part.end :])
            if text and not any(each.positional for each in _parts_of(more, command)):
                return [*own[: part.start], *more], ["--", "sh", "-c", text]
            break
        if part.positional:
            word = own[part.start]
            if terminal and not Path(word).suffix and not Path(word).is_file():
                return own[: part.start], ["--", *own[part.start :]]
            break
    return own, behind


def _wrapped(value: str, behind: list[str]) -> tuple[str, list[str]]:
    """The command of --wrap, and what is left of the words behind it.

    Without ``=`` sbatch takes all words that follow; one in quotes is the command alone.
    """
    if value or not behind:
        return value, behind
    count = 1 if re.search(r"\s", behind[0]) else len(behind)
    return " ".join(behind[:count]), behind[count:]


def _script(slurms: Sequence[Foreign]) -> str:
    """The options that a script can have, as lines of one."""
    renamed = words_of_others().renamed
    lines = [
        line_of(Directive(0, each.option.name, each.counted))
        for each in slurms
        if not each.left_out and each.option.name not in renamed
    ]
    names = {each.option.name for each in slurms}
    if "mail-user" in names and "mail-type" not in names:
        lines.append(line_of(Directive(0, "mail-type", "END,FAIL")))  # as --mail ADDRESS does
    return "\n".join(["#!/bin/sh", *lines, ""])


def _fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """What the command line asks for already, of what other options are counted by."""
    counted = ("nodes", "gpus_per_node", "ranks_per_node", "cpus_per_rank")
    return {name: given[name] for name in counted if given.get(name) is not None}


def _renamed(slurms: Sequence[Foreign]) -> Iterator[str]:
    for each in slurms:
        for word in words_of_others().renamed.get(each.option.name, ()):
            yield each.value if word == "VALUE" else word


def _options(fields: Mapping[str, Any]) -> Iterator[str]:
    """Fields of a job as options of ``corral run``."""
    for field, value in fields.items():
        option = "--mount" if field == "mounts" else f"--{field.replace('_', '-')}"
        if value is True:
            yield option
        elif isinstance(value, Mapping):
            for key, text in cast("Mapping[str, str]", value).items():
                yield from (option, f"{key}={text}")
        elif isinstance(value, tuple):
            yield from (f"{option}={text}" for text in cast("tuple[str, ...]", value))
        else:
            yield from (option, str(value))


def of_program(program: str, words: Sequence[str]) -> str:
    """The command line of ours that does what one of sbatch, srun or salloc does; "" for others."""
    if program not in {"sbatch", "srun", "salloc"}:
        return ""
    options, rest = command_options(words)
    if any(option.fault for option in options):
        read = _sruns(words)
        if program == "sbatch" or read is None:
            return ""
        options, rest = read
    own = [f"--{o.name}={o.value}" if o.value else f"--{o.name}" for o in options]
    wraps = any(option.name == "wrap" for option in options)
    if program == "sbatch" and wraps:
        line = ["run", *own, *rest]
    elif program == "sbatch":
        line = ["run", *rest[:1], *own, *(["--", *rest[1:]] if rest[1:] else [])]
    else:
        verb = "run" if program == "srun" else "shell"
        line = [verb, *own, *(["--", *rest] if rest else [])]
    path, command = correction.command_of(line)
    if not rest and program != "salloc" and not wraps:
        return ""
    return correction.line(line) or same(line, path, command)


def _sruns(words: Sequence[str]) -> tuple[list[Directive], list[str]] | None:
    """The options of srun that have a counterpart, and its command; None where others are named."""
    options, at = list[Directive](), 0
    while at < len(words) and words[at].startswith("-"):
        name, inline = _parts(words[at])
        option = slurm_options().get(name)
        takes = option is not None and words[at] == name and option.value == "required"
        if option is None or (takes and at + 1 == len(words)):
            return None
        each = Foreign(name, option, words[at + 1] if takes else inline)
        if each.left_out:
            return None
        options.append(Directive(0, option.name, each.value))
        at += 1 + takes
    return options, [*words[at:]]


def named(name: str, words: Sequence[str], command: Any) -> Foreign | None:
    """The option of Slurm that an unknown option is; None for any other."""
    slurms, _ = foreign(correction.split(words)[0], command)
    return next((each for each in slurms if each.name == name), None)


def hint(words: Sequence[str], path: Sequence[str], command: Any) -> str:
    """What a command line with options that mean another thing to sbatch asks for; "" for none."""
    if path[-1] not in VERBS:
        return ""
    slurms, _ = foreign(correction.split(words[len(path) - 1 :])[0], command)
    own = {option for p in command.params for option in p.opts}
    meant = [each for each in slurms if each.name in own]
    meanings = "; ".join(each.meaning(" ".join(path)) for each in meant)
    line = same(words, path, command, [each.name for each in meant]) if meant else ""
    return f"{meanings}; {line}" if line else meanings
