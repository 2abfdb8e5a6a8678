# Installed as: lib/corral/checkpoint.py in the job's folder (jobs/submit)
# Started by: the job's script, which imports it
# Runs as: the job's user
"""Checkpoints that survive a crash: complete or absent, checked when read, the last N kept.

    from corral.checkpoint import Checkpoints

    saved = Checkpoints(keep=3)                # $CORRAL_CHECKPOINTS, which `corral run` sets
    checkpoint = saved.load()                  # the newest good one, None at the first start
    first = checkpoint.number + 1 if checkpoint else 0
    if checkpoint:
        model.load_state_dict(checkpoint.state["model"])
    for epoch in range(first, epochs):
        train_one(epoch)
        saved.save(epoch, {"model": model.state_dict(), "optimizer": optimizer.state_dict()})
        if saved.leaving():                    # the time limit is near (`corral run --requeue`)
            saved.leave()                      # the job starts again and goes on from here

Every rank calls the same methods in the same order; rank 0 writes. ``corral run`` uploads this file
with each job: it needs nothing but the standard library, and PyTorch where there is one. A
checkpoint is two files: ``000000000012.ckpt``, written by ``torch.save`` (``pickle`` without
PyTorch), and ``000000000012.sha256``, in the format of ``sha256sum``, written after it.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn

AGAIN: Final = 75
"""Exit status that asks to be started again: EX_TEMPFAIL of sysexits.h."""

WAIT_S: Final = 60
"""Seconds the other ranks wait for rank 0's end, where there is no process group."""

_DIGITS: Final = 12
_PIECE: Final = 1 << 20


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was read: its number, its state as it was saved, and its file."""

    number: int
    state: Any
    path: Path


class Checkpoints:
    """The checkpoints of one training, in one folder.

    Args:
        folder: where they are, seen by all ranks; None: $CORRAL_CHECKPOINTS, else ./checkpoints.
        keep: how many good ones are kept.
        weights_only: with PyTorch, load tensors and plain values only (``torch.load``); False also
            loads any Python object, and so runs whatever code the file holds: for your own files
            only.

    Raises:
        ValueError: ``keep`` is less than 1.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        keep: int = 3,
        weights_only: bool = True,
    ) -> None:
        if keep < 1:
            raise ValueError("keep must be at least 1")
        self.folder = Path(folder or os.environ.get("CORRAL_CHECKPOINTS") or "checkpoints")
        self.keep = keep
        self.rank = int(os.environ.get("RANK", "0"))
        self._weights_only = weights_only
        self._leaving = False
        # Only the main thread may; elsewhere (a test, a notebook) nobody sends the signal.
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGUSR1, self._on_signal)

    def save(self, number: int, state: Any) -> None:
        """Write a checkpoint; on ranks other than 0 nothing happens.

        The file is complete and on the disk before it gets its name. Older ones beyond ``keep`` are
        removed after that, and what a crash left half written.

        Args:
            number: grows from one to the next: an epoch, an iteration.
            state: what ``torch.save`` takes: a dict of tensors, numbers, texts.

        Raises:
            OSError: it cannot be written; those before it are untouched.
        """
        if self.rank != 0:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{number:0{_DIGITS}}.ckpt"
        digest = _written(path, lambda file: _dump(state, file))
        line = f"{digest}  {path.name}\n".encode()
        _written(path.with_suffix(".sha256"), lambda file: file.write(line))
        self._tidy(path)

    def load(self) -> Checkpoint | None:
        """The newest intact checkpoint; None where there is none yet.

        One that is damaged is named on stderr and passed over for the one before it.

        Raises:
            RuntimeError: there are checkpoints, but none of them is intact.
        """
        bad: list[str] = []
        for number in self.numbers():
            path = self.folder / f"{number:0{_DIGITS}}.ckpt"
            why = _fault(path)
            if not why:
                return Checkpoint(number, _load(path, weights_only=self._weights_only), path)
            bad.append(f"{path.name} {why}")
            if self.rank == 0:
                print(f"corral: checkpoint {bad[-1]}: left out", file=sys.stderr, flush=True)
        if bad:
            raise RuntimeError(f"no intact checkpoint in {self.folder}: {'; '.join(bad)}")
        return None

    def numbers(self) -> list[int]:
        """Numbers of the checkpoints that were finished, the newest first."""
        if not self.folder.is_dir():
            return []
        stems = [f.stem for f in self.folder.iterdir() if f.suffix == ".sha256"]
        return sorted((int(s) for s in stems if len(s) == _DIGITS and s.isdigit()), reverse=True)

    def leaving(self) -> bool:
        """True when the job was signalled that its time limit is near, or one of its ranks was.

        The signal reaches ranks at different moments, and one that left alone would let the others
        hang: with ``torch.distributed`` this asks all ranks, so each must call it equally often.
        """
        return bool(_most(int(self._leaving)))

    def leave(self) -> NoReturn:
        """End this rank with the status that has the job started again."""
        if self.rank == 0:
            print("corral: saved; leaves to be started again", file=sys.stderr, flush=True)
        # Slurm ends all ranks when one of them leaves, and rank 0 may still be writing: the others
        # wait for it together, or until its end is theirs.
        distributed = _distributed()
        if distributed is not None:
            distributed.barrier()
        elif self.rank != 0:
            time.sleep(WAIT_S)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(AGAIN)  # not sys.exit(): threads of a process group may keep the process

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._leaving = True

    def _tidy(self, newest: Path) -> None:
        kept = {f"{number:0{_DIGITS}}" for number in self.numbers()[: self.keep]} | {newest.stem}
        for file in self.folder.iterdir():
            ours = file.suffix in (".ckpt", ".sha256", ".part") and file.stem[:_DIGITS].isdigit()
            if ours and (file.suffix == ".part" or file.stem not in kept):
                file.unlink(missing_ok=True)


