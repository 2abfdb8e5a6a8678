"""What is uploaded: which folder, which files; the archive unpacked by the real shell text."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import os
import socket
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.errors import Code, CorralError
from corral.hosts.quote import Script
from corral.jobs.batch import environment
from corral.jobs.upload import manifest as manifest_module
from corral.jobs.upload.archive import (
    archive,
    ask_script,
    missing,
    names_asked,
    unpack_script,
)
from corral.jobs.upload.manifest import Manifest, outline, outline_folder, pack, pack_folder
from tests.path_swap import swapping


def tree(root: Path, *names: str) -> None:
    for name in names:
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)


def packed(script: Path, folder: str | None = None, *, here: Path | None = None) -> Manifest:
    return asyncio.run(pack(script, folder, here=here))


def names(manifest: Manifest) -> set[str]:
    return {file.path for file in manifest.files}


def test_corralignore_decides_alone(hostile_tmp_path: Path) -> None:
    root = hostile_tmp_path / "p"
    tree(root, "src/train.py", "data/x", "out/y.txt", "out/keep.txt", "__pycache__/a.pyc", ".git/c")
    (root / ".gitignore").write_text("src/\n")
    (root / ".corralignore").write_text("# large\n/data/\nout/*\n!out/keep.txt\n")
    manifest = packed(root / "src" / "train.py", here=root / "src")
    assert manifest.root == root
    assert names(manifest) == {"src/train.py", "out/keep.txt", ".gitignore", ".corralignore"}
    assert (manifest.program, manifest.inside) == ("src/train.py", "src")


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
        "train.py",
        "a\nb",
        "sub/yes.txt",
        "sub/.gitignore",
    }


def test_gitignore_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, "train.py", "x.log", "pyproject.toml")
    (tmp_path / ".gitignore").write_text("*.log\n")

    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert names(packed(tmp_path / "train.py")) == {"train.py", "pyproject.toml", ".gitignore"}


def test_an_ignored_script_is_packed_all_the_same(tmp_path: Path) -> None:
    tree(tmp_path, "train.py", "b.py")
    (tmp_path / ".corralignore").write_text("*\n")
    assert names(packed(tmp_path / "train.py")) == {"train.py"}


def test_a_plain_folder_goes_while_it_is_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, "train.py", "model.py")
    assert names(packed(tmp_path / "train.py")) == {"train.py", "model.py"}
    monkeypatch.setattr(manifest_module, "PLAIN_FILES", 1)
    alone = packed(tmp_path / "train.py")
    assert (names(alone), alone.root) == ({"train.py"}, None)
    assert "only train.py is uploaded" in alone.notes[0]


def test_nobodys_home_is_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, "train.py", ".git/x", ".ssh/id_rsa")
    monkeypatch.setattr(manifest_module.Path, "home", lambda: tmp_path)
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


def test_a_folder_that_goes_with_a_command(tmp_path: Path) -> None:
    root = tmp_path / "p"
    tree(root, "bin/run", "data/x", "uv.lock")
    (root / ".corralignore").write_text("data/\n")
    (root / "out").symlink_to("/etc")
    manifest = asyncio.run(pack_folder(str(root), here=root / "bin"))
    assert names(manifest) == {"bin/run", "uv.lock", ".corralignore"}
    assert (manifest.root, manifest.program, manifest.inside) == (root, "", "bin")
    assert manifest.lock is not None
    assert manifest.notes == ("out leads out of the folder (/etc): left out",)
    assert outline_folder(str(root), here=root / "bin").inside == "bin"
    for no in (str(tmp_path / "none"), str(root / "uv.lock")):
        with pytest.raises(CorralError) as caught:
            asyncio.run(pack_folder(no))
        assert caught.value.code is Code.NOT_FOUND


def test_too_much_is_refused_with_the_largest_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, "pyproject.toml", "train.py")
    (tmp_path / "data").mkdir()
    (tmp_path / "data/big").write_bytes(b"x" * 3_000_000)
    monkeypatch.setattr(manifest_module, "MOST_BYTES", 1_000_000)
    with pytest.raises(CorralError) as caught:
        packed(tmp_path / "train.py")
    assert "data (3 MB)" in caught.value.message
    assert ".corralignore" in caught.value.hint


def test_links_that_stay_inside_go_along_as_links(tmp_path: Path) -> None:
    root = tmp_path / "p"
    tree(tmp_path, "p/train.py", "p/pyproject.toml", "p/sub/deep/x", "outside.txt", "away/x")
    inside = {
        "inside": "train.py", "sub/up": "../train.py", "sub/deep/far": "../../sub/deep/x",
        "folder": "sub", "chain": "inside", "dangling": "not/there", "here": ".",
    }  # fmt: skip
    outside = {
        "copied": "../outside.txt", "away": "../away", "broken": "/nothing",
        "around": "../p/train.py",
        "sub/key": "/etc/hostname", "hop": "away/x", "hop2": "hop",
        "up": "folder/../../outside.txt",
        "loop": "loop", "deep": "sub/deep/../../../outside.txt",
    }  # fmt: skip
    for name, target in {**inside, **outside}.items():
        (root / name).symlink_to(target)
    (root / "absolute").symlink_to(root / "sub" / "deep")
    (root / "sub" / "absolute").symlink_to(root / "train.py")
    manifest = packed(root / "train.py")
    links = {file.path: file.link for file in manifest.files if file.link}
    assert links == {**inside, "absolute": "sub/deep", "sub/absolute": "../train.py"}
    assert {f.path for f in manifest.files} - set(links) == {
        "train.py",
        "pyproject.toml",
        "sub/deep/x",
    }
    assert len(manifest.notes) == 5
    assert manifest.notes[-1] == f"{len(outside) - 4} more are left out for the same reason"


def test_a_folder_that_became_a_link_uploads_nothing_of_it(tmp_path: Path) -> None:
    """git still lists the files that were committed below it."""
    root = tmp_path / "p"
    tree(tmp_path, "p/train.py", "p/lib/model.py", "elsewhere/model.py")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    subprocess.run(["git", "-C", str(root), "add", "."], check=True)
    (root / "lib/model.py").unlink()
    (root / "lib").rmdir()
    (root / "lib").symlink_to("../elsewhere")
    manifest = packed(root / "train.py")
    assert names(manifest) == {"train.py"}
    assert manifest.notes == ("lib leads out of the folder (../elsewhere): left out",)


def test_links_in_a_submodule(tmp_path: Path) -> None:
    root, other = tmp_path / "p", tmp_path / "other"
    tree(tmp_path, "p/train.py", "other/m.py", "secret")
    (other / "key").symlink_to("../../secret")
    (other / "same").symlink_to("m.py")
    git = ["git", "-c", "protocol.file.allow=always", "-c", "user.name=a", "-c", "user.email=a@b"]
    for folder in (other, root):
        subprocess.run([*git, "init", "-q", str(folder)], check=True)
        subprocess.run([*git, "-C", str(folder), "add", "."], check=True)
        subprocess.run([*git, "-C", str(folder), "commit", "-qm", "a"], check=True)
    add = [*git, "-C", str(root), "submodule", "--quiet", "add", str(other), "sub"]
    subprocess.run(add, check=True)
    manifest = packed(root / "train.py")
    assert {"sub/m.py", "sub/same"} < names(manifest)
    assert "sub/key" not in names(manifest)
    assert manifest.notes == ("sub/key leads out of the folder (../../secret): left out",)


def test_each_repository_inside_decides_by_its_own_ignore_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that a submodule or a cloned project ignores stays here, at any depth."""
    root = tmp_path / "p"
    for folder in ("", "sub/", "sub/inner/", "clone/"):
        tree(root, *(f"{folder}{name}" for name in ("a.py", "new.py", "key.env")))
        (root / folder / ".gitignore").write_text("*.env\n")
    tree(root, "train.py", "clone/excluded", "copied/m.py", "copied/key.env", "was_a_file")
    (root / "copied/.gitignore").write_text("*.env\n")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C"]
    link = "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40}"
    for folder in ("sub/inner", "sub", "clone", ""):
        subprocess.run([*git, str(root / folder), "init", "-q"], check=True)
        if folder != "clone":
            tracked = [".gitignore", "a.py", *(["was_a_file"] if not folder else [])]
            subprocess.run([*git, str(root / folder), "add", *tracked], check=True)
    for folder, inner in (("sub", "inner"), ("", "sub"), ("", "copied")):
        subprocess.run([*git, str(root / folder), *link[:-1], f"{link[-1]},{inner}"], check=True)
    (root / "clone/.git/info/exclude").write_text("excluded\n")
    (root / "was_a_file").unlink()
    tree(root, "was_a_file/m.py", "was_a_file/key.env")
    here = {".gitignore", "a.py", "new.py"}
    assert names(packed(root / "train.py")) == {
        *here,
        *(f"{folder}/{name}" for folder in ("sub", "sub/inner", "clone") for name in here),
        "train.py",
        "copied/m.py",
        "copied/.gitignore",
        "was_a_file/m.py",
    }
    monkeypatch.setattr(manifest_module, "MOST_REPOSITORIES", 3)
    with pytest.raises(CorralError) as caught:
        packed(root / "train.py")
    assert caught.value.code is Code.USAGE and ".corralignore" in caught.value.hint


