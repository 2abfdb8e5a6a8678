"""What is wrong with a command line, in words, with the command that is probably meant.

A message has what is wrong and why; the parser's own sentences have no reason and are not shown.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import typer

from corral.cli.main import VERBS
from corral.cli.terminal import correction, slurm_options
from corral.cli.terminal.slurm_options import words_of_others
from corral.errors import Code, CorralError
from corral.plurals import plural

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
_OF_THE_PROGRAM: Final = ("--help", "--version")
_FEW: Final = 12
"""Names that are all listed in a message."""


@dataclass(frozen=True, slots=True)
class _Fault:
    """A command line that the parser refused.

    Attributes:
        error: as the parser raised it.
        text: its message.
        path: the program and the verbs.
        command: the verb; None where none is named.
        words: the command line, without the program's name.
    """

    error: typer.TyperException
    text: str
    path: list[str]
    command: Any
    words: Sequence[str]

    @property
    def verb(self) -> str:
        return " ".join(self.path)

    @property
    def option(self) -> str:
        """The option that the parser names; "" for none."""
        return getattr(self.error, "option_name", "")

    @property
    def parameter(self) -> Any:
        return getattr(self.error, "param", None) or self.options.get(self.option)

    @property
    def options(self) -> dict[str, Any]:
        """The verb's options."""
        params = self.command.params if self.command else ()
        return {o: p for p in params if p.param_type_name == "option" for o in p.opts}

    @property
    def below(self) -> list[str]:
        """Names of the verbs that may follow."""
        return [*(VERBS if self.command is None else getattr(self.command, "commands", {}))]

    def same_without_slurms(self, about: str = "") -> str:
        """The command line that asks for the same without options of sbatch and srun."""
        if self.path[-1] not in slurm_options.VERBS:
            return ""
        return slurm_options.same(self.words, self.path, self.command, [about])


Explained = tuple[str, str]
"""A message, and a hint."""


def explained(error: typer.TyperException, words: Sequence[str]) -> CorralError:
    """The error for people.

    Args:
        error: as the parser of the command line raised it.
        words: the command line, without the program's name.
    """
    path, command = correction.command_of(words)
    fault = _Fault(error, error.format_message() or "Missing command.", path, command, words)
    message, hint = next(made for read in _READERS if (made := read(fault)))
    more = f"see: {fault.verb} --help"
    where = "" if path[1:] else " ".join(["corral", *words[:1]])
    return CorralError(
        Code.USAGE, message, command=where, hint="; ".join(filter(None, (hint, more)))
    )


def _unknown_verb(fault: _Fault) -> Explained | None:
    if "No such command" not in fault.text:
        return None
    at = len(fault.path) - 1
    wrong, behind = fault.words[at], fault.words[at + 1 :]
    begin = f"{wrong!r} is not a command of {fault.verb}"
    others = words_of_others().verbs
    if fault.command is None and wrong in others:
        name = others[wrong].split()[1]
        line = slurm_options.of_program(wrong, behind)
        return f"{begin}: it is called {name} here", line or _filled(others[wrong], behind)
    meant = difflib.get_close_matches(wrong, fault.below, n=1)
    if meant:
        corrected = [*fault.words[:at], meant[0], *behind]
        example = _example(correction.command_of(corrected)[1])
        hint = correction.line(corrected) or example or shlex.join(["corral", *corrected])
        return f"{begin}: the nearest name is {meant[0]}", hint
    example = _for_example(_example(fault.command) if fault.command is not None else "")
    names = ", ".join(fault.below)
    if len(fault.below) > _FEW:
        return f"{begin}: none of its {len(fault.below)} names is similar", f"it has: {names}"
    return f"{begin}: it has {names}", example


def _filled(template: str, behind: Sequence[str]) -> str:
    """A command of ours with the words of the other tool's command, where it takes them."""
    words = template.split()[1:]
    if template.endswith("--help"):
        return shlex.join([*correction.command_of(behind)[0], "--help"])
    own = [word for word in words if not word.isupper()]
    if "--" in own:
        return template
    filled = correction.line([*own, *behind]) if behind and own != words else ""
    return filled or template


def _missing_verb(fault: _Fault) -> Explained | None:
    if "Missing command" not in fault.text:
        return None
    names = fault.below
    choice = f"one of {', '.join(names)}" if len(names) <= _FEW else f"one of {len(names)}"
    example = _example(fault.command) if fault.command is not None else ""
    return f"no command after {fault.verb}: it takes {choice}", _for_example(example)


