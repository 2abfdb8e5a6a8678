"""Shards: samples and labels, the same bytes each time, interrupted, resumed, read and shared."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from corral import checkpoint, shards
from corral.jobs.datasets import kept_entries
from corral.shards import ShardError, Shards, planned, samples_of, write
from tests.path_swap import swapping


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    for kind in ("cat", "dog"):
        (folder / kind).mkdir(parents=True)
        for i in range(10):
            (folder / kind / f"{i:02d}.png").write_bytes(f"{kind} {i}".encode() * 100)
            (folder / kind / f"{i:02d}.box.json").write_text("[]")
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "1.png").write_text("x")
    (folder / "README").write_text("no ending")
    (tmp_path / "outside.png").write_text("not of this folder")
    (folder / "cat" / "link.png").symlink_to(tmp_path / "outside.png")
    return folder


def test_a_sample_is_what_shares_a_name_up_to_the_first_dot(images: Path) -> None:
    samples = samples_of(images, labels=True)
    assert len(samples) == 20
    assert (samples[0].key, samples[0].label) == ("cat/00", 0)
    assert sorted(ending for ending, *_ in samples[0].files) == ["box.json", "png"]
    assert samples[-1].label == 1


def test_nothing_to_shard(tmp_path: Path) -> None:
    with pytest.raises(ShardError):
        samples_of(tmp_path)
    (tmp_path / "1.png").write_text("x")
    with pytest.raises(ShardError, match="no folders"):
        samples_of(tmp_path, labels=True)


def test_written_and_read_again(images: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    plan = planned(samples_of(images, labels=True), "images", size=8192)
    write(plan, out, "images")
    assert len(plan) > 3
    index = json.loads((out / "index.json").read_text())
    assert index["samples"] == 20
    for entry in index["shards"]:
        data = (out / entry["file"]).read_bytes()
        assert entry["bytes"] == len(data)
        assert entry["sha256"] == hashlib.sha256(data).hexdigest()
    assert not list(out.glob(".*.part"))
    with tarfile.open(out / index["shards"][0]["file"]) as tar:
        assert all((m.mtime, m.uid, m.mode) == (0, 0, 0o644) for m in tar)
    samples = {s["__key__"].decode(): s for s in Shards(out, rank=0, world=1).epoch(0)}
    assert samples["dog/03"]["png"] == b"dog 3" * 100
    assert samples["dog/03"]["cls"] == b"1"
    assert samples["dog/03"]["box.json"] == b"[]"
    assert len(samples) == 20


def test_the_same_folder_gives_the_same_bytes(images: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(planned(samples_of(images), "x", size=8192), tmp_path / name, "x")
    both = [sorted((tmp_path / n).glob("*.tar")) for n in ("a", "b")]
    assert [f.read_bytes() for f in both[0]] == [f.read_bytes() for f in both[1]]


def test_cut_short_it_goes_on_and_what_changed_is_written_again(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, plan = tmp_path / "out", planned(samples_of(images), "x", size=8192)
    real, done = shards.pack, []

    def cut(shard: shards.Shard, stream: object) -> None:
        real(shard, stream)
        done.append(shard.name)
        if len(done) == 2:
            raise OSError("No space left on device")

    monkeypatch.setattr(shards, "pack", cut)
    with pytest.raises(OSError, match="No space"):
        write(plan, out, "x")
    assert [f.name for f in out.glob("x-*.tar")] == ["x-000000.tar"]
    assert not (out / "index.json").exists()
    monkeypatch.setattr(shards, "pack", real)
    new: list[bool] = []
    write(plan, out, "x", lambda entry: new.append(entry["new"]))
    assert new == [False, *[True] * (len(plan) - 1)]
    (images / "cat" / "00.png").write_bytes(b"other")
    new.clear()
    write(planned(samples_of(images), "x", size=8192), out, "x", lambda e: new.append(e["new"]))
    assert any(new)
    (out / "x-000001.tar").write_bytes(b"cut")
    new.clear()
    write(planned(samples_of(images), "x", size=8192), out, "x", lambda e: new.append(e["new"]))
    assert new.count(True) == 1


def test_ranks_share_the_shards_and_each_epoch_is_another_order(
    images: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    write(planned(samples_of(images), "x", size=4096), out, "x")
    read = Counter(
        sample["__key__"]
        for rank in range(3)
        for sample in Shards(out, rank=rank, world=3).epoch(1)
    )
    assert len(read) == 20
    assert set(read.values()) == {1}
    reader = Shards(out, rank=0, world=1)
    orders = [[s["__key__"] for s in reader.epoch(e)] for e in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]


def test_a_cache_copies_once_and_refuses_what_differs_from_the_index(
    images: Path, tmp_path: Path
) -> None:
    out, cache = tmp_path / "out", tmp_path / "nvme"
    write(planned(samples_of(images), "x"), out, "x")
    data = Shards(out, cache=cache, rank=0, world=1)
    assert len(list(data.epoch(0))) == 20
    (shard,) = out.glob("*.tar")
    content = shard.read_bytes()
    shard.write_bytes(b"gone")
    assert len(list(data.epoch(1))) == 20, "from the cache"
    for copy in cache.glob("*.tar"):
        copy.unlink()
    with pytest.raises(ShardError, match="does not match its index"):
        list(data.epoch(0))
    assert not list(cache.glob("*.part"))
    shard.write_bytes(content)
    assert len(list(data.epoch(0))) == 20


@pytest.mark.parametrize("cached", [False, True])
def test_half_a_shard_is_never_taken_for_a_complete_one(
    images: Path, tmp_path: Path, cached: bool
) -> None:
    """tarfile and the library webdataset end without an error where a file was cut between members:
    of 20,000 samples 10,002 were read, and nothing was reported."""
    out = tmp_path / "out"
    write(planned(samples_of(images), "images"), out, "images")
    (shard,) = out.glob("*.tar")
    data = shard.read_bytes()
    with tarfile.open(shard) as tar:
        cut = tar.getmembers()[10].offset
    shard.write_bytes(data[:cut])
    dataset = Shards(out, cache=tmp_path / "cache" if cached else None, rank=0, world=1)
    with pytest.raises(ShardError, match="does not match its index"):
        list(dataset.epoch(0))
    with pytest.raises(ShardError, match="does not match its index"):
        shards.feed(out, 0.01, share=0, of=1)


def test_a_copy_in_the_cache_that_was_cut_is_copied_again(images: Path, tmp_path: Path) -> None:
    out, cache = tmp_path / "out", tmp_path / "cache"
    write(planned(samples_of(images), "images"), out, "images")
    dataset = Shards(out, cache=cache, rank=0, world=1)
    assert len(list(dataset.epoch(0))) == 20
    (copy,) = cache.glob("*.tar")
    copy.write_bytes(b"")
    assert len(list(dataset.epoch(0))) == 20


def test_how_fast_is_measured_of_each_share(images: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(planned(samples_of(images), "x", size=4096), out, "x")
    speed = shards.feed(out, 0.05, share=1, of=2)
    assert speed["samples"] > 0
    assert speed["bytes"] > speed["samples"]
    assert speed["seconds"] >= 0.05


def test_a_shard_counts_as_there_only_with_its_complete_size() -> None:
    entry = {"file": "x.tar", "bytes": 10, "plan": "p"}
    text = f"motd\n10 {json.dumps(entry)}\n9 {json.dumps(entry | {'plan': 'q'})}\n"
    assert list(kept_entries(text)) == ["p"]
    assert kept_entries("x {}\n5 [1]\n5\n") == {}


def test_a_folder_that_is_swapped_gives_no_byte_of_another(images: Path, tmp_path: Path) -> None:
    """Before: names of one folder with the content of another, where the sizes were equal."""
    away = tmp_path / "away"
    shutil.copytree(images, away, symlinks=True)
    for file in away.rglob("[0-9]*.png"):  # not link.png: what it leads to is not a copy
        assert not file.is_symlink()
        file.write_bytes(b"S" * file.stat().st_size)
    (tmp_path / "link").symlink_to(away)
    with swapping(images, tmp_path / "link"):
        for _ in range(60):
            samples = samples_of(images)
            inside = os.readlink(f"/proc/self/fd/{samples[0].folder.handle}") == str(away)  # noqa: PTH115
            out = io.BytesIO()
            with contextlib.suppress(ShardError):
                shards.pack(planned(samples, "x")[0], out)
                assert (b"SSSS" in out.getvalue()) == inside


def test_a_file_that_another_took_the_place_of_is_refused(images: Path) -> None:
    samples = samples_of(images)
    other = images / "cat" / "other"
    size = (images / "cat" / "00.png").stat().st_size
    other.write_bytes(b"S" * size)
    other.replace(images / "cat" / "00.png")
    with pytest.raises(ShardError, match="changed while it was read"):
        shards.pack(planned(samples, "x")[0], io.BytesIO())


def test_names_that_somebody_else_took_are_not_written_through(
    images: Path, tmp_path: Path
) -> None:
    out, victim = tmp_path / "out", tmp_path / "victim"
    out.mkdir()
    victim.write_text("mine")
    for name in (".x-000000.tar.part", ".x-000000.tar.json.new", "index.json.new"):
        (out / name).symlink_to(victim)
    write(planned(samples_of(images), "x"), out, "x")
    part = tmp_path / "points" / "0000000001.ckpt.part"
    part.parent.mkdir()
    part.symlink_to(victim)
    checkpoint._written(part.with_suffix(""), lambda file: file.write(b"x"))
    assert victim.read_text() == "mine"
    assert (part.parent / "0000000001.ckpt").read_bytes() == b"x"


@pytest.mark.skipif(os.geteuid() != 0, reason="gives folders to other users")
def test_a_cache_that_others_write_to_is_used_by_a_folder_of_ones_own(
    images: Path, tmp_path: Path
) -> None:
    write(planned(samples_of(images), "x"), tmp_path / "out", "x")
    cache, victim = tmp_path / "cache", tmp_path / "victim"
    cache.mkdir()
    victim.write_text("mine")
    entry = Shards(tmp_path / "out").mine(0)[0]
    name = entry["sha256"][:24]
    # What another user creates under predictable names: locks, parts, the copy itself.
    for planted in (f".{name}.tar.lock", f"{name}.part"):
        (cache / planted).symlink_to(victim)
    (cache / f"{name}.tar").write_bytes(b"S" * entry["bytes"])
    data = Shards(tmp_path / "out", cache=cache)
    cache.chmod(0o777)
    with pytest.raises(ShardError, match="without the sticky bit: chmod"):
        data.place(entry)
    for mode, owner in ((0o1777, 0), (0o1777, 2003), (0o755, 2003)):
        cache.chmod(mode)
        os.chown(cache, owner, owner)
        copy = data.place(entry)
        assert copy.parent == cache / f"corral-{os.geteuid()}"
        assert hashlib.sha256(copy.read_bytes()).hexdigest() == entry["sha256"]
    assert victim.read_text() == "mine"
    shutil.rmtree(copy.parent)
    copy.parent.mkdir()
    os.chown(copy.parent, 2003, 2003)
    with pytest.raises(ShardError, match="not this user's own folder"):
        data.place(entry)
    assert list(copy.parent.iterdir()) == []
