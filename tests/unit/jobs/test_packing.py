"""What goes along: which folder, which files; the archive unpacked by the real shell text."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from corral.errors import Code, CorralError
from corral.hosts.quote import Script, sh
from corral.jobs import packing
from corral.jobs.packing import Parcel, outline, pack
from corral.jobs.sending import archive, ask_script, asked, missing, unpack_script

MARK = sh("@@mark")


def tree(root: Path, *names: str) -> None:
    for name in names:
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)


def packed(script: Path, folder: str | None = None, *, here: Path | None = None) -> Parcel:
    return asyncio.run(pack(script, folder, here=here))


def names(parcel: Parcel) -> set[str]:
    return {file.path for file in parcel.files}


def test_corralignore_decides_alone(hostile_tmp_path: Path) -> None:
    root = hostile_tmp_path / "p"
    tree(root, "src/train.py", "data/x", "out/y.txt", "out/keep.txt", "__pycache__/a.pyc", ".git/c")
    (root / ".gitignore").write_text("src/\n")
    (root / ".corralignore").write_text("# large\n/data/\nout/*\n!out/keep.txt\n")
    parcel = packed(root / "src" / "train.py", here=root / "src")
    assert parcel.root == root
    assert names(parcel) == {"src/train.py", "out/keep.txt", ".gitignore", ".corralignore"}
    assert (parcel.program, parcel.inside) == ("src/train.py", "src")


@pytest.mark.parametrize("folder", [None, "none", ".."])
def test_the_outline_is_that_of_the_parcel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str | None
) -> None:
    """A dry run shows the paths that the job would have."""
    tree(tmp_path, "p/pyproject.toml", "p/src/train.py")
    monkeypatch.chdir(tmp_path / "p")
    for script in (Path("src/train.py"), tmp_path / "p/src/train.py"):
        real, drawn = packed(script, folder), outline(script, folder)
        assert (drawn.root, drawn.program, drawn.inside) == (real.root, real.program, real.inside)


def test_git_decides_where_there_is_a_repository(hostile_tmp_path: Path) -> None:
    root = hostile_tmp_path / "p"
    tree(root, "train.py", "a\nb", "sub/no.log", "sub/yes.txt", "gone.txt")
    (root / "sub" / ".gitignore").write_text("*.log\n")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    subprocess.run(["git", "-C", str(root), "add", "gone.txt"], check=True)
    (root / "gone.txt").unlink()
    assert names(packed(root / "train.py", here=root)) == {
        "train.py", "a\nb", "sub/yes.txt", "sub/.gitignore",
    }  # fmt: skip


def test_gitignore_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, "train.py", "x.log", "pyproject.toml")
    (tmp_path / ".gitignore").write_text("*.log\n")

    async def none(root: Path) -> None:
        return None

    monkeypatch.setattr(packing, "_git", none)
    assert names(packed(tmp_path / "train.py")) == {"train.py", "pyproject.toml", ".gitignore"}


def test_an_ignored_script_goes_along_all_the_same(tmp_path: Path) -> None:
    tree(tmp_path, "train.py", "b.py")
    (tmp_path / ".corralignore").write_text("*\n")
    assert names(packed(tmp_path / "train.py")) == {"train.py"}


def test_a_plain_folder_goes_while_it_is_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, "train.py", "model.py")
    assert names(packed(tmp_path / "train.py")) == {"train.py", "model.py"}
    monkeypatch.setattr(packing, "PLAIN_FILES", 1)
    alone = packed(tmp_path / "train.py")
    assert (names(alone), alone.root) == ({"train.py"}, None)
    assert "only train.py goes along" in alone.notes[0]


def test_nobodys_home_goes_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, "train.py", ".git/x", ".ssh/id_rsa")
    monkeypatch.setattr(packing.Path, "home", lambda: tmp_path)
    assert names(packed(tmp_path / "train.py")) == {"train.py"}
    assert names(packed(tmp_path / "train.py", "none")) == {"train.py"}


def test_a_folder_that_was_named(tmp_path: Path) -> None:
    tree(tmp_path, "a/train.py", "b/x")
    assert names(packed(tmp_path / "a/train.py", str(tmp_path))) == {"a/train.py", "b/x"}
    with pytest.raises(CorralError) as caught:
        packed(tmp_path / "a/train.py", str(tmp_path / "b"))
    assert caught.value.code is Code.USAGE
    with pytest.raises(CorralError):
        packed(tmp_path / "a/train.py", str(tmp_path / "c"))


def test_too_much_is_refused_with_the_largest_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, "pyproject.toml", "train.py")
    (tmp_path / "data").mkdir()
    (tmp_path / "data/big").write_bytes(b"x" * 3_000_000)
    monkeypatch.setattr(packing, "MOST_BYTES", 1_000_000)
    with pytest.raises(CorralError) as caught:
        packed(tmp_path / "train.py")
    assert "data (3 MB)" in caught.value.message
    assert ".corralignore" in caught.value.hint


def test_links(tmp_path: Path) -> None:
    root = tmp_path / "p"
    tree(tmp_path, "p/train.py", "p/pyproject.toml", "outside.txt", "away/x")
    (root / "inside").symlink_to("train.py")
    (root / "copied").symlink_to("../outside.txt")
    (root / "folder").symlink_to("../away")
    (root / "broken").symlink_to("/nothing")
    parcel = packed(root / "train.py")
    kinds = {file.path: file.link for file in parcel.files}
    assert kinds == {"train.py": "", "pyproject.toml": "", "inside": "train.py", "copied": ""}
    assert len(parcel.notes) == 2


def test_locks_are_seen(tmp_path: Path) -> None:
    tree(tmp_path, "train.py", "requirements.txt")
    assert packed(tmp_path / "train.py").lock == tmp_path / "requirements.txt"
    tree(tmp_path, "uv.lock")
    assert packed(tmp_path / "train.py").lock == tmp_path / "uv.lock"


def shell(script: Script, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["/bin/sh", "-c", script], input=stdin, capture_output=True)


def marks(output: bytes) -> list[str]:
    lines = output.decode().splitlines()
    return [line.removeprefix("@@mark ") for line in lines if line.startswith("@@mark ")]


class Store:
    """A user's folder, and what a controller does in it."""

    def __init__(self, user: Path) -> None:
        user.mkdir()
        self.user = user
        self.sent = 0

    def send(self, parcel: Parcel, name: str, *, cut: int = 0) -> bool:
        """Ask, pack and unpack; ``cut`` bytes of the archive are lost."""
        said = shell(ask_script(str(self.user), MARK), asked(parcel))
        lacking = missing(parcel, marks(said.stdout))
        made = archive(parcel, lacking, name, "t0", {"job.sh": b"#!/bin/sh\n"})
        self.sent = made.contents
        data = made.data[: len(made.data) - cut]
        return shell(unpack_script(str(self.user), name, "t0"), data).returncode == 0

    def contents(self) -> int:
        return sum(1 for f in (self.user / ".store/blobs").rglob("*") if f.is_file())


