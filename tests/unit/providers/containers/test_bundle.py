"""A bundle's archive: complete and unchanged, or refused in one sentence with nothing written."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
from backports import zstd

from corral.errors import Code, CorralError
from corral.providers.containers import bundle
from corral.providers.containers.bundle import Manifest, Member

FILES = {bundle.IMAGE: b"image" * 100_000, "wheels/corral-1-py3-none-any.whl": b"wheel"}


def manifest(files: Mapping[str, Path], **changes: object) -> Manifest:
    fields = {
        "corral": bundle.release(),
        "architecture": bundle.architecture(),
        "python": "3.13",
        "image": "localhost/corral-node:trixie-0123456789ab",
        "image_id": "a" * 64,
        "system": "debian:13",
        "packages": {"slurmd": "24.11.5-4"},
        "members": tuple(bundle.described(path, file) for path, file in files.items()),
    }
    return Manifest.model_validate(fields | changes)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """The members' files."""
    made: dict[str, Path] = {}
    for number, (path, data) in enumerate(FILES.items()):
        made[path] = tmp_path / f"member{number}"
        made[path].write_bytes(data)
    return made


@pytest.fixture
def kit(tmp_path: Path, files: dict[str, Path]) -> Path:
    target = tmp_path / "kit.tar.zst"
    bundle.write(target, manifest(files), files, level=1)
    return target


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where it is unpacked."""
    made = tmp_path / "work"
    made.mkdir()
    return made


def handmade(target: Path, entries: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    with zstd.ZstdFile(target, "w") as stream, tarfile.open(fileobj=stream, mode="w|") as archive:
        for entry, data in entries:
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return target


def refused(kit: Path, folder: Path, code: Code = Code.USAGE) -> str:
    with pytest.raises(CorralError) as caught:
        bundle.unpack(kit, folder)
    assert caught.value.code is code
    assert caught.value.hint
    assert "\n" not in caught.value.message
    return caught.value.message


def test_what_is_written_is_read_again(kit: Path, folder: Path, files: dict[str, Path]) -> None:
    assert bundle.unpack(kit, folder) == manifest(files)
    assert {path: (folder / path).read_bytes() for path in FILES} == FILES


def test_the_manifest_comes_first_and_other_programs_read_the_archive(kit: Path) -> None:
    with zstd.ZstdFile(kit) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        assert archive.getnames() == [bundle.MANIFEST, *FILES]


def test_a_name_is_there_only_when_the_bundle_is_complete(
    tmp_path: Path, files: dict[str, Path]
) -> None:
    described = manifest(files)
    files[bundle.IMAGE].unlink()
    with pytest.raises(CorralError, match="cannot be written"):
        bundle.write(tmp_path / "kit.tar.zst", described, files, level=1)
    assert not [p for p in tmp_path.iterdir() if "kit" in p.name]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"corral": "0.0.1"}, f"is for Corral 0.0.1, and this is Corral {bundle.release()}"),
        ({"architecture": "riscv64"}, "is for riscv64, and this machine is"),
    ],
)
def test_another_release_or_architecture(
    tmp_path: Path, folder: Path, files: dict[str, Path], changes: dict[str, str], why: str
) -> None:
    target = tmp_path / "kit.tar.zst"
    bundle.write(target, manifest(files, **changes), files, level=1)
    assert why in refused(target, folder)
    assert not list(folder.iterdir()), "compared before a member is written"


def test_another_digest(tmp_path: Path, folder: Path, files: dict[str, Path]) -> None:
    described = manifest(files)
    data = bytearray(FILES[bundle.IMAGE])
    data[77] ^= 1
    files[bundle.IMAGE].write_bytes(data)
    bundle.write(tmp_path / "kit.tar.zst", described, files, level=1)
    assert "image.tar has another SHA-256" in refused(tmp_path / "kit.tar.zst", folder)


@pytest.mark.parametrize("kept", [0.01, 0.3, 0.6, 0.999])
def test_a_file_that_was_cut(kit: Path, folder: Path, kept: float) -> None:
    data = kit.read_bytes()
    kit.write_bytes(data[: int(len(data) * kept)])
    message = refused(kit, folder)
    assert "is truncated or damaged" in message or "is not a bundle" in message


def test_a_flipped_bit(kit: Path, folder: Path) -> None:
    data = bytearray(kit.read_bytes())
    data[-8] ^= 0x10
    kit.write_bytes(data)
    assert "is truncated or damaged" in refused(kit, folder)


def test_no_bundle(tmp_path: Path, folder: Path) -> None:
    assert "no bundle at" in refused(tmp_path / "none", folder, Code.NOT_FOUND)
    (tmp_path / "text").write_text("corral: v1\n")
    assert "is not a bundle" in refused(tmp_path / "text", folder)
    assert "it is empty" in refused(handmade(tmp_path / "empty", []), folder)
    other = handmade(tmp_path / "other", [(tarfile.TarInfo("readme"), b"")])
    assert "its first member is not manifest.json" in refused(other, folder)
    wrong = handmade(tmp_path / "wrong", [(tarfile.TarInfo(bundle.MANIFEST), b'{"format": 2}')])
    assert "has an invalid manifest.json" in refused(wrong, folder)


def linked(name: str, kind: bytes) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, "/etc/passwd"
    return entry


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (tarfile.TarInfo("../escape"), "which is outside of its folder"),
        (tarfile.TarInfo("wheels/../../escape"), "which is outside of its folder"),
        (tarfile.TarInfo("/escape"), "which is outside of its folder"),
        (linked("wheels/link", tarfile.SYMTYPE), "which is not a regular file"),
        (linked("wheels/hard", tarfile.LNKTYPE), "which is not a regular file"),
        (linked("wheels/device", tarfile.CHRTYPE), "which is not a regular file"),
        (tarfile.TarInfo("wheels/extra.whl"), "which its manifest does not list"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_members_that_lead_elsewhere(
    tmp_path: Path, folder: Path, entry: tarfile.TarInfo, why: str
) -> None:
    listed = [Member(path=entry.name, size=0, sha256="0" * 64)] if "extra" not in why else []
    if "list" in why:
        listed = []
    text = manifest({}, members=listed).model_dump_json().encode()
    target = handmade(tmp_path / "kit", [(tarfile.TarInfo(bundle.MANIFEST), text), (entry, b"")])
    assert why in refused(target, folder)
    assert not list(folder.iterdir())
    assert not (tmp_path / "escape").exists()


@pytest.mark.parametrize(
    ("order", "why"),
    [
        (lambda entry: [entry, entry], "twice"),
        (lambda entry: [], "is incomplete: wheels/a.whl is missing"),
    ],
)
def test_members_twice_or_missing(
    tmp_path: Path,
    folder: Path,
    order: Callable[[tuple[tarfile.TarInfo, bytes]], list[tuple[tarfile.TarInfo, bytes]]],
    why: str,
) -> None:
    (tmp_path / "a").write_bytes(b"a")
    text = manifest({"wheels/a.whl": tmp_path / "a"}).model_dump_json().encode()
    entries = [(tarfile.TarInfo(bundle.MANIFEST), text)]
    entries += order((tarfile.TarInfo("wheels/a.whl"), b"a"))
    assert why in refused(handmade(tmp_path / "kit", entries), folder)


def test_a_member_of_another_size(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    text = manifest({"wheels/a.whl": tmp_path / "a"}).model_dump_json().encode()
    entries = [(tarfile.TarInfo(bundle.MANIFEST), text), (tarfile.TarInfo("wheels/a.whl"), b"ab")]
    assert "wheels/a.whl has another size" in refused(handmade(tmp_path / "kit", entries), folder)


def claiming(kind: bytes, size: int) -> bytes:
    """A header of tar's for so many bytes of a long name or of pax records, and the bytes."""
    entry = tarfile.TarInfo("././@LongLink")
    entry.type, entry.size = kind, size
    return entry.tobuf(tarfile.USTAR_FORMAT) + bytes(size)


