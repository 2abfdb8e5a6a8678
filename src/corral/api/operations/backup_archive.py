"""The archive of ``corral backup``: what it states, and a reader that trusts none of it.

A tar archive: ``about.json`` first, ``manifest.json`` last with size and SHA-256 of all between. It
is made on the controller (``agents/backup/write.py``) while it is sent, so what it holds is known
at its end only.
"""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any, Final, NoReturn, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from corral.api.operations.encryption import damaged
from corral.errors import Code, CorralError
from corral.providers.containers.limited_stream import LimitedStream, Readable, regular
from corral.spec.values import ClusterName

ABOUT: Final = "about.json"
MANIFEST: Final = "manifest.json"
FOLDERS: Final = ("accounting", "state", "etc", "mlflow", "page")
_FILES: Final = (ABOUT, MANIFEST, "cluster.json", "cluster.yaml")
_PIECE: Final = 1024 * 1024
_MAX_ABOUT: Final = 64 * 1024
_MAX_MANIFEST: Final = 512 * 1024 * 1024
"""StateSaveLocation has two files a job: a million jobs are 250 MB of it."""

_Count = Annotated[int, Field(ge=0, le=2**63)]
_Table = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)


class About(_Strict):
    """What an archive is of.

    Attributes:
        format: of the archive.
        cluster: name of the cluster.
        corral: release of Corral that made it.
        slurm: what ``slurmctld -V`` printed.
        mariadb: what ``mariadb --version`` printed; "" without accounting.
        auth: what nodes know each other by, munge or slurm.
        mlflow: how MLflow stores its runs; "" without MLflow.
        made: seconds since 1970.
    """

    format: int
    cluster: ClusterName
    corral: Annotated[str, Field(pattern=r"^[0-9][0-9A-Za-z.+]{0,40}$")]
    slurm: Annotated[str, Field(max_length=200)]
    mariadb: Annotated[str, Field(max_length=200)]
    auth: Annotated[str, Field(pattern=r"^\w{1,20}$")]
    mlflow: Annotated[str, Field(pattern=r"^(sqlite|postgresql|)$")]
    made: Annotated[int, Field(ge=0, le=2**40)]


class Manifest(_Strict):
    """What an archive holds.

    Attributes:
        members: size and SHA-256 by name.
        counts: how many rows a table has at least and at most.
        highest_job: the highest number of a job in the accounting database.
    """

    members: Mapping[str, tuple[_Count, _Digest]]
    counts: Mapping[_Table, tuple[_Count, _Count]]
    highest_job: _Count


# JSON has lists where these models have tuples: only JSON is read, strictly.


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive that was read completely.

    Attributes:
        about: what it is of.
        manifest: what it holds.
        size: bytes of the tar archive.
        sha256: of the tar archive.
    """

    about: About
    manifest: Manifest
    size: int
    sha256: str

    @property
    def has_accounting(self) -> bool:
        """Whether it holds the accounting database."""
        return any(name.startswith("accounting/") for name in self.manifest.members)


def read_archive(
    path: Path,
    stream: Readable,
    accept: Callable[[About], None],
    piece: Callable[[bytes], None] = lambda data: None,
) -> Archive:
    """Read a tar archive to its end and compare all of it with its manifest.

    Args:
        path: its name, for errors.
        stream: the archive, decrypted and decompressed.
        accept: raises the error where such an archive is of no use; called before the rest is read.
        piece: given the bytes of the archive as they come.

    Raises:
        CorralError: USAGE, it is damaged, or holds what no archive of Corral's holds.
    """
    tee = _Tee(stream, piece)
    limited = LimitedStream(tee, lambda: _refuse(path, "holds more than it lists"))
    try:
        with tarfile.open(fileobj=cast("IO[bytes]", limited), mode="r|") as tar:
            about, manifest = _members(path, tar, limited, accept)
            limited.allow()
            while limited.read(_PIECE):
                pass
    except (tarfile.TarError, EOFError, ValidationError, UnicodeError) as error:
        raise damaged(path) from error
    return Archive(about, manifest, tee.size, tee.sum.hexdigest())


class _Tee:
    def __init__(self, raw: Readable, piece: Callable[[bytes], None]) -> None:
        self.size = 0
        self.sum = hashlib.sha256()
        self._raw = raw
        self._piece = piece

    def read(self, size: int, /) -> bytes:
        data = self._raw.read(size)
        self.size += len(data)
        self.sum.update(data)
        if data:
            self._piece(data)
        return data


def _members(
    path: Path, tar: tarfile.TarFile, stream: LimitedStream, accept: Callable[[About], None]
) -> tuple[About, Manifest]:
    about: About | None = None
    manifest: Manifest | None = None
    seen: dict[str, tuple[int, str]] = {}
    for entry in tar:
        if manifest is not None:
            _refuse(path, "holds more than it lists")
        _require_name(path, entry, seen)
        if about is None:
            if entry.name != ABOUT:
                raise damaged(path)
            text = _text(path, tar, stream, entry, _MAX_ABOUT)
            about = About.model_validate_json(text)
            accept(about)
            seen[entry.name] = (len(text), hashlib.sha256(text).hexdigest())
        elif entry.name == MANIFEST:
            manifest = Manifest.model_validate_json(_text(path, tar, stream, entry, _MAX_MANIFEST))
        else:
            seen[entry.name] = (entry.size, _digest(tar, stream, entry))
        stream.allow()
    if about is None or manifest is None:
        raise damaged(path)
    _compare(path, manifest, seen)
    return about, manifest


def _require_name(path: Path, entry: tarfile.TarInfo, seen: Mapping[str, Any]) -> None:
    name = entry.name
    top, slash, rest = name.partition("/")
    known = name in _FILES or (top in FOLDERS and bool(slash and rest))
    parts = name.split("/")
    if not regular(entry) or not known or {"", ".", ".."} & set(parts) or "\0" in name:
        _refuse(path, f"holds {name[:80]!r}, which no archive of corral backup holds")
    if name in seen:
        _refuse(path, f"holds {name[:80]!r} twice")


def _text(
    path: Path, tar: tarfile.TarFile, stream: LimitedStream, entry: tarfile.TarInfo, limit: int
) -> bytes:
    if entry.size > limit:
        _refuse(path, f"holds {entry.name} of {entry.size} bytes")
    stream.allow(entry.size)
    file = tar.extractfile(entry)
    return file.read() if file else b""


def _digest(tar: tarfile.TarFile, stream: LimitedStream, entry: tarfile.TarInfo) -> str:
    digest = hashlib.sha256()
    stream.allow(entry.size)
    file = tar.extractfile(entry)
    while file and (data := file.read(_PIECE)):
        digest.update(data)
    return digest.hexdigest()


def _compare(path: Path, manifest: Manifest, seen: Mapping[str, tuple[int, str]]) -> None:
    for name in sorted(manifest.members.keys() ^ seen.keys()):
        lacks = "lacks" if name in manifest.members else "does not list"
        _refuse(path, f"{lacks} {name[:80]!r}")
    for name, listed in manifest.members.items():
        if seen[name] != listed:
            _refuse(path, f"holds another {name[:80]!r} than it lists")


def _refuse(path: Path, what: str) -> NoReturn:
    raise CorralError(
        Code.USAGE,
        f"{path} {what}: nothing was changed",
        hint="compare it with its original, or take another one",
    )
