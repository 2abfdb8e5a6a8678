# Installed as: lib/corral/shards.py in the job's folder (jobs/submit); else nowhere: sent to the
# controller and to nodes (jobs/datasets)
# Started by: the job's script, which imports it; corral, by standard input of python3
# Runs as: the job's user
"""A data set as WebDataset shards: tar files with an index, written once and read in a row.

    from corral.shards import Shards

    data = Shards("/shared/data/digits", cache="/local/cache")   # cache: a node's own fast disk
    for sample in data.epoch(0):                                  # this rank's share, shuffled
        image, label = sample["png"], int(sample["cls"])          # bytes, by ending

A sample is the files that share a name up to the first dot, as WebDataset has it; that library
reads the shards too. ``index.json`` has each shard's samples, bytes and SHA-256. Nothing but the
standard library: `corral run` sends this file along with each job, and `corral data` runs it on the
cluster (``python3 shards.py write FOLDER OUT``, ``python3 shards.py read FOLDER``).
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import fcntl
import hashlib
import io
import json
import os
import random
import stat
import sys
import tarfile
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

INDEX: Final = "index.json"
SIZE: Final = 128 << 20
"""Bytes of a shard, about: large enough to be read at full speed, small enough to be shared out."""

_PIECE: Final = 1 << 22
_SEVERAL: Final = 0o022


class ShardError(Exception):
    """The folder holds no samples, or a shard does not match the index."""


def parts_of(path: str) -> list[str]:
    """The names of a path below a folder.

    Raises:
        OSError: it is empty, absolute, or goes up.
    """
    parts = path.split("/")
    if not all(part not in ("", ".", "..") and "\0" not in part for part in parts):
        raise OSError(errno.EINVAL, "not a path below the folder", path)
    return parts


def folder_below(root: int, path: str) -> int:
    """Open a folder below another one; no part of its path may be a link.

    Args:
        root: the other folder's descriptor.
        path: relative to it, with slashes; "" for itself.

    Raises:
        OSError: a part is a link or no folder.
    """
    handle = os.dup(root)
    for part in parts_of(path) if path else ():
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            inner = os.open(part, flags, dir_fd=handle)
        finally:
            os.close(handle)
        handle = inner
    return handle


def plain_file(root: int, path: str) -> int:
    """Open a plain file below a folder for reading; no part of its path may be a link.

    What was opened is checked, and not its name. Nothing else is opened, and nothing waits: the
    open of a FIFO blocks, and that of a device may do something.

    Args:
        root: the folder's descriptor.
        path: relative to it, with slashes.

    Raises:
        OSError: it is not a plain file, or a part of its path is a link.
    """
    above, _, name = path.rpartition("/")
    parts_of(name)
    folder = folder_below(root, above)
    try:
        _plain(os.stat(name, dir_fd=folder, follow_symlinks=False), path)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        handle = os.open(name, flags, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        _plain(os.fstat(handle), path)
    except OSError:
        os.close(handle)
        raise
    return handle


def _plain(about: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(about.st_mode):
        raise OSError(errno.EINVAL, "not a plain file", path)


class Folder:
    """A folder, open: what is read of it later is below this one, whatever its name means then.

    Args:
        path: its name.
        opened: a descriptor of it that is kept open by the caller; None: it is opened.

    Raises:
        OSError: there is none.
    """

    def __init__(self, path: Path, opened: int | None = None) -> None:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        self.path = path
        self.handle = os.open(path, flags) if opened is None else os.open(".", flags, dir_fd=opened)
        weakref.finalize(self, os.close, self.handle)


@dataclass(frozen=True)
class Sample:
    """One sample: its key, and its files by ending, with their size and time of change.

    ``folder`` is where the search for samples began: no link below it is followed.
    """

    key: str
    files: tuple[tuple[str, str, int, int], ...]
    folder: Folder
    label: int | None = None

    @property
    def size(self) -> int:
        """Bytes of it in a tar file: each file has a header and is filled up to 512 bytes."""
        return sum(512 + -(-size // 512) * 512 for _, _, size, _ in self.files)


@dataclass(frozen=True)
class Shard:
    """One tar file to be: its name and samples."""

    name: str
    samples: tuple[Sample, ...]

    @property
    def plan(self) -> str:
        """Digest of what it is made from; another one means that it must be written again."""
        text = json.dumps(
            [(s.key, s.label, [(e, size, at) for e, _, size, at in s.files]) for s in self.samples]
        )
        return hashlib.sha256(text.encode()).hexdigest()


def samples_of(folder: Path, *, labels: bool = False, opened: int | None = None) -> list[Sample]:
    """All samples below a folder, by key; hidden files and links are left out.

    Args:
        folder: where the files are.
        labels: the first folder of each sample's path is its class: ``cls`` holds its number.
        opened: a descriptor of the folder, where the caller has one.

    Raises:
        ShardError: there are none.
    """
    by_key: dict[str, list[tuple[str, str, int, int]]] = {}
    top = Folder(folder, opened)
    for base, folders, files, handle in os.fwalk(".", dir_fd=top.handle):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            stem, dot, ending = name.partition(".")
            about = _about(handle, name) if stem and dot else None
            if about is None:
                continue
            path = os.path.normpath(f"{base}/{name}")
            key = os.path.normpath(f"{base}/{stem}")
            by_key.setdefault(key, []).append((ending, path, about.st_size, about.st_mtime_ns))
    if not by_key:
        raise ShardError(f"{folder} holds no files with an ending such as 000001.png")
    classes = sorted({key.partition("/")[0] for key in by_key if "/" in key})
    numbers = {name: number for number, name in enumerate(classes)} if labels else {}
    if labels and not numbers:
        raise ShardError(f"{folder} has no folders to take classes from")
    return [
        Sample(k, tuple(f), top, numbers.get(k.partition("/")[0]))
        for k, f in sorted(by_key.items())
    ]


def _about(folder: int, name: str) -> os.stat_result | None:
    """What a plain file is; None for anything else, and for what went meanwhile."""
    try:
        about = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    return about if stat.S_ISREG(about.st_mode) else None


def planned(
    samples: Iterable[Sample], name: str, size: int = SIZE, seed: int | None = 0
) -> list[Shard]:
    """Samples shared out to shards, the same way each time.

    Args:
        samples: all of them.
        name: beginning of each shard's name.
        size: bytes of each shard, about.
        seed: of the order; None: as they come. Readers shuffle within a few shards only, so what is
            in one shard should be mixed already.
    """
    order = list(samples)
    if seed is not None:
        random.Random(seed).shuffle(order)  # noqa: S311  # no secret
    groups: list[list[Sample]] = [[]]
    filled = 0
    for sample in order:
        if groups[-1] and filled + sample.size > size:
            groups.append([])
            filled = 0
        groups[-1].append(sample)
        filled += sample.size
    return [Shard(f"{name}-{i:06d}.tar", tuple(group)) for i, group in enumerate(groups)]


def pack(shard: Shard, out: Any) -> None:
    """Write a shard's tar file; the same samples give the same bytes, whoever writes them.

    Raises:
        ShardError: a file changed while it was read.
    """
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for sample in shard.samples:
            for ending, path, size, at in sample.files:
                with _reading(path, sample.folder) as stream:
                    about = os.fstat(stream.fileno())
                    if (about.st_size, about.st_mtime_ns) != (size, at):
                        raise ShardError(f"{sample.folder.path / path} changed while it was read")
                    tar.addfile(_member(f"{sample.key}.{ending}", size), stream)
            if sample.label is not None:
                text = str(sample.label).encode()
                tar.addfile(_member(f"{sample.key}.cls", len(text)), io.BytesIO(text))


def _reading(path: str, folder: Folder) -> Any:
    """A sample's file, open: it may have been swapped for a link since it was found.

    Raises:
        ShardError: it is not a plain file of the folder any more.
    """
    try:
        return os.fdopen(plain_file(folder.handle, path), "rb")
    except OSError as error:
        name = folder.path / path
        raise ShardError(f"{name} changed while it was read: {error.strerror}") from error


def index_of(name: str, entries: Sequence[Mapping[str, Any]]) -> bytes:
    """The index of a complete data set."""
    index = {
        "format": "webdataset",
        "name": name,
        "samples": sum(entry["samples"] for entry in entries),
        "bytes": sum(entry["bytes"] for entry in entries),
        "shards": list(entries),
    }
    return f"{json.dumps(index, indent=1)}\n".encode()


def kept(folder: Path, shard: Shard) -> dict[str, Any] | None:
    """What the folder knows of a complete shard that was made from the same files."""
    try:
        entry = json.loads((folder / f".{shard.name}.json").read_text())
        there = (folder / shard.name).stat().st_size == entry["bytes"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return entry if there and entry.get("plan") == shard.plan else None


def write(
    shards: Sequence[Shard],
    folder: Path,
    name: str,
    report: Callable[[Mapping[str, Any]], None] = lambda _: None,
) -> None:
    """Write all shards and the index; what is there already is left, so it can be cut and go on.

    A shard has its name only when it is complete and on the disk; the index comes last.

    Args:
        shards: what to write.
        folder: where to.
        name: of the data set.
        report: called with each shard's entry.
    """
    folder.mkdir(parents=True, exist_ok=True)
    entries: list[dict[str, Any]] = []
    for shard in shards:
        entry = kept(folder, shard)
        new = entry is None
        if entry is None:
            part = folder / f".{shard.name}.part"
            with _fresh(part) as out:
                pack(shard, out)
                out.flush()
                os.fsync(out.fileno())
                out.seek(0)
                digest = hashlib.file_digest(out, "sha256").hexdigest()
            entry = entry_of(shard, part.stat().st_size, digest)
            part.replace(folder / shard.name)
            _put(folder / f".{shard.name}.json", json.dumps(entry).encode())
        entries.append(entry)
        report({**entry, "new": new})
    _put(folder / INDEX, index_of(name, entries))


def entry_of(shard: Shard, size: int, digest: str) -> dict[str, Any]:
    """What the index has of one shard."""
    return {
        "file": shard.name,
        "samples": len(shard.samples),
        "bytes": size,
        "sha256": digest,
        "plan": shard.plan,
    }


class Shards:
    """A data set of shards as one rank reads it.

    Args:
        folder: where ``index.json`` is.
        cache: a folder on this node's own disk, to which each shard is copied at its first use,
            and checked; None: $CORRAL_DATA_CACHE, and without that, read in place. In a folder that
            others may write to, or that is another user's, it is this user's own folder in there.
        rank: which share; None: $RANK.
        world: of how many; None: $WORLD_SIZE.

    Raises:
        OSError, ValueError: the index is missing or broken.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        cache: str | os.PathLike[str] | None = None,
        rank: int | None = None,
        world: int | None = None,
    ) -> None:
        self.folder = Path(folder)
        chosen = cache or os.environ.get("CORRAL_DATA_CACHE")
        self.cache = Path(chosen) if chosen else None
        self.rank = int(os.environ.get("RANK", "0")) if rank is None else rank
        self.world = int(os.environ.get("WORLD_SIZE", "1")) if world is None else world
        self.index: dict[str, Any] = json.loads((self.folder / INDEX).read_text())

    def mine(self, epoch: int) -> list[dict[str, Any]]:
        """This rank's shards of an epoch; over all ranks each one comes once."""
        order = list(self.index["shards"])
        random.Random(epoch).shuffle(order)  # noqa: S311  # no secret
        return order[self.rank :: self.world]

    def epoch(self, epoch: int, *, shuffle: int = 1000) -> Iterator[dict[str, bytes]]:
        """This rank's samples: files by ending, and the key as ``__key__``.

        Args:
            epoch: another order each.
            shuffle: samples that are held to be mixed; 0: in the shards' order.
        """
        mixed = random.Random(f"{epoch} {self.rank}")  # noqa: S311  # no secret
        held: list[dict[str, bytes]] = []
        for entry in self.mine(epoch):
            for sample in read(self.place(entry)):
                held.append(sample)
                if len(held) > shuffle:
                    place = mixed.randrange(len(held))
                    held[place], held[-1] = held[-1], held[place]
                    yield held.pop()
        mixed.shuffle(held)
        yield from held

    def place(self, entry: Mapping[str, Any]) -> Path:
        """Where a shard is to be read: in place, or in the cache, copied there by one rank.

        Raises:
            ShardError: the shard, or its copy, does not match the index.
        """
        source = self.folder / entry["file"]
        if self.cache is None:
            # tarfile takes half a shard for a complete one, if it is cut between two files.
            if _size(source) != entry["bytes"]:
                raise _spoiled(source)
            return source
        cache = own_folder(self.cache)
        copy = cache / f"{entry['sha256'][:24]}.tar"
        with (cache / f".{copy.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if _size(copy) != entry["bytes"]:
                part = copy.with_suffix(".part")
                with source.open("rb") as stream, _fresh(part) as out:
                    digest = hashlib.sha256()
                    while piece := stream.read(_PIECE):
                        digest.update(piece)
                        out.write(piece)
                if digest.hexdigest() != entry["sha256"]:
                    part.unlink()
                    raise _spoiled(source)
                part.replace(copy)
        return copy


def own_folder(cache: Path) -> Path:
    """A folder of the cache in which no other user can put anything.

    Raises:
        ShardError: another user could replace it.
    """
    cache.mkdir(parents=True, exist_ok=True)
    about = cache.stat()
    if about.st_uid == os.geteuid() and not about.st_mode & _SEVERAL:
        return cache
    if about.st_mode & _SEVERAL and not about.st_mode & stat.S_ISVTX:
        raise ShardError(f"{cache} is open to others without the sticky bit: chmod +t {cache}")
    own = cache / f"corral-{os.geteuid()}"
    with contextlib.suppress(FileExistsError):
        own.mkdir(0o700)
    about = own.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & _SEVERAL:
        raise ShardError(f"{own} is not this user's own folder: name another cache")
    return own


def _fresh(path: Path) -> Any:
    """A new file, open; what was there under its name goes, and no link is followed."""
    path.unlink(missing_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o666), "w+b")


