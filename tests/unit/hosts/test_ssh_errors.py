"""ssh's own words (recorded from OpenSSH 9.2 and 10.0) and what is made of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.errors import Code
from corral.hosts.ssh_errors import failure
from corral.hosts.sshkeys import fingerprint, known_hosts_line
from corral.hosts.target import SshTarget

TARGET = SshTarget("192.0.2.7", 2222, user="ubuntu", known_hosts=Path("/k/known"))
PUBLIC = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"

CHANGED = """\
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!
Someone could be eavesdropping on you right now (man-in-the-middle attack)!
It is also possible that a host key has just been changed.
The fingerprint for the ED25519 key sent by the remote host is
SHA256:kLk1UNsNQBx6Hlm2wYXUvhVCSgUwQs93JZH6tcq9Bbo.
Please contact your system administrator.
Add correct host key in /k/known to get rid of this message.
Offending ED25519 key in /k/known:3
Host key for node0 has changed and you have requested strict checking.
Host key verification failed.
"""


def test_a_changed_host_key_shows_both_fingerprints() -> None:
    known = known_hosts_line("node0", PUBLIC)
    error = failure("node0", TARGET, 255, CHANGED, known)
    assert error.code is Code.HOST_KEY_CHANGED
    assert "SHA256:kLk1UNsNQBx6Hlm2wYXUvhVCSgUwQs93JZH6tcq9Bbo" in error.message
    assert fingerprint(PUBLIC) in error.message
    assert "/k/known" in error.hint
    assert "the pinned one" in failure("node0", TARGET, 255, CHANGED, "").message


@pytest.mark.parametrize(
    ("stderr", "message", "hint"),
    [
        ("ssh: connect to host 192.0.2.7 port 2222: Connection refused", "nothing listens", "sshd"),
        ("ssh: connect to host 192.0.2.7 port 22: Connection timed out", "not answer", "firewall"),
        ("Connection timed out during banner exchange", "not answer", "machine on"),
        ("Connection to 192.0.2.7 port 2222 timed out", "not answer", "machine on"),
        ("ssh: connect to host 192.0.2.7 port 22: No route to host", "no route to", "network"),
        ("ssh: connect to host 192.0.2.7 port 22: Network is unreachable", "no route to", "mesh"),
        ("ssh: Could not resolve hostname gpu: Name or service not known", "resolve", "IP address"),
        ("ubuntu@192.0.2.7: Permission denied (publickey).", "ubuntu may not log in",
         "~ubuntu/.ssh/authorized_keys"),
        ("Received disconnect from 192.0.2.7 port 22:2: Too many authentication failures",
         "may not log in", "authorized_keys"),
        ("No ED25519 host key is known for node0 and you have requested strict checking.\n"
         "Host key verification failed.", "not known to this cluster", "/k/known"),
        ("Host key verification failed.", "refused", "compare"),
        ('unix_listener: path "/x" too long for Unix domain socket', "too long", "XDG_RUNTIME_DIR"),
        ("kex_exchange_identification: read: Connection reset by peer", "closed", "MaxStartups"),
        ("Connection closed by 192.0.2.7 port 2222", "before login", "MaxStartups"),
        ("sudo: a password is required", "sudo without a password", "NOPASSWD"),
        ("sudo: a terminal is required to read the password; either use the -S option",
         "sudo without a password", "/etc/sudoers.d"),
        ("ubuntu is not in the sudoers file.", "not in sudoers", "usermod -aG sudo ubuntu"),
        ("Sorry, user ubuntu is not allowed to execute '/bin/sh -c :' as root on n.",
         "not in sudoers", "usermod"),
        ("Sorry, try again.\nsudo: no password was provided\nsudo: 1 incorrect password attempt",
         "refused the password of ubuntu", "one password"),
        ("sudo: sorry, you must have a tty to run sudo", "requiretty", "!requiretty"),
        ("sudo: interactive authentication is required", "sudo without a password",
         "CORRAL_SUDO_PASSWORD_FILE"),
        ("sudo: Account or password is expired, reset your password and try again",
         "locked or expired", "chage -l ubuntu"),
        ("channel 0: open failed: administratively prohibited: open failed",
         "jump host does not forward to 192.0.2.7 port 2222", "AllowTcpForwarding"),
        ("sh: 1: exec: sudo: not found", "sudo is not installed", "root"),
        ("This account is currently not available.", "may not log in", "usermod -s /bin/sh ubuntu"),
        ("Load key \"/k/id\": error in libcrypto", "cannot read the private key", "private key"),
    ],
)  # fmt: skip
def test_causes(stderr: str, message: str, hint: str) -> None:
    error = failure("node0", TARGET, 255, stderr + "\n", "")
    assert error.code is Code.UNREACHABLE
    assert message in error.message
    assert hint in error.hint
    assert (error.node, error.status, error.tail) == ("node0", 255, stderr)
    assert error.command == "ssh -p 2222 ubuntu@192.0.2.7"


def test_a_login_shell_that_runs_nothing() -> None:
    error = failure("node0", TARGET, 1, "", "")
    assert "login shell ended with status 1" in error.message
    assert "usermod -s /bin/sh ubuntu" in error.hint


@pytest.mark.parametrize("status", [255, 0, -9, None])
def test_no_words_at_all(status: int | None) -> None:
    error = failure("node0", TARGET, status, "", "")
    assert error.code is Code.UNREACHABLE
    assert "broke" in error.message
    assert error.hint


@given(st.text(), st.integers(-64, 255) | st.none(), st.text())
def test_any_words_give_an_error_with_a_hint(stderr: str, status: int | None, known: str) -> None:
    error = failure("node0", TARGET, status, stderr, known)
    assert error.message
    assert error.hint
    assert "{" not in error.message + error.hint


@pytest.mark.parametrize(
    ("stderr", "word"),
    [
        ("alice@lab: Permission denied (publickey).", "corral login --identity FILE"),
        ("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @", "corral logout NAME"),
    ],
)
def test_a_user_without_root_gets_another_hint(stderr: str, word: str) -> None:
    user = SshTarget("lab", user="alice", privileged=False)
    assert word in failure("node0", user, 255, stderr, "").hint
    assert word not in failure("node0", SshTarget("lab", user="alice"), 255, stderr, "").hint
