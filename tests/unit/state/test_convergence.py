"""Probe, diff, apply, probe: each resource that can run without root does so for real."""

from __future__ import annotations

import grp
import hashlib
import os
import pwd
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.spec.impacts import Impact
from corral.state.base import Context
from corral.state.files import Directory, File
from corral.state.network.host_names import BEGIN, END, HostsBlock
from corral.state.secrets import Secret
from tests.unit.state.shell import diff, probe, run

ME = f"{pwd.getpwuid(os.getuid()).pw_name}:{grp.getgrgid(os.getgid()).gr_name}"

text = st.text(alphabet=st.characters(exclude_characters="\0\r", exclude_categories=("Cs",)))


@pytest.fixture(params=["plain", "a'; echo foo; \"$(touch pwned)", "sp ace\nline"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / request.param
    path.mkdir()
    return path


@given(content=text, before=st.none() | text)
def test_a_file_converges_whatever_it_holds(
    tmp_path_factory: pytest.TempPathFactory, content: str, before: str | None
) -> None:
    path = tmp_path_factory.mktemp("file") / "x.conf"
    if before is not None:
        path.write_bytes(before.encode())
    file = File(str(path), content, ME, "640")
    change = diff(file)
    assert change is not None
    if before != content:
        assert change.before == (before or "")
    run(change)
    assert path.read_bytes() == content.encode()
    assert diff(file) is None
    assert [p.name for p in path.parent.iterdir()] == ["x.conf"]


def test_file_owner_and_mode_alone_do_not_rewrite_it(folder: Path) -> None:
    path = folder / "x"
    path.write_text("same")
    path.chmod(0o600)
    inode = path.stat().st_ino
    change = diff(File(str(path), "same", ME, "644"))
    assert change is not None
    assert (change.before, change.after) == (f"600 {ME}", f"644 {ME}")
    run(change)
    assert path.stat().st_ino == inode
    assert diff(File(str(path), "same", ME, "644")) is None


def test_file_in_place_keeps_the_inode(folder: Path) -> None:
    path = folder / "x"
    path.write_text("old")
    inode = path.stat().st_ino
    file = File(str(path), "new", ME, "644", in_place=True)
    change = diff(file)
    assert change is not None
    run(change)
    assert (path.read_text(), path.stat().st_ino) == ("new", inode)
    assert diff(file) is None


def test_file_impact_comes_from_both_contents(folder: Path) -> None:
    path = folder / "x"
    path.write_text("A=1\n")
    seen: list[tuple[str, str]] = []

    def impact(before: str, after: str) -> Impact:
        seen.append((before, after))
        return Impact.DRAIN

    change = diff(File(str(path), "A=2\n", ME, impact_of=impact))
    assert change is not None
    assert change.impact is Impact.DRAIN
    assert seen == [("A=1\n", "A=2\n")]


def test_directory(folder: Path) -> None:
    directory = Directory(str(folder / "a" / "b"), ME, "750")
    change = diff(directory)
    assert change is not None
    assert change.before == ""
    run(change)
    assert (folder / "a" / "b").stat().st_mode & 0o777 == 0o750
    assert diff(directory) is None
    (folder / "a" / "b").chmod(0o777)
    again = diff(directory)
    assert again is not None
    assert again.before == f"777 {ME}"


def test_secret_is_made_once_and_copied(folder: Path) -> None:
    here = Secret(str(folder / "keys" / "k"), "here", ME, "600", 1024)
    change = diff(here)
    assert change is not None
    assert change.secrets == ()
    run(change)
    key = (folder / "keys" / "k").read_bytes()
    assert len(key) == 1024
    assert diff(here) is None

    there = Secret(str(folder / "other"), "far", ME, "600")
    known = {there.id: hashlib.sha256(key).hexdigest()}
    copy = diff(there, Context("here", secrets=known))
    assert copy is not None
    assert [(s.node, s.path) for s in copy.secrets] == [("far", there.path)]
    assert key.hex() not in copy.script
    run(copy, b"%d\n%b" % (len(key), key) + b"more")
    assert (folder / "other").read_bytes() == key
    assert diff(there, Context("here", secrets=known)) is None
    moved = diff(there, Context("here", secrets={there.id: "0" * 64}))
    assert moved is not None
    assert (moved.before, moved.impact) == ("another key", Impact.RESTART)


def test_a_secret_cut_short_is_not_put_in_place(folder: Path) -> None:
    secret = Secret(str(folder / "k"), "far", ME, "600")
    change = diff(secret)
    assert change is not None
    with pytest.raises(AssertionError):
        run(change, b"")
    assert not (folder / "k").exists()


def test_hosts_block(folder: Path) -> None:
    path = folder / "hosts"
    name = os.uname().nodename
    path.write_text(
        f"127.0.0.1 localhost\n127.0.1.1 {name}.lab {name} other # note {name}\n10.0.0.9 mine\n"
    )
    block = HostsBlock((("10.0.0.1", "node0"), ("10.0.0.2", "node1")), str(path))
    change = diff(block)
    assert change is not None
    assert name in change.before
    run(change)
    after = path.read_text()
    assert "127.0.0.1 localhost\n" in after  # as its owner wrote it
    assert "127.0.1.1\tother" in after
    assert name not in after.replace("node0", "").replace("node1", "")
    assert "10.0.0.9 mine" in after
    assert f"{BEGIN}\n10.0.0.1\tnode0\n10.0.0.2\tnode1\n{END}\n" in after
    assert diff(block) is None
    grown = HostsBlock((*block.entries, ("10.0.0.3", "node2")), str(path))
    change = diff(grown)
    assert change is not None
    run(change)
    assert path.read_text().count(BEGIN) == 1
    assert diff(grown) is None


def test_hosts_block_with_its_end_cut_off_is_repaired(folder: Path) -> None:
    path = folder / "hosts"
    path.write_text(f"127.0.0.1 localhost\n{BEGIN}\n10.0.0.1\tno")
    block = HostsBlock((("10.0.0.1", "node0"),), str(path))
    change = diff(block)
    assert change is not None
    run(change)
    assert diff(block) is None
    assert "localhost" in path.read_text()


def test_many_probes_in_one_script(folder: Path) -> None:
    resources = [File(str(folder / str(i)), "x", ME) for i in range(30)]
    (folder / "7").write_text("x")
    seen = probe(*resources)
    assert len(seen) == 30
    assert [i for i, r in enumerate(resources) if seen[r.id].text != "absent"] == [7]
