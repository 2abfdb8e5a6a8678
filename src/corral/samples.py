# Installed as: lib/corral/samples.py in the job's folder (jobs/submit)
# Started by: the job's script, which imports it
# Runs as: the job's user
"""A data set of shards by number: an LMDB database on the node's own disk, made at the first use.

    from corral.samples import Samples

    data = Samples("/shared/data/digits", cache="/local/cache")   # a node's own fast disk
    sample = data[17]                                              # bytes by ending, as of Shards
    loader = DataLoader(data, sampler=DistributedSampler(data), num_workers=4)

For what reads samples in another order than that of the shards: sampling by weights, a shuffle over
all of them, an index of hard ones. All ranks of a node share one database, and the system's memory
of it. The job needs the package ``lmdb`` (requirements.txt, or the image); this file does not come
with it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import struct
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from corral.shards import ShardError, Shards, own_folder, read

_KEY: Final = struct.Struct(">Q")
_HEAD: Final = struct.Struct("<I")
_AT_ONCE: Final = 64 << 20
"""Bytes of a transaction, while the database is made: they are in memory until its end."""
_ROOM: Final = 3 * 4096
"""Bytes that a sample may take beyond its own: LMDB gives large values separate pages."""
_SPARE: Final = 64 << 20


class Samples:
    """A data set by number, as PyTorch's DataLoader takes it.

    Args:
        folder: where ``index.json`` of the shards is.
        cache: a folder on this node's own disk; None: $CORRAL_DATA_CACHE. The database is made in
            it by one rank while the others of the node wait; it needs as much room as the shards.

    Raises:
        ShardError: no cache, no package ``lmdb``, no room, or a shard does not match the index.
        OSError, ValueError: the index is missing or broken.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        cache: str | os.PathLike[str] | None = None,
    ) -> None:
        self._data = Shards(folder, cache=cache, rank=0, world=1)
        if self._data.cache is None:
            raise ShardError(
                "LMDB is read by mapping it into memory, which is slow on shared storage and not "
                "safe there: name a folder of the node's own disk, cache= or CORRAL_DATA_CACHE"
            )
        self.file = _made(self._data, self._data.cache)

    def __len__(self) -> int:
        """How many samples there are."""
        return int(self._data.index["samples"])

    def __getitem__(self, number: int) -> dict[str, bytes]:
        """A sample: its files by ending, and its key as ``__key__``.

        Raises:
            IndexError: there is none of that number.
        """
        place = number + len(self) if number < 0 else number
        with _database(str(self.file)).begin(buffers=True) as reading:
            value = reading.get(_KEY.pack(place)) if place >= 0 else None
            if value is None:
                raise IndexError(f"sample {number} of {len(self)}")
            return _unpacked(value)


@cache
def _database(file: str) -> Any:
    """A complete database, open: once in each process, as LMDB refuses a second time.

    Nobody writes to it, so it has no lock, and no reader is noted anywhere: workers that a process
    forks go on with it (a table of readers is why LMDB forbids that otherwise). Reads are in any
    order, so nothing is read ahead.
    """
    return _lmdb().open(file, subdir=False, readonly=True, lock=False, readahead=False)


def _lmdb() -> Any:
    try:
        return import_module("lmdb")
    except ModuleNotFoundError as error:
        raise ShardError(
            "the Python package lmdb is not installed here: pin it in the job's requirements.txt, "
            "such as lmdb==3.0.0, or take an image that has it"
        ) from error


def _made(data: Shards, cache: Path) -> Path:
    """The database, complete; made here if it is not there yet."""
    entries = data.index["shards"]
    digest = hashlib.sha256(json.dumps([e["sha256"] for e in entries]).encode()).hexdigest()
    folder = own_folder(cache)
    file = folder / f"{digest[:24]}.lmdb"
    with (folder / f".{file.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            part = file.with_suffix(".part")
            part.unlink(missing_ok=True)
            try:
                _write(data, part)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
            part.replace(file)
    return file


def _write(data: Shards, part: Path) -> None:
    """All samples, by number in the order of the shards.

    Raises:
        ShardError: a shard does not match the index, or LMDB cannot write (no room).
    """
    lmdb = _lmdb()
    index = data.index
    room = int(index["bytes"]) + int(index["samples"]) * _ROOM + _SPARE
    # The file grows with what is written; its size here is a limit.
    try:
        with lmdb.open(
            str(part), subdir=False, map_size=room, sync=False, lock=False, mode=0o600
        ) as database:
            number = 0
            for entry in index["shards"]:
                number = _add(database, _checked(data, entry), number)
            database.sync(True)
    except lmdb.Error as error:
        raise ShardError(f"the database {part} cannot be written: {error}") from error


def _add(database: Any, samples: Iterator[dict[str, bytes]], number: int) -> int:
    """Write samples from that number on; gives the next number."""
    ended = False
    while not ended:
        with database.begin(write=True) as writing:
            filled, ended = 0, True
            for sample in samples:
                value = _packed(sample)
                writing.put(_KEY.pack(number), value, append=True)
                number, filled = number + 1, filled + len(value)
                if filled >= _AT_ONCE:
                    ended = False
                    break
    return number


def _checked(data: Shards, entry: Mapping[str, Any]) -> Iterator[dict[str, bytes]]:
    """The samples of one shard, read in place: its copy would be of no use later."""
    source = data.folder / entry["file"]
    with source.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != entry["sha256"]:
        raise ShardError(f"{source} does not match its index: write it again")
    return read(source)


def _packed(sample: Mapping[str, bytes]) -> bytes:
    """One value: how long its head is, the head (endings and sizes), and the files."""
    head = json.dumps([[ending, len(content)] for ending, content in sample.items()]).encode()
    return b"".join((_HEAD.pack(len(head)), head, *sample.values()))


def _unpacked(value: Any) -> dict[str, bytes]:
    (size,) = _HEAD.unpack_from(value)
    at = _HEAD.size + size
    sample: dict[str, bytes] = {}
    for ending, length in json.loads(bytes(value[_HEAD.size : at])):
        sample[ending] = bytes(value[at : at + length])
        at += length
    return sample
