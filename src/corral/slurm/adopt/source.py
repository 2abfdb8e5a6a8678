"""Files as they were read: text, kind, places in them, and edits that touch nothing else."""

from __future__ import annotations

import bisect
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Final


class Kind(StrEnum):
    """What a file is; the value is its usual name."""

    SLURM = "slurm.conf"
    GRES = "gres.conf"
    CGROUP = "cgroup.conf"
    SLURMDBD = "slurmdbd.conf"
    TOPOLOGY = "topology.conf"
    PLUGSTACK = "plugstack.conf"
    HOSTS = "hosts"
    EXPORTS = "exports"
    FSTAB = "fstab"
    SSHD = "sshd_config"
    SETUP = "setup"
    TEMPLATE = "template"
    OTHER = "other"


CONFS: Final = (Kind.SLURM, Kind.GRES, Kind.CGROUP, Kind.SLURMDBD, Kind.TOPOLOGY)
"""Kinds in Slurm's own ``key=value`` grammar."""

NAMED: Final = tuple(k for k in Kind if k not in (Kind.SETUP, Kind.TEMPLATE, Kind.OTHER))
"""Kinds that a file's name indicates."""

_MARKUP: Final = re.compile(r"\{%|\{\{|<%=?")  # Jinja, Go, ERB
# ``${NAME}``, ``{name}``, ``<NAME>``, ``@NAME@``, ``%%NAME%%``, ``__NAME__`` in a value, or a value
# that is ``$NAME``. ``$SHELL`` within a command is text that a shell reads later, as is ``%n``.
_PLACEHOLDER: Final = re.compile(
    r"\$\{\w+\}|(?<![\w$}])\{[A-Za-z_][\w. -]*\}|<[A-Za-z_][\w. -]*>|@[A-Z][A-Z0-9_]*@"
    r"|%%[A-Za-z_]\w*%%|\b__[A-Z][A-Z0-9_]*__\b|(?<==)\$[A-Za-z_]\w*(?=[\s(),\[]|$)"
)
_COMMENT: Final = re.compile(r"(?<!\\)#.*")
_SUFFIXES: Final = (".j2", ".jinja", ".jinja2", ".erb", ".tmpl", ".tpl", ".template", ".in")
_INVENTORY: Final = re.compile(r"^\[[\w:-]+\][ \t]*$", re.MULTILINE)  # Ansible's file of that name
_I: Final = re.IGNORECASE | re.MULTILINE
_CONTENT: Final = (
    (Kind.SLURM, re.compile(r"^[ \t]*(NodeName|PartitionName|SlurmctldHost|ControlMachine)=", _I)),
    (Kind.SLURMDBD, re.compile(r"^[ \t]*(DbdHost|StorageType)[ \t]*=", _I)),
    (Kind.GRES, re.compile(r"^[ \t]*(Name=gpu|AutoDetect=)", _I)),
    (Kind.CGROUP, re.compile(r"^[ \t]*(Constrain|CgroupPlugin|CgroupAutomount)", _I)),
    (Kind.TOPOLOGY, re.compile(r"^[ \t]*(SwitchName|BlockName)=", _I)),
)
_OPENERS: Final = re.compile(r"[{<@$%_]")
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")


# A finding on each of many lines asks for the lines of the same few texts.
@lru_cache(maxsize=64)
def _starts(text: str) -> tuple[int, ...]:
    """Where each line begins."""
    return (0, *(match.end() for match in re.finditer("\n", text)))


@dataclass(frozen=True, slots=True)
class Source:
    """One file.

    Attributes:
        name: as the user named it, or its place under the folder the user named.
        kind: what it is.
        text: its text; bytes that are not UTF-8 are lone surrogates (``surrogateescape``).
        mode: permission bits such as 0o644; None when not known.
        node: the machine it is of, for ``hosts.node1``; "" for every machine.
    """

    name: str
    kind: Kind
    text: str
    mode: int | None = None
    node: str = ""

    @property
    def end_of_line(self) -> str:
        """How this file ends its lines."""
        return "\r\n" if "\r\n" in self.text else "\n"

    def place(self, at: int) -> tuple[int, int]:
        """Line and column, both from 1, of an offset in the text."""
        starts = _starts(self.text)
        line = bisect.bisect_right(starts, at)
        return line, at - starts[line - 1] + 1


