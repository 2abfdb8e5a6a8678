"""A bundle: one file with the node image and the wheels that a cluster without internet needs.

A tar archive, compressed by zstd. Its first member is the manifest: release, architecture,
versions, and size and SHA-256 of every other member. The image is an OCI archive as
``podman save`` writes it.
"""

from __future__ import annotations

import hashlib
import io
import os
import platform
import re
import shutil
import sys
import tarfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import IO, Final, Literal, NoReturn, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from corral.errors import Code, CorralError
from corral.extras import own_version
from corral.providers.containers.limited_stream import LimitedStream, regular

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MANIFEST: Final = "manifest.json"
IMAGE: Final = "image.tar"
WHEELS: Final = "wheels"
REQUIREMENTS: Final = f"{WHEELS}/requirements.txt"
LEVEL: Final = 19
_WINDOW_LOG: Final = 27
"""128 MiB: the largest window that zstd -d and tar --zstd take without an option."""
_MANIFEST_MAX: Final = 4 * 1024 * 1024
_MEMBERS_MAX: Final = 2000
_SIZE_MAX: Final = 64 * 1024**3
_PIECE: Final = 1024 * 1024
_SHA256: Final = re.compile(r"[0-9A-Fa-f]{64}")
_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_AGAIN: Final = (
    "copy the file again, and compare its SHA-256 with the one that corral bundle printed"
)


class Member(BaseModel):
    """One file in the archive."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str = Field(pattern=r"^[A-Za-z0-9_.+!/-]{1,200}$")
    size: int = Field(ge=0, le=_SIZE_MAX)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Manifest(BaseModel):
    """What a bundle is for, and what it holds.

    Attributes:
        format: of the archive.
        corral: release of Corral that made it, and the only one that uses it.
        architecture: of nodes and wheels, as ``uname -m`` prints it.
        python: version that Corral's own wheels are for, such as ``3.13``.
        image: the node image's reference.
        image_id: podman's id of it.
        system: distribution of the nodes, ``debian:13``.
        packages: version of each Debian package in the image.
        members: the other files of the archive.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    corral: str
    architecture: str
    python: str
    image: str = Field(pattern=r"^localhost/corral-node:[a-z0-9.-]+$")
    image_id: str = Field(pattern=r"^[0-9a-f]{64}$")
    system: str = Field(pattern=r"^[a-z]+:[0-9.]+$")
    packages: Mapping[str, str]
    members: tuple[Member, ...] = Field(max_length=_MEMBERS_MAX)

    @field_validator("members")
    @classmethod
    def _unique(cls, members: tuple[Member, ...]) -> tuple[Member, ...]:
        if len({m.path for m in members}) != len(members):
            raise ValueError("a path is there twice")
        return members

    def by_path(self) -> dict[str, Member]:
        """The members by their path."""
        return {m.path: m for m in self.members}


def release() -> str:
    """Release of this Corral."""
    return own_version()


def architecture() -> str:
    """Architecture of this machine."""
    return platform.machine()


def described(path: str, file: Path) -> Member:
    """The entry of the manifest for a file."""
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return Member(path=path, size=file.stat().st_size, sha256=digest)


def write(
    target: Path, manifest: Manifest, files: Mapping[str, Path], *, level: int = LEVEL
) -> None:
    """Write the archive; the name is there only when it is complete.

    Args:
        target: its name.
        manifest: what it holds.
        files: each member's file, by path in the archive.
        level: of zstd's compression.

    Raises:
        CorralError: USAGE, it cannot be written there.
    """
    options: dict[int, int] = {
        zstd.CompressionParameter.compression_level: level,
        zstd.CompressionParameter.enable_long_distance_matching: 1,
        zstd.CompressionParameter.checksum_flag: 1,
        zstd.CompressionParameter.window_log: _WINDOW_LOG,
        zstd.CompressionParameter.nb_workers: os.cpu_count() or 1,
    }
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with (
            part.open("xb") as raw,
            zstd.ZstdFile(raw, "w", options=options) as stream,
            tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as archive,
        ):
            text = manifest.model_dump_json(indent=1).encode()
            _add(archive, MANIFEST, len(text), io.BytesIO(text))
            for member in manifest.members:
                with files[member.path].open("rb") as source:
                    _add(archive, member.path, member.size, source)
        part.replace(target)
    except OSError as error:
        raise CorralError(
            Code.USAGE,
            f"{target} cannot be written: {error.strerror or error}",
            hint="name another file with -o",
        ) from error
    finally:
        part.unlink(missing_ok=True)