def _written(path: Path, write: Callable[[Any], object]) -> str:
    """Write a file under another name, flush it to the disk, rename it; gives its SHA-256."""
    part = path.with_suffix(f"{path.suffix}.part")
    # A folder of several users: nobody else's link or file is written to.
    part.unlink(missing_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(part, flags, 0o666), "wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    digest = _digest(part)
    part.replace(path)
    # The new name is in the folder only once the folder is on the disk too.
    handle = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    return digest


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def _fault(path: Path) -> str:
    """What is wrong with a checkpoint, "" for nothing."""
    try:
        recorded = path.with_suffix(".sha256").read_text().split()[:1]
        actual = _digest(path)
    except (OSError, UnicodeDecodeError) as error:
        return f"cannot be read ({getattr(error, 'strerror', None) or error})"
    return "" if recorded == [actual] else "is damaged (its SHA-256 is another one)"


def _torch() -> Any:
    return importlib.import_module("torch") if find_spec("torch") else None


def _dump(state: Any, file: Any) -> None:
    torch = _torch()
    if torch is not None:
        torch.save(state, file)
    else:
        pickle.dump(state, file, protocol=pickle.HIGHEST_PROTOCOL)


def _load(path: Path, *, weights_only: bool) -> Any:
    torch = _torch()
    if torch is not None:
        # To the CPU: each rank puts it on its own device by load_state_dict(). All of them reading
        # onto the device that saved it would fill the first GPU.
        return torch.load(path, map_location="cpu", weights_only=weights_only)
    with path.open("rb") as file:
        return pickle.load(file)  # noqa: S301  # the job's own file, in its owner's folder


def _distributed() -> Any:
    """``torch.distributed`` with a process group of more than one rank, else None."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed if distributed.get_world_size() > 1 else None


def _most(value: int) -> int:
    """The greatest value of all ranks."""
    distributed = _distributed()
    if distributed is None:
        return value
    torch = _torch()
    device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    shared = torch.tensor([value], device=device)
    distributed.all_reduce(shared, op=distributed.ReduceOp.MAX)
    return int(shared.item())
