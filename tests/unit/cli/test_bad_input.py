"""What no longer works: each verb of a profile names it in one sentence, with the way out.

ssh is a program that is played: it ends as OpenSSH does, with what sshd and PAM make it print.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from corral.api.config.profiles import FILE, KNOWN_HOSTS, keep, place_of
from corral.cli.terminal.exit_status import ended
from corral.errors import CorralError
from corral.hosts.openssh import _with_expiry
from corral.hosts.ssh_errors import failure
from corral.hosts.sshkeys import expired_certificate, known_hosts_line, make_key
from corral.hosts.target import SshTarget
from corral.hosts.transport import Result as Ran
from corral.hosts.transport import check
from corral.spec.client import FORMAT, Profile, public_part
from corral.spec.models import ClusterSpec
from tests.unit.cli.conftest import Run

VERBS = {
    "run": ("run", "-c", "lab", "--", "hostname"),
    "jobs": ("jobs", "-c", "lab"),
    "logs": ("logs", "7", "-c", "lab"),
    "cancel": ("cancel", "7", "-c", "lab"),
    "status": ("status", "-c", "lab"),
}
"""What each use of a profile begins with; the others go the same way."""
DENIED = "alice@lab.example: Permission denied (publickey)."
REFUSED = {
    "an unknown key": (DENIED, "alice may not log in with this key", "--identity FILE"),
    "an account that has expired": (
        "Your account has expired; please contact your system administrator.\n"
        "Connection closed by 192.0.2.7 port 22",
        "the account alice has expired",
        "an administrator extends the account alice",
    ),
    "a password that has expired": (
        "WARNING: Your password has expired.\nPassword change required but no TTY available.",
        "the password of alice has expired",
        "ssh alice@192.0.2.7",
    ),
    "an account that is closed": (
        "This account is currently not available.",
        "alice may not log in: its shell refuses",
        "an administrator looks at the account alice",
    ),
}


@pytest.fixture
def profile(spec: ClusterSpec, tmp_path: Path) -> Profile:
    """Of a login with a key, which is there."""
    key = tmp_path / "id_lab"
    host_key = make_key(key, "alice")
    made = Profile(
        name="lab",
        uid=2001,
        user="alice",
        node="node0",
        cluster=public_part(spec),
        host="192.0.2.7",
        identity=str(key),
        corral="0.1.0",
    )
    keep(made, known_hosts_line("node0", host_key))
    return made


def plays_ssh(folder: Path, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = folder / "programs"
    programs.mkdir()
    ssh = programs / "ssh"
    ssh.write_text(f"#!/bin/sh\ncat >/dev/null\ncat >&2 <<'END'\n{message}\nEND\nexit 255\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")


def assert_one_sentence(done: Result, status: int, sentence: str, remedy: str) -> None:
    text = " ".join(done.output.split())
    assert done.exit_code == status, done.output
    assert sentence in text
    assert remedy in text
    assert "Traceback" not in text
    assert "bug in Corral" not in text


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("case", REFUSED)
def test_a_login_that_is_refused(
    corral: Run,
    profile: Profile,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    verb: str,
    case: str,
) -> None:
    message, sentence, remedy = REFUSED[case]
    plays_ssh(tmp_path, message, monkeypatch)
    assert_one_sentence(corral(*VERBS[verb]), 3, sentence, remedy)


def certified(key: Path, valid: str) -> None:
    """A certificate for a key, of an authority of this test's own."""
    authority = key.with_name("authority")
    make_key(authority, "authority")
    words = ["ssh-keygen", "-q", "-s", str(authority), "-I", "alice", "-n", "alice", "-V", valid]
    subprocess.run([*words, f"{key}.pub"], check=True, timeout=30)


