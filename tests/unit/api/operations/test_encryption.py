"""Files encrypted by age and gpg: complete or not there, and read by who has the key."""

from __future__ import annotations

import random
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.api.operations.encryption import (
    EncryptedFile,
    Encryption,
    encryption_of,
    read_encrypted,
)
from corral.errors import Code, CorralError
from corral.providers.containers.limited_stream import Readable

PLAIN = random.Random(1).randbytes(400_000)
needs_age = pytest.mark.skipif(not shutil.which("age"), reason="age is not installed")
needs_gpg = pytest.mark.skipif(not shutil.which("gpg"), reason="gpg is not installed")


def write(path: Path, encryption: Encryption) -> Path:
    file = EncryptedFile(path, encryption)
    try:
        for at in range(0, len(PLAIN), 30_000):
            file.write(PLAIN[at : at + 30_000])
        assert file.finish() == path.stat().st_size
    finally:
        file.close()
    return path


def everything(stream: Readable) -> bytes:
    parts: list[bytes] = []
    while part := stream.read(100_000):
        parts.append(part)
    return b"".join(parts)


def age_key(folder: Path, name: str = "key.txt") -> tuple[Path, str]:
    file = folder / name
    subprocess.run(["age-keygen", "-o", file], capture_output=True, check=True)
    public = subprocess.run(["age-keygen", "-y", file], capture_output=True, text=True, check=True)
    return file, public.stdout.strip()


def ssh_key(folder: Path) -> Path:
    file = folder / "id"
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file]
    subprocess.run(command, check=True)
    return file


