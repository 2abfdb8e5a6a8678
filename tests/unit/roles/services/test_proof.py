"""What a cluster is given for its scheduled proof."""

from __future__ import annotations

import pytest

from corral.roles.inventory import Site
from corral.roles.order import configured
from corral.roles.order import desired_stages as desired_stages_of
from corral.roles.services import proof
from corral.spec.models import Slurm
from corral.spec.sections.services import ScheduledProof
from corral.state.base import Context, Seen
from corral.state.service import Timer
from tests.unit.roles.test_cluster import laptop, site
from tests.unit.state import shell


@pytest.fixture
def scheduled() -> Site:
    return site(laptop(proof=ScheduledProof(every="1d", minutes=7)))


def test_nothing_without_a_schedule() -> None:
    base = site(laptop())
    assert proof.partition(base) == ()
    assert proof.users(site(laptop(slurm=Slurm(accounting=False)))) == ()
    (share,) = proof.on_controller(base)
    (entry,) = share.desired
    assert entry.nodes == (base.controller,)
    assert [r.id for r in entry.resources if not r.id.startswith("file:")] == ["timer:corral-proof"]


def test_a_partition_below_all_others(scheduled: Site) -> None:
    (partition,) = [p for p in configured(scheduled).conf.partitions if p.background_group]
    assert (partition.name, partition.max_time) == ("corral-proof", "00:07:00")
    assert not partition.default
    assert partition.nodes == tuple(n.name for n in scheduled.compute)
    ids = [
        r.id for stage in desired_stages_of(scheduled) for w in stage.desired for r in w.resources
    ]
    assert "user:corral-proof" in ids


def test_the_round_reads_nodes_and_folders(scheduled: Site) -> None:
    lines = proof.settings(scheduled).splitlines()
    assert "minutes 7" in lines
    assert next(line for line in lines if line.startswith("node ")).split()[1] == "node0"
    assert "drain no" in lines  # embedded nodes share one machine
    assert "@GPU@" not in proof.node_program()
    assert (
        "CORRAL_GPU_PROGRAM"
        not in proof.node_program()
        .split("<<'CORRAL_GPU_PROGRAM'")[1]
        .split("\nCORRAL_GPU_PROGRAM\n")[0]
    )


@pytest.mark.parametrize(
    ("seen", "on", "verb"),
    [
        ("enabled active no", True, ""),
        ("enabled active yes", True, "start"),
        ("enabled inactive no", True, "start"),
        ("not-found inactive no", True, "start"),
        ("not-found inactive no", False, ""),
        ("enabled active no", False, "stop"),
    ],
)
def test_timer(seen: str, on: bool, verb: str) -> None:
    change = Timer("t", on).diff(Seen(0, seen), Context("n"))
    assert (change.summary.split()[0] if change else "") == verb


def test_a_machine_without_systemd_has_no_timer() -> None:
    assert shell.diff(Timer("corral-no-such", on=False)) is None
