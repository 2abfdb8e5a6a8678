"""Messages of programs, read: a sentence about the cause with the message's own parts. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Final, Self, cast

from pydantic import BeforeValidator, Field, model_validator

from corral.doctor.catalog import catalog
from corral.doctor.logs.log_text import LogText, starts
from corral.doctor.model import Failure, LinePatterns, Patterns
from corral.tables import Row, read_table

LONGEST_PART: Final = 160
"""Characters of a part of a message that a sentence repeats."""
LONGEST_READ: Final = 2000
"""Characters of a line that are read: no message is longer."""
_SUBJECTS: Final = "corral.doctor.messages"
_PART: Final = re.compile(r"(?<!\?P)<(quoted:|string:|path:)?([a-z]+)>")
_FIELD: Final = re.compile(r"\{([a-z]+)\}")
_PREFIXED: Final = {"quoted:": "[^'\"`]", "string:": '[^"]'}
_EMPTY: Final = re.compile(r':? (?:\(""\)|"")')
_DIGITS: Final = r"\d"
_LINE: Final = "."
_PATH: Final = r"[^\s'\"`,;:()<>|=]"
_BEFORE_PATH: Final = r"(?:^|[\s'\"`(=:])"
_WORD: Final = r"[^\s'\"`,;()<>]"
_CHARACTERS: Final = {
    **dict.fromkeys(("number", "port", "pid", "status", "errno"), _DIGITS),
    **dict.fromkeys(("text", "reason", "condition", "methods"), _LINE),
    "error": "[^:'\"]",
    **dict.fromkeys(("file", "folder", "library", "program", "script", "variable"), _PATH),
}
_CONTROL: Final = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]+")


def _named_parts(text: str) -> str:
    """``<file>`` as a group of an expression."""

    def group(part: re.Match[str]) -> str:
        if part[1] == "path:":
            return rf"{_BEFORE_PATH}(?P<{part[2]}>[./~]{_PATH}+)"
        characters = _PREFIXED.get(part[1]) or _CHARACTERS.get(part[2], _WORD)
        return f"(?P<{part[2]}>{characters}+)"

    return _PART.sub(group, text)


def _with_groups(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return [_named_parts(text) for text in cast("list[Any]", value) if isinstance(text, str)]


class Reading(Row):
    """How one message is read.

    Attributes:
        name: of the reading.
        kind: the entry of the catalogue that it makes more precise.
        patterns: expressions; ``<file>`` is a part of the message that is called so,
            ``<quoted:file>`` one between quotes, which may have blanks, ``<string:text>`` one
            between double quotes; ``<path:file>`` begins with a slash, a dot or a tilde.
        sentence: the cause as a sentence; ``{file}`` repeats that part, quoted.
        why: what brings such a message about.
        fix: what to do; it has no part of the log, as it may be copied to a shell.
        unless_line: expressions of lines that are about something else, next to those of its kind.
        alone: True where such a line reports an error without any other sign of one.
        warning: True where such a line counts although it is a warning, if no error explains more.
        general: True where the message names what could not be done, and rarely a reason.
        examples: for lines as programs print them, what is read from each.
    """

    name: str = Field(pattern=r"^[a-z0-9-]+$")
    kind: str = Field(pattern=r"^F\d{2,4}$")
    patterns: Annotated[Patterns, BeforeValidator(_with_groups)]
    sentence: str
    why: str
    fix: str
    unless_line: LinePatterns = ()
    alone: bool = False
    warning: bool = False
    general: bool = False
    examples: dict[str, str] = Field(min_length=1)

    @model_validator(mode="after")
    def _parts_are_in_each_pattern(self) -> Self:
        needed = set(_FIELD.findall(self.sentence))
        for pattern in self.patterns:
            missing = needed - set(re.findall(r"\(\?P<(\w+)>", pattern.text))
            if missing or not pattern.expression.parts:
                raise ValueError(
                    f"{pattern.text!r} has no <{min(missing)}>, which its sentence repeats"
                )
        if _FIELD.search(self.fix) or _FIELD.search(self.why):
            raise ValueError("only the sentence may repeat parts of a message")
        return self


@dataclass(frozen=True, slots=True)
class Read:
    """A message that was read.

    Attributes:
        reading: how.
        sentence: the cause as a sentence, with the message's own parts.
    """

    reading: Reading
    sentence: str

    @property
    def failure(self) -> Failure:
        """The entry of the catalogue, made precise."""
        return self.as_kind(catalog()[self.reading.kind])

    def as_kind(self, kind: Failure) -> Failure:
        """An entry of the catalogue with the texts of this reading."""
        texts = {"title": self.sentence}
        if not (self.reading.general and kind.id != self.reading.kind):
            # What a general reading knows is less than what the kind of the reason does.
            texts |= {"cause": self.reading.why, "fix": self.reading.fix}
        return kind.model_copy(update=texts)


@cache
def error_numbers() -> Mapping[int, str]:
    """What Linux's error numbers mean: the table ``error_numbers.yaml``."""
    return read_table("corral.doctor.logs", "error_numbers.yaml", dict[int, str])


@cache
def readings() -> tuple[Reading, ...]:
    """All readings; of a line the first that matches counts.

    Those of a subject come before the general ones.
    """
    subjects = [
        reading
        for name in sorted(f.name for f in files(_SUBJECTS).iterdir() if f.name.endswith(".yaml"))
        for reading in read_table(_SUBJECTS, name, tuple[Reading, ...])
    ]
    return (*subjects, *read_table("corral.doctor.logs", "readings.yaml", tuple[Reading, ...]))


def read_message(line: str) -> Read | None:
    """What a line of at most ``LONGEST_READ`` characters reports; None where no reading matches."""
    small = line.lower()
    at: list[int] = []
    for reading in readings():
        for pattern in reading.patterns:
            if not all(needle in small for needle in pattern.expression.needles):
                continue
            at = at or starts(line)
            parts = pattern.expression.parts_of(line, at)
            if parts is not None and not _excluded(reading, line):
                return Read(reading, _filled(reading.sentence, parts))
    return None


def _excluded(reading: Reading, line: str) -> bool:
    other = (*reading.unless_line, *catalog()[reading.kind].unless_line)
    return any(pattern.expression.search(line) for pattern in other)


def alone(log: LogText, *, warnings: bool = False) -> Iterator[int]:
    """Numbers of lines that are errors by their message alone, of each message the first.

    Args:
        log: where to look.
        warnings: only those that count as warnings.
    """
    for reading in readings():
        if reading.warning if warnings else reading.alone:
            for pattern in reading.patterns:
                line = next(log.matches(pattern.expression), None)
                if line is not None:
                    yield line.number


def _filled(sentence: str, parts: Mapping[str, str]) -> str:
    def part(name: re.Match[str]) -> str:
        return _errno(parts[name[1]]) if name[1] == "errno" else quoted(parts[name[1]])

    return _EMPTY.sub("", _FIELD.sub(part, sentence))


def _errno(number: str) -> str:
    """A number of errno(3), also of those that only the kernel has, with its meaning."""
    meaning = error_numbers().get(int(number))
    return f"errno {number} ({meaning})" if meaning else f"errno {number}"


def quoted(part: str) -> str:
    """A part of a log in a sentence: in one line, between quotes that it does not have itself."""
    plain = _CONTROL.sub(" ", part).replace('"', "'").lstrip(" ,;").rstrip(" :,;")[:LONGEST_PART]
    return plain if plain.isdecimal() else f'"{plain}"'