@pytest.mark.parametrize("folder", [None, "none", "."])
def test_a_script_that_is_a_link_out_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str | None
) -> None:
    root = tmp_path / "p"
    tree(tmp_path, "p/pyproject.toml", "secret")
    (root / "train.py").symlink_to("../secret")
    (root / "lib").symlink_to("..")
    monkeypatch.chdir(root)
    for name in ("train.py", "lib/secret"):
        with pytest.raises(CorralError) as caught:
            packed(Path(name), folder)
        assert caught.value.code is Code.USAGE
        assert str(tmp_path / "secret") in caught.value.hint


@pytest.mark.parametrize("folder", [None, "none"])
def test_a_script_that_is_a_link_inside_can_be_run(tmp_path: Path, folder: str | None) -> None:
    tree(tmp_path, "train_v2.sh", ".corralignore")
    (tmp_path / ".corralignore").write_text("*\n")
    (tmp_path / "now.sh").symlink_to("newest")
    (tmp_path / "newest").symlink_to("train_v2.sh")
    manifest = packed(tmp_path / "now.sh", folder)
    assert manifest.program == "now.sh"
    store = Store(tmp_path / "user")
    assert store.send(manifest, "one")
    script = store.user / "one/code/now.sh"
    assert (script.read_text(), os.access(script, os.X_OK)) == ("train_v2.sh", True)


