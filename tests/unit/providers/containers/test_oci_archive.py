"""An image's archive is checked before podman reads it."""

from __future__ import annotations

import asyncio
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from corral.errors import Code, CorralError
from corral.events import ignore
from corral.providers.containers.image import Images
from corral.providers.containers.oci_archive import check_archive

NAME = "localhost/corral-node:trixie-0123456789ab"
BLOB = f"blobs/sha256/{'a' * 64}"


def image(name: str = NAME, **more: Any) -> dict[str, Any]:
    return {
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "digest": f"sha256:{'a' * 64}",
        "size": 345,
        "annotations": {"org.opencontainers.image.ref.name": name},
        **more,
    }


def index(*images: Any, **more: Any) -> str:
    return json.dumps({"schemaVersion": 2, "manifests": images, **more})


def archive(path: Path, *entries: tuple[str, str], kind: bytes = tarfile.REGTYPE) -> Path:
    """As podman 4.3.1 writes it; `entries` behind the folders and one blob."""
    with tarfile.open(path, "w") as stream:
        for name in ("blobs/", "blobs/sha256/"):
            folder = tarfile.TarInfo(name)
            folder.type = tarfile.DIRTYPE
            stream.addfile(folder)
        for name, text in ((BLOB, "x" * 100_000), ("oci-layout", "{}"), *entries):
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            if (name, text) == entries[-1:][0]:
                entry.type = kind
            stream.addfile(entry, io.BytesIO(text.encode()))
    return path


def refused(path: Path) -> str:
    with pytest.raises(CorralError) as caught:
        check_archive(path, NAME)
    assert caught.value.code is Code.IMAGE_FAILED
    return caught.value.message


def test_one_image_of_the_expected_name(tmp_path: Path) -> None:
    check_archive(archive(tmp_path / "good", ("index.json", index(image()))), NAME)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (index(image("localhost/other:1")), "is named 'localhost/other:1'"),
        (index(image(), image("localhost/other:1")), "does not name exactly one image"),
        (index(), "does not name exactly one image"),
        (index(image(annotations={})), "is named ''"),
        (index(image(), Manifests=[image("other")]), "does not name exactly one image"),
        (index(image(Annotations={"a": "b"})), "does not name exactly one image"),
        (
            f'{{"manifests": [{json.dumps(image("other"))}], ' + index(image())[1:],
            "does not name exactly one image",
        ),
        (index(image(mediaType="application/vnd.oci.image.index.v1+json")), "exactly one image"),
        ("[" * 100_000, "does not name exactly one image"),
        ("", "does not name exactly one image"),
    ],
    ids=["name", "two", "none", "unnamed", "case", "case below", "key twice", "index", "deep", ""],
)
def test_another_index(tmp_path: Path, text: str, why: str) -> None:
    assert why in refused(archive(tmp_path / "image.tar", ("index.json", text)))


def test_files_that_are_not_part_of_an_image(tmp_path: Path) -> None:
    good = ("index.json", index(image()))
    for name in ("manifest.json", "../x", "/etc/x", "blobs/sha256/x"):
        assert "which is not part of" in refused(archive(tmp_path / "image.tar", good, (name, "")))
    assert "duplicate" in refused(archive(tmp_path / "image.tar", good, ("./index.json", good[1])))
    link = archive(tmp_path / "image.tar", good, ("oci-layout", ""), kind=tarfile.SYMTYPE)
    assert "which is not part of" in refused(link)
    assert "exactly one" in refused(
        archive(tmp_path / "image.tar", ("blobs/sha256/" + "b" * 64, ""))
    )
    (tmp_path / "image.tar").write_bytes(b"x" * 5000)
    assert "cannot be read" in refused(tmp_path / "image.tar")


def test_a_long_header_is_not_read(tmp_path: Path) -> None:
    entry = tarfile.TarInfo("././@LongLink")
    entry.type, entry.size = tarfile.GNUTYPE_LONGNAME, 64 * 1024**2
    with (tmp_path / "image.tar").open("wb") as stream:
        stream.write(entry.tobuf())
        stream.truncate(64 * 1024**2)
    assert "has a header that is too long" in refused(tmp_path / "image.tar")


def test_podman_is_not_started_for_another_image(tmp_path: Path) -> None:
    started: list[tuple[str, ...]] = []

    class Recorder:
        async def text(self, *words: str, **_: Any) -> str:
            started.append(words)
            return ""

        async def records(self, *words: str, **_: Any) -> list[dict[str, Any]]:
            return []

        async def run(self, *words: str, **_: Any) -> Any:
            return None

    async def here(*_: object) -> bool:
        return False

    images = Images(Recorder())  # pyright: ignore
    images._here = here  # pyright: ignore
    path = archive(tmp_path / "image.tar", ("index.json", index(image("other"))))
    with pytest.raises(CorralError, match="is named 'other'"):
        asyncio.run(images.load(path, NAME, "a" * 64, ignore))
    assert not started
