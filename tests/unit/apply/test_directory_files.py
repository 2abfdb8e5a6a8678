"""What this machine has for the directory: read, or refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.apply.directory_files import directory_files
from corral.errors import Code, CorralError
from corral.spec.models import ClusterSpec
from tests.unit.roles.test_cluster import directory

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def spec(folder: Path, **changes: object) -> ClusterSpec:
    base = directory().spec
    assert base.directory is not None
    places = {"ca": str(folder / "ca"), "password_file": str(folder / "password")}
    section = base.directory.model_copy(update={**places, **changes})
    return base.model_copy(update={"directory": section})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ca").write_text(CERTIFICATE)
    (tmp_path / "password").write_text("s3cret word\nmore\n")
    return tmp_path


def test_the_password_is_known_by_a_fingerprint(folder: Path) -> None:
    files = directory_files(spec(folder))
    assert files is not None
    assert files.ca == CERTIFICATE
    assert files.password == str(folder / "password")
    assert "s3cret" not in repr(files)
    again = directory_files(spec(folder))
    assert again == files
    (folder / "password").write_text("s3cret worD\n")
    other = directory_files(spec(folder))
    assert other is not None
    assert other.fingerprint != files.fingerprint


def test_nothing_is_read_where_nothing_is_named(folder: Path) -> None:
    assert directory_files(spec(folder).model_copy(update={"directory": None})) is None
    files = directory_files(spec(folder, ca=None, bind_dn=None, password_file=None))
    assert files is not None
    assert (files.ca, files.password, files.fingerprint) == ("", "", "")


@pytest.mark.parametrize("password", ["", "\n", " word\n", "word \n", "wo\trd\n"])
def test_what_sssd_cannot_hold_is_refused(folder: Path, password: str) -> None:
    (folder / "password").write_text(password)
    with pytest.raises(CorralError) as error:
        directory_files(spec(folder))
    assert error.value.code is Code.USAGE
    assert "directory.password_file" in error.value.hint
    assert "word" not in str(error.value.message).replace("password", "")


def test_a_carriage_return_is_named(folder: Path) -> None:
    (folder / "password").write_bytes(b"s3cret word\r\nmore\r\n")
    with pytest.raises(CorralError) as error:
        directory_files(spec(folder))
    assert "ends in a carriage return" in error.value.message
    assert "s3cret" not in str(error.value)
    (folder / "password").write_text("s3cret word\n")
    (folder / "ca").write_bytes(CERTIFICATE.replace("\n", "\r\n").encode())
    files = directory_files(spec(folder))
    assert files is not None
    assert files.ca == CERTIFICATE


def test_missing_and_wrong_files_are_named(folder: Path) -> None:
    for field in ("ca", "password_file"):
        with pytest.raises(CorralError) as error:
            directory_files(spec(folder, **{field: str(folder / "absent")}))
        assert error.value.code is Code.NOT_FOUND
        assert f"directory.{field}" in error.value.hint
    (folder / "ca").write_text("-----BEGIN PRIVATE KEY-----\n")
    with pytest.raises(CorralError) as error:
        directory_files(spec(folder))
    assert "has no certificate in it" in error.value.message
