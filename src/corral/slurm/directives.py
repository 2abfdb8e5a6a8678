"""``#SBATCH`` lines of a batch script, read as sbatch reads them. Pure.

Slurm 24.11.5, src/sbatch/opt.c (``_opt_batch_script``, ``_get_argument``): lines count up to the
first one that is neither blank nor a comment; words are split at blanks, with quotes and
backslashes; a ``#`` outside of quotes begins a comment, in the middle of a word too; options may be
abbreviated, short ones bundled. ``tests/unit/slurm/test_directives.py`` holds what a real sbatch
makes of the same lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

LONGEST: Final = 1 << 16
"""Characters of a line; sbatch has no limit."""
MOST: Final = 2000
"""Options of a script, or of a command line."""

TERMINAL_ONLY: Final = frozenset({"parsable", "quiet", "verbose", "wait", "ignore-pbs", "no-bell"})
"""Options of what sbatch itself does, on a terminal: nothing of the job."""

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
NONE, REQUIRED, OPTIONAL = "none", "one", "maybe"
_SHORT: Final = {
    "A": "account", "a": "array", "B": "extra-node-info", "b": "begin", "C": "constraint",
    "c": "cpus-per-task", "D": "chdir", "d": "dependency", "e": "error", "F": "nodefile",
    "G": "gpus", "H": "hold", "h": "help", "i": "input", "J": "job-name", "k": "no-kill",
    "L": "licenses", "M": "clusters", "m": "distribution", "N": "nodes", "n": "ntasks",
    "O": "overcommit", "o": "output", "p": "partition", "Q": "quiet", "q": "qos",
    "S": "core-spec", "s": "oversubscribe", "t": "time", "V": "version", "v": "verbose",
    "W": "wait", "w": "nodelist", "x": "exclude",
}  # fmt: skip
_WITHOUT: Final = """
contiguous get-user-env help hold ignore-pbs no-kill no-requeue overcommit oversubscribe parsable
quiet reboot requeue spread-job test-only usage use-min-nodes verbose version wait resv-ports
"""
_AFTER_EQUALS: Final = "exclusive nice propagate wrap oom-kill-step export"
_WITH: Final = """
account acctg-freq array batch bb bbf begin chdir cluster-constraint clusters comment constraint
container container-id container-image container-mounts container-name container-save
container-workdir container-env core-spec cores-per-socket cpu-freq cpus-per-gpu cpus-per-task
deadline delay-boot dependency distribution error exclude export-file extra extra-node-info gid
gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags hint input
job-name kill-on-invalid-dep licenses mail-type mail-user mcs-label mem mem-bind mem-per-cpu
mem-per-gpu mincpus network no-bell nodefile nodelist nodes ntasks ntasks-per-core ntasks-per-gpu
ntasks-per-node ntasks-per-socket open-mode output partition power prefer priority profile qos
reservation segment signal sockets-per-node switches thread-spec threads-per-core time time-min
tmp tres-bind tres-per-task uid wait-all-nodes wckey
"""
_LONG: Final = {
    **dict.fromkeys(_WITHOUT.split(), NONE),
    **dict.fromkeys(_AFTER_EQUALS.split(), OPTIONAL),
    **dict.fromkeys(_WITH.split(), REQUIRED),
}
"""Whether an option takes a value. OPTIONAL: only after ``=``. The container ones are Pyxis'."""


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
    names = [given] if given in _LONG else [name for name in _LONG if name.startswith(given)]
    if len(names) != 1:
        fault = (
            f"it stands for {', '.join(sorted(names)[:4])}"
            if names
            else "sbatch has no such option"
        )
        return [Directive(number, "", word, fault)], False
    takes = _LONG[names[0]]
    if takes == NONE and equals:
        return [Directive(number, "", word, "this option takes no value")], False
    if takes != REQUIRED or equals:
        return [Directive(number, names[0], value)], False
    return [_valued(number, names[0], word, after)], True


def _short(number: int, letters: str, after: str | None) -> tuple[list[Directive], bool]:
    options: list[Directive] = []
    for at, letter in enumerate(letters):
        name = _SHORT.get(letter)
        if name is None:
            return [
                *options,
                Directive(number, "", f"-{letter}", "sbatch has no such option"),
            ], False
        if _LONG[name] == REQUIRED:
            rest = letters[at + 1 :]
            if rest:
                return [*options, Directive(number, name, rest)], False
            return [*options, _valued(number, name, f"-{letter}", after)], True
        options.append(Directive(number, name))
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
