"""Slurm's packages as the file names them: folders, digests and indexes."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import pytest

from corral.apply import slurm_source
from corral.apply.slurm_source import index_of, slurm_debs
from corral.errors import Code, CorralError
from corral.events import ignore
from corral.inspect.facts import Facts
from corral.providers import slurm_build
from corral.runtime.http_client import Response
from corral.slurm.packages import NAMES, DebSet, Family
from corral.spec.models import ClusterSpec, NodeGroup, Slurm, SlurmSource
from corral.spec.slurm.tarballs import tarball_of

FACTS = Facts(
    *("n", "debian", "13", "6.12", 2, 1, 2, 1, 2000, "v2", True, "10.0.0.1"),
)


def spec(source: SlurmSource) -> ClusterSpec:
    groups = (NodeGroup(name="a", provider="embedded", nodes="n"),)
    return ClusterSpec(corral="v1", name="x", slurm=Slurm(source=source), groups=groups)


def resolve(source: SlurmSource, *facts: Facts) -> DebSet | None:
    known = {str(i): f for i, f in enumerate(facts or (FACTS,))}
    return asyncio.run(slurm_debs(spec(source), known, ignore))


def fill(folder: Path, version: str = "26.05.5-1") -> Path:
    folder.mkdir(exist_ok=True)
    for part in NAMES[Family.DISTRIBUTION].values():
        for name in part:
            (folder / f"{name}_{version}_amd64.deb").write_text(f"{name} {version}")
    return folder


def test_the_distribution_needs_no_files() -> None:
    assert resolve(SlurmSource()) is None


def test_a_folder_is_read_with_its_digests(tmp_path: Path) -> None:
    folder = fill(tmp_path / "debs")
    (folder / "README").write_text("no package")
    packages = resolve(SlurmSource(debs=str(folder)))
    assert packages is not None and str(packages.version) == "26.05.5"
    for package in packages.debs:
        assert package.sha256 == hashlib.sha256((folder / package.file).read_bytes()).hexdigest()


def test_folders_that_are_none_are_named(tmp_path: Path) -> None:
    with pytest.raises(CorralError, match="does not exist") as caught:
        resolve(SlurmSource(debs=str(tmp_path / "none")))
    assert caught.value.code is Code.NOT_FOUND
    with pytest.raises(CorralError, match=r"holds no \.deb files"):
        resolve(SlurmSource(debs=str(tmp_path)))
    folder = fill(tmp_path / "debs")
    (folder / "slurm_0.4.4-1_amd64.deb").write_text("monitor")
    with pytest.raises(CorralError, match="network monitor"):
        resolve(SlurmSource(debs=str(folder)))


def test_a_tarball_with_another_digest_is_not_built(tmp_path: Path) -> None:
    tarball = tmp_path / "slurm.tar.gz"
    tarball.write_text("x")
    with pytest.raises(CorralError, match="another file than the one that is asked for"):
        resolve(SlurmSource(tarball=str(tarball), sha256="0" * 64))


@pytest.mark.parametrize("mirror", [None, "https://mirror.example/slurm-25.11.6.tar.bz2"])
def test_a_known_release_brings_address_and_digest(
    mirror: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another file than the one that others pin is refused, wherever it comes from."""
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path / "state"))
    known = tarball_of("25.11.6")
    assert known is not None
    fetched: list[str] = []
    notes: list[str] = []

    def fetch(address: str) -> bytes:
        fetched.append(address)
        return b"another file"

    monkeypatch.setattr(slurm_source, "_fetch", fetch)
    source = SlurmSource(release="25.11.6", tarball=mirror)
    with pytest.raises(CorralError, match="another file") as caught:
        asyncio.run(slurm_debs(spec(source), {"n": FACTS}, lambda e: notes.append(e.message)))
    assert fetched == [mirror or known.address]
    assert known.sha256 in caught.value.tail
    assert notes[0] == f"digest of Slurm 25.11.6: {known.seen}"
    assert not (tmp_path / "state" / slurm_source.CACHE).exists(), "it is not kept"


