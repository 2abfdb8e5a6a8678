"""Slurm's packages as the cluster file names their source: read, fetched or built on this machine.

What is fetched or built is in the state folder and is used by all clusters; it can be removed at
any time and is then fetched or built again.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import re
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from corral.errors import Code, CorralError, cannot_read
from corral.events import Emit, Event, Kind
from corral.inspect.facts import Facts
from corral.providers.slurm_build import built
from corral.roles.slurm.packages import parts_of_spec
from corral.runtime.http_client import HttpClient
from corral.runtime.threads import abandonable
from corral.slurm.packages import DebSet, deb, deb_set
from corral.spec.models import ClusterSpec
from corral.spec.slurm.tarballs import tarball_of
from corral.state.packages import stanzas
from corral.state_dir import state_dir

CACHE: Final = "packages"
READ_S: Final = 120.0
FETCH_S: Final = 3600.0
"""For a file: 1 GiB at 300 kB/s."""
FETCHED_AT_MOST: Final = 1 << 30
_CHUNK: Final = 1 << 20


async def slurm_debs(spec: ClusterSpec, facts: Mapping[str, Facts], emit: Emit) -> DebSet | None:
    """The packages that all nodes get; None: those of their distribution.

    Args:
        spec: the cluster.
        facts: what the nodes are: packages are built for their release.
        emit: receives what is fetched and built.

    Raises:
        CorralError: NOT_FOUND, NOT_GOOD, IMAGE_FAILED, MISSING_TOOL, TIMED_OUT.
    """
    source = spec.slurm.source
    known = tarball_of(source.release) if source.release else None
    if known is not None:
        place = source.tarball or known.address
        emit(Event(Kind.NOTE, "packages", message=f"digest of Slurm {known.version}: {known.seen}"))
        folder = await _from_tarball(place, known.sha256, facts, emit)
    elif source.tarball:
        folder = await _from_tarball(source.tarball, source.sha256 or "", facts, emit)
    elif source.debs:
        folder = await _folder(source.debs, emit)
    else:
        return None
    files = await asyncio.to_thread(_digests, folder)
    return deb_set(files, str(folder), parts_of_spec(spec))


async def _from_tarball(text: str, sha256: str, facts: Mapping[str, Facts], emit: Emit) -> Path:
    releases = sorted({(f.os_id, f.os_version) for f in facts.values()})
    if len(releases) != 1:
        names = ", ".join(" ".join(r) for r in releases) or "nothing that is known yet"
        raise CorralError(
            Code.NOT_GOOD,
            f"packages are built for one release of the system, and the nodes run {names}",
            hint="give all nodes the same release, or name a folder: slurm.source.debs",
        )
    if text.startswith("https:"):
        path = await _fetched(text, sha256, emit)
    else:
        path = Path(text)
        _compare(text, await asyncio.to_thread(_sha256, path), sha256)
    return await built(path, sha256, releases[0], _cache(), emit)


async def _fetched(address: str, sha256: str, emit: Emit) -> Path:
    """The file of an address in the cache, where only what has its digest is kept."""
    path = _cache() / f"{sha256[:16]}-{PurePosixPath(address).name}"
    if not path.is_file() or await asyncio.to_thread(_sha256, path) != sha256:
        emit(Event(Kind.NOTE, "packages", message=f"fetching {address}"))
        data = await abandonable(_fetch, address)
        _compare(address, hashlib.sha256(data).hexdigest(), sha256)
        await asyncio.to_thread(_keep, path, data)
    return path


def _compare(place: str, digest: str, sha256: str) -> None:
    if digest != sha256:
        raise CorralError(
            Code.NOT_GOOD,
            f"{place} is another file than the one that is asked for",
            tail=f"sha256 asked for: {sha256}\nsha256 found:     {digest}",
            hint="get the tarball again, and compare with the digest of its publisher",
        )


async def _folder(text: str, emit: Emit) -> Path:
    if not text.startswith("https:"):
        return Path(text)
    index = (await abandonable(_index, text)).decode("utf-8", "replace")
    digests = index_of(index)
    folder = _cache() / f"debs-{hashlib.sha256(index.encode()).hexdigest()[:16]}"
    for name, digest in digests.items():
        path = folder / PurePosixPath(name).name
        if path.is_file() and await asyncio.to_thread(_sha256, path) == digest:
            continue
        emit(Event(Kind.NOTE, "packages", message=f"fetching {path.name}"))
        data = await abandonable(_fetch, f"{text}/{name}")
        if hashlib.sha256(data).hexdigest() != digest:
            raise CorralError(
                Code.NOT_GOOD,
                f"{name} of {text} does not match its index",
                hint="try again later: a mirror may be half-way through an update",
            )
        await asyncio.to_thread(_keep, path, data)
    return folder


def index_of(text: str) -> dict[str, str]:
    """Files and digests of a flat apt repository's ``Packages``.

    Raises:
        CorralError: NOT_GOOD, an entry without digest, or a file outside of the repository.
    """
    digests: dict[str, str] = {}
    for fields in stanzas(text) or [{}]:
        name = fields.get("filename", "").removeprefix("./")
        digest = fields.get("sha256", "")
        parts = PurePosixPath(name).parts
        if not name or not re.fullmatch("[0-9a-f]{64}", digest) or ".." in parts or name[0] == "/":
            raise CorralError(
                Code.NOT_GOOD,
                f"this is not an index of a flat apt repository: {text[:80]!r}",
                hint="make it with: dpkg-scanpackages . > Packages",
            )
        deb(PurePosixPath(name).name, digest)
        digests[name] = digest
    return digests


def _index(place: str) -> bytes:
    try:
        return gzip.decompress(_fetch(f"{place}/Packages.gz"))
    except (CorralError, OSError, EOFError, zlib.error):  # the latter: it is cut, or no gzip
        return _fetch(f"{place}/Packages")


def _fetch(address: str) -> bytes:
    # The scheme is https: the pattern of the cluster file's field allows no other one.
    try:
        answer = HttpClient().send(
            "GET", address, timeout_s=READ_S, within_s=FETCH_S, at_most=FETCHED_AT_MOST + 1
        )
    except OSError as error:
        raise CorralError(
            Code.NOT_FOUND,
            f"{address} cannot be fetched: {error}",
            hint="open it in a browser; or fetch it yourself and name the folder",
        ) from error
    if len(answer.body) > FETCHED_AT_MOST:
        raise CorralError(Code.NOT_GOOD, f"{address} is larger than 1 GiB", hint="check the name")
    if answer.missing:
        raise CorralError(
            Code.NOT_FOUND,
            f"{address} broke off: {answer.missing} bytes are missing",
            hint="try again",
        )
    return answer.body


def _digests(folder: Path) -> dict[str, str]:
    try:
        files = sorted(p for p in folder.iterdir() if p.suffix == ".deb")
        digests = {path.name: _sha256(path) for path in files}
    except OSError as error:
        raise CorralError(
            Code.NOT_FOUND,
            cannot_read(folder, error),
            hint="slurm.source.debs is a folder of .deb files on this machine",
        ) from error
    if not digests:
        raise CorralError(
            Code.NOT_FOUND, f"{folder} holds no .deb files", hint="check slurm.source.debs"
        )
    return digests


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise CorralError(
            Code.NOT_FOUND, cannot_read(path, error), hint="check slurm.source"
        ) from error
    return digest.hexdigest()


def _keep(path: Path, data: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.write_bytes(data)
    new.replace(path)


def _cache() -> Path:
    return state_dir() / CACHE
