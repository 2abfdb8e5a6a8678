"""Options of sbatch and srun on our command line, and the command line that asks for the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import typer

from corral.cli.terminal import correction
from corral.errors import CorralError
from corral.jobs.directives import asked_of
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


class WordsOfOthers(Row):
    """Words of other tools, and what is meant here.

    Attributes:
        verbs: commands of Slurm, and verbs that other tools have.
        options: long options of sbatch and srun, and what asks for the same here.
        renamed: those that a script cannot have: the words in their place.
        reasons: why an option is not needed, or what is used instead.
        letters: letters with another meaning here.
        srun: options that no script has.
    """

    verbs: Mapping[str, str]
    options: Mapping[str, str]
    renamed: Mapping[str, tuple[str, ...]]
    reasons: Mapping[str, str]
    letters: tuple[Letter, ...]
    srun: tuple[Option, ...]


@cache
def words_of_others() -> WordsOfOthers:
    """The table."""
    return read_table("corral.cli.terminal", "words_of_others.yaml", WordsOfOthers)


@cache
def slurm_options() -> Mapping[str, Option]:
    """The options of sbatch and srun, by their long names and by their letters."""
    rows = [*words_of_others().srun, *sbatch_options().values()]
    return {f"-{o.short}": o for o in rows if o.short} | {f"--{o.name}": o for o in rows}


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
        if self.option.carried:
            value = "" if self.option.value == "none" else "=VALUE"
            return f"{self.of} is passed on as --sbatch=--{name}{value}"
        return f"{verb} has no counterpart of {self.of}"

    @property
    def counted(self) -> str:
        """The value, of a type of GPUs with their number."""
        typed = self.option.name in {"gpus", "gpus-per-node"} and self.value.isalnum()
        return f"{self.value}:1" if typed and not self.value.isdecimal() else self.value

    @property
    def left_out(self) -> bool:
        """Nothing is in its place."""
        return self.option.name not in words_of_others().options and not self.option.carried


def foreign(words: Sequence[str], command: Any) -> tuple[list[Foreign], list[str]]:
    """The options of Slurm on a command line, and its other words.

    Args:
        words: of the verb, without what is behind ``--``.
        command: the verb.
    """
    own = {option: p for p in command.params if p.param_type_name == "option" for option in p.opts}
    slurms, rest, at = list[Foreign](), list[str](), 0
    while at < len(words):
        word, following = words[at], words[at + 1] if at + 1 < len(words) else ""
        name, inline = _parts(word)
        at += 1
        ours, option = own.get(name), slurm_options().get(name)
        if ours and not _only_slurms(name, ours, inline, following):
            taken = not ours.is_flag and word == name and at < len(words)
            rest += words[at - 1 : at + taken]
            at += taken
        elif option is None:
            rest.append(word)
        else:
            takes = word == name and option.value == "required"
            slurms.append(Foreign(name, option, following if takes else inline))
            at += takes
    return slurms, rest


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
    if parameter.is_flag and name.startswith("--"):
        return bool(inline) and name in slurm_options()
    letters = (letter for letter in words_of_others().letters if name == f"-{letter.letter}")
    return any(re.fullmatch(letter.value, value) for letter in letters)


def same(words: Sequence[str], path: Sequence[str], command: Any) -> str:
    """The command line that asks for the same without options of Slurm; "" where there is none."""
    start = len(path) - 1
    own, behind = correction.split(words[start:])
    slurms, rest = foreign(own, command)
    if not slurms:
        return ""
    try:
        given = command.make_context(path[-1], [*rest, *behind]).params
        fields = asked_of(_script(slurms), "", _fields(given)).fields
    except (CorralError, typer.TyperException, typer.Exit):
        return ""
    instead = [*_renamed(slurms), *_options(fields)]
    return correction.line([*words[:start], *rest, *instead, *behind])


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
    options, rest = command_options(words)
    if program not in {"sbatch", "srun", "salloc"} or any(option.fault for option in options):
        return ""
    own = [f"--{o.name}={o.value}" if o.value else f"--{o.name}" for o in options]
    if program == "sbatch":
        line = ["run", *rest[:1], *own, *(["--", *rest[1:]] if rest[1:] else [])]
    else:
        verb = "run" if program == "srun" else "shell"
        line = [verb, *own, *(["--", *rest] if rest else [])]
    path, command = correction.command_of(line)
    if not rest and program != "salloc":
        return ""
    return correction.line(line) or same(line, path, command)


def named(name: str, words: Sequence[str], command: Any) -> Foreign | None:
    """The option of Slurm that an unknown option is; None for any other."""
    slurms, _ = foreign(correction.split(words)[0], command)
    return next((each for each in slurms if each.name == name), None)


def hint(words: Sequence[str], path: Sequence[str], command: Any) -> str:
    """What a command line with letters that mean another thing to sbatch asks for; "" for none."""
    if path[-1] not in VERBS:
        return ""
    slurms, _ = foreign(correction.split(words[len(path) - 1 :])[0], command)
    letters = {f"-{letter.letter}" for letter in words_of_others().letters}
    meant = [each for each in slurms if each.name in letters]
    meanings = "; ".join(each.meaning(" ".join(path)) for each in meant)
    line = same(words, path, command) if meant else ""
    without = "without it: " if all(each.left_out for each in meant) else ""
    return f"{meanings}; {without}{line}" if line else meanings
