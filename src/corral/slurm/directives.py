"""``#SBATCH`` lines of a batch script, read as sbatch reads them. Pure.

Slurm 24.11.5, src/sbatch/opt.c (``_opt_batch_script``, ``_get_argument``): lines count up to the
first one that is neither blank nor a comment; words are split at blanks, with quotes and
backslashes; a ``#`` outside of quotes begins a comment, in the middle of a word too; options may be
abbreviated, short ones bundled. ``tests/unit/slurm/test_directives.py`` holds what a real sbatch
makes of the same lines.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from types import MappingProxyType
from typing import Final, Literal

from corral.tables import Row, read_table

LONGEST: Final = 1 << 16
"""Characters of a line; sbatch has no limit."""
MOST: Final = 2000
"""Options of a script, or of a command line."""

_COUNT: Final = re.compile(r"[1-9][0-9]{0,8}")
_NODES: Final = re.compile(r"([1-9][0-9]{0,6})(?:-([1-9][0-9]{0,6}))?")
_MARKS: Final = ("#SBATCH", "#SLURM")
_FOREIGN: Final = re.compile(r"#(PBS|BSUB)\s+-")
_PIECE: Final = re.compile(
    r"(?P<blank>\s+)|(?P<letters>(?:\\.)+)|\\|(?P<bare>[^\s#\"'\\]+)"
    r'|"(?P<double>(?:\\.|[^"\\])*)"'
    r"|'(?P<single>(?:\\.|[^'\\])*)'"
)
_ESCAPED: Final = re.compile(r"\\(.)")


# How messages of slurm_errno.c begin, in lower case, and the option of sbatch that each is about.
_OPTION_OF: Final[Mapping[str, str]] = MappingProxyType(
    {
        "invalid partition name": "partition",
        "invalid account": "account",
        "invalid qos": "qos",
        "requested time limit is invalid": "time",
        "invalid feature specification": "constraint",
        "memory specification can not be satisfied": "mem",
        "node count specification invalid": "nodes",
        "invalid node name": "nodelist",
        "invalid license": "licenses",
        "job dependency problem": "dependency",
        "circular job dependency": "dependency",
        "invalid generic resource": "gres",
        "invalid job array specification": "array",
        "requested reservation is invalid": "reservation",
    }
)


def refused_options(messages: Iterable[str]) -> tuple[str, ...]:
    """The options of sbatch that Slurm's refusal is about, by their long names.

    Args:
        messages: its words, such as "sbatch: error: Batch job submission failed: Invalid qos
            specification".
    """
    ends = [message.lower().rpartition(": ")[2] for message in messages]
    about = (
        option
        for beginning, option in _OPTION_OF.items()
        if any(end.startswith(beginning) for end in ends)
    )
    return tuple(dict.fromkeys(about))


class Option(Row):
    """An option of sbatch.

    Attributes:
        name: the long one; it may be abbreviated.
        short: its letter; "" for none.
        value: whether it takes one; optional: only after ``=``.
        terminal: of what sbatch itself does on a terminal: nothing of the job.
        carried: ``corral run`` gives it to sbatch as it is.
        same_as: the option that it is another name of; "" for none.
    """

    name: str
    short: str = ""
    value: Literal["required", "none", "optional"] = "required"
    terminal: bool = False
    carried: bool = False
    same_as: str = ""


@cache
def sbatch_options() -> Mapping[str, Option]:
    """The options of sbatch, by their long names."""
    rows = read_table("corral.slurm", "sbatch_options.yaml", tuple[Option, ...])
    return MappingProxyType({option.name: option for option in rows})


@cache
def _by_letter() -> Mapping[str, Option]:
    return MappingProxyType({o.short: o for o in sbatch_options().values() if o.short})


@dataclass(frozen=True, slots=True)
class Directive:
    """One option of a batch script.

    Attributes:
        line: its line, from 1.
        name: its long name, "" for what cannot be read.
        value: its value; "" for none.
        fault: why it cannot be read, "" when it can.
    """

    line: int
    name: str
    value: str = ""
    fault: str = ""


def passed_over(script: str) -> tuple[tuple[int, str], ...]:
    """Lines for sbatch behind the first command, which it does not read, with their numbers."""
    begun = False
    lines: list[tuple[int, str]] = []
    for number, line in enumerate(script.split("\n"), 1):
        begun = begun or bool(line.strip() and not line.lstrip().startswith("#"))
        if begun and line.startswith(_MARKS) and len(lines) < MOST:
            lines.append((number, line[:LONGEST]))
    return tuple(lines)


def directives(script: str) -> tuple[Directive, ...]:
    """All options that a script names for sbatch, in their order; the last of a name counts."""
    options: list[Directive] = []
    for number, line in enumerate(script.split("\n"), 1):
        mark = next((m for m in _MARKS if line.startswith(m)), "")
        if mark:
            options += islice(_options(number, line[len(mark) :]), MOST + 1 - len(options))
        elif line.strip() and not line.lstrip().startswith("#"):
            break
        elif foreign := _FOREIGN.match(line):
            # sbatch reads some of their options (--ignore-pbs), and differently.
            fault = f"an option for another scheduler (#{foreign[1]}): write it as #SBATCH"
            options.append(Directive(number, "", line[:LONGEST], fault))
        if len(options) > MOST:
            return (*options[:MOST], _too_many(number))
    return tuple(options)


def _too_many(line: int) -> Directive:
    return Directive(line, "", "#SBATCH", f"more than {MOST} options: what follows is not read")


def command_options(words: Sequence[str]) -> tuple[tuple[Directive, ...], tuple[str, ...]]:
    """The options of a command line of sbatch or srun, and the words after them.

    Args:
        words: without the program.
    """
    at, options = 0, list[Directive]()
    while at < len(words) and words[at].startswith("-") and words[at] not in {"-", "--"}:
        if len(options) >= MOST:
            return (*options[:MOST], _too_many(0)), ()
        word, after = words[at], words[at + 1] if at + 1 < len(words) else None
        read, used = _long(0, word, after) if word.startswith("--") else _short(0, word[1:], after)
        options += read
        at += 1 + used
        if any(option.name == "wrap" for option in read):
            break
    return tuple(options), tuple(words[at:])


def line_of(option: Directive) -> str:
    """An option as a line of a script; its value is read as it is."""
    value = option.value
    if re.search(r"[\s#\"'\\]", value):
        value = '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'
    return f"#SBATCH --{option.name}" + (f"={value}" if option.value else "")


def rewritten(script: str, change: Callable[[Directive], Directive | None]) -> str:
    """A script with other options; no line moves, so that messages name the lines of its user.

    Args:
        script: the batch script.
        change: an option as it is to be, None where it is left out. A line without any option
            left becomes a comment; one that cannot be read stays as it is.
    """
    options = defaultdict[int, list[Directive]](list)
    for option in directives(script):
        options[option.line].append(option)
    lines = script.split("\n")
    for number, each in options.items():
        if any(option.fault for option in each):
            continue
        changed = [change(option) for option in each]
        if changed == each:
            continue
        words = [line_of(option).removeprefix("#SBATCH ") for option in changed if option]
        old = lines[number - 1]
        lines[number - 1] = f"#SBATCH {' '.join(words)}" if words else f"#{old}"
    return "\n".join(lines)


def with_lines(script: str, lines: Sequence[str], behind: int = 0) -> str:
    """The script with more lines, behind its own, which they override.

    Args:
        script: the batch script.
        lines: such as those of ``line_of``.
        behind: a line of the script that they come behind in any case; 0: none.
    """
    if not lines:
        return script
    rows = script.split("\n")
    last = max([1, behind, *(option.line for option in directives(script))])
    return "\n".join([*rows[:last], *lines, *rows[last:]])


def _options(number: int, text: str) -> Iterator[Directive]:
    if len(text) > LONGEST:
        yield Directive(number, "", f"{text[:40].strip()}...", f"longer than {LONGEST} characters")
        return
    try:
        words = _words(text)
    except ValueError as error:
        yield Directive(number, "", text.strip(), str(error))
        return
    at = 0
    while at < len(words):
        word, at = words[at], at + 1
        after = words[at] if at < len(words) else None
        if word in ("hetjob", "packjob") and at == 1:
            yield Directive(number, "", word, "a heterogeneous job")
            return
        if word.startswith("--") and len(word) > len("--"):
            options, used = _long(number, word, after)
        elif word.startswith("-") and len(word) > 1:
            options, used = _short(number, word[1:], after)
        else:
            options, used = [Directive(number, "", word, "this is not an option")], False
        yield from options
        at += used


def _words(text: str) -> list[str]:
    """Words as sbatch splits them.

    Raises:
        ValueError: a quotation mark is not closed, or it begins with a colon.
    """
    words: list[str] = []
    word: list[str] = []
    at = 0
    while at < len(text) and text[at] != "#":
        piece = _PIECE.match(text, at)
        if piece is None:
            raise ValueError(f"the quotation mark {text[at]} is not closed")
        at = piece.end()
        if piece["blank"]:
            _end(words, word)
        elif not word and piece["bare"] and piece["bare"].startswith(":"):
            raise ValueError("a word cannot begin with a colon")
        else:
            inside = piece["bare"] or piece["double"] or piece["single"] or piece["letters"] or ""
            word.append(_ESCAPED.sub(r"\1", inside))
    _end(words, word)
    return words


def _end(words: list[str], word: list[str]) -> None:
    """Move a word's pieces to the words, where there are some."""
    if not word:
        return
    words.append("".join(word))
    word.clear()
    if not words[-1]:
        raise ValueError("sbatch reads no further than an empty word")


