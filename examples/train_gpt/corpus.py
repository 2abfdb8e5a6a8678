"""The text: files of a distribution's package, as bytes in two memory-mapped files.

The default is the source of Python's own standard library, 10 MB that every node has
(libpython3-stdlib on Debian and Ubuntu). Any folder or file of text will do: for prose, install
bible-kjv-text, fortunes or doc-rfc-std and name their folder.
"""

import fcntl
import hashlib
import json
import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import numpy as np

ENDINGS = {".py", ".txt", ".rst", ".md", ".c", ".h", ".tex", ""}
HELD_BACK = 10  # each tenth file is kept for the test
MOST = 64 << 20


def files_of(source: Path) -> list[Path]:
    """Text files in a fixed order."""
    if source.is_file():
        return [source]
    return sorted(p for p in source.rglob("*") if p.suffix in ENDINGS and p.is_file())


def pieces(source: Path) -> Iterator[tuple[int, bytes]]:
    """Number and text of each file that is text, up to 64 MiB in all."""
    total = 0
    for number, path in enumerate(files_of(source)):
        try:
            data = path.read_bytes()
        except OSError:
            continue
        if b"\0" in data or not data:
            continue
        total += len(data)
        if total > MOST:
            return
        yield number, data


def prepare(folder: Path, source: Path) -> None:
    """Write train.bin and test.bin once, completely or not at all; all ranks may call it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / "corpus.json").exists():
            return
        parts: dict[str, list[bytes]] = {"train": [], "test": []}
        for number, data in pieces(source):
            parts["test" if number % HELD_BACK == 0 else "train"].append(data + b"\n")
        if not parts["train"] and len(parts["test"]) == 1:  # one file has the number 0
            text = parts["test"][0]
            cut = len(text) * (HELD_BACK - 1) // HELD_BACK
            parts = {"train": [text[:cut]], "test": [text[cut:]]}
        about: dict[str, object] = {"source": str(source)}
        for name, texts in parts.items():
            data = b"".join(texts)
            write(folder / f"{name}.bin", data)
            about[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        write(folder / "corpus.json", json.dumps(about, indent=1).encode())


def write(path: Path, data: bytes) -> None:
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.write_bytes(data)
    new.replace(path)


class Corpus:
    """Bytes as tokens: batches of (tokens, next tokens), the same for the same step and rank."""

    def __init__(self, folder: Path, source: str, context: int, seed: int) -> None:
        place = Path(source) if source else Path(sysconfig.get_path("stdlib"))
        prepare(folder, place)
        self.context = context
        self.seed = seed
        self.train = np.memmap(folder / "train.bin", dtype=np.uint8, mode="r")
        self.test = np.memmap(folder / "test.bin", dtype=np.uint8, mode="r")
        if min(len(self.train), len(self.test)) < 16 * context:
            sys.exit(f"{place} holds too little text: {len(self.train)} bytes; name --corpus")

    def batch(self, size: int, *place: int) -> tuple[np.ndarray, np.ndarray]:
        """Size x context tokens and their next ones; ``place`` is step, micro-batch and rank."""
        random = np.random.default_rng([self.seed, *place])
        return self._cut(self.train, random.integers(0, len(self.train) - self.context - 1, size))

    def test_batch(self, number: int, size: int) -> tuple[np.ndarray, np.ndarray]:
        """The same ones at each call, evenly over the test text."""
        random = np.random.default_rng([self.seed + 1, number])
        return self._cut(self.test, random.integers(0, len(self.test) - self.context - 1, size))

    def guess_loss(self) -> float:
        """Mean loss (nats per byte) of who knows how often each byte comes, and nothing else."""
        counts = np.bincount(self.train, minlength=256).astype(np.float64) + 1.0
        seen = np.bincount(self.test, minlength=256)
        return float(-(seen * np.log(counts / counts.sum())).sum() / seen.sum())

    def _cut(self, data: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = np.stack([data[s : s + self.context + 1] for s in starts]).astype(np.int64)
        return rows[:, :-1], rows[:, 1:]
