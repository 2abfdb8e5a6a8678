"""A stream that ends in an error where an archive has more than its reader expects.

``tarfile`` reads a long name or a pax header completely before it returns an entry, however long
the header claims to be: 13 kB of zstd can be a header of 844 MB.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NoReturn, Protocol

HEADER: Final = 64 * 1024
"""Of one entry, with its pax headers; and what follows the last entry: tar fills its records."""


class Readable(Protocol):
    """What is read from."""

    def read(self, size: int, /) -> bytes:
        """At most ``size`` bytes; none at the end."""
        ...


@dataclass(slots=True)
class LimitedStream:
    """Reads no more bytes than are allowed next.

    Args:
        raw: what is read.
        exceeded: raises the error.
    """

    raw: Readable
    exceeded: Callable[[], NoReturn]
    _left: int = HEADER

    def read(self, size: int, /) -> bytes:
        """At most ``size`` bytes."""
        data = self.raw.read(size)
        self._left -= len(data)
        if self._left < 0:
            self.exceeded()
        return data

    def allow(self, size: int = 0) -> None:
        """Allow the data of an entry, from here on, and one header.

        Args:
            size: of the data.
        """
        # tarfile reads ahead to the end of a record.
        self._left = size + HEADER + tarfile.RECORDSIZE


def regular(entry: tarfile.TarInfo) -> bool:
    """Whether an entry is a file whose bytes are in the archive; a sparse one has others."""
    return entry.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not entry.issparse()
