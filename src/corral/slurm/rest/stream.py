"""One long JSON answer, record by record: the 300 MB of 50,000 jobs are never held at once. Pure.

The document is an object with one long list of objects under a known key; the rest is small.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, TypeVar, cast

from corral.errors import Code, CorralError
from corral.slurm.rest.json_values import Record

_BETWEEN: Final = re.compile(r"[ \t\r\n,]*")
_BEFORE, _IN, _BEHIND = range(3)  # the list
MAX_HEAD: Final = 1 << 20
"""Bytes before the list, or of one record, above which it is not an answer of Slurm's."""


T = TypeVar("T")


class Memory(Generic[T]):
    """What the records of the last complete answer were read as: an equal text is not read again.

    Of 10,000 nodes and 50,000 jobs few change between two answers, and the others are in the same
    order; after one that came or went the place of the next is looked up. Only a text's length and
    hash (64 bits, another key in each process) are kept.
    """

    def __init__(self) -> None:
        self.last: list[tuple[int, int, T | None]] = []
        self.places: dict[int, int] = {}

    def keep(self, seen: list[tuple[int, int, T | None]]) -> None:
        """Remember a complete answer."""
        self.last = seen
        self.places = {mark: place for place, (_, mark, _) in enumerate(seen)}


class RecordStream(Generic[T]):
    """Takes bytes, gives what the list's records are read as, as soon as each is complete.

    Args:
        key: the list's key: ``jobs``.
        read: reads one record; one that it cannot read (CorralError) is left out and counted.
        memory: of the last answer to the same question.

    Attributes:
        known: how many records were read.
        unread: how many could not be read.
    """

    def __init__(
        self, key: str, read: Callable[[Record], T], memory: Memory[T] | None = None
    ) -> None:
        self._read = read
        self._memory = memory
        self.unread = 0
        self.known = 0
        self._seen: list[tuple[int, int, T | None]] = []
        self._place = 0  # in the memory, of the next record
        self._key = re.compile(rf'"{re.escape(key)}"\s*:\s*\[')
        self._name = key
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._json = json.JSONDecoder()
        self._text = ""
        self._head = ""
        self._state = _BEFORE

    def feed(self, data: bytes) -> Iterator[T]:
        """Take the next bytes; give those whose records are complete now.

        Raises:
            CorralError: PARSE_FAILED, it is not such a document.
        """
        self._text += self._decode(data)
        if self._state == _BEFORE:
            match = self._key.search(self._text)
            if not match:
                self._limit()
                return
            self._head, self._text = self._text[: match.start()], self._text[match.end() :]
            self._state = _IN
        if self._state == _IN:
            yield from self._records()

    def _records(self) -> Iterator[T]:
        at, text = 0, self._text
        while True:
            at = _BETWEEN.match(text, at).end()  # pyright: ignore[reportOptionalMemberAccess]
            if at >= len(text):
                break
            if text[at] == "]":
                self._state = _BEHIND
                at += 1
                break
            known = self._recalled(text, at)
            if known is None:
                try:
                    record, end = self._json.raw_decode(text, at)
                except ValueError:
                    break  # not complete yet, or never: then the limit ends it
                if end == len(text) and text[end - 1] not in '}]"':
                    break  # a bare number may go on in the next bytes
                value = self._read_new(record, text, at, end)
            else:
                end, value = known
            at = end
            if value is None:
                self.unread += 1
            else:
                self.known += 1
                yield value
        self._text = text[at:]
        if self._state == _IN:
            self._limit()

    def _recalled(self, text: str, at: int) -> tuple[int, T | None] | None:
        if self._memory is None or self._place >= len(self._memory.last):
            return None
        size, mark, value = self._memory.last[self._place]
        end = at + size
        if end > len(text) or hash(text[at:end]) != mark:
            return None
        self._seen.append(self._memory.last[self._place])
        self._place += 1
        return end, value

    def _read_new(self, record: object, text: str, at: int, end: int) -> T | None:
        """What a record is read as that is not the next one of the last answer."""
        if self._memory is None:
            return self._tried(record)
        mark = hash(text[at:end])
        place = self._memory.places.get(mark)
        if place is not None and self._memory.last[place][0] == end - at:
            value = self._memory.last[place][2]
        else:
            place, value = self._place, self._tried(record)
        self._place = place + 1
        self._seen.append((end - at, mark, value))
        return value

    def _tried(self, record: object) -> T | None:
        if not isinstance(record, dict):
            return None
        try:
            return self._read(cast("Record", record))
        except CorralError:
            return None

    def _limit(self) -> None:
        if len(self._text) > MAX_HEAD:
            raise CorralError(Code.PARSE_FAILED, f"no list of {self._name} in Slurm's answer")

    def rest(self) -> dict[str, Any]:
        """The document without the records, once all bytes came.

        Raises:
            CorralError: PARSE_FAILED, it broke off, is not JSON or has no such list, or none of its
                records could be read.
        """
        middle = f'"{self._name}": []' if self._state != _BEFORE else ""
        text = self._head + middle + self._text
        try:
            document = json.loads(text)
        except ValueError as error:
            raise CorralError(
                Code.PARSE_FAILED,
                f"Slurm's answer about {self._name} broke off or is not JSON",
                tail=text[:200],
            ) from error
        if self._memory is not None and self._state == _BEHIND:
            self._memory.keep(self._seen)
        if not isinstance(document, dict):
            raise CorralError(
                Code.PARSE_FAILED, f"Slurm's answer about {self._name} is not an object"
            )
        body = cast("dict[str, Any]", document)
        # A refusal has no list, and its own errors.
        errors = body.get("errors")
        if self._state == _BEFORE and not (isinstance(errors, list) and errors):
            raise CorralError(Code.PARSE_FAILED, f"Slurm's answer has no list of {self._name}")
        if self.unread and not self.known:
            raise CorralError(
                Code.PARSE_FAILED, f"none of the {self.unread} {self._name} of Slurm can be read"
            )
        return body
