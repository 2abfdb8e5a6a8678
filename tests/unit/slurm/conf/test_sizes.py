"""Settings by the number of compute nodes; what roles and the cluster file give counts more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from corral.slurm.conf.conf_file import Setting
from corral.slurm.conf.sizes import by_size
from corral.slurm.version import SlurmVersion
from tests.unit.slurm.clusters import DGX, LAPTOP, nodes, render

NOW = SlurmVersion(24, 11, 5)


def sized(count: int, version: SlurmVersion = NOW) -> dict[str, str]:
    return {setting.key: setting.value for setting in by_size(count, version)}


@pytest.mark.parametrize(
    ("count", "keys"),
    [
        (0, set[str]()),
        (1, {"SchedulerParameters"}),
        (1024, {"SchedulerParameters"}),
        (1025, {"MessageTimeout", "SlurmctldParameters", "SchedulerParameters"}),
        (4368, {"MessageTimeout", "SlurmctldParameters", "SchedulerParameters"}),
        (4369, {"TreeWidth", "MessageTimeout", "SlurmctldParameters", "SchedulerParameters"}),
    ],
)
def test_which_settings_a_size_has(count: int, keys: set[str]) -> None:
    assert sized(count).keys() == keys


@pytest.mark.parametrize(
    ("count", "width"), [(4913, "17"), (4914, "18"), (10_000, "22"), (65_536, "41")]
)
def test_the_width_is_the_cube_root(count: int, width: str) -> None:
    assert sized(count)["TreeWidth"] == width


def test_a_release_without_the_word_does_not_get_it() -> None:
    assert "SlurmctldParameters" not in sized(10_000, SlurmVersion(24, 5))
    assert "SchedulerParameters" in sized(10_000, SlurmVersion(24, 5))


def test_they_take_the_place_of_defaults_and_join_lists() -> None:
    members = nodes(1025, replace(DGX, name="dgx"), "10.2.0")
    names = tuple(node.name for node in members)
    large = replace(LAPTOP, nodes=members, partitions=(replace(LAPTOP.partitions[0], nodes=names),))
    text = render(large)["slurm.conf"]
    assert "MessageTimeout=60\n" in text and "MessageTimeout=30\n" not in text
    assert "SlurmctldParameters=conmgr_max_connections=4096,enable_configless\n" in text
    declared = (Setting("MessageTimeout", "90"), Setting("SchedulerParameters", "max_rpc_cnt=40"))
    text = render(replace(large, declared=declared))["slurm.conf"]
    assert "MessageTimeout=90\n" in text
    assert "SchedulerParameters=bf_continue,max_rpc_cnt=40\n" in text
    role = (Setting("MessageTimeout", "45"),)
    assert "MessageTimeout=45\n" in render(replace(large, settings=role))["slurm.conf"]
