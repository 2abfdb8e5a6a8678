"""LMDB on the node's own disk, made of shards: by number, once for all ranks, never half."""

from __future__ import annotations

import json
import multiprocessing
import pickle
import random
from pathlib import Path

import pytest

from corral import samples
from corral.samples import Samples
from corral.shards import ShardError, Shards, planned, samples_of, write


@pytest.fixture
def data(tmp_path: Path) -> Path:
    files = tmp_path / "files"
    content = random.Random(1)
    for kind in ("cat", "dog"):
        (files / kind).mkdir(parents=True)
        for i in range(20):
            (files / kind / f"{i:02d}.png").write_bytes(content.randbytes(i * 997))
            (files / kind / f"{i:02d}.box.json").write_text("[]")
    out = tmp_path / "data"
    write(planned(samples_of(files, labels=True), "data", size=40_000), out, "data")
    return out


def test_each_sample_by_its_number(data: Path, tmp_path: Path) -> None:
    opened = Samples(data, cache=tmp_path / "cache")
    expected = sorted(Shards(data).epoch(0), key=lambda s: s["__key__"])
    got = sorted((opened[i] for i in range(len(opened))), key=lambda s: s["__key__"])
    assert got == expected
    assert len(got) == 40
    assert opened[-1] == opened[39]
    for beyond in (40, -41):
        with pytest.raises(IndexError):
            opened[beyond]
    assert len(list(opened)) == 40, "a loop over it ends"


def test_made_once_and_again_for_other_content(data: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = Samples(data, cache=cache).file
    at = first.stat().st_mtime_ns
    assert Samples(data, cache=cache).file == first
    assert first.stat().st_mtime_ns == at
    index = json.loads((data / "index.json").read_text())
    index["shards"] = index["shards"][1:]
    index["samples"] = sum(e["samples"] for e in index["shards"])
    (data / "index.json").write_text(json.dumps(index))
    less = Samples(data, cache=cache)
    assert less.file != first
    assert len(list(less)) == index["samples"]


def test_many_transactions(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "_AT_ONCE", 3000)
    assert len(list(Samples(data, cache=tmp_path / "cache"))) == 40


def test_the_cache_of_the_environment(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORRAL_DATA_CACHE", str(tmp_path / "own"))
    assert Samples(data).file.parent == tmp_path / "own"
    monkeypatch.delenv("CORRAL_DATA_CACHE")
    with pytest.raises(ShardError, match="own disk"):
        Samples(data)


def test_a_spoiled_shard_leaves_nothing(data: Path, tmp_path: Path) -> None:
    shard = sorted(data.glob("*.tar"))[1]
    content = bytearray(shard.read_bytes())
    content[600] ^= 1
    shard.write_bytes(content)
    with pytest.raises(ShardError, match="does not match its index"):
        Samples(data, cache=tmp_path / "cache")
    assert not [f for f in (tmp_path / "cache").iterdir() if f.suffix in (".lmdb", ".part")]


def test_what_was_cut_off_is_made_again(data: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    complete = Samples(data, cache=cache).file
    content = complete.read_bytes()
    complete.unlink()
    complete.with_suffix(".part").write_bytes(content[: len(content) // 2])
    assert len(list(Samples(data, cache=cache))) == 40


def test_no_room_is_an_error_and_leaves_nothing(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "_SPARE", -700_000)
    with pytest.raises(ShardError, match="cannot be written"):
        Samples(data, cache=tmp_path / "cache")
    assert not [f for f in (tmp_path / "cache").iterdir() if f.suffix in (".lmdb", ".part")]


def test_without_the_package_the_error_names_it(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(samples, "import_module", missing)
    with pytest.raises(ShardError, match=r"requirements\.txt"):
        Samples(data, cache=tmp_path / "cache")


def _count(data: Path, cache: Path) -> int:
    return len(list(Samples(data, cache=cache)))


def test_ranks_at_once_make_it_once(data: Path, tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(4) as pool:
        counts = pool.starmap(_count, [(data, tmp_path / "cache")] * 4)
    assert counts == [40] * 4
    assert len(list((tmp_path / "cache").glob("*.lmdb"))) == 1


def test_copies_and_workers_share_what_is_open(data: Path, tmp_path: Path) -> None:
    opened = Samples(data, cache=tmp_path / "cache")
    expected = list(opened)
    copy = pickle.loads(pickle.dumps(opened))  # noqa: S301
    assert copy[3] == expected[3]
    other = Samples(data, cache=tmp_path / "cache")
    assert other[3] == expected[3], "a second one, such as to validate"
    for context in ("fork", "spawn"):
        with multiprocessing.get_context(context).Pool(2) as pool:
            assert pool.map(opened.__getitem__, range(40)) == expected