def _slurms_option(fault: _Fault) -> Explained | None:
    if not fault.option or fault.path[-1] not in slurm_options.VERBS or "requires" in fault.text:
        return None
    own = fault.words[len(fault.path) - 1 :]
    slurms = slurm_options.named(fault.option, own, fault.command)
    if slurms is None:
        return None
    if slurms.option.value == "none" and slurms.name in fault.options:  # --requeue=1
        return None
    line = fault.same_without_slurms(slurms.name)
    meaning = slurms.meaning(fault.verb)
    template = words_of_others().options.get(slurms.option.name, "")
    hint = line or (f"write {template} in its place" if template else "")
    return f"unknown option {slurms.name}: {meaning}", hint


def _before_the_verb(fault: _Fault) -> Explained | None:
    """An option in front of the command that it belongs to: ``--json jobs``."""
    name = fault.option
    if not name or not fault.below or name in fault.options or "No such option" not in fault.text:
        return None
    message = f"unknown option {name}: options come after the command"
    if near := correction.near_option(name, [*_OF_THE_PROGRAM] if fault.command is None else []):
        return f"unknown option {name}: the nearest is {near}", f"corral {near}"
    lines = [*correction.with_options_moved(fault.words, len(fault.path) - 1, fault.below)]
    moved = [text for words in lines if (text := correction.line(words))]
    if moved:
        return message, moved[0]
    corrected = [text for words in lines if (text := _with_near_option(words, name))]
    if corrected:
        return message, corrected[0]
    commands = [*(correction.command_of(words)[1] for words in lines), fault.command]
    examples = [_example(each, [name]) for each in commands if each is not None]
    shown = [*filter(None, examples), *correction.first_examples()]
    return message, _for_example(shown[0])


def _with_near_option(words: Sequence[str], name: str) -> str:
    """The command line with the option of the command that has the nearest name, "" for none."""
    _, command = correction.command_of(words)
    known = [o for p in command.params if p.param_type_name == "option" for o in p.opts]
    near = correction.near_option(name, known)
    return correction.renamed(name, near, words) if near else ""


def _unknown_option(fault: _Fault) -> Explained | None:
    name = fault.option
    if not name or name in fault.options or fault.command is None:
        return None
    near = correction.near_option(name, [*fault.options])
    if near:
        corrected = correction.renamed(name, near, fault.words)
        if not corrected and fault.path[-1] in slurm_options.VERBS:  # -g h100: sbatch's -G h100
            words = [near if word == name else word for word in fault.words]
            corrected = slurm_options.same(words, fault.path, fault.command)
        hint = corrected or _taken(fault.options[near], fault)
        return f"unknown option {name}: the nearest of {fault.verb} is {near}", hint
    rows = words_of_others().elsewhere.get(" ".join(fault.path[1:]), ())
    for row in (row for row in rows if name in row.options):
        return f"unknown option {name}: {row.why}", row.instead
    message = f"unknown option {name}: {fault.verb} has none with a similar name"
    without = correction.without_option(name, fault.words)
    if without:
        return message, f"without it: {without}"
    takes = f"it takes: {_usage(fault)}" if fault.command.params else ""
    return message, "; ".join(filter(None, (takes, _for_example(_example(fault.command)))))


def _usage(fault: _Fault) -> str:
    """The arguments and options of a verb."""
    return ", ".join(
        max(p.opts, key=len) if p.param_type_name == "option" else _name(p)
        for p in fault.command.params
    )


def _no_value(fault: _Fault) -> Explained | None:
    if not fault.option or "requires" not in fault.text:
        return None
    parameter = fault.parameter
    takes = _metavar(parameter)
    if parameter.nargs > 1:
        message = f"{fault.option} has too few values: it takes {parameter.nargs}, {takes}"
    else:
        message = f"{fault.option} has no value: it takes {takes}"
    return message, _taken(parameter, fault)


def _flag_with_value(fault: _Fault) -> Explained | None:
    if not fault.option or "does not take a value" not in fault.text:
        return None
    words = [fault.option if w.startswith(f"{fault.option}=") else w for w in fault.words]
    hint = correction.line(words) or fault.same_without_slurms()
    return f"{fault.option} takes no value: it is a flag", hint


