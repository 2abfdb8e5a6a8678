"""What nodes are given for windows of jobs."""

from __future__ import annotations

from corral.roles.slurm import x11
from tests.unit.roles.test_cluster import laptop, site


def test_the_flag_and_xauth_on_all_nodes_or_neither() -> None:
    base = site(laptop())
    assert x11.on_nodes(base) == ()
    assert not x11.slurm_conf(base).settings
    slurm = base.spec.slurm.model_copy(update={"x11": True})
    on = site(laptop(slurm=slurm))
    (share,) = x11.on_nodes(on)
    assert share.desired[0].nodes == on.names
    assert [resource.id for resource in share.desired[0].resources] == ["packages:x11"]
    assert [(s.key, s.value) for s in x11.slurm_conf(on).settings] == [("PrologFlags", "X11")]