def packed(target: Path, *parts: bytes) -> Path:
    with zstd.ZstdFile(target, "w") as stream:
        for part in parts:
            stream.write(part)
    return target


def archived(entries: Mapping[str, bytes]) -> bytes:
    """Entries as tar has them, without the end of the archive."""
    text = b""
    for name, data in entries.items():
        entry = tarfile.TarInfo(name)
        entry.size = len(data)
        text += entry.tobuf() + data + bytes(-len(data) % tarfile.BLOCKSIZE)
    return text


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
@pytest.mark.parametrize("after", ["", "manifest", "member"])
def test_a_long_header_is_not_read(tmp_path: Path, folder: Path, kind: bytes, after: str) -> None:
    (tmp_path / "a").write_bytes(b"a" * 1000)
    members = {"wheels/a.whl": tmp_path / "a", "wheels/b.whl": tmp_path / "a"}
    listed = {bundle.MANIFEST: manifest(members).model_dump_json().encode()}
    if after == "member":
        listed["wheels/a.whl"] = b"a" * 1000
    before = archived(listed) if after else b""
    target = packed(tmp_path / "kit", before, claiming(kind, 64 * 1024**2), bytes(10240))
    assert target.stat().st_size < 50_000
    tracemalloc.start()
    try:
        message = refused(target, folder)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "holds more than its manifest lists" in message
    assert peak < 8 * 1024**2