@pytest.mark.parametrize("name", ["requirements.txt", "uv.lock", ".corralignore"])
def test_locks_and_ignore_files_that_lead_out(tmp_path: Path, name: str) -> None:
    root = tmp_path / "p"
    tree(tmp_path, "p/train.py", "p/pyproject.toml", "secret")
    (tmp_path / "secret").write_text("token==1\n")
    (root / name).symlink_to("../secret")
    if name == ".corralignore":
        with pytest.raises(CorralError, match="by a link, out of"):
            packed(root / "train.py")
        return
    assert packed(root / "train.py").lock is None
    with pytest.raises(CorralError, match="by a link, out of"):
        asyncio.run(environment.requirements(manifest_module.named_file(root / name)))


def test_nothing_but_plain_files_is_opened(tmp_path: Path) -> None:
    root = tmp_path / "p"
    tree(tmp_path, "p/train.py", "p/pyproject.toml")
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "socket"))
    if os.geteuid() == 0:
        os.mknod(root / "device", 0o600 | stat.S_IFCHR, os.makedev(1, 5))
    manifest = packed(root / "train.py")
    assert names(manifest) == {"train.py", "pyproject.toml"}
    assert "pipe is not a plain file: left out" in manifest.notes


SECRET = "-----BEGIN SECRET-----"


