"""Archives of ``corral backup``: what was written is read, and nothing else is."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.api.operations.backup_archive import (
    ABOUT,
    FOLDERS,
    MANIFEST,
    About,
    Archive,
    read_archive,
)
from corral.api.operations.restore import require_fit
from corral.errors import Code, CorralError
from corral.spec.load import load_or_raise
from corral.spec.models import ClusterSpec

PATH = Path("lab.tar.zst")
STATED: dict[str, Any] = {
    "format": 1,
    "cluster": "lab",
    "corral": "0.1.0",
    "slurm": "slurm-wlm 24.11.5",
    "mariadb": "",
    "auth": "slurm",
    "mlflow": "",
    "made": 1_790_000_000,
}
Edit = Callable[[tarfile.TarFile, dict[str, list[Any]]], None]


def put(tar: tarfile.TarFile, name: str, data: bytes, **fields: object) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    for field, value in fields.items():
        setattr(entry, field, value)
    tar.addfile(entry, io.BytesIO(data))


def archive_of(
    files: Mapping[str, bytes],
    edit: Edit = lambda tar, members: None,
    after: Edit = lambda tar, members: None,
    **manifest: object,
) -> bytes:
    """An archive, with what ``edit`` does before its manifest and ``after`` behind it."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w|") as tar:
        every = {ABOUT: json.dumps(STATED).encode(), **files}
        members: dict[str, list[Any]] = {}
        for name, data in every.items():
            put(tar, name, data)
            members[name] = [len(data), hashlib.sha256(data).hexdigest()]
        edit(tar, members)
        listed = {"members": members, "counts": {}, "highest_job": 0, **manifest}
        put(tar, MANIFEST, json.dumps(listed).encode())
        after(tar, members)
    return made.getvalue()


def read(data: bytes) -> Archive:
    return read_archive(PATH, io.BytesIO(data), lambda _: None)


NAMES = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=40).filter(
        lambda part: part not in (".", "..")
    ),
    min_size=1,
    max_size=4,
).map("/".join)


@given(
    st.dictionaries(
        st.tuples(st.sampled_from(FOLDERS), NAMES).map("/".join),
        st.binary(max_size=2000),
        max_size=8,
    ),
    st.integers(0, 2**40),
)
def test_what_was_written_is_read(files: Mapping[str, bytes], highest: int) -> None:
    got: list[bytes] = []
    data = archive_of(files, counts={"lab_job_table": [1, 2]}, highest_job=highest)
    archive = read_archive(PATH, io.BytesIO(data), lambda _: None, got.append)
    assert archive.manifest.members.keys() == {ABOUT, *files}
    assert archive.manifest.counts == {"lab_job_table": (1, 2)}
    assert archive.manifest.highest_job == highest
    assert b"".join(got) == data
    assert archive.sha256 == hashlib.sha256(data).hexdigest()


@settings(max_examples=200)
@given(st.data())
def test_a_broken_archive_is_one_error(data: st.DataObject) -> None:
    good = archive_of({"state/job_state": b"jobs" * 9000, "etc/slurm/slurm.key": b"k" * 1024})
    if data.draw(st.booleans()):
        bad = good[: data.draw(st.integers(0, len(good) - 1))]
    else:
        at = data.draw(st.integers(0, len(good) - 1))
        bad = good[:at] + bytes([good[at] ^ data.draw(st.integers(1, 255))]) + good[at + 1 :]
    try:
        archive = read(bad)
    except CorralError as error:
        assert error.code is Code.USAGE
        assert str(PATH) in error.message
    else:  # a bit outside of the content: a time, an owner, the padding
        assert archive.manifest == read(good).manifest


def link(kind: bytes) -> Edit:
    def edit(tar: tarfile.TarFile, members: dict[str, list[Any]]) -> None:
        put(tar, "state/link", b"", type=kind, linkname="/etc/shadow")
        members["state/link"] = [0, hashlib.sha256(b"").hexdigest()]

    return edit


def named(name: str) -> Edit:
    def edit(tar: tarfile.TarFile, members: dict[str, list[Any]]) -> None:
        put(tar, name, b"x")
        members[name] = [1, hashlib.sha256(b"x").hexdigest()]

    return edit