def test_what_follows_the_archive_is_not_read(tmp_path: Path, folder: Path, kit: Path) -> None:
    with zstd.ZstdFile(kit) as stream:
        data = stream.read()
    assert bundle.unpack(packed(tmp_path / "good", data), folder)
    other = tmp_path / "other"
    other.mkdir()
    target = packed(tmp_path / "more", data, bytes(1024**2))
    assert "holds more than its manifest lists" in refused(target, other)


def test_a_sparse_member_is_not_a_file(tmp_path: Path, folder: Path) -> None:
    entry = tarfile.TarInfo("wheels/a.whl")
    entry.type = tarfile.GNUTYPE_SPARSE
    text = manifest({}, members=[Member(path=entry.name, size=0, sha256="0" * 64)])
    first = tarfile.TarInfo(bundle.MANIFEST)
    target = handmade(tmp_path / "kit", [(first, text.model_dump_json().encode()), (entry, b"")])
    assert "which is not a regular file" in refused(target, folder)


@pytest.mark.parametrize(
    "members",
    [
        [{"path": f"wheels/{n}", "size": 1, "sha256": "0" * 64} for n in range(2001)],
        [{"path": "a", "size": 1, "sha256": "0" * 64}] * 2,
        [{"path": "a", "size": 1024**4, "sha256": "0" * 64}],
        [{"path": "a\0b", "size": 1, "sha256": "0" * 64}],
    ],
    ids=["number", "twice", "size", "name"],
)
def test_a_manifest_has_limits(
    tmp_path: Path, folder: Path, members: list[dict[str, object]]
) -> None:
    text = json.dumps({**manifest({}).model_dump(mode="json"), "members": members}).encode()
    target = handmade(tmp_path / "kit", [(tarfile.TarInfo(bundle.MANIFEST), text)])
    assert "has an invalid manifest.json: members" in refused(target, folder)


def test_a_disk_without_room(kit: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = SimpleNamespace(free=499_999)
    monkeypatch.setattr(bundle.shutil, "disk_usage", lambda _: full)
    assert "GiB are free" in refused(kit, folder)
    assert not list(folder.iterdir())


def test_a_digest_that_is_given_is_compared_first(kit: Path, folder: Path) -> None:
    digest = hashlib.sha256(kit.read_bytes()).hexdigest()
    for wrong, why in (
        ("0" * 64, f"has another SHA-256 than the one given: {digest}"),
        (digest[:-1], "is not a SHA-256"),
    ):
        with pytest.raises(CorralError, match=why):
            bundle.unpack(kit, folder, wrong)
    assert bundle.unpack(kit, folder, digest.upper())
    kit.write_bytes(b"nothing")
    with pytest.raises(CorralError, match="has another SHA-256"):
        bundle.unpack(kit, folder, digest)


def test_a_cluster_keeps_to_the_image_of_its_bundle(tmp_path: Path) -> None:
    assert bundle.pinned(tmp_path) is None
    bundle.pin(tmp_path, manifest({}))
    kept = bundle.pinned(tmp_path)
    assert kept == bundle.Pin(image="localhost/corral-node:trixie-0123456789ab", system="debian:13")
    (tmp_path / bundle.PIN).write_text("{")
    assert bundle.pinned(tmp_path) is None


def test_pip_checks_the_wheels_by_the_requirements(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    text = bundle.requirements({"wheels/ruamel_yaml-0.19.1-py3-none-any.whl": tmp_path / "a"})
    digest = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
    assert text == f"ruamel_yaml==0.19.1 --hash=sha256:{digest}\n"
