"""``corral down`` of the user's own machines: shown first, asked, folded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corral.api.lifecycle.machine_return import Returning
from corral.apply.restoration import Return, require_all
from corral.errors import Code, CorralError
from tests.unit.cli.conftest import Fake, Run, stdout_json

LAB = """\
corral: v1
name: lab
groups:
  - name: rtx
    provider: ssh
    nodes: node[0-2]
    addresses: 192.168.1.[10-12]
"""
RETURNING = Returning(
    (
        Return(
            "node0", (("would", "put back /etc/hosts"), ("kept", "/home/ada: the files of ada"))
        ),
        Return("node1", (("would", "put back /etc/hosts"),)),
        Return("node2", error=CorralError(Code.UNREACHABLE, "no route", node="node2")),
    ),
    ("7 ada node1",),
)


@pytest.fixture
def lab(tmp_path: Path) -> str:
    (tmp_path / "lab.yaml").write_text(LAB)
    return str(tmp_path / "lab.yaml")


def test_a_dry_run_shows_and_does_nothing(corral: Run, fake: Fake, lab: str) -> None:
    fake.answer("pending_release", RETURNING)
    fake.answer("down", ())
    result = corral("down", lab, "--dry-run")
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert lines[:5] == [
        "node[0-1] put back /etc/hosts",
        "node0 stays: /home/ada: the files of ada",
        "node2 cannot be asked: no route",
        "1 job (id, user, nodes) hold nodes:",
        "7 ada node1",
    ]
    assert not fake.calls["down"]
    assert stdout_json(corral("down", lab, "--dry-run", "--json"))["release"]["jobs"] == [
        "7 ada node1"
    ]


def test_it_is_shown_and_asked_before_it_is_done(corral: Run, fake: Fake, lab: str) -> None:
    fake.answer("pending_release", RETURNING)
    fake.answer("down", ("node0: did put back /etc/hosts", "node1: did put back /etc/hosts"))
    assert corral("down", lab).exit_code == 2
    assert not fake.calls["down"]
    result = corral("down", lab, "--yes", "--purge", "--force")
    assert "node[0-1]  put back /etc/hosts" in result.stdout
    assert fake.calls["down"][0][1] == {"purge": True, "force": True}


def test_machines_that_were_not_restored_are_named() -> None:
    require_all([Return("node0", (("did", "x"),))])
    bad: list[Any] = [Return("node1", (("left", "user slurm"),)), RETURNING.machines[2]]
    with pytest.raises(CorralError) as caught:
        require_all([RETURNING.machines[0], *bad])
    assert "node[1-2]" in caught.value.message
    assert "node1: user slurm" in caught.value.tail
