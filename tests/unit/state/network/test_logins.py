"""Password login off: observed states, the change and its guard, and the gate in saved plans."""

from __future__ import annotations

import subprocess

import pytest

from corral.hosts.quote import Script
from corral.plan.make import make_plan
from corral.plan.model import Plan
from corral.state.base import (
    Context,
    Desired,
    DesiredStage,
    Seen,
)
from corral.state.network.sshd import TRIAL_S, KeysOnly, confirmed


@pytest.mark.parametrize(
    ("seen", "change"),
    [("off", False), ("on", True), ("off\ntrial", True), ("on\ntrial", True), ("", True)],
)
def test_only_off_and_confirmed_is_right(seen: str, change: bool) -> None:
    planned = KeysOnly().diff(Seen(0, seen), Context("node0"))
    assert (planned is not None) is change


def test_the_guard_starts_before_the_change() -> None:
    change = KeysOnly().diff(Seen(0, "on"), Context("node0"))
    assert change is not None
    text = str(change.script)
    order = (
        "systemctl restart",
        "systemctl is-active",
        "\ntrial_guard corral-sshd-undo.timer",
        "|| exit 1\n",
        "sshd -t",
        "\nkeys_only_try /etc/ssh/sshd_config.d/00-corral.conf",
    )
    assert [text.index(words) for words in order] == sorted(text.index(words) for words in order)
    assert change.keeps == ("file:/etc/ssh/sshd_config.d/00-corral.conf",)
    assert TRIAL_S < 55
    assert f"OnActiveSec={TRIAL_S}" in text


def test_the_gate_comes_alone_and_a_saved_plan_knows_it() -> None:
    policy = KeysOnly()
    stage = DesiredStage("logins", "x", (Desired(("node0",), (policy,)),), (confirmed("node0"),))
    plan = make_plan(
        cluster="c", spec_digest="", stages=[stage], observed={"node0": {policy.id: Seen(0, "on")}}
    )
    again = Plan.from_dict(plan.as_dict())
    assert again == plan
    assert [g.alone for g in again.stages[0].gates] == [True]


def test_the_scripts_are_posix_shell() -> None:
    change = KeysOnly().diff(Seen(0, "on"), Context("node0"))
    assert change is not None
    for script in (KeysOnly().probe(), change.script, confirmed("node0").script):
        assert isinstance(script, Script)
        subprocess.run(["sh", "-n"], input=script, text=True, check=True)
