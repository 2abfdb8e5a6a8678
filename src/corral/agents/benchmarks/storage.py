# Installed as: the job's folder (api/evidence/collective_bench, api/evidence/node_bench)
# Started by: srun, in a job of measurements
# Runs as: the user who starts the benchmark
# pyright: basic, reportMissingImports=false
# It runs under the node's own Python, not under Corral's.
"""Measures shared folders: writing, reading and metadata, from each node and from all at once.

One process per node, started by srun. Written data counts when fsync has come back. A file is read
on the node that did not write it, after its pages were given away, so that the rate is the
folder's and not that of this machine's memory; whether pages were left in memory all the same is
reported. Every byte that is read is compared with what was written. All files are removed at the
end.

Standard library of Python >= 3.8 and ``rendezvous.py`` next to it only.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import shutil
import time
from pathlib import Path

from rendezvous import Rendezvous

WAIT_S = 600
PIECE = 1 << 22


def in_memory(fd: int, size: int) -> float:
    """The share of a file that this machine holds in memory, by asking for it without waiting.

    preadv2 with RWF_NOWAIT gives what is there and refuses the rest (Linux 4.14); not a number
    where the folder's file system does not know that.
    """
    if not hasattr(os, "preadv"):
        return -1.0
    there, probes = 0, 64
    for turn in range(probes):
        try:
            there += os.preadv(fd, [bytearray(4096)], size // probes * turn, os.RWF_NOWAIT) > 0
        except BlockingIOError:
            continue
        except OSError:
            return -1.0
    return there / probes


class Folder:
    """One shared folder under measurement, by one rank."""

    def __init__(self, meet: Rendezvous, mount: str, options: argparse.Namespace) -> None:
        self.meet, self.mount, self.options = meet, mount, options
        token = meet.share(secrets.token_hex(6))[0]
        self.root = Path(mount) / f".corral-bench-{token}"
        self.mine = self.root / f"rank-{meet.rank}"
        # One piece of noise, turned by the place in the file: nothing to compress or to merge.
        self.noise = os.urandom(PIECE)

    def piece(self, rank: int, noise: bytes, number: int) -> bytes:
        """The content of one piece of a rank's file."""
        turn = (number * 4099 + rank * 131) % PIECE
        return noise[turn:] + noise[:turn]

    def write(self) -> dict:
        """One file, and the time until it is safe."""
        pieces = self.options.bytes // PIECE
        data = [self.piece(self.meet.rank, self.noise, n) for n in range(min(pieces, 16))]
        begun = time.perf_counter()
        fd = os.open(self.mine / "data", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            for n in range(pieces):
                left = memoryview(data[n % 16])
                while left:
                    left = left[os.write(fd, left) :]
            written = time.perf_counter() - begun
            os.fsync(fd)
            spent = time.perf_counter() - begun
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)
        size = pieces * PIECE
        return {"mb_s": size / spent / 1e6, "before_sync_mb_s": size / written / 1e6}

    def read(self, writer: int, noise: bytes) -> dict:
        """Another rank's file, compared with what it wrote."""
        path = self.root / f"rank-{writer}" / "data"
        pieces, wrong = self.options.bytes // PIECE, 0
        expected = [self.piece(writer, noise, n) for n in range(min(pieces, 16))]
        buffer = bytearray(PIECE)
        fd = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            cached = in_memory(fd, pieces * PIECE)
            spent = 0.0
            for n in range(pieces):
                begun = time.perf_counter()
                got = 0
                while got < PIECE and (more := os.readv(fd, [memoryview(buffer)[got:]])):
                    got += more
                spent += time.perf_counter() - begun
                wrong += buffer != expected[n % 16]
        finally:
            os.close(fd)
        return {"mb_s": pieces * PIECE / spent / 1e6, "cached": cached, "wrong": wrong}

    def names(self) -> dict:
        """Small files: made and closed, looked at, removed; each as many a second."""
        many, spent = self.options.files, {}
        paths = [self.mine / f"f{n}" for n in range(many)]
        for what, work in (("create", self.make), ("stat", os.stat), ("remove", os.unlink)):
            begun = time.perf_counter()
            for path in paths:
                work(path)
            spent[f"{what}_s"] = many / (time.perf_counter() - begun)
        return spent

    @staticmethod
    def make(path: Path) -> None:
        """One small file."""
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(fd, b"x" * 100)
        os.close(fd)

    def run(self) -> None:
        """Each rank in its turn, then all at once; rank 0 reports each."""
        self.mine.mkdir(parents=True, mode=0o700)
        try:
            ranks = range(self.meet.ranks)
            for who in ([r] for r in ranks):
                # The best of some turns: what disturbs a disk only slows it down.
                self.part(who, self.options.turns)
            if self.meet.ranks > 1:
                self.part(list(ranks), 1)
        finally:
            shutil.rmtree(self.mine, ignore_errors=True)
            with contextlib.suppress(OSError):
                self.root.rmdir()

    def part(self, who: list, turns: int) -> None:
        """Writing, reading and names by these ranks at the same time."""
        results = [self.turn(who) for _ in range(turns)]
        nodes = self.meet.share(self.meet.node)
        for rank in who:
            reader = (rank + 1) % self.meet.ranks
            wrote, read, names = zip(*(result[rank] for result in results))  # noqa: B905 - 3.8
            record = {
                "mount": self.mount,
                "node": nodes[rank],
                "together": len(who),
                "bytes": self.options.bytes // PIECE * PIECE,
                "write": best(wrote),
                "read": {
                    **best(read),
                    "cached": max(turn["cached"] for turn in read),
                    "wrong": sum(turn["wrong"] for turn in read),
                    "node": nodes[reader],
                },
                "names": best(names),
            }
            self.meet.report("storage", record)

    def turn(self, who: list) -> dict:
        """One turn: what was written, read and named of each of these ranks."""
        on = self.meet.rank in who
        self.meet.share()
        wrote = self.meet.share(self.write() if on else None)
        if on:
            (self.mine / "noise").write_bytes(self.noise)
        self.meet.share()
        # By the one after, which has not written it: its memory cannot hold it yet.
        before = (self.meet.rank - 1) % self.meet.ranks
        read = None
        if before in who:
            noise = (self.root / f"rank-{before}" / "noise").read_bytes()
            read = self.read(before, noise)
        reads = self.meet.share(read)
        names = self.meet.share(self.names() if on else None)
        if on:  # again each time: a file that is written over has its blocks already
            (self.mine / "data").unlink()
        ranks = self.meet.ranks
        return {rank: (wrote[rank], reads[(rank + 1) % ranks], names[rank]) for rank in who}


def best(turns: tuple) -> dict:
    """The highest of each rate."""
    return {key: max(turn[key] for turn in turns) for key in turns[0]}


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--mount", action="append", required=True)
    parser.add_argument("--bytes", type=int, default=256 << 20, help="of each node's file")
    parser.add_argument("--files", type=int, default=500, help="small ones of each node")
    parser.add_argument("--turns", type=int, default=2, help="of each node alone")
    options = parser.parse_args()
    meet = Rendezvous(WAIT_S)
    for mount in options.mount:
        room = shutil.disk_usage(mount).free
        fits = min(meet.share(room)) // (4 * meet.ranks)
        options.bytes = max(min(options.bytes, fits) // PIECE, 1) * PIECE
        Folder(meet, mount, options).run()
        meet.share()


if __name__ == "__main__":
    main()
