"""Login nodes that run no jobs get Slurm's commands by sackd."""

from __future__ import annotations

import pytest

from corral.errors import CorralError
from corral.plan.make import resources_of
from corral.roles.inventory import Site
from corral.roles.order import desired_stages
from corral.roles.slurm import login_nodes as role
from corral.spec.sections.people import Access
from corral.state.files import File
from corral.state.service import Service
from tests.unit.roles.test_cluster import apart, laptop, site


def fronted(**facts: object) -> Site:
    """The controller apart, and b0 in no partition but a login node."""
    spec = apart()
    changes = {"partitions": spec.partitions[:1], "access": Access(login="ctl,b0")}
    return site(spec.model_copy(update=changes), own_clock=True, **facts)


def test_a_login_node_follows_the_controller() -> None:
    held = resources_of(desired_stages(fronted()))
    text = next(r.content for r in held["b0"] if isinstance(r, File) and r.path == role.DEFAULTS)
    assert 'SACKD_OPTIONS="--conf-server 10.0.0.10:6817"' in text
    units = {n: {r.unit for r in rs if isinstance(r, Service)} for n, rs in held.items()}
    assert "sackd" in units["b0"]
    assert "slurmd" not in units["b0"]
    assert all("sackd" not in units[n] for n in ("ctl", "a0", "a1"))
    stage = next(s for s in desired_stages(fronted()) if s.name == "login")
    assert [g.node for g in stage.gates] == ["b0"]


def test_nodes_with_jobs_need_none() -> None:
    assert role.on_login_nodes(site(laptop(access=Access(login="node0,node1")))) == ()


def test_an_old_slurm_is_refused() -> None:
    with pytest.raises(CorralError, match="sackd"):
        role.on_login_nodes(fronted(slurm="22.05.8"))
