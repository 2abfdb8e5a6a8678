"""OpenSSH against a real sshd that will not have it: keys, accounts, shells, sudo."""

from __future__ import annotations

import asyncio
import pwd
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.embedded.loopback import (
    NODE,
    Sshd,
    failing,
    served,
)

from corral.errors import Code
from corral.hosts.quote import sh
from corral.hosts.sshkeys import fingerprint, known_hosts_line, make_key

pytestmark = pytest.mark.embedded


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    with served(tmp_path) as server:
        yield server


def test_another_host_key_is_refused(sshd: Sshd, tmp_path: Path) -> None:
    other = make_key(tmp_path / "other")
    real = (tmp_path / "host.pub").read_text()
    known = tmp_path / "changed"
    known.write_text(known_hosts_line(NODE, other))
    before = sshd.connections
    error = asyncio.run(failing(sshd.transport(known_hosts=known)))
    assert error.code is Code.HOST_KEY_CHANGED
    assert fingerprint(other) in error.message
    assert fingerprint(real) in error.message
    assert str(known) in error.hint
    assert sshd.connections == before


def test_an_unknown_host_key_is_refused(sshd: Sshd, tmp_path: Path) -> None:
    known = tmp_path / "empty"
    known.write_text(known_hosts_line("node1", (tmp_path / "host.pub").read_text()))
    error = asyncio.run(failing(sshd.transport(known_hosts=known)))
    assert error.code is Code.UNREACHABLE
    assert "not known" in error.message
    assert known.read_text().count("\n") == 1


def test_wrong_key(sshd: Sshd, tmp_path: Path) -> None:
    make_key(tmp_path / "wrong")
    error = asyncio.run(failing(sshd.transport(key=tmp_path / "wrong")))
    assert error.code is Code.UNREACHABLE
    assert "may not log in with this key" in error.message
    assert "authorized_keys" in error.hint
    assert "Permission denied" in error.tail


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"address": "no-such-name.invalid"}, "does not resolve"),
        ({"port": 1}, "nothing listens at 127.0.0.1 port 1"),
        (
            {"options": ("-o", "ProxyCommand=sleep 30"), "connect_timeout": 1},
            "does not answer",
        ),
    ],
)
def test_no_path_to_the_node(sshd: Sshd, changes: dict[str, object], message: str) -> None:
    error = asyncio.run(failing(sshd.transport(**changes)))
    assert error.code is Code.UNREACHABLE
    assert message in error.message
    assert error.hint
    assert error.node == NODE


@pytest.fixture
def account() -> Iterator[str]:
    """A fresh account of this machine, removed at the end."""
    name = f"corral-{secrets.token_hex(3)}"
    subprocess.run(["useradd", "--no-create-home", "--shell", "/bin/sh", name], check=True)
    subprocess.run(["usermod", "--password", "*", name], check=True)
    try:
        yield name
    finally:
        # --force: its last process may still be on its way out
        subprocess.run(["userdel", "--force", name], check=True, capture_output=True)


def set_shell(name: str, shell: str) -> None:
    subprocess.run(["usermod", "--shell", shell, name], check=True)
    assert pwd.getpwnam(name).pw_shell == shell


@pytest.mark.parametrize("shell", ["/bin/false", "/usr/sbin/nologin"])
def test_an_account_without_a_shell(sshd: Sshd, account: str, shell: str) -> None:
    set_shell(account, shell)
    error = asyncio.run(failing(sshd.transport(user=account)))
    assert error.code is Code.UNREACHABLE
    assert "shell" in error.message
    assert f"usermod -s /bin/sh {account}" in error.hint


@pytest.fixture
def sudo() -> Iterator[Path]:
    if shutil.which("sudo") is None:
        pytest.fail("sudo is not installed; ./test installs it")
    rule = Path(f"/etc/sudoers.d/corral-test-{secrets.token_hex(3)}")
    yield rule
    rule.unlink(missing_ok=True)


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash", "/usr/bin/tcsh", "/usr/bin/fish"])
def test_any_login_shell_with_sudo(sshd: Sshd, account: str, sudo: Path, shell: str) -> None:
    if not Path(shell).exists():
        pytest.skip(f"{shell} is not installed here")
    set_shell(account, shell)
    sudo.write_text(f"{account} ALL=(ALL) NOPASSWD:ALL\n")

    async def scenario() -> None:
        node = sshd.transport(user=account)
        result = await node.run(sh("id -u; cat; exit 7"), stdin=b"a\0b")
        assert (result.status, result.stdout) == (7, "0\na\0b")
        await node.close()

    asyncio.run(scenario())


def test_sudo_that_wants_a_password(sshd: Sshd, account: str, sudo: Path) -> None:
    error = asyncio.run(failing(sshd.transport(user=account)))
    assert error.code is Code.UNREACHABLE
    assert f"{account} may not use sudo without a password" in error.message
    assert "NOPASSWD" in error.hint