@pytest.mark.parametrize(
    "edit",
    [
        *(link(t) for t in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE)),
        *(link(t) for t in (tarfile.FIFOTYPE, tarfile.GNUTYPE_SPARSE)),
        *map(named, ("/etc/passwd", "../x", "state/../../x", "state//x", "state/./x", "other/x")),
        *map(named, ("state", "state/", "evil", "state/a/..", "About.json")),
    ],
)
def test_members_that_no_archive_has_are_refused(edit: Edit) -> None:
    with pytest.raises(CorralError, match=r"nothing was changed|damaged") as raised:
        read(archive_of({}, edit))
    assert raised.value.code is Code.USAGE


def twice(tar: tarfile.TarFile, members: dict[str, list[Any]]) -> None:
    put(tar, "state/a", b"other")


def unlisted(tar: tarfile.TarFile, members: dict[str, list[Any]]) -> None:
    put(tar, "state/b", b"other")


def missing(tar: tarfile.TarFile, members: dict[str, list[Any]]) -> None:
    members["state/c"] = [1, "0" * 64]


def another(tar: tarfile.TarFile, members: dict[str, list[Any]]) -> None:
    members["state/a"] = [1, "0" * 64]


def longer(tar: tarfile.TarFile, members: dict[str, list[Any]]) -> None:
    members["state/a"][0] += 1


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (twice, "twice"),
        (unlisted, "does not list"),
        (missing, "lacks"),
        (another, "another"),
        (longer, "another"),
    ],
)
def test_what_differs_from_the_manifest_is_named(edit: Edit, message: str) -> None:
    with pytest.raises(CorralError, match=message):
        read(archive_of({"state/a": b"x"}, edit))


def test_nothing_may_follow_the_manifest() -> None:
    with pytest.raises(CorralError, match="more than it lists"):
        read(archive_of({}, after=unlisted))


def test_a_header_that_claims_to_be_huge_is_not_read() -> None:
    def edit(tar: tarfile.TarFile, members: dict[str, list[Any]]) -> None:
        entry = tarfile.TarInfo("state/x")
        entry.pax_headers = {"comment": "x" * 1_000_000}
        tar.addfile(entry)

    with pytest.raises(CorralError, match="more than it lists"):
        read(archive_of({}, edit))


@pytest.mark.parametrize(
    "wrong",
    [
        {"counts": {"a`; DROP DATABASE mysql; -- ": [0, 0]}},
        {"counts": {"t": [-1, 0]}},
        {"counts": {"t": [1]}},
        {"highest_job": "1"},
        {"highest_job": None},
        {"members": []},
    ],
)
def test_a_manifest_of_another_shape_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(CorralError, match="damaged"):
        read(archive_of({}, **wrong))


def test_no_archive_at_all() -> None:
    for data in (b"", b"x" * 20000, b"\0" * 20480):
        with pytest.raises(CorralError, match="damaged"):
            read(data)


def spec() -> ClusterSpec:
    example = load_or_raise(Path(__file__).parents[4] / "examples" / "laptop.yaml")
    return example.model_copy(update={"name": "lab"})


def fit(now: str = "slurm 24.11.5", **fields: object) -> None:
    require_fit(PATH, About.model_validate({**STATED, **fields}), spec(), now)


def test_what_fits() -> None:
    fit()
    fit("slurm 24.11.1")  # a maintenance release reads the state of a later one
    fit("slurm 26.05.1")
    fit("slurm 24.11.5", slurm="slurm-wlm 23.11.4")


@pytest.mark.parametrize(
    ("now", "fields", "message"),
    [
        ("slurm 24.11.5", {"cluster": "other"}, "is of cluster other, not lab"),
        ("slurm 23.11.4", {}, "cannot read newer state"),
        ("slurm 24.11.5", {"slurm": "slurm 26.05.2"}, "cannot read newer state"),
        ("slurm 26.05.1", {"slurm": "slurm 23.11.4"}, "cannot read state that old"),
        ("slurm 24.11.5", {"corral": "99.0.0"}, "was made by Corral 99.0.0"),
        ("slurm 24.11.5", {"format": 2}, "was made by Corral"),
    ],
)
def test_what_does_not_fit(now: str, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(CorralError, match=message) as raised:
        fit(now, **fields)
    assert raised.value.hint


def test_it_is_refused_before_the_rest_is_read() -> None:
    good = archive_of({"state/big": b"x" * 3_000_000})
    stream = io.BytesIO(good)

    def refuse(about: About) -> None:
        raise CorralError(Code.USAGE, f"not {about.cluster}")

    with pytest.raises(CorralError, match="not lab"):
        read_archive(PATH, stream, refuse)
    assert stream.tell() < 100_000
