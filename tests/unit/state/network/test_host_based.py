"""Logins from node to node by the nodes' keys: what is written, and what is left as it is."""

from __future__ import annotations

import hashlib
import subprocess
from dataclasses import replace

import pytest

from corral.state.base import Change, Context, Seen
from corral.state.network.host_based import CLIENT, DROP_IN, HOSTS, KNOWN_HOSTS, Host, HostBased

HOST = Host("node1", "10.0.0.2", "ssh-ed25519 AAAA")
ON = HostBased((HOST,), ("corral-people", "vision"), ("root", "ada"), "bob")


def seen(policy: HostBased, sshd: str = "yes no", **words: str) -> Seen:
    lines = [
        words.get(path, hashlib.sha256(text.encode()).hexdigest() if text else "absent")
        for path, text in policy.files
    ]
    return Seen(0, "\n".join((*lines, sshd)).strip())


def change(policy: HostBased, answer: Seen) -> Change | None:
    return policy.diff(answer, Context("node0"))


def test_what_is_there_and_works_is_left() -> None:
    assert change(ON, seen(ON)) is None
    assert change(HostBased((HOST,)), seen(HostBased((HOST,)), "")) is None
    assert change(HostBased(), Seen(0, "absent\n" * 4)) is None


@pytest.mark.parametrize("sshd", ["no no", "yes yes", "", "yes"])
def test_files_that_have_no_effect_are_a_change(sshd: str) -> None:
    assert change(ON, seen(ON, sshd)) is not None


@pytest.mark.parametrize("path", [KNOWN_HOSTS, CLIENT, DROP_IN, HOSTS])
def test_each_file_counts_and_no_answer_is_none_of_them(path: str) -> None:
    planned = change(ON, seen(ON, **{path: "absent"}))
    assert planned is not None
    assert set(planned.keeps) == {f"file:{p}" for p in (KNOWN_HOSTS, CLIENT, DROP_IN, HOSTS)}
    assert change(ON, Seen(0, "")) is not None


def test_a_file_of_somebody_else_is_never_replaced_nor_removed() -> None:
    refused = change(ON, seen(ON, **{HOSTS: "foreign"}))
    assert refused is not None
    assert HOSTS in refused.refuses
    assert change(HostBased(), Seen(0, "foreign\n" * 4)) is None


def test_the_list_of_hosts_changes_with_what_sshd_has_to_read() -> None:
    """It is written behind the reload, so that a run that broke off before is seen."""
    files = dict(ON.files)
    less = dict(replace(ON, never=("root",)).files)
    assert files[DROP_IN] != less[DROP_IN]
    assert files[HOSTS] != less[HOSTS]
    assert "Match User *,!root,!ada Group corral-people,vision,!sudo,!root\n" in files[DROP_IN]
    assert files[KNOWN_HOSTS].endswith("node1,10.0.0.2 ssh-ed25519 AAAA\n")


def test_another_port_is_known_to_ssh() -> None:
    files = dict(HostBased((replace(HOST, port=2222),)).files)
    assert files[KNOWN_HOSTS].endswith(
        "node1,10.0.0.2,[node1]:2222,[10.0.0.2]:2222 ssh-ed25519 AAAA\n"
    )
    assert files[CLIENT].endswith("Host node1 10.0.0.2\n    Port 2222\n")


def test_the_scripts_are_posix_shell() -> None:
    planned = change(ON, Seen(0, ""))
    assert planned is not None
    for script in (ON.probe(), planned.script):
        subprocess.run(["sh", "-n"], input=script, text=True, check=True)