def _long(number: int, word: str, after: str | None) -> tuple[list[Directive], bool]:
    given, equals, value = word[2:].partition("=")
    known = sbatch_options()
    names = [given] if given in known else [name for name in known if name.startswith(given)]
    if len(names) != 1:
        fault = (
            f"it stands for {', '.join(sorted(names)[:4])}"
            if names
            else "sbatch has no such option"
        )
        return [Directive(number, "", word, fault)], False
    option = known[names[0]]
    name, takes = option.same_as or option.name, option.value
    if takes == "none" and equals:
        return [Directive(number, "", word, "this option takes no value")], False
    if takes != "required" or equals:
        return [Directive(number, name, value)], False
    return [_valued(number, name, word, after)], True


def _short(number: int, letters: str, after: str | None) -> tuple[list[Directive], bool]:
    options: list[Directive] = []
    for at, letter in enumerate(letters):
        option = _by_letter().get(letter)
        if option is None:
            return [
                *options,
                Directive(number, "", f"-{letter}", "sbatch has no such option"),
            ], False
        if option.value == "required":
            rest = letters[at + 1 :]
            if rest:
                return [*options, Directive(number, option.name, rest)], False
            return [*options, _valued(number, option.name, f"-{letter}", after)], True
        options.append(Directive(number, option.name))
    return options, False


def _valued(number: int, name: str, word: str, after: str | None) -> Directive:
    if after is None:
        return Directive(number, "", word, "its value is missing")
    return Directive(number, name, after)


def count_of(value: str) -> int | None:
    """The number that an option's value is; None for any other text, and for 0."""
    return int(value) if _COUNT.fullmatch(value) else None


def nodes_of(value: str) -> tuple[int, int] | None:
    """The fewest and the most nodes that ``--nodes`` asks for; None for another form of it."""
    match = _NODES.fullmatch(value)
    return None if match is None else (int(match[1]), int(match[2] or match[1]))