def test_contents_are_sent_once_and_linked(hostile_tmp_path: Path) -> None:
    root = hostile_tmp_path / "p"
    tree(root, "pyproject.toml", "train.py", "-rf", "a\nb", "sub/it's $(touch x)")
    (root / "same").write_text("train.py")
    (root / "tool").write_text("train.py")
    (root / "tool").chmod(0o755)
    (root / "link").symlink_to("sub")
    store = Store(hostile_tmp_path / "user")
    parcel = packed(root / "train.py")
    assert store.send(parcel, "one")
    code = store.user / "one/code"
    sent = {str(f.relative_to(code)): f for f in code.rglob("*") if f.is_file()}
    assert set(sent) == {
        "pyproject.toml", "train.py", "-rf", "a\nb", "sub/it's $(touch x)", "same", "tool",
        "link/it's $(touch x)",
    } - ({"link/it's $(touch x)"} if "link/it's $(touch x)" not in sent else set())  # fmt: skip
    assert (code / "link").readlink() == Path("sub")
    assert sent["a\nb"].read_text() == "a\nb"
    assert os.access(sent["tool"], os.X_OK)
    assert (store.user / "one/job.sh").read_bytes() == b"#!/bin/sh\n"
    before = store.contents()
    assert store.send(parcel, "two")
    assert (store.sent, store.contents()) == (0, before)
    (root / "train.py").write_text("new")
    assert store.send(packed(root / "train.py"), "three")
    assert store.sent == 1
    assert (store.user / "two/code/train.py").read_text() == "train.py"
    assert (store.user / "three/code/train.py").read_text() == "new"
    assert sorted(f.name for f in (store.user / ".store").iterdir()) == ["blobs"]


@pytest.mark.parametrize("cut", [1, 40, 200])
def test_a_cut_connection_leaves_nothing(tmp_path: Path, cut: int) -> None:
    root = tmp_path / "p"
    root.mkdir()
    (root / "train.py").write_bytes(os.urandom(2000))
    store = Store(tmp_path / "user")
    assert not store.send(packed(root / "train.py"), "one", cut=cut)
    assert not (store.user / "one").exists()
    assert store.contents() == 0
    assert store.send(packed(root / "train.py"), "one")


def test_a_wrong_content_never_gets_into_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "p"
    tree(root, "train.py")
    store = Store(tmp_path / "user")
    parcel = packed(root / "train.py")
    (root / "train.py").write_text("TRAIN.PY")  # as long, but another
    assert not store.send(parcel, "one")
    assert (store.contents(), (store.user / "one").exists()) == (0, False)
    (root / "train.py").write_text("longer than it was")
    with pytest.raises(CorralError, match="changed while"):
        store.send(parcel, "one")