@pytest.fixture
def keyring(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A keyring with one key; its agent's socket wants a short path."""
    folder = Path(tempfile.mkdtemp(prefix="g", dir="/tmp"))
    monkeypatch.setenv("GNUPGHOME", str(folder))
    make = ["gpg", "--batch", "--quiet", "--passphrase", "", "--quick-gen-key", "admin@lab"]
    subprocess.run([*make, "default", "default", "never"], check=True, capture_output=True)
    yield folder
    subprocess.run(["gpgconf", "--kill", "all"], check=False, capture_output=True)
    shutil.rmtree(folder, ignore_errors=True)


def test_unencrypted_only_when_it_is_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tar.zst", encryption_of(unencrypted=True))
    assert read_encrypted(path, (), everything) == PLAIN
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for wrong in ({}, {"to": ["age1x"], "unencrypted": True}, {"to": ["a"], "gpg": ["b"]}):
        with pytest.raises(CorralError, match="state for whom") as raised:
            encryption_of(**wrong)  # pyright: ignore[reportArgumentType]
        assert "--unencrypted" in raised.value.hint


@needs_age
def test_age_by_its_own_keys_and_by_ssh_keys(tmp_path: Path) -> None:
    private, public = age_key(tmp_path)
    of_ssh = ssh_key(tmp_path)
    recipients = [public, f"{of_ssh}.pub"]
    path = write(tmp_path / "a.age", encryption_of(recipients))
    assert PLAIN[:20] not in path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for identity in (private, of_ssh):
        assert read_encrypted(path, (identity,), everything) == PLAIN


@needs_age
def test_another_key_is_one_sentence(tmp_path: Path) -> None:
    _, public = age_key(tmp_path)
    other, _ = age_key(tmp_path, "other.txt")
    path = write(tmp_path / "a.age", encryption_of([public]))
    with pytest.raises(CorralError, match="encrypted for other keys") as raised:
        read_encrypted(path, (other,), everything)
    assert raised.value.code is Code.USAGE
    with pytest.raises(CorralError, match="no private key was given"):
        read_encrypted(path, (), everything)


@needs_age
@pytest.mark.parametrize("cut", [0, 1, 30, 300, 2000])
def test_a_cut_or_changed_file_is_one_sentence(tmp_path: Path, cut: int) -> None:
    private, public = age_key(tmp_path)
    for encryption in (encryption_of([public]), encryption_of(unencrypted=True)):
        path = write(tmp_path / f"a{encryption.suffix}", encryption)
        data = path.read_bytes()
        half = len(data) // 2
        flipped = bytes([data[half] ^ 1])  # no fixed byte: one in 256 files has it there already
        for bad in (data[:cut], data[:-10], data[:half] + flipped + data[half + 1 :]):
            path.write_bytes(bad)
            with pytest.raises(CorralError, match=r"damaged|other keys") as raised:
                read_encrypted(path, (private,), everything)
            assert raised.value.code is Code.USAGE
        path.unlink()


@needs_gpg
def test_gpg(tmp_path: Path, keyring: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.gpg", encryption_of(gpg=["admin@lab"]))
    assert read_encrypted(path, (), everything) == PLAIN
    (tmp_path / "empty").mkdir(mode=0o700)
    monkeypatch.setenv("GNUPGHOME", str(tmp_path / "empty"))
    with pytest.raises(CorralError, match="encrypted for other keys"):
        read_encrypted(path, (), everything)


@needs_gpg
def test_a_recipient_that_gpg_does_not_know(tmp_path: Path, keyring: Path) -> None:
    path = tmp_path / "a.gpg"
    with pytest.raises(CorralError, match="gpg did not encrypt") as raised:
        write(path, encryption_of(gpg=["nobody@lab"]))
    assert "nobody@lab" in raised.value.tail
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "age1", "-r", "--output=/etc/passwd", "ssh-dss AAAA", "none"])
def test_what_is_no_recipient(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    with pytest.raises(CorralError, match="is not a recipient"):
        encryption_of([text])
    for key in ("", "--output=/etc/passwd"):
        with pytest.raises(CorralError, match="is not a recipient"):
            encryption_of(gpg=[key])


def test_a_private_key_is_never_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    secret = "AGE-SECRET-KEY-1QQQQQQ"
    file = tmp_path / "key"
    file.write_text(f"{secret}\n")
    for given in (secret, str(file)):
        with pytest.raises(CorralError, match="private key") as raised:
            encryption_of([given])
        assert "QQQ" not in f"{raised.value.as_dict()}"


def test_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    for to, gpg, name in ((["age1" + "q" * 58], (), "age"), ((), ["x"], "gpg")):
        with pytest.raises(CorralError, match=f"{name} is not installed") as raised:
            encryption_of(to, gpg)
        assert raised.value.code is Code.MISSING_TOOL


def test_nothing_is_left_of_a_file_that_did_not_get_complete(tmp_path: Path) -> None:
    file = EncryptedFile(tmp_path / "a", Encryption(("/bin/cat",)))
    file.write(b"x")
    (partial,) = tmp_path.iterdir()
    assert stat.S_IMODE(partial.stat().st_mode) == 0o600
    file.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("argv", [(), ("/bin/cat",)])
def test_a_cut_archive_never_gets_its_name(
    argv: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that writes had ended with what nobody saw, and the file was called complete."""

    def write(self: Any, data: bytes) -> int:
        raise MemoryError

    monkeypatch.setattr("corral.api.operations.encryption.zstd.ZstdFile.write", write)
    file = EncryptedFile(tmp_path / "a", Encryption(argv))
    file.write(b"the first part")
    with pytest.raises(CorralError, match="MemoryError"):
        file.finish()
    file.close()
    assert not list(tmp_path.iterdir())


def test_a_program_that_dies(tmp_path: Path) -> None:
    with pytest.raises(CorralError, match="sh did not encrypt"):
        write(tmp_path / "a", Encryption(("/bin/sh", "-c", "head -c 10; exit 3")))
    assert list(tmp_path.iterdir()) == []


def test_a_file_or_link_that_is_there_stays(tmp_path: Path) -> None:
    there = tmp_path / "a"
    there.symlink_to("/etc/corral-test-nothing")
    with pytest.raises(CorralError, match="already there"):
        EncryptedFile(there, Encryption())
    with pytest.raises(CorralError, match="cannot be written"):
        EncryptedFile(tmp_path / "no" / "a", Encryption())
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_no_such_archive(tmp_path: Path) -> None:
    with pytest.raises(CorralError, match="does not exist"):
        read_encrypted(tmp_path / "a", (), everything)
    (tmp_path / "text").write_text("hello")
    with pytest.raises(CorralError, match="is damaged, or is not an archive"):
        read_encrypted(tmp_path / "text", (), everything)
