from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.errors import Code, CorralError
from corral.hosts.sshkeys import (
    fingerprint,
    known_fingerprints,
    known_hosts_line,
    make_key,
)

# A key made for this test and used nowhere.
PUBLIC = (
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f corral test"
)


def keygen(*argv: str) -> str:
    return subprocess.run(["ssh-keygen", *argv], capture_output=True, text=True, check=True).stdout


def test_make_key(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "id"
    public = make_key(path, "corral lab")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert path.with_name("id.pub").read_text() == f"{public}\n"
    assert public.startswith("ssh-ed25519 ")
    assert public.endswith(" corral lab")
    assert fingerprint(public) == keygen("-l", "-f", str(path)).split()[1]
    assert sorted(p.name for p in path.parent.iterdir()) == ["id", "id.pub"]


def test_a_key_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "id"
    public = make_key(path)
    text = path.read_bytes()
    assert make_key(path) == public
    assert path.read_bytes() == text


def test_a_lost_or_wrong_public_key_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "id"
    public = make_key(path)
    for damage in ("", PUBLIC):
        path.with_name("id.pub").write_text(damage)
        assert make_key(path) == public
        assert path.with_name("id.pub").read_text() == f"{public}\n"


def test_many_at_once_make_one(tmp_path: Path) -> None:
    path = tmp_path / "id"
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(lambda _: make_key(path), range(8)))
    assert made == {path.with_name("id.pub").read_text().strip()}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["id", "id.pub"]


def test_what_is_no_private_key_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "id"
    path.write_text("notes")
    path.chmod(0o600)
    with pytest.raises(CorralError) as caught:
        make_key(path)
    assert caught.value.code is Code.COMMAND_FAILED
    assert path.read_text() == "notes"


def test_without_ssh_keygen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CorralError) as caught:
        make_key(tmp_path / "id")
    assert caught.value.code is Code.MISSING_TOOL


def test_known_hosts_line(tmp_path: Path) -> None:
    line = known_hosts_line("node0", PUBLIC)
    assert line == f"node0 {' '.join(PUBLIC.split()[:2])}\n"
    file = tmp_path / "known_hosts"
    file.write_text(line)
    assert fingerprint(PUBLIC) in keygen("-l", "-F", "node0", "-f", str(file))
    assert known_fingerprints("node0", line) == (fingerprint(PUBLIC),)
    assert known_fingerprints("node1", line) == ()


@pytest.mark.parametrize("node", ["", "a b", "a,b", "*", "!a", "a\nb", "@revoked", "#a", "a?"])
def test_names_that_known_hosts_reads_otherwise(node: str) -> None:
    with pytest.raises(CorralError) as caught:
        known_hosts_line(node, PUBLIC)
    assert caught.value.code is Code.USAGE


@pytest.mark.parametrize(
    "public",
    ["", "ssh-ed25519", "ssh-ed25519 AAAA", "ssh-rsa " + PUBLIC.split()[1], PUBLIC + "\nx y",
     "ssh-ed25519 ???", "command=\"x\" " + PUBLIC],
)  # fmt: skip
def test_what_is_no_public_key(public: str) -> None:
    for use in (fingerprint, lambda text: known_hosts_line("node0", text)):
        with pytest.raises(CorralError) as caught:
            use(public)
        assert caught.value.code is Code.PARSE_FAILED


@given(st.text())
def test_any_text_is_a_key_or_an_error_of_ours(text: str) -> None:
    with pytest.raises(CorralError):
        fingerprint(text)
    assert known_fingerprints("node0", f"node0 {text}\n# x\n") == ()