@st.composite
def trees(draw: st.DrawFn) -> list[tuple[str, str]]:
    """Names and what is there: a text, or after "->" where a link leads."""
    part = st.sampled_from(["a", "b", "c", "lib"])
    path = st.lists(part, min_size=1, max_size=4).map("/".join)
    step = st.sampled_from(["..", ".", "a", "b", "c", "lib", "", "p", "away", "key"])
    target = st.lists(step, min_size=1, max_size=7).map("/".join)
    away = st.sampled_from(
        ["@/away", "@/away/key", "@/p/a", "@/p/../away/key", "@/p", "/etc/hostname"]
    )
    entry = st.one_of(st.just("text"), st.one_of(target, away).map("->".__add__))
    return draw(st.lists(st.tuples(path, entry), max_size=14))


def planted(top: Path, entries: list[tuple[str, str]]) -> Path:
    """A project with them; what cannot be there as well is left out."""
    root = top / "p"
    tree(top, "p/train.py", "p/pyproject.toml")
    (top / "away" / "a").mkdir(parents=True)
    for name in ("key", "a/key", "lib"):
        (top / "away" / name).write_text(SECRET)
    for name, what in entries:
        with contextlib.suppress(OSError):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            real = (root / name).parent.resolve()
            if not real.is_relative_to(root):
                continue
            if what == "text":
                (real / Path(name).name).write_text(name)
            else:
                target = what.removeprefix("->").replace("@", str(top)) or "."
                (real / Path(name).name).symlink_to(target)
    return root


def unpacked(manifest: Manifest, where: Path) -> Path:
    made = archive(manifest, missing(manifest, ["all"]), "one", "t0", {})
    assert SECRET.encode() not in gzip.decompress(made.data)
    where.mkdir()
    assert shell(unpack_script(str(where), "one", "t0"), made.data).returncode == 0
    return where / "one" / "code"


KINDS = st.sampled_from(["git", "walk", "plain"])


@given(trees(), KINDS)
def test_no_byte_from_outside_is_packed(entries: list[tuple[str, str]], kind: str) -> None:
    arrives(entries, kind)


@pytest.mark.slow
@settings(max_examples=settings().max_examples * 12)
@given(trees(), KINDS)
def test_no_byte_from_outside_is_packed_in_many_trees(
    entries: list[tuple[str, str]], kind: str
) -> None:
    arrives(entries, kind)


def arrives(entries: list[tuple[str, str]], kind: str) -> None:
    """A tree with links is refused, or arrives without a byte from outside of it."""
    with tempfile.TemporaryDirectory() as name:
        top = Path(name).resolve()
        root = planted(top, entries)
        if kind == "git":
            subprocess.run(["git", "init", "-q", str(root)], check=True)
        if kind == "plain":
            (root / "pyproject.toml").unlink()
        try:
            manifest = packed(root / "train.py", str(root))
        except CorralError as error:
            assert "by a link, out of" in error.message
            return
        code = unpacked(manifest, top / "user")
        # Each file and each link arrives, and means there what it means here.
        for file in manifest.files:
            there = code / file.path
            assert there.is_symlink() == bool(file.link)
            end = there.resolve(strict=False) if not loops(there) else code
            assert end.is_relative_to(code.resolve())
            if there.is_file():
                assert there.read_text() == (root / file.path).read_text()


def loops(path: Path) -> bool:
    try:
        path.resolve(strict=False)
    except (RuntimeError, OSError):
        return True
    return False


