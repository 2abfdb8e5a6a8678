r"""A lossless reader and writer of slurm.conf and similar files.

``parse(text).text() == text`` for every text: comments, order, spacing, continuation lines,
includes and unknown keys stay as they are; ``set`` rewrites only the value it changes. The grammar
is that of Slurm's src/common/parse_config.c: keys in any case, ``key=value``, ``key="two words"``,
``key+=value``; ``#`` begins a comment unless a backslash comes before it; a line whose last
character is a backslash goes on in the next one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from corral.errors import Code, CorralError

_SPACE: Final = " \t\r\f\v\n"  # isspace() of the C locale

# keyvalue_pattern of parse_config.c.
_PAIR: Final = re.compile(
    rf"[{_SPACE}]*(?P<key>[A-Za-z0-9_.]+)[{_SPACE}]*(?P<operator>[-*+/]?)=[{_SPACE}]*"
    rf'(?P<value>"(?P<quoted>[^"]*)"|[^{_SPACE}]+)(?=[{_SPACE}]|\Z)'
)
_INCLUDE: Final = re.compile(rf"include[{_SPACE}]+([^{_SPACE}]+)", re.IGNORECASE)
_PHYSICAL: Final = re.compile(r"[^\n]*\n|[^\n]+")
_KEY: Final = re.compile(r"[A-Za-z0-9_.]+")
_BARE: Final = re.compile(r'[^ \t\r\f\v\n"#\\\0]+')
_QUOTABLE: Final = re.compile(r'[^"#\\\n\0]*')


_ON: Final = frozenset({"yes", "up", "true", "1"})
_OFF: Final = frozenset({"no", "down", "false", "0"})


def switch(text: str | None) -> bool | None:
    """A value that is yes or no, as s_p_handle_boolean of parse_config.c reads it.

    Returns:
        None for none, and for a text that Slurm refuses.
    """
    word = (text or "").lower()
    return True if word in _ON else False if word in _OFF else None


@dataclass(frozen=True, slots=True)
class Pair:
    """One ``key=value`` of a line.

    Attributes:
        key: as written.
        value: without its quotes.
        operator: "" for ``=``, else the sign of ``+=``, ``-=``, ``*=`` or ``/=``.
        start: where the value begins in the line's raw text, quotes included.
        stop: where it ends.
        begin: where the key begins.
    """

    key: str
    value: str
    operator: str
    start: int
    stop: int
    begin: int = 0


@dataclass(slots=True)
class Line:
    """One line as Slurm reads it: with the lines that continue it.

    Attributes:
        number: of its first line in the file, from 1.
        raw: the exact text, line ends included.
        pairs: what it sets, in order.
        include: path of an Include directive, "" for none.
        rest: what is neither; Slurm refuses the file when it is not "".
    """

    number: int
    raw: str
    pairs: tuple[Pair, ...] = ()
    include: str = ""
    rest: str = ""

    def get(self, key: str) -> str | None:
        """The value of a key on this line, whatever its case; the last one counts."""
        name = key.lower()
        for pair in reversed(self.pairs):
            if pair.key.lower() == name:
                return pair.value
        return None

    def values(self) -> dict[str, str]:
        """All pairs of the line, keys in lower case."""
        return {pair.key.lower(): pair.value for pair in self.pairs}


@dataclass(slots=True)
class Document:
    """A parsed file; ``text()`` returns it byte for byte."""

    _lines: list[Line] = field(default_factory=list[Line])

    def text(self) -> str:
        """The file's text."""
        return "".join(line.raw for line in self._lines)

    def lines(self, first: str = "") -> tuple[Line, ...]:
        """All lines, or those that begin with the key ``first``, such as NodeName."""
        if not first:
            return tuple(self._lines)
        name = first.lower()
        return tuple(
            line for line in self._lines if line.pairs and line.pairs[0].key.lower() == name
        )

    def get(self, key: str) -> str | None:
        """Value of a key that begins a line; the last one counts, as in Slurm."""
        lines = self.lines(key)
        return lines[-1].pairs[0].value if lines else None

    def values(self, key: str) -> tuple[str, ...]:
        """Every value of a key, wherever in a line it is."""
        return tuple(value for line in self._lines if (value := line.get(key)) is not None)

    def words(self, key: str) -> tuple[str, ...]:
        """The words of a key that begins a line, which commas separate, in lower case."""
        return tuple(word.strip().lower() for word in (self.get(key) or "").split(","))

    def set(self, key: str, value: str) -> None:
        """Give a key that begins a line another value, or add it at the end.

        Only the value's own characters change; of several such lines it is the last one, which is
        the one that counts.

        Raises:
            CorralError: key or value cannot appear in such a file.
        """
        if not _KEY.fullmatch(key):
            raise _refused(f"{key!r} cannot be a key")
        written = _written(value)
        lines = self.lines(key)
        if lines:
            old = lines[-1]
            pair = old.pairs[0]
            text = old.raw[: pair.start] + written + old.raw[pair.stop :]
            at = next(i for i, line in enumerate(self._lines) if line is old)
            self._lines[at] = _read(old.number, text)
            return
        self._end_last_line()
        number = sum(line.raw.count("\n") for line in self._lines) + 1
        self._lines.append(_read(number, f"{key}={written}\n"))

    def _end_last_line(self) -> None:
        """Make sure that text added at the end begins a new line."""
        if not self._lines:
            return
        last = self._lines[-1]
        raw = last.raw if last.raw.endswith("\n") else last.raw + "\n"
        *_, physical = _PHYSICAL.findall(raw)
        if _content(physical)[1]:
            raw += "\n"
        self._lines[-1] = _read(last.number, raw)