def test_what_was_kept_is_compared_and_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bad download of an earlier Corral does not make it refuse a good one."""
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path))
    digest = hashlib.sha256(b"source").hexdigest()
    kept = tmp_path / slurm_source.CACHE / f"{digest[:16]}-slurm.tar.bz2"
    kept.parent.mkdir()
    kept.write_bytes(b"half of it")
    fetched: list[str] = []
    used: list[Path] = []

    def fetch(address: str) -> bytes:
        fetched.append(address)
        return b"source"

    async def debs(tarball: Path, *_: object) -> Path:
        used.append(tarball)
        return fill(tmp_path / "debs")

    monkeypatch.setattr(slurm_source, "_fetch", fetch)
    monkeypatch.setattr(slurm_source, "built", debs)
    source = SlurmSource(tarball="https://mirror.example/slurm.tar.bz2", sha256=digest)
    for _ in range(2):
        assert resolve(source) is not None
    assert fetched == [source.tarball]
    assert [tarball.read_bytes() for tarball in used] == [b"source"] * 2


def test_a_body_that_broke_off_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Client:
        def send(self, *_: object, **__: object) -> Response:
            return Response(b"half", {}, 4)

    monkeypatch.setattr(slurm_source, "HttpClient", Client)
    with pytest.raises(CorralError, match="4 bytes are missing") as caught:
        slurm_source._fetch("https://mirror.example/slurm.tar.bz2")
    assert caught.value.code is Code.NOT_FOUND


def test_packages_are_built_for_one_release(tmp_path: Path) -> None:
    other = Facts(*("m", "ubuntu", "24.04", "6.8", 2, 1, 2, 1, 2000, "v2", True, "10.0.0.2"))
    with pytest.raises(CorralError, match=r"the nodes run debian 13, ubuntu 24\.04"):
        resolve(SlurmSource(tarball="/x.tar.gz", sha256="0" * 64), FACTS, other)


def test_what_was_built_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path / "state"))
    tarball = tmp_path / "slurm.tar.gz"
    tarball.write_text("source")
    digest = hashlib.sha256(b"source").hexdigest()
    cache = tmp_path / "state" / slurm_source.CACHE
    cache.mkdir(parents=True)
    kept = fill(slurm_build.kept_at(cache, digest, ("debian", "13")))

    async def never(*_: object) -> None:
        raise AssertionError("built again")

    monkeypatch.setattr(slurm_build, "_build", never)
    packages = resolve(SlurmSource(tarball=str(tarball), sha256=digest))
    assert packages is not None and packages.folder == str(kept)
    assert slurm_build.kept_at(cache, digest, ("debian", "12")) != kept


def test_an_address_is_read_by_its_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path / "state"))
    folder = fill(tmp_path / "debs")
    index = "\n".join(
        f"Package: {p.name.split('_')[0]}\nFilename: ./{p.name}\n"
        f"SHA256: {hashlib.sha256(p.read_bytes()).hexdigest()}\n"
        for p in sorted(folder.iterdir())
    )
    fetched: list[str] = []

    def fetch(address: str) -> bytes:
        name = address.rpartition("/")[2]
        fetched.append(name)
        if name == "Packages.gz":
            raise CorralError(Code.NOT_FOUND, "404")
        return index.encode() if name == "Packages" else (folder / name).read_bytes()

    monkeypatch.setattr(slurm_source, "_fetch", fetch)
    source = SlurmSource(debs="https://debs.example.org/slurm")
    assert resolve(source) is not None
    assert len(fetched) == 2 + len(list(folder.iterdir()))
    fetched.clear()
    assert resolve(source) is not None
    assert fetched == ["Packages.gz", "Packages"]


@pytest.mark.parametrize(
    "stanza",
    [
        "Package: x\nFilename: ./x_1_amd64.deb",
        f"Filename: ../x_1_amd64.deb\nSHA256: {'a' * 64}",
        f"Filename: /etc/x_1_amd64.deb\nSHA256: {'a' * 64}",
        "<html>",
        "",
    ],
)
def test_an_index_that_is_none_is_refused(stanza: str) -> None:
    with pytest.raises(CorralError, match="not an index of a flat apt repository"):
        index_of(stanza)


def test_fields_of_an_index_have_no_case_and_descriptions_are_not_fields() -> None:
    name = "slurm-smd_25.11.2-1_amd64.deb"
    stanza = f"Package: x\nDescription: x\n Filename: ./other.deb\nfilename: ./{name}\n"
    assert index_of(f"{stanza}sha256:{'a' * 64}\n") == {name: "a" * 64}


def test_an_index_cannot_bring_the_network_monitor() -> None:
    with pytest.raises(CorralError, match="network monitor"):
        index_of(f"Filename: slurm_0.4.4-1_amd64.deb\nSHA256: {'a' * 64}")
