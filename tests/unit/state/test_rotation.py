"""The phases of slurm.jwks, by the real shell, in a scratch folder."""

from __future__ import annotations

import base64
import grp
import hashlib
import json
import os
import pwd
import re
import stat
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from corral.hosts.quote import Script, sh
from corral.state import secrets
from corral.state.base import Context, Seen
from corral.state.secrets import Secret
from tests.embedded.running_cluster import HALF_WRITTEN

ME = f"{pwd.getpwuid(os.getuid()).pw_name}:{grp.getgrgid(os.getgid()).gr_name}"


class Keys:
    def __init__(self, folder: Path) -> None:
        self.key = folder / "slurm.key"
        self.jwks = folder / "slurm.jwks"
        self.key.write_bytes(os.urandom(1024))

    def sh(self, script: Script, status: int = 0) -> str:
        done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True)
        assert done.returncode == status, done.stderr
        return done.stdout.strip()

    def phase(self) -> str:
        return self.sh(secrets.phase(str(self.jwks)))

    def announce(self) -> None:
        self.sh(secrets.announce(str(self.jwks), str(self.key), ME))

    def promote(self) -> None:
        self.sh(secrets.promote(str(self.jwks), ME))

    def retire(self) -> None:
        self.sh(secrets.retire(str(self.jwks), str(self.key), ME))

    def read(self) -> list[dict[str, Any]]:
        assert stat.S_IMODE(self.jwks.stat().st_mode) == 0o600
        keys: list[dict[str, Any]] = json.loads(self.jwks.read_text())["keys"]
        for key in keys:
            raw = base64.b64decode(key["k"])
            assert key["kid"] == hashlib.sha256(raw).hexdigest()[:16]
            assert (key["alg"], key["kty"]) == ("HS256", "oct")
        return keys


@pytest.fixture
def keys(hostile_tmp_path: Path) -> Keys:
    return Keys(hostile_tmp_path)


def test_the_first_rotation_keeps_the_old_key_until_it_expires(keys: Keys) -> None:
    was = keys.key.read_bytes()
    assert keys.phase() == "none"
    keys.announce()
    old, new = keys.read()
    assert keys.phase() == "announced"
    assert base64.b64decode(old["k"]) == was
    assert (old.get("use"), new.get("use")) == ("default", None)
    assert len(base64.b64decode(new["k"])) == 256
    keys.promote()
    assert keys.phase() == "promoted"
    assert [k.get("use") for k in keys.read()] == [None, "default"]
    assert [k["k"] for k in keys.read()] == [old["k"], new["k"]]
    keys.retire()
    assert keys.phase() == "rotated"
    retired, signs = keys.read()
    left = retired["exp"] - time.time()
    assert secrets.OVERLAP_S - 60 < left <= secrets.OVERLAP_S
    assert (signs["use"], signs["k"], "exp" in signs) == ("default", new["k"], False)
    assert keys.key.read_bytes() == base64.b64decode(new["k"])


def test_the_next_rotation_forgets_the_key_before(keys: Keys) -> None:
    for _ in range(2):
        before = keys.key.read_bytes()
        keys.announce()
        assert base64.b64decode(keys.read()[0]["k"]) == before
        keys.promote()
        keys.retire()
    assert len(keys.read()) == 2


def test_each_phase_done_again_changes_nothing(keys: Keys) -> None:
    """So a rotation that was killed goes through them again from the first."""
    keys.announce()
    announced = keys.jwks.read_text()
    keys.announce()
    assert keys.jwks.read_text() == announced
    keys.promote()
    promoted = keys.jwks.read_text()
    keys.announce()
    keys.promote()
    assert keys.jwks.read_text() == promoted
    keys.retire()
    retired = keys.jwks.read_text()
    keys.promote()
    keys.retire()
    assert keys.jwks.read_text() == retired


def test_no_phase_is_skipped_and_a_file_of_somebody_else_is_left_alone(keys: Keys) -> None:
    keys.sh(secrets.promote(str(keys.jwks), ME), status=1)
    keys.announce()
    keys.sh(secrets.retire(str(keys.jwks), str(keys.key), ME), status=1)
    keys.jwks.write_text('{"keys": []}\n')
    assert keys.phase() == "foreign"
    keys.sh(secrets.announce(str(keys.jwks), str(keys.key), ME), status=1)
    assert keys.jwks.read_text() == '{"keys": []}\n'


def test_a_next_key_is_made_once(keys: Keys) -> None:
    script = secrets.prepare(str(keys.key), 64, ME, "400")
    keys.sh(script)
    coming = Path(f"{keys.key}{secrets.NEXT}")
    first = coming.read_bytes()
    assert len(first) == 64
    keys.sh(script)
    assert coming.read_bytes() == first


@pytest.mark.parametrize("step", ["announce", "replace", "prepare", "make", "copy"])
def test_the_tests_know_what_a_killed_rotation_leaves(keys: Keys, step: str) -> None:
    """tests/embedded/test_keys_rotate.py looks for it on nodes, and saw nothing of mktemp's."""
    path = str(keys.key)
    made = Secret(f"{path}.x", "node0", ME).diff(Seen(0, "absent"), Context("node0"))
    copied = Secret(path, "node0", ME).diff(Seen(0, "other 600 x"), Context("node1"))
    assert made is not None and copied is not None
    script = {
        "announce": secrets.announce(str(keys.jwks), path, ME),
        "replace": secrets.replace(path, 64, ME, "600"),
        "prepare": secrets.prepare(path, 64, ME, "400"),
        "make": made.script,
        "copy": copied.script,
    }[step]
    killed = subprocess.run(
        ["/bin/sh", "-c", sh("chown() {{ kill -9 0; }}; {s}", s=script)],
        input=b"3\nabc",
        check=False,
        start_new_session=True,
    )
    assert killed.returncode == -9
    (left,) = (f.name for f in keys.key.parent.iterdir() if f != keys.key)
    assert re.search(HALF_WRITTEN, left), left
    matched = subprocess.run(["grep", "-E", HALF_WRITTEN], input=f"{left}\n".encode(), check=False)
    assert matched.returncode == 0
    assert not re.search(HALF_WRITTEN, "slurm.conf slurm.key slurm.jwks munge.key jwt_hs256.key")
