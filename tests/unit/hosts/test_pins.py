"""Pinned host keys in the cluster's own file; what the user's files hold (``ssh-keygen -F``)."""

from __future__ import annotations

import asyncio
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from corral.hosts import keysetup, sshkeys
from corral.hosts.sshkeys import make_key
from corral.hosts.target import SshTarget

TARGET = SshTarget("192.0.2.7", 2222, user="alice")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("keys")
    first, second = (" ".join(make_key(folder / name).split()[:2]) for name in ("a", "b"))
    return first, second


def known(file: Path, target: SshTarget) -> str:
    options = ("-F", "none", "-o", f"UserKnownHostsFile={file}", "-o", "GlobalKnownHostsFile=none")
    return asyncio.run(sshkeys.known_to_user("node7", replace(target, options=options)))


def test_hashed_and_plain_lines_by_address_and_port(tmp_path: Path, keys: tuple[str, str]) -> None:
    file = tmp_path / "mine"
    file.write_text(
        f"[192.0.2.7]:2222,other {keys[0]}\n192.0.2.7 {keys[1]}\n"
        f"@revoked [192.0.2.7]:2222 {keys[1]}\n@cert-authority * {keys[1]}\n"
    )
    assert known(file, TARGET) == f"node7 {keys[0]}\n"
    assert known(file, replace(TARGET, port=22)) == f"node7 {keys[1]}\n"
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(file)], check=True, capture_output=True)
    assert file.read_text().startswith("|1|"), "the names are hashed now"
    assert known(file, TARGET) == f"node7 {keys[0]}\n"
    assert known(file, replace(TARGET, address="192.0.2.8")) == ""
    assert known(tmp_path / "absent", TARGET) == ""


def test_pinning_is_once_and_one_node_can_be_forgotten(tmp_path: Path) -> None:
    file = tmp_path / "c" / "known_hosts"
    sshkeys.pin(file, "node1 ssh-ed25519 A\n")
    sshkeys.pin(file, "node1 ssh-ed25519 A\nnode10 ssh-ed25519 B\n")
    assert file.read_text() == "node1 ssh-ed25519 A\nnode10 ssh-ed25519 B\n"
    assert file.stat().st_mode & 0o777 == 0o600
    target = replace(TARGET, known_hosts=file, pin_new=True, user_config=True)
    assert target.trust("node1")["StrictHostKeyChecking"] == "yes"
    assert target.trust("node2")["StrictHostKeyChecking"] == "accept-new"
    assert replace(target, pin_new=False).trust("node2")["StrictHostKeyChecking"] == "yes"
    sshkeys.unpin(file, "node1")
    assert file.read_text() == "node10 ssh-ed25519 B\n"


def test_proven_nodes_are_remembered(tmp_path: Path) -> None:
    assert keysetup.proven(tmp_path) == frozenset()
    keysetup.note_proven(tmp_path, frozenset({"b", "a"}))
    keysetup.note_proven(tmp_path, frozenset({"c", "a"}))
    assert keysetup.proven(tmp_path) == {"a", "b", "c"}


def test_the_users_config_is_read_and_the_pin_is_the_clusters(tmp_path: Path) -> None:
    target = replace(TARGET, known_hosts=tmp_path / "k", user_config=True, only_key=False)
    argv = replace(target, key=tmp_path / "id").arguments("node7", None, opens=False)
    text = " ".join(argv)
    assert "-F" not in argv
    assert "IdentityAgent" not in text
    for word in ("HostKeyAlias=node7", "HashKnownHosts=no", "ControlPath=none"):
        assert word in text
