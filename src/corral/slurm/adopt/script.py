"""Commands of a shell script: enough of the grammar to see what is installed, made and started."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from corral.slurm.adopt.source import Source, Spot, physical

_HERE: Final = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_PARTS: Final = re.compile(r"&&|\|\||[;|]")
_WORD: Final = re.compile(r"[^\s]+")
_LONGEST: Final = 60  # lines of one quoted text, such as an awk program
_PREFIX: Final = ("sudo", "exec", "time", "nohup")


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command.

    Attributes:
        words: its words without quotes, without sudo.
        spot: where it is.
        here: path that a here document of it is written to, "" for none.
    """

    words: tuple[str, ...]
    spot: Spot
    here: str = ""

    @property
    def name(self) -> str:
        """The program, without its folder."""
        return self.words[0].rpartition("/")[2] if self.words else ""

    def word(self, text: str) -> Iterator[Spot]:
        """Places of a word of it."""
        source = self.spot.source
        for match in _WORD.finditer(source.text, self.spot.start, self.spot.stop):
            if match[0].strip("\"'") == text:
                yield Spot(source, match.start(), match.end())


@dataclass(frozen=True, slots=True)
class Broken:
    """A line whose quotes do not close."""

    spot: Spot


# A dozen rules ask for the commands of the same files.
@lru_cache(maxsize=256)
def commands_of(source: Source) -> tuple[Command | Broken, ...]:
    """All commands in order; the text of here documents is left out."""
    return tuple(_read(source))


def _read(source: Source) -> Iterator[Command | Broken]:
    lines = list(_logical(source.text))
    at = 0
    while at < len(lines):
        start, text = lines[at]
        count = _closed([line for _, line in lines[at : at + _LONGEST]])
        if count:
            text = "".join(line for _, line in lines[at : at + count])
            if text.strip() and not text.lstrip().startswith("#"):
                yield from _simple(source, start, text)
        else:
            lead = len(text) - len(text.lstrip())
            yield Broken(Spot(source, start + lead, start + len(text.rstrip())))
        at += count or 1


def _closed(lines: list[str]) -> int:
    """How many lines the first one takes until its quotes close; 0 when they never do."""
    text = ""
    for count, line in enumerate(lines, 1):
        text += line
        try:
            shlex.split(text, comments=True)
        except ValueError:
            continue
        return count
    return 0


def _simple(source: Source, start: int, text: str) -> Iterator[Command]:
    at = 0
    for part in [*_PARTS.finditer(text), None]:
        stop = part.start() if part else len(text)
        piece = text[at:stop]
        try:
            words = shlex.split(piece.replace("\\\n", "  "), comments=True)
        except ValueError:
            words = piece.split()  # a separator within quotes: near enough
        while words and (words[0] in _PREFIX or (words[0].startswith("-") and len(words) > 1)):
            words = words[1:]
        if words:
            lead = len(piece) - len(piece.lstrip())
            spot = Spot(source, start + at + lead, start + at + len(piece.rstrip()))
            yield Command(tuple(words), spot, _target(text))
        at = part.end() if part else len(text)


def _target(text: str) -> str:
    if not _HERE.search(text):
        return ""
    match = re.search(r"(?:\btee\s+(?:-a\s+)?|>>?\s*)(/[^\s>]+)", text)
    return match[1] if match else ""


def _logical(text: str) -> Iterator[tuple[int, str]]:
    """Lines with those that continue them, here documents left out."""
    ending, start, held = "", 0, ""
    for at, line in physical(text):
        if ending:
            if line.strip() == ending:
                ending = ""
            continue
        start, held = (start, held + line) if held else (at, line)
        if held.rstrip("\r\n").endswith("\\"):
            continue
        yield start, held
        here = _HERE.search(held)
        ending, held = (here[2] if here else ""), ""
    if held:
        yield start, held