@pytest.mark.parametrize("verb", VERBS)
def test_a_certificate_that_has_expired(
    corral: Run, profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    certified(Path(profile.identity), "20200101:20200102")
    plays_ssh(tmp_path, DENIED, monkeypatch)
    sentence = (
        "alice may not log in with this key (its certificate also expired at 2020-01-02 00:00:00)"
    )
    done = corral(*VERBS[verb])
    assert_one_sentence(done, 3, sentence, "--identity FILE")
    assert "whoever signs yours" in " ".join(done.output.split())


def test_a_certificate_that_perhaps_was_not_used_is_only_a_possibility(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No key is named: ssh may have offered another one, of an agent or of its config."""
    monkeypatch.setenv("HOME", str(tmp_path))
    key = tmp_path / ".ssh" / "id_ed25519"
    key.parent.mkdir()
    make_key(key, "alice")
    target = SshTarget("192.0.2.7", user="alice")
    denied = failure("node0", target, 255, DENIED, "")
    certified(key, "20200101:20200102")
    error = _with_expiry(failure("node0", target, 255, DENIED, ""), target)
    assert error.message == denied.message
    assert error.hint.startswith(denied.hint)
    assert f"if {key} is meant: its certificate expired at 2020-01-02 00:00:00" in error.hint
    assert "whoever signs yours" in error.hint
    named = replace(target, key=tmp_path / "id_lab")
    error = _with_expiry(failure("node0", named, 255, DENIED, ""), named)
    assert (error.message, error.hint) == (denied.message, denied.hint)


def test_a_certificate_that_is_valid_is_not_blamed(tmp_path: Path) -> None:
    key, now = tmp_path / "id", datetime(2026, 5, 1)  # as ssh-keygen prints it
    make_key(key, "alice")
    assert expired_certificate(key, now) == ""
    certified(key, "20260101:20270101")
    assert expired_certificate(key, now) == ""
    assert expired_certificate(key, now + timedelta(days=365)) == "2027-01-01 00:00:00"
    certified(key, "always:forever")
    assert expired_certificate(key, now) == ""


FULL = {
    "tar: lab/code/a: Cannot write: Disk quota exceeded": "the quota is used up",
    "mkdir: cannot create directory 'x': Disk quota exceeded": "the quota is used up",
    "tar: a: Cannot write: No space left on device\nthe archive could not be unpacked": (
        "no space is left"
    ),
    "sh: 1: echo: echo: I/O error": "",
}


@pytest.mark.parametrize("message", FULL)
def test_no_room_on_the_cluster(message: str) -> None:
    with pytest.raises(CorralError) as caught:
        check(Ran("node0", 1, "", message), "writing the job's files", hint="is it writable?")
    assert (
        caught.value.message.removeprefix("writing the job's files failed").removeprefix(": ")
        == FULL[message]
    )
    assert ("ask an administrator for more" in caught.value.hint) is bool(FULL[message])


def test_the_kernels_own_words_for_no_room() -> None:
    words = ["sh", "-c", "LC_ALL=C tar -cf /dev/full /dev/null || cat /etc/hostname >/dev/full"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    with pytest.raises(CorralError, match="failed: no space is left"):
        check(Ran("node0", done.returncode or 1, "", done.stderr), "writing")


@pytest.mark.parametrize(
    ("number", "sentence"),
    [(errno.ENOSPC, "no space is left"), (errno.EDQUOT, "the quota is used up")],
)
def test_no_room_on_this_machine(
    capsys: pytest.CaptureFixture[str], number: int, sentence: str
) -> None:
    error = OSError(number, os.strerror(number), "/srv/alice/.local/state/corral/x")
    assert ended(error, ["jobs"]) == 3
    text = " ".join(capsys.readouterr().err.split())
    assert f"{sentence} on this machine for /srv/alice" in text
    assert "CORRAL_STATE_DIR" in text
    assert "bug in Corral" not in text


OLD: dict[str, dict[str, Any]] = {
    "a field of the profile that went away": {"sudo": True},
    "a field of the cluster that went away": {"cluster": {"corral": "v1", "slurmd": 1}},
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("case", OLD)
def test_a_profile_of_an_older_corral(corral: Run, profile: Profile, case: str, verb: str) -> None:
    written = profile.model_dump(mode="json") | {"corral": "0.0.9"} | OLD[case]
    file = place_of("lab") / FILE

    file.write_text(json.dumps(written))
    assert (file.parent / KNOWN_HOSTS).is_file()
    done = corral(*VERBS[verb])
    assert_one_sentence(done, 3, "profile lab is of an older Corral 0.0.9", "corral login")
    assert "update Corral" not in done.output


def test_a_profile_of_a_newer_corral_is_no_older_ones(corral: Run, profile: Profile) -> None:

    written = profile.model_dump(mode="json") | {"corral": "99.0", "format": FORMAT + 1}
    (place_of("lab") / FILE).write_text(json.dumps(written))
    done = corral("jobs", "-c", "lab")
    assert_one_sentence(done, 3, "is of a newer Corral 99.0", "update Corral on this machine")
