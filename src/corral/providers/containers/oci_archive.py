"""Checks of an OCI archive before podman loads it."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal, NoReturn, cast

from pydantic import BaseModel, ConfigDict, Field

from corral.errors import Code, CorralError
from corral.providers.containers.limited_stream import LimitedStream, regular

_INDEX: Final = "index.json"
_INDEX_MAX: Final = 1024 * 1024
_ENTRIES_MAX: Final = 1000
_FOLDERS: Final = frozenset({".", "blobs", "blobs/sha256"})
_FILE: Final = re.compile(r"index\.json|oci-layout|blobs/sha256/[0-9a-f]{64}")
_NAME: Final = "org.opencontainers.image.ref.name"
_AGAIN: Final = "make the bundle again with: corral bundle FILE -o KIT"


class _Descriptor(BaseModel):
    """One image. Other keys are refused: podman's reader takes ``Annotations`` too."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    media_type: Literal["application/vnd.oci.image.manifest.v1+json"] = Field(alias="mediaType")
    digest: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")
    size: int = Field(ge=0)
    annotations: Mapping[str, str] = {}
    platform: Mapping[str, Any] = {}


class _Index(BaseModel):
    """The images of an archive."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[2] = Field(alias="schemaVersion")
    media_type: str = Field(default="", alias="mediaType")
    manifests: tuple[_Descriptor]


def check_archive(path: Path, reference: str) -> None:
    """Check that an archive has one image, with this reference.

    podman gives an image each name that the archive has for it, and tries other formats where it
    cannot read this one: so only the files of an OCI layout are allowed in it.

    Args:
        path: the archive, as ``podman save --format oci-archive`` writes it.
        reference: expected name of the image.

    Raises:
        CorralError: IMAGE_FAILED.
    """
    try:
        index = _Index.model_validate(json.loads(_index(path), object_pairs_hook=_unique))
    except (ValueError, RecursionError):  # pydantic's is a ValueError
        _refuse(f"has an {_INDEX} that does not name exactly one image")
    except (OSError, EOFError, tarfile.TarError) as error:
        _refuse(f"cannot be read: {error}")
    name = index.manifests[0].annotations.get(_NAME, "")
    if name != reference:
        _refuse(f"is named {name[:200]!r}, and the manifest's is {reference}")


def _index(path: Path) -> bytes:
    texts: list[bytes] = []
    seen: set[str] = set()
    with path.open("rb") as raw:
        stream = LimitedStream(raw, lambda: _refuse("has a header that is too long"))
        stream.allow()
        with tarfile.open(fileobj=cast("Any", stream), mode="r|") as archive:
            for entry in archive:
                name = _name(entry)
                if name in seen or len(seen) >= _ENTRIES_MAX:
                    _refuse("has duplicate entries, or too many")
                seen.add(name)
                stream.allow(entry.size)
                if name != _INDEX:
                    continue
                content = archive.extractfile(entry)
                if content is None or entry.size > _INDEX_MAX:
                    _refuse(f"has an {_INDEX} that is too long")
                texts.append(content.read())
                stream.allow()
    return b"".join(texts)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object without duplicate keys: parsers differ in which value they take."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("duplicate key")
    return made


def _name(entry: tarfile.TarInfo) -> str:
    """The entry's path; refused where it belongs to no OCI layout."""
    name = str(PurePosixPath(entry.name))
    if entry.isdir() and name in _FOLDERS and not entry.size:
        return name
    if not regular(entry) or not _FILE.fullmatch(name) or entry.size < 0:
        _refuse(f"holds {entry.name[:200]!r}, which is not part of an OCI image")
    return name


def _refuse(why: str) -> NoReturn:
    raise CorralError(Code.IMAGE_FAILED, f"the bundle's image {why}", hint=_AGAIN)