def _missing_parameter(fault: _Fault) -> Explained | None:
    if not re.match(r"Missing (argument|option)", fault.text) or fault.parameter is None:
        return None
    parameter = fault.parameter
    optional = parameter.param_type_name == "option"
    name = max(parameter.opts, key=len) if optional else _name(parameter)
    about = _about(parameter) or f"{fault.verb} needs it"
    line = correction.with_value if optional else correction.with_argument
    corrected = line(parameter, fault.command, "", fault.words)
    example = _for_example(_example(fault.command, parameter.opts))
    return f"{name} is missing: {about}", f"such as: {corrected}" if corrected else example


def _extra_words(fault: _Fault) -> Explained | None:
    extra = correction.EXTRA.search(fault.text)
    if extra is None:
        return None
    names = [_name(p) for p in fault.command.params if p.param_type_name == "argument"]
    takes = f"takes {' '.join(names)} and no more" if names else "takes no arguments"
    count = plural(len(extra[1].split()), "word")
    if joined := correction.with_hostlist(fault.text, fault.command, fault.words):
        return f"{count} too many ({extra[1]}): several nodes are one hostlist", joined
    without = correction.without_extra(fault.text, fault.words)
    hint = f"without it: {without}" if without else _for_example(_example(fault.command))
    return f"{count} too many ({extra[1]}): {fault.verb} {takes}", hint


def _wrong_value(fault: _Fault) -> Explained | None:
    parameter = fault.parameter
    if parameter is None:
        return None
    message = in_words(fault.text)
    if value := _given(parameter, fault.words):
        message = message.replace("Invalid value for", f"Invalid value {value!r} for", 1)
    same = fault.same_without_slurms()
    return message, same or _taken(parameter, fault, message)


def _any_other(fault: _Fault) -> Explained:
    return in_words(fault.text), _for_example(_example(fault.command))


_READERS: Final[tuple[Callable[[_Fault], Explained | None], ...]] = (
    _unknown_verb,
    _missing_verb,
    _before_the_verb,
    _slurms_option,
    _unknown_option,
    _no_value,
    _flag_with_value,
    _missing_parameter,
    _extra_words,
    _wrong_value,
    _any_other,
)
"""The first that knows a fault explains it."""


def other_meaning(words: Sequence[str]) -> str:
    """What sbatch's users mean by letters that mean another thing here; "" for none."""
    path, command = correction.command_of(words)
    return slurm_options.hint(words, path, command) if command is not None else ""


def _given(parameter: Any, words: Sequence[str]) -> str:
    """What the command line has as an option's value; "" for an argument's."""
    options = parameter.opts if getattr(parameter, "param_type_name", "") == "option" else ()
    own, _ = correction.split(words)
    for word, value in zip(own, [*own[1:], ""], strict=False):
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


def _name(parameter: Any) -> str:
    """An argument, as the help shows it."""
    return parameter.metavar or parameter.name.upper()


def _metavar(parameter: Any) -> str:
    return parameter.metavar or "|".join(correction.choices(parameter)) or "VALUE"


def _about(parameter: Any) -> str:
    return (getattr(parameter, "help", "") or "").rstrip(".")


def _taken(parameter: Any, fault: _Fault, message: str = "") -> str:
    """What a parameter takes, and the command line with a value of it, or the verb's example."""
    optional = parameter.param_type_name == "option"
    name = f"{max(parameter.opts, key=len)} {_metavar(parameter)}" if optional else _name(parameter)
    parts = [": ".join(filter(None, (name, _about(parameter))))]
    corrected = (
        correction.with_value(parameter, fault.command, message, fault.words) if optional else ""
    )
    if corrected:
        parts.append(f"such as: {corrected}")
    elif example := _for_example(_example_with(parameter, fault.command)):
        parts.append(example)
    return "; ".join(parts)


def _for_example(example: str) -> str:
    return f"for example: {example}" if example else ""


def _example_with(parameter: Any, command: Any) -> str:
    """An example of the verb that has this option, or its first one with the option added."""
    example = _example(command, parameter.opts)
    words = shlex.split(example)[1:]
    if parameter.param_type_name != "option" or {*parameter.opts} & {*words}:
        return example
    return correction.with_value(parameter, command, "", words) or example


def _example(command: Any, options: Sequence[str] = ()) -> str:
    """The verb's first example, or its first with one of these options."""
    lines = [*correction.examples(command)]
    having = (line for line in lines if set(options) & set(line.split()))
    return next(having, next(iter(lines), ""))