def _size(path: Path) -> int:
    """Bytes of a file; -1 where there is none."""
    return path.stat().st_size if path.exists() else -1


def _spoiled(path: Path) -> ShardError:
    return ShardError(f"{path} does not match its index: write it again")


def read(path: Path) -> Iterator[dict[str, bytes]]:
    """The samples of one shard, one after the other."""
    sample: dict[str, bytes] = {}
    with tarfile.open(path, "r|") as tar:
        for member in tar:
            stream = tar.extractfile(member)
            if stream is None:
                continue
            folder, _, name = member.name.rpartition("/")
            stem, _, ending = name.partition(".")
            key = f"{folder}/{stem}" if folder else stem
            if sample and sample["__key__"] != key.encode():
                yield sample
                sample = {}
            sample["__key__"] = key.encode()
            sample[ending] = stream.read()
    if sample:
        yield sample


def feed(folder: Path, seconds: float, *, share: int, of: int) -> dict[str, float]:
    """How fast this node reads its share of the shards: bytes, samples, seconds.

    What the node still has in memory of them is dropped first, file by file, else a second run
    would measure the memory.
    """
    data = Shards(folder, rank=share, world=of)
    data.cache = None
    began = time.monotonic()
    total, samples, epoch = 0, 0, 0
    while time.monotonic() - began < seconds:
        shards = data.mine(epoch) or list(data.index["shards"])
        for entry in shards:
            path = data.place(entry)
            _forget(path)
            for sample in read(path):
                samples += 1
                total += sum(map(len, sample.values()))
                if time.monotonic() - began >= seconds:
                    break
            if time.monotonic() - began >= seconds:
                break
        epoch += 1
    return {"bytes": total, "samples": samples, "seconds": time.monotonic() - began}


