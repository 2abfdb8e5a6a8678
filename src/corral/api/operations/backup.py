"""The use case ``backup``: what a cluster cannot make again, in one encrypted file."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from corral.agents import program
from corral.api.config.files import origin_of
from corral.api.operations.encryption import EncryptedFile, Encryption
from corral.apply.connection import Connection
from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind, ignore
from corral.hosts.quote import Script, sh
from corral.hosts.transport import Result, check
from corral.roles.services.backup import request_of
from corral.spec.models import ClusterSpec

LIMIT_S: Final = 12 * 3600.0
"""A database of years is dumped in hours."""
_NO_PROGRAM: Final = 127
_SHOWN: Final = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Backup:
    """An archive that was written.

    Attributes:
        path: the file.
        size: bytes of the file.
        content: bytes of what it holds, neither compressed nor encrypted.
        encrypted: whether it is encrypted.
    """

    path: str
    size: int
    content: int
    encrypted: bool

    def as_dict(self) -> dict[str, Any]:
        """The file, its size, and whether it is encrypted."""
        return asdict(self)


def archive_name(spec: ClusterSpec, encryption: Encryption) -> str:
    """Name of an archive that is made now."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    return f"{spec.name}-{stamp}.tar.zst{encryption.suffix}"


async def backup(
    spec: ClusterSpec,
    path: Path,
    encryption: Encryption,
    emit: Emit = ignore,
    *,
    artifacts: bool = False,
) -> Backup:
    """Write accounting, Slurm's state, keys, MLflow's runs and the cluster file into one file.

    The cluster goes on meanwhile. What is not encrypted is in memory and pipes only.

    Args:
        spec: the cluster.
        path: the file; it must not be there yet, and appears when it is complete.
        encryption: for whom it is encrypted.
        emit: receives the events.
        artifacts: also the files of MLflow's runs, not their names alone.

    Raises:
        CorralError: NOT_FOUND, the cluster is not up; USAGE, the file cannot be written;
            MISSING_TOOL, the controller has no Python; COMMAND_FAILED, something cannot be read.
    """
    begin = time.monotonic()
    request = request_of(spec, _written_file(spec), artifacts=artifacts)
    async with await Connection.open(spec) as connection:
        connection.require_running()
        emit(Event(Kind.PHASE_STARTED, "backup"))
        file = EncryptedFile(path, encryption)
        try:
            reader = _Reader(file, emit)
            answer = await connection.fleet.run(
                connection.controller,
                on_controller("backup/write.py"),
                stdin=json.dumps(request).encode(),
                timeout=LIMIT_S,
                on_line=reader.line,
            )
            succeeded(answer, "reading the cluster")
            # Files that became shorter while they were read.
            for line in answer.stderr.splitlines():
                emit(Event(Kind.NOTE, "backup", answer.node, line))
            reader.require_end(connection.controller)
            size = await asyncio.to_thread(file.finish)
        finally:
            file.close()
    seconds = time.monotonic() - begin
    emit(Event(Kind.PHASE_DONE, "backup", message=str(path), seconds=seconds))
    return Backup(str(path), size, reader.size, bool(encryption.argv))


def _written_file(spec: ClusterSpec) -> dict[str, str]:
    """The cluster file as somebody wrote it, where that is known."""
    origin = origin_of(spec.name)
    if origin is None:
        return {}
    try:
        return {"cluster.yaml": Path(origin.file).read_text("utf-8")}
    except (OSError, UnicodeError):
        return {}


def on_controller(name: str, *words: object) -> Script:
    """A call of one of the programs of a backup."""
    return sh("exec python3 -c {text} {words}", text=program(name), words=words)


def succeeded(answer: Result, what: str) -> Result:
    """The answer of such a program, when it has done its work.

    Raises:
        CorralError: MISSING_TOOL, the controller has no Python; COMMAND_FAILED.
    """
    if answer.status == _NO_PROGRAM:
        raise CorralError(
            Code.MISSING_TOOL,
            "the controller has no python3",
            node=answer.node,
            hint="install package python3 on it",
        )
    return check(answer, what)


class _Reader:
    """Lines of base64 become the file; the last one has size and digest of all."""

    def __init__(self, file: EncryptedFile, emit: Emit) -> None:
        self.size = 0
        self._sum = hashlib.sha256()
        self._end = ""
        self._file = file
        self._emit = emit

    def line(self, line: str) -> asyncio.Future[None] | None:
        if line.startswith("@"):
            self._end = line
            return None
        data = base64.b64decode(line, validate=True)
        self._file.write(data)
        self._sum.update(data)
        if (self.size + len(data)) // _SHOWN > self.size // _SHOWN:
            read = (self.size + len(data)) // 1024**2
            self._emit(Event(Kind.NOTE, "backup", message=f"{read} MB read"))
        self.size += len(data)
        return self._file.room()

    def require_end(self, node: str) -> None:
        if self._end != f"@ {self.size} {self._sum.hexdigest()}":
            raise CorralError(
                Code.COMMAND_FAILED,
                "what the controller sent is not complete",
                node=node,
                hint="run the same command again",
            )