def parse(text: str) -> Document:
    """Read a file. Nothing is lost, nothing refused: what Slurm would refuse is ``Line.rest``."""
    return Document([_read(number, raw) for number, raw in _joined(text)])


def _joined(text: str) -> Iterator[tuple[int, str]]:
    """Lines with those that continue them, and the number of the first one."""
    pieces: list[str] = []
    first = number = 1
    for physical in _PHYSICAL.findall(text):
        pieces.append(physical)
        number += 1
        if not _content(physical)[1]:
            yield first, "".join(pieces)
            pieces, first = [], number
    if pieces:
        yield first, "".join(pieces)


def _content(physical: str) -> tuple[int, bool]:
    """Length of a line without its comment and continuation, and whether the next continues it.

    As _strip_comments and _strip_continuation do: the comment goes first, so a backslash before a
    comment continues the line, and one inside a comment does not.
    """
    if "\\" not in physical:
        at = physical.find("#")
        return (len(physical) if at < 0 else at), False
    at = 0
    while at < len(physical) and physical[at] != "#":
        at += 2 if physical[at] == "\\" else 1
    stop = min(at, len(physical))
    body = physical[:stop].rstrip(_SPACE)
    if (len(body) - len(body.rstrip("\\"))) % 2:
        return len(body) - 1, True
    return stop, False


def _logical(raw: str) -> tuple[str, list[int] | None]:
    """What Slurm's parser sees of a line, and where each character is; None: at its index."""
    if "\\" not in raw:
        return raw[: _content(raw)[0]], None
    chars: list[str] = []
    places: list[int] = []
    base, escaped = 0, False
    for physical in _PHYSICAL.findall(raw):
        for at in range(_content(physical)[0]):
            if physical[at] == "\\" and not escaped:
                escaped = True
                continue
            chars.append(physical[at])
            places.append(base + at)
            escaped = False
        base += len(physical)
    return "".join(chars), places


def _read(number: int, raw: str) -> Line:
    text, places = _logical(raw)
    include = _INCLUDE.match(text)
    if include:
        rest = text[include.end() :].strip(_SPACE)
        return Line(number, raw, include=include.group(1), rest=rest)
    pairs: list[Pair] = []
    at = 0
    while match := _PAIR.match(text, at):
        start, stop = match.span("value")
        begin = match.start("key")
        quoted = match["quoted"]
        pairs.append(
            Pair(
                key=match["key"],
                value=match["value"] if quoted is None else quoted,
                operator=match["operator"],
                start=places[start] if places else start,
                stop=places[stop - 1] + 1 if places else stop,
                begin=places[begin] if places else begin,
            )
        )
        at = stop
    return Line(number, raw, pairs=tuple(pairs), rest=text[at:].strip(_SPACE))


def _written(value: str) -> str:
    if _BARE.fullmatch(value):
        return value
    if _QUOTABLE.fullmatch(value):
        return f'"{value}"'
    raise _refused(f"{value[:80]!r} cannot be a value")


def _refused(what: str) -> CorralError:
    return CorralError(
        Code.USAGE,
        f"{what} in Slurm's files",
        hint="values hold no quotation mark, '#', backslash or line end",
    )