@dataclass(frozen=True, slots=True)
class Spot:
    """A stretch of one file: what a finding is about."""

    source: Source
    start: int = -1
    stop: int = -1

    @property
    def text(self) -> str:
        """What is there."""
        return self.source.text[self.start : self.stop]


@dataclass(frozen=True, slots=True)
class Edit:
    """Characters ``start`` to ``stop`` of a file become ``text``; with both equal it is put in."""

    file: str
    start: int
    stop: int
    text: str


def kind_of(name: str, text: str = "") -> tuple[Kind, str]:
    """What a file is by its name, else by what it contains; and the node it is of.

    ``hosts.node1`` and ``exports.node1`` are those files of one node; ``slurm.conf.old`` is a
    slurm.conf.
    """
    base = PurePosixPath(name).name
    for kind in NAMED:
        if base == kind.value or base.startswith(f"{kind.value}."):
            if kind in CONFS and placeholder(text) is not None:
                return Kind.TEMPLATE, ""
            if kind is Kind.HOSTS and _INVENTORY.search(text):
                return Kind.OTHER, ""
            node = base[len(kind.value) + 1 :] if kind in (Kind.HOSTS, Kind.EXPORTS) else ""
            return kind, node
    if base.endswith(".exports"):
        return Kind.EXPORTS, ""
    if base.endswith((".sh", ".bash", ".sbatch", ".slurm")) or text.startswith("#!"):
        return Kind.SETUP, ""
    by_content = next((kind for kind, pattern in _CONTENT if pattern.search(text)), Kind.OTHER)
    return by_content, ""


def is_template_name(name: str) -> bool:
    """Whether a file is called like the template of one of Slurm's files: ``slurm.conf.j2``."""
    base = PurePosixPath(name).name
    return any(base.startswith(f"{kind.value}.") and base.endswith(_SUFFIXES) for kind in CONFS)


def placeholder(text: str) -> tuple[int, str] | None:
    """The first place in one of Slurm's files that a program is to fill in: offset and text."""
    for at, line in physical(text):
        markup = _MARKUP.search(line)
        body = _COMMENT.sub("", line) if markup is None else ""
        match = markup or (_PLACEHOLDER.search(body) if _OPENERS.search(body) else None)
        if match:
            return at + match.start(), match[0]
    return None


def physical(text: str) -> Iterator[tuple[int, str]]:
    """Each line with its line end, and where it begins."""
    at = 0
    for line in _LINE.findall(text):
        yield at, line
        at += len(line)


def applied(text: str, edits: Iterable[Edit]) -> str:
    """The text with edits made. Of two that overlap the first one given wins."""
    taken: list[tuple[int, int, int]] = []  # start, stop and number, in order; none overlap
    chosen: dict[Edit, int] = {}
    for number, edit in enumerate(edits):
        if edit in chosen:
            continue
        at = bisect.bisect_right(taken, (edit.start, sys.maxsize, 0))
        if any(_clash(edit, other) for other in taken[max(at - 1, 0) : at + 1]):
            continue
        chosen[edit] = number
        bisect.insort(taken, (edit.start, edit.stop, number))
    pieces: list[str] = []
    last = 0
    # Those put in at one place are in the order given, before what is replaced there.
    for edit, _ in sorted(
        chosen.items(), key=lambda entry: (entry[0].start, entry[0].stop, entry[1])
    ):
        pieces += [text[last : edit.start], edit.text]
        last = edit.stop
    return "".join([*pieces, text[last:]])


def _clash(edit: Edit, other: tuple[int, int, int]) -> bool:
    return edit.start < other[1] and other[0] < edit.stop
