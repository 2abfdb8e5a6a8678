"""Password login switched off, and every way in which that could lock somebody out."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.embedded.bare import CLUSTER, NODE, PASSWORD, Bare, bare, install
from tests.embedded.conftest import needs
from tests.embedded.loopback import until

from corral.apply.run import run_stages
from corral.errors import CorralError
from corral.hosts.fleet import Fleet
from corral.plan.make import make_plan
from corral.plan.model import Plan
from corral.state.base import Desired, DesiredStage, Seen
from corral.state.network.sshd import KeysOnly, confirmed


@pytest.fixture(scope="module")
def there() -> Iterator[Bare]:
    reason = needs()
    if reason:
        pytest.skip(reason)
    with bare() as host:
        yield host


@pytest.fixture
def control() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="cc") as folder:
        yield Path(folder)


@pytest.fixture
def keyed(there: Bare) -> Bare:
    done, _ = install(there, "free", PASSWORD)
    assert done.error is None
    return there


def plan_of(there: Bare, fleet: Fleet, trial: int) -> Plan:
    policy = KeysOnly(trial)
    probed = asyncio.run(fleet.run(NODE, policy.probe()))
    stage = DesiredStage("logins", "keys only", (Desired((NODE,), (policy,)),), (confirmed(NODE),))
    seen = {NODE: {policy.id: Seen(probed.status, probed.stdout.strip())}}
    return make_plan(cluster=CLUSTER, spec_digest="", stages=[stage], observed=seen)


def fleet_of(there: Bare, control: Path) -> Fleet:
    return Fleet({NODE: there.node("free", control)}, cluster=CLUSTER)


@pytest.fixture
def with_passwords(keyed: Bare) -> Iterator[Bare]:
    assert keyed.takes_passwords()
    yield keyed
    # Not reloaded: a second SIGHUP while sshd still restarts after a first one ends it.
    keyed.root("rm -f /etc/ssh/sshd_config.d/00-corral.conf; systemctl restart ssh")


def back(there: Bare) -> None:
    """Passwords come back on their own, within a minute of the change."""
    asyncio.run(until(there.takes_passwords, "sshd takes passwords again"))
    left = there.root(
        "while ls /etc/ssh/sshd_config.d /etc/systemd/system | grep corral; do sleep 0.2; done; "
        "systemctl list-timers --all | grep corral || :",
        timeout=60,
    )
    assert "corral-sshd-undo.timer" not in left.splitlines()[-1:]


def test_passwords_off_confirmed_by_a_new_login(with_passwords: Bare, control: Path) -> None:
    fleet = fleet_of(with_passwords, control)
    plan = plan_of(with_passwords, fleet, 40)
    asyncio.run(run_stages(Plan.from_dict(plan.as_dict()), fleet, lambda event: None))
    assert not with_passwords.takes_passwords()
    assert plan_of(with_passwords, fleet, 40).empty, "the second plan is empty"
    assert with_passwords.root("ls /etc/systemd/system | grep corral-sshd || :") == ""
    asyncio.run(fleet.close())


@pytest.mark.parametrize(
    "damage",
    [
        "mv ~free/.ssh/authorized_keys ~free/.ssh/gone",
        "chmod 777 /home/free ~free/.ssh",
        "usermod -s /usr/sbin/nologin free",
    ],
)
def test_a_key_that_stops_working_brings_passwords_back(
    with_passwords: Bare, control: Path, damage: str
) -> None:
    """The damage is done after the login that makes the change, so only the new one can notice."""
    there = with_passwords
    fleet = fleet_of(there, control)
    plan = plan_of(there, fleet, 5)
    there.root(damage)
    try:
        with pytest.raises(CorralError):
            asyncio.run(run_stages(plan, fleet, lambda event: None))
        back(there)
    finally:
        there.root(
            "mv ~free/.ssh/gone ~free/.ssh/authorized_keys 2>/dev/null; "
            "chmod 755 /home/free; chmod 700 ~free/.ssh; usermod -s /bin/bash free"
        )
        asyncio.run(fleet.close())


def test_corral_killed_or_cut_off_between_the_two(with_passwords: Bare, control: Path) -> None:
    """Nobody comes back to confirm: as after SIGKILL, and with the connection gone."""
    there = with_passwords
    fleet = fleet_of(there, control)
    plan = plan_of(there, fleet, 15)  # long enough to be looked at before it is over
    (entry,) = plan.stages[0].changes
    asyncio.run(fleet.run(NODE, entry.change.script))
    there.root("pkill -KILL -u free || :")
    assert not there.takes_passwords()
    back(there)
    asyncio.run(fleet.close())


@pytest.mark.slow
def test_a_reboot_within_the_trial(with_passwords: Bare, control: Path) -> None:
    """The power goes before anybody confirms; the machine undoes it after it is back."""
    there = with_passwords
    fleet = fleet_of(there, control)
    plan = plan_of(there, fleet, 40)
    (entry,) = plan.stages[0].changes
    asyncio.run(fleet.run(NODE, entry.change.script))
    asyncio.run(fleet.close())
    there.reboot()
    asyncio.run(until(there.answers, "sshd answers"))
    assert not there.takes_passwords(), "the change was on the disk: this boot began with it"
    back(there)


def test_the_default_trial_is_over_within_a_minute(with_passwords: Bare, control: Path) -> None:
    there = with_passwords
    fleet = fleet_of(there, control)
    plan = plan_of(there, fleet, KeysOnly().trial)
    (entry,) = plan.stages[0].changes
    asyncio.run(fleet.run(NODE, entry.change.script))
    timer = there.root(
        "systemctl show -P NextElapseUSecMonotonic corral-sshd-undo.timer; "
        "systemctl show -P AccuracyUSec corral-sshd-undo.timer; cat /proc/uptime"
    )
    assert "1s" in timer.split("\n")[1]
    assert there.root("systemctl is-enabled corral-sshd-undo.timer").strip() == "enabled"
    assert KeysOnly().trial + 1 < 60
    there.root("systemctl start corral-sshd-undo.service")
    back(there)
    asyncio.run(fleet.close())


def test_a_config_in_which_it_would_have_no_effect(with_passwords: Bare, control: Path) -> None:
    there = with_passwords
    conf = "/etc/ssh/sshd_config"
    there.root(f"cp {conf} {conf}.was; sed -i '1i PasswordAuthentication yes' {conf}")
    fleet = fleet_of(there, control)
    try:
        plan = plan_of(there, fleet, 5)
        with pytest.raises(CorralError) as caught:
            asyncio.run(run_stages(plan, fleet, lambda event: None))
        assert "has no effect" in caught.value.tail
        assert f"{conf}:1:PasswordAuthentication yes" in caught.value.tail
        back(there)
    finally:
        there.root(f"mv {conf}.was {conf}")
        asyncio.run(fleet.close())