def _add(archive: tarfile.TarFile, path: str, size: int, source: IO[bytes]) -> None:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = size, 0o644
    archive.addfile(entry, source)


def unpack(path: Path, folder: Path, sha256: str = "") -> Manifest:
    """Check a bundle completely, and put its members below an empty folder.

    Release and architecture are compared before anything but the manifest is written. Memory that
    is used is bounded, whatever the file holds.

    Args:
        path: the bundle.
        folder: where its members are put.
        sha256: of the file, compared before anything of it is interpreted; "": not known.

    Raises:
        CorralError: NOT_FOUND; USAGE, it is another file, for another release or architecture, or
            damaged.
    """
    try:
        with ExitStack() as stack:
            raw = stack.enter_context(path.open("rb"))
            _compare(path, raw, sha256)
            if raw.read(len(_MAGIC)) != _MAGIC:
                _refuse(path, "is not a bundle", "make one with: corral bundle FILE -o kit.tar.zst")
            raw.seek(0)
            packed = stack.enter_context(zstd.ZstdFile(raw))
            stream = LimitedStream(
                packed, lambda: _refuse(path, "holds more than its manifest lists", _AGAIN)
            )
            archive = stack.enter_context(
                tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r|")
            )
            manifest = _unpacked(path, archive, stream, folder)
            while stream.read(_PIECE):  # to its end: a file that is cut there is damaged too
                pass
    except FileNotFoundError as error:
        raise CorralError(
            Code.NOT_FOUND, f"no bundle at {path}", hint="make one with: corral bundle FILE -o FILE"
        ) from error
    except (EOFError, zstd.ZstdError, tarfile.TarError) as error:
        raise CorralError(Code.USAGE, f"{path} is truncated or damaged", hint=_AGAIN) from error
    except OSError as error:
        raise CorralError(
            Code.USAGE,
            f"{path} cannot be unpacked: {error.strerror or error}",
            hint=f"{folder} needs about three times the size of the bundle",
        ) from error
    return manifest


def _compare(path: Path, raw: io.BufferedReader, sha256: str) -> None:
    if not sha256:
        return
    if not _SHA256.fullmatch(sha256):
        raise CorralError(
            Code.USAGE,
            f"{sha256[:80]!r} is not a SHA-256",
            hint="give the 64 hexadecimal digits that corral bundle printed",
        )
    digest = hashlib.file_digest(raw, "sha256").hexdigest()
    if digest != sha256.lower():
        _refuse(path, f"has another SHA-256 than the one given: {digest}", _AGAIN)
    raw.seek(0)


def _unpacked(
    path: Path, archive: tarfile.TarFile, stream: LimitedStream, folder: Path
) -> Manifest:
    manifest: Manifest | None = None
    members: dict[str, Member] = {}
    seen: set[str] = set()
    for entry in archive:
        if manifest is None:
            manifest = _read(path, archive, stream, entry)
            members = manifest.by_path()
            _see_room(path, manifest, folder)
        else:
            member = _checked(path, members, entry)
            if entry.name in seen:
                _refuse(path, f"holds {entry.name} twice", _AGAIN)
            seen.add(entry.name)
            stream.allow(member.size)
            _extract(path, archive, entry, member, folder)
        stream.allow()
    if manifest is None:
        _refuse(path, "is not a bundle: it is empty", _AGAIN)
    missing = sorted(members.keys() - seen)
    if missing:
        _refuse(path, f"is incomplete: {missing[0]} is missing", _AGAIN)
    return manifest