def _forget(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(handle)


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o644
    return member


def _put(path: Path, data: bytes) -> None:
    part = path.with_name(f"{path.name}.new")
    with _fresh(part) as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    part.replace(path)


def main(words: Sequence[str]) -> int:
    """``write FOLDER OUT`` and ``read FOLDER``, as `corral data` runs them; JSON lines."""
    parser = argparse.ArgumentParser()
    verbs = parser.add_subparsers(dest="verb", required=True)
    writing = verbs.add_parser("write")
    writing.add_argument("folder", type=Path)
    writing.add_argument("out", type=Path)
    writing.add_argument("--size", type=int, default=SIZE)
    writing.add_argument("--labels", action="store_true")
    reading = verbs.add_parser("read")
    reading.add_argument("folder", type=Path)
    reading.add_argument("--seconds", type=float, default=10)
    reading.add_argument("--share", type=int, default=0)
    reading.add_argument("--of", type=int, default=1)
    options = parser.parse_args(words)
    try:
        if options.verb == "read":
            share = feed(options.folder, options.seconds, share=options.share, of=options.of)
            print(json.dumps(share), flush=True)
            return 0
        shards = planned(
            samples_of(options.folder, labels=options.labels), options.out.name, options.size
        )
        print(json.dumps({"shards": len(shards)}), flush=True)
        write(shards, options.out, options.out.name, lambda e: print(json.dumps(e), flush=True))
    except (ShardError, OSError, ValueError, KeyError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main(sys.argv[1:]))
