"""The journal of a cluster, an append-only file, and the lock of its one writer.

It is a memory for people and for finding created machines again, never the truth about the
cluster: that is observed again each time (docs/decisions/0002). It never holds a secret.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from corral.errors import Code, CorralError
from corral.events import Emit, Event
from corral.spec.models import ClusterSpec


class Journal:
    """Appends to ``path``; each line is complete or not there (one write call, O_APPEND).

    Args:
        path: the file; made with mode 0600 when absent.
        run: id that joins the lines of one invocation.
    """

    def __init__(self, path: Path, run: str) -> None:
        self._path = path
        self._run = run
        self._by = person()

    def write(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Append one record, stamped with the time (unix seconds), the run's id and who did it."""
        stamp = {"at": round(time.time(), 3), "run": self._run, "by": self._by}
        line = json.dumps({**stamp, "kind": kind, **fields})
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, f"{line}\n".encode())
        finally:
            os.close(handle)

    def following(self, emit: Emit) -> Emit:
        """An Emit that journals each event and passes it on."""

        def both(event: Event) -> None:
            self.write("event", {"event": event.as_dict()})
            emit(event)

        return both


def person() -> str:
    """Who runs this: the login name, and under sudo the name of who typed it."""
    name = os.environ.get("SUDO_USER", "")
    if os.getuid() == 0 and name:
        return name
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's user that no file names
        return str(os.getuid())


def declared_before(path: Path) -> tuple[ClusterSpec, ...]:
    """The cluster as each recorded apply declared it, oldest first; unreadable ones left out."""
    records = (r for r in read_journal(path, '"kind": "spec"') if r.get("kind") == "spec")
    texts = [json.dumps(record.get("spec"), sort_keys=True) for record in records]
    specs: list[ClusterSpec] = []
    for text in reversed(dict.fromkeys(reversed(texts))):
        with contextlib.suppress(ValueError):
            specs.append(ClusterSpec.model_validate_json(text))
    return tuple(specs)


def read_journal(path: Path, having: str = "") -> Iterator[dict[str, Any]]:
    """All records, oldest first; a line cut off by a crash is left out.

    Args:
        path: the file.
        having: JSON text of every record that is asked for. The others are not parsed: a cluster of
            1,000 nodes has 100,000 records after its first ``up``.
    """
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if having not in line:
                continue
            try:
                yield json.loads(line)
            except ValueError:
                continue


@contextmanager
def cluster_lock(folder: Path) -> Generator[None]:
    """Hold the cluster's lock while changing it; the kernel frees it when the process dies.

    Raises:
        CorralError: BUSY, another process holds it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(handle, 32, 0).decode(errors="replace").strip()
            raise CorralError(
                Code.BUSY,
                f"process {holder or '?'} changes this cluster now",
                hint="wait until it has ended, then run the same command again",
            ) from error
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)
