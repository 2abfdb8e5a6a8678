"""Lossless readers of files other than Slurm's own: hosts, exports, fstab. Words with places."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from corral.slurm.adopt.source import Source, Spot, physical

_WORD: Final = re.compile(r"[^ \t\r\n\f\v]+")
_CLIENT: Final = re.compile(r"(?P<client>[^()\s]*)(?:\((?P<options>[^)]*)\))?")
_QUOTED: Final = re.compile(r'"[^"]*"|[^ \t\r\n\f\v]+')

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class Host:
    """One line of a hosts file: an address and its names, each with its place."""

    address: Spot
    names: tuple[Spot, ...]
    line: Spot

    @property
    def loopback(self) -> bool:
        """Whether the address reaches the machine itself only."""
        try:
            return ipaddress.ip_address(self.address.text.partition("%")[0]).is_loopback
        except ValueError:
            return False


@dataclass(frozen=True, slots=True)
class Export:
    """One client of one export.

    Attributes:
        path: the folder.
        client: host, network, pattern or "" for the world.
        options: its options; those of the ``-options`` word before it among them.
        spot: client and options in the file.
        line: the entire line.
        bare: options follow a space, so they are the world's.
    """

    path: str
    client: str
    options: tuple[str, ...]
    spot: Spot
    line: Spot
    bare: bool = False

    @property
    def network(self) -> Network | None:
        """The addresses it is for, when the client is an address or a network."""
        try:
            return ipaddress.ip_network(self.client, strict=False)
        except ValueError:
            return None

    @property
    def world(self) -> bool:
        """Whether every machine that reaches the server may mount it."""
        network = self.network
        return self.client in ("", "*") or (network is not None and network.prefixlen == 0)


def words_of(source: Source, *, comment: str = "#") -> Iterator[tuple[Spot, list[Spot]]]:
    """Each line with content: the line and its words, comments left out."""
    for at, line in physical(source.text):
        body = line.partition(comment)[0]
        words = [Spot(source, at + m.start(), at + m.end()) for m in _WORD.finditer(body)]
        if words:
            yield Spot(source, words[0].start, at + len(line.rstrip("\r\n"))), words


def hosts_of(source: Source) -> list[Host]:
    """Entries of a hosts file, in order."""
    return [Host(words[0], tuple(words[1:]), line) for line, words in words_of(source)]


def exports_of(source: Source) -> Iterator[Export]:
    r"""Every client of every line of an exports file; ``\\`` at a line's end continues it."""
    for start, text in _joined(source.text):
        words = list(_QUOTED.finditer(text))
        if not words:
            continue
        line = Spot(source, start + words[0].start(), start + words[-1].end())
        path = words[0][0].strip('"')
        shared: tuple[str, ...] = ()
        clients = 0
        for word in words[1:]:
            if word[0].startswith("-"):
                shared = tuple(word[0][1:].split(","))
                continue
            match = _CLIENT.fullmatch(word[0])
            client, options = (match["client"], match["options"]) if match else (word[0], "")
            spot = Spot(source, start + word.start(), start + word.end())
            own = tuple(o for o in (options or "").split(",") if o)
            clients += 1
            yield Export(path, client, (*shared, *own), spot, line, bare=not client and clients > 1)
        if not clients:
            yield Export(path, "", shared, line, line)


def _joined(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments, continued ones joined with their backslash blanked out."""
    start, pieces = 0, list[str]()
    for at, line in physical(text):
        if not pieces:
            start = at
        bare = line.rstrip("\r\n")
        ending = len(line) - len(bare)
        code = bare.partition("#")[0]
        if code.endswith("\\"):
            pieces.append(code[:-1] + " " * (len(bare) - len(code) + 1 + ending))
            continue
        yield start, "".join([*pieces, code])
        pieces = []
    if pieces:
        yield start, "".join(pieces)