def _see_room(path: Path, manifest: Manifest, folder: Path) -> None:
    """Refuse a bundle that the folder's disk cannot hold, before anything is written."""
    size, free = sum(m.size for m in manifest.members), shutil.disk_usage(folder).free
    if size > free:
        _refuse(
            path,
            f"needs {size / 1024**3:.1f} GiB below {folder.parent}, where {free / 1024**3:.1f} GiB "
            "are free",
            f"free space there: df -h {folder.parent}",
        )


def _read(
    path: Path, archive: tarfile.TarFile, stream: LimitedStream, entry: tarfile.TarInfo
) -> Manifest:
    """The manifest, for this release and architecture."""
    content = archive.extractfile(entry) if regular(entry) else None
    if entry.name != MANIFEST or content is None or not 0 <= entry.size <= _MANIFEST_MAX:
        _refuse(path, f"is not a bundle: its first member is not {MANIFEST}", _AGAIN)
    stream.allow(entry.size)
    try:
        manifest = Manifest.model_validate_json(content.read())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        _refuse(path, f"has an invalid {MANIFEST}: {where}: {first['msg']}", _AGAIN)
    if manifest.corral != release():
        _refuse(
            path,
            f"is for Corral {manifest.corral}, and this is Corral {release()}",
            "make it with this release, or install the one in its folder wheels",
        )
    if manifest.architecture != architecture():
        _refuse(
            path,
            f"is for {manifest.architecture}, and this machine is {architecture()}",
            f"make it on a machine with {architecture()}",
        )
    return manifest


def _checked(path: Path, members: Mapping[str, Member], entry: tarfile.TarInfo) -> Member:
    parts = PurePosixPath(entry.name)
    if parts.is_absolute() or ".." in parts.parts:
        _refuse(path, f"holds {entry.name!r}, which is outside of its folder", _AGAIN)
    if not regular(entry):
        _refuse(path, f"holds {entry.name!r}, which is not a regular file", _AGAIN)
    member = members.get(entry.name)
    if member is None:
        _refuse(path, f"holds {entry.name!r}, which its manifest does not list", _AGAIN)
    if member.size != entry.size:
        _refuse(path, f"has a damaged member: {entry.name} has another size", _AGAIN)
    return member


def _extract(
    path: Path, archive: tarfile.TarFile, entry: tarfile.TarInfo, member: Member, folder: Path
) -> None:
    target = folder / entry.name
    target.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    source = archive.extractfile(entry)
    if source is None:
        _refuse(path, f"holds {entry.name!r}, which is not a regular file", _AGAIN)
    with target.open("xb") as output:
        while piece := source.read(_PIECE):
            digest.update(piece)
            output.write(piece)
    if digest.hexdigest() != member.sha256:
        _refuse(path, f"has a damaged member: {entry.name} has another SHA-256", _AGAIN)


def _refuse(path: Path, why: str, hint: str) -> NoReturn:
    raise CorralError(Code.USAGE, f"{path} {why}", hint=hint)


PIN: Final = "bundle.json"
"""File in a cluster's folder: the node image that its bundle brought."""


class Pin(BaseModel):
    """The node image of a cluster that was brought up from a bundle."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    image: str
    system: str


def pinned(folder: Path) -> Pin | None:
    """The image that a cluster was pinned to; None without a bundle."""
    try:
        return Pin.model_validate_json((folder / PIN).read_bytes())
    except (OSError, ValidationError):
        return None


def pin(folder: Path, manifest: Manifest) -> None:
    """Make the cluster's nodes from the bundle's image, until ``corral down``."""
    text = Pin(image=manifest.image, system=manifest.system).model_dump_json()
    new = folder / f"{PIN}.new"
    new.write_text(text)
    new.replace(folder / PIN)


def requirements(files: Mapping[str, Path]) -> str:
    """Lines for ``pip install --require-hashes``, of wheels by path in the archive."""
    lines: list[str] = []
    for path, file in sorted(files.items()):
        name, version, *_ = PurePosixPath(path).name.split("-")
        lines.append(f"{name}=={version} --hash=sha256:{described(path, file).sha256}\n")
    return "".join(lines)