@pytest.mark.parametrize("seconds", [1, pytest.param(10, marks=pytest.mark.slow)])
@pytest.mark.parametrize("git", [False, True])
def test_what_is_swapped_while_it_is_packed(tmp_path: Path, git: bool, seconds: int) -> None:
    """Folders and files become links to a secret and back, as fast as possible."""
    root = tmp_path / "p"
    tree(tmp_path, "p/train.py", "p/pyproject.toml")
    for name in ("folder", "real"):
        tree(tmp_path, *(f"p/{name}/{i}" for i in range(40)))
    tree(tmp_path, *(f"away/{i}" for i in range(40)), "away/file")
    for file in (tmp_path / "away").iterdir():
        file.write_text(SECRET)
    (root / "link").symlink_to("../away")
    if git:
        subprocess.run(["git", "init", "-q", str(root)], check=True)
        subprocess.run(["git", "-C", str(root), "add", "."], check=True)
    program = (
        "import os, sys\n"
        "root = sys.argv[1]\n"
        "names = [root + '/' + n for n in ('folder', 'link', 'spare')]\n"
        "folder, link, spare = names\n"
        "while True:\n"
        "    for a, b in ((folder, spare), (link, folder), (spare, link)):\n"
        "        os.rename(a, b)\n"
        "    for a, b in ((folder, spare), (link, folder), (spare, link)):\n"
        "        os.rename(a, b)\n"
    )
    swapper = subprocess.Popen([sys.executable, "-c", program, str(root)])
    ended, clean = 0, 0
    try:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            ended += 1
            try:
                manifest = packed(root / "train.py")
                made = archive(manifest, missing(manifest, ["all"]), "one", "t0", {})
            except CorralError as error:
                assert error.code is Code.NOT_GOOD
                continue
            clean += 1
            assert SECRET.encode() not in gzip.decompress(made.data)
        assert swapper.poll() is None
    finally:
        swapper.kill()
        swapper.wait()
    assert clean > 0 or ended > seconds


@pytest.mark.parametrize(
    ("folder", "part", "kind"),
    [
        (None, "p", "walk"), (None, ".", "git"), (None, "p", "plain"),
        ("none", "p", "git"), ("none", ".", "plain"), ("given", ".", "walk"),
    ],
)  # fmt: skip
def test_the_root_or_a_folder_above_it_is_swapped_meanwhile(
    tmp_path: Path, folder: str | None, part: str, kind: str
) -> None:
    """Each name exists in the other folder too, with a secret in it."""
    up = tmp_path / "up"
    files = ["train.py", "requirements.txt", ".gitignore", *(f"sub/{i}" for i in range(20))]
    for name in files:
        tree(tmp_path, f"up/p/{name}", f"away/p/{name}")
        (tmp_path / "away/p" / name).write_text(f"{SECRET}==1\n")
    root = up / "p"
    if kind == "git":
        for each in (root, tmp_path / "away/p"):
            subprocess.run(["git", "init", "-q", str(each)], check=True)
    if kind == "plain":
        (root / "requirements.txt").unlink()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "away" / part)
    clean, until = 0, time.monotonic() + 12
    with swapping(up / "p" if part == "p" else up, link):
        while clean < 3 and time.monotonic() < until:
            try:
                manifest = packed(root / "train.py", str(root) if folder == "given" else folder)
                lock = manifest.lock.read() if manifest.lock else b""
                made = archive(manifest, missing(manifest, ["all"]), "one", "t0", {})
            except CorralError as error:
                assert error.code in (Code.NOT_GOOD, Code.COMMAND_FAILED), error
                continue
            clean += 1
            assert SECRET.encode() not in gzip.decompress(made.data) + lock
    assert clean > 0


@pytest.mark.skipif(os.geteuid() != 0, reason="gives links to other users")
def test_a_link_of_another_user_on_the_way_is_followed_to_what_is_theirs_only(
    tmp_path: Path,
) -> None:
    tree(tmp_path, "mine/pyproject.toml", "mine/train.py", "hers/pyproject.toml", "hers/train.py")
    os.chown(tmp_path / "hers", 2003, 2003)
    for name in ("mine", "hers"):
        link = tmp_path / f"to-{name}"
        link.symlink_to(name)
        os.chown(link, 2003, 2003, follow_symlinks=False)
    assert names(packed(tmp_path / "to-hers/train.py")) == {"pyproject.toml", "train.py"}
    for folder in (None, "none", str(tmp_path / "to-mine")):
        with pytest.raises(CorralError, match=r"another user \(uid 2003\) made") as caught:
            packed(tmp_path / "to-mine/train.py", folder)
        assert caught.value.code is Code.USAGE
    os.chown(tmp_path / "to-mine", 0, 0, follow_symlinks=False)
    assert packed(tmp_path / "to-mine/train.py").root == tmp_path / "to-mine"


