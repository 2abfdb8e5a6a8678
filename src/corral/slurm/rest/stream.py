"""One long JSON answer, record by record: nobody need hold the 300 MB of 50,000 jobs. Pure.

The document is an object with one long list of objects under a known key; the rest is small.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, Final

from corral.errors import Code, CorralError
from corral.slurm.rest.loose import Record

_BLANKS: Final = " \t\r\n"
MAX_HEAD: Final = 1 << 20
"""Bytes before the list, or of one record, after which it is no answer of Slurm's."""


class RecordStream:
    """Takes bytes, gives the list's records as soon as each is whole.

    Args:
        key: the list's key: ``jobs``.
    """

    def __init__(self, key: str) -> None:
        self._key = re.compile(rf'"{re.escape(key)}"\s*:\s*\[')
        self._name = key
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._json = json.JSONDecoder()
        self._text = ""
        self._head = ""
        self._state = 0  # before the list, in it, behind it

    def feed(self, data: bytes) -> Iterator[Record]:
        """Take the next bytes; give the records that are whole now.

        Raises:
            CorralError: PARSE_FAILED, it is no such document.
        """
        self._text += self._decode(data)
        if self._state == 0:
            found = self._key.search(self._text)
            if not found:
                self._limit()
                return
            self._head, self._text = self._text[: found.start()], self._text[found.end() :]
            self._state = 1
        if self._state == 1:
            yield from self._records()

    def _records(self) -> Iterator[Record]:
        at, text = 0, self._text
        while True:
            while at < len(text) and text[at] in _BLANKS + ",":
                at += 1
            if at >= len(text):
                break
            if text[at] == "]":
                self._state = 2
                at += 1
                break
            try:
                found, end = self._json.raw_decode(text, at)
            except ValueError:
                break  # not whole yet, or never: then the limit ends it
            if end == len(text) and text[end - 1] not in '}]"':
                break  # a bare number may go on in the next bytes
            at = end
            if isinstance(found, dict):
                yield found  # pyright: ignore[reportUnknownVariableType]
        self._text = text[at:]
        if self._state == 1:
            self._limit()

    def _limit(self) -> None:
        if len(self._text) > MAX_HEAD:
            raise CorralError(Code.PARSE_FAILED, f"no list of {self._name} in Slurm's answer")

    def rest(self) -> dict[str, Any]:
        """The document without the records, once all bytes came.

        Raises:
            CorralError: PARSE_FAILED, it broke off or is no JSON.
        """
        middle = f'"{self._name}": []' if self._state else ""
        text = self._head + middle + self._text
        try:
            found = json.loads(text)
        except ValueError as error:
            raise CorralError(
                Code.PARSE_FAILED,
                f"Slurm's answer about {self._name} broke off or is no JSON",
                tail=text[:200],
            ) from error
        return found if isinstance(found, dict) else {}  # pyright: ignore
