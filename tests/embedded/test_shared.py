"""Shared storage with users who are not friends: who comes first does not own the others' files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.embedded.conftest import named

from corral import api
from corral.errors import Code, CorralError
from corral.hosts.quote import Script, sh
from corral.prove.context import as_user
from corral.spec.sections.people import User

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

    from corral.spec.models import ClusterSpec

PEOPLE = (User(name="alice", uid=2001), User(name="mallory", uid=2002))
SQUAT = """\
mkdir -p /shared/corral/jobs/alice /shared/corral/envs /shared/corral/data
chmod -R 777 /shared/corral
echo poisoned > /shared/corral/mark"""


@pytest.fixture(scope="module")
def lab(fresh_cluster: Callable[[ClusterSpec], Live]) -> Iterator[Live]:
    yield fresh_cluster(named("shared-users", users=PEOPLE))


def done(lab: Live, user: str, script: Script) -> str:
    result = lab.run(lab.controller, as_user(user, script))
    return "ok" if result.ok else result.stderr


def ran(lab: Live, script: Path, user: str) -> object:
    job = api.job_spec({"script": str(script), "user": user, "folder": "none"})
    return asyncio.run(api.run(lab.spec, job))


def test_up_made_folders_that_no_user_can_take(lab: Live) -> None:
    listing = lab.run(
        lab.controller, sh("stat -c '%n %u %a' /shared /shared/corral /shared/corral/jobs/*")
    )
    assert listing.stdout.split("\n")[:4] == [
        "/shared 0 1777",
        "/shared/corral 0 755",
        "/shared/corral/jobs/alice 2001 700",
        "/shared/corral/jobs/mallory 2002 700",
    ]
    for script in (
        sh("mv /shared/corral /shared/mine"),
        sh("ln -sfnT /tmp /shared/corral"),
        sh("rmdir /shared/corral/envs/alice"),
        sh("mkdir /shared/corral/jobs/eve"),
        sh("ls /shared/corral/jobs/alice"),
        sh("touch /shared/corral/jobs/alice/x"),
    ):
        assert done(lab, "mallory", script) != "ok", script
    assert done(lab, "mallory", sh("mkdir /shared/mallorys && ls /shared")) == "ok"


def test_a_squatter_blocks_nobody_for_long_and_reads_nothing(lab: Live, tmp_path: Path) -> None:
    """As on storage that was there before Corral: the folder is a user's by the first job."""
    script = tmp_path / "secret.py"
    script.write_text("print('a secret of alice')\n")
    lab.run(lab.controller, sh("rm -rf /shared/corral"))
    assert done(lab, "mallory", Script(SQUAT)) == "ok"
    with pytest.raises(CorralError) as caught:
        ran(lab, script, "alice")
    assert caught.value.code is Code.NOT_GOOD
    assert "/shared/corral belongs to mallory" in caught.value.message
    assert "corral up" in caught.value.hint
    for user in ("mallory", "root"):
        probe = lab.run(lab.controller, sh("grep -rl 'secret of alice' /shared || :"))
        assert probe.stdout == "", user
    report = asyncio.run(api.doctor(lab.spec))
    assert "F230" in [finding.failure.id for finding in report.findings]
    assert asyncio.run(api.up(lab.spec))
    assert getattr(ran(lab, script, "alice"), "good", False)
    assert done(lab, "mallory", sh("grep -r secret /shared/corral/jobs")) != "ok"
    aside = lab.run(lab.controller, sh("cat /shared/corral.of-2002.*/mark")).stdout
    assert aside == "poisoned\n"
    assert asyncio.run(api.plan(lab.spec)).empty


def test_storage_without_the_sticky_bit_runs_nobodys_code(lab: Live, tmp_path: Path) -> None:
    """Any user could rename corral away and put their own there."""
    script = tmp_path / "job.py"
    script.write_text("print('alice')\n")
    assert lab.run(lab.controller, sh("chmod 0777 /shared")).ok
    swap = sh("cd /shared && mv corral hers && cp -r hers corral")
    assert (
        done(lab, "mallory", sh("mv /shared/corral /shared/x && mv /shared/x /shared/corral"))
        == "ok"
    )
    with pytest.raises(CorralError) as caught:
        ran(lab, script, "alice")
    assert "/shared is open to others (mode 777) without the sticky bit" in caught.value.message
    assert "chmod 1777 /shared" in caught.value.hint
    report = asyncio.run(api.doctor(lab.spec))
    assert "F230" in [finding.failure.id for finding in report.findings]
    assert not asyncio.run(api.plan(lab.spec)).empty
    assert asyncio.run(api.up(lab.spec))
    assert asyncio.run(api.plan(lab.spec)).empty
    assert done(lab, "mallory", swap) != "ok"
    assert getattr(ran(lab, script, "alice"), "good", False)