@pytest.mark.parametrize("folder", [None, "none", "given"])
@pytest.mark.parametrize("mark", ["", "pyproject.toml"])
def test_a_link_in_a_project_makes_no_project_of_what_is_outside(
    tmp_path: Path, folder: str | None, mark: str
) -> None:
    """Its own mark there makes no difference: who wrote the project chose where it leads."""
    tree(tmp_path, "p/pyproject.toml", "p/real/train.py", "away/train.py", "away/key")
    if mark:
        tree(tmp_path, f"away/{mark}")
    (tmp_path / "p/lib").symlink_to("../away")
    (tmp_path / "p/inner").symlink_to("real")
    where = str(tmp_path / "p/lib") if folder == "given" else folder
    with pytest.raises(CorralError, match="by a link, out of") as caught:
        packed(tmp_path / "p/lib/train.py", where)
    assert str(tmp_path / "away") in caught.value.hint
    where = str(tmp_path / "p/inner") if folder == "given" else folder
    assert "train.py" in {
        Path(name).name for name in names(packed(tmp_path / "p/inner/train.py", where))
    }


def test_locks_are_seen(tmp_path: Path) -> None:
    tree(tmp_path, "train.py", "requirements.txt")
    for name in ("requirements.txt", "uv.lock"):
        tree(tmp_path, name)
        lock = packed(tmp_path / "train.py").lock
        assert lock is not None
        assert lock.path == tmp_path / name
        assert lock.read() == name.encode()


def shell(script: Script, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["/bin/sh", "-c", script], input=stdin, capture_output=True)


class Store:
    """A user's folder, and what a controller does in it."""

    def __init__(self, user: Path) -> None:
        user.mkdir()
        self.user = user
        self.sent = 0

    def send(self, manifest: Manifest, name: str, *, cut: int = 0) -> bool:
        """Ask, pack and unpack; ``cut`` bytes of the archive are lost."""
        answer = shell(ask_script(str(self.user)), names_asked(manifest))
        lacking = missing(manifest, answer.stdout.decode().splitlines())
        made = archive(manifest, lacking, name, "t0", {"job.sh": b"#!/bin/sh\n"})
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
    manifest = packed(root / "train.py")
    assert store.send(manifest, "one")
    code = store.user / "one/code"
    sent = {str(f.relative_to(code)): f for f in code.rglob("*") if f.is_file()}
    assert set(sent) == {
        "pyproject.toml",
        "train.py",
        "-rf",
        "a\nb",
        "sub/it's $(touch x)",
        "same",
        "tool",
        "link/it's $(touch x)",
    } - ({"link/it's $(touch x)"} if "link/it's $(touch x)" not in sent else set())
    assert (code / "link").readlink() == Path("sub")
    assert sent["a\nb"].read_text() == "a\nb"
    assert os.access(sent["tool"], os.X_OK)
    assert (store.user / "one/job.sh").read_bytes() == b"#!/bin/sh\n"
    before = store.contents()
    assert store.send(manifest, "two")
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
    manifest = packed(root / "train.py")
    for text in ("TRAIN.PY", "longer than it was"):  # as long, but another
        (root / "train.py").write_text(text)
        with pytest.raises(CorralError, match="changed while"):
            store.send(manifest, "one")
    monkeypatch.setattr(manifest_module.Packed, "read", lambda _: b"TRAIN.PY")
    assert not store.send(manifest, "one")
    assert (store.contents(), (store.user / "one").exists()) == (0, False)
