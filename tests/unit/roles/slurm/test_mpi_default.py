"""How srun starts ranks where nobody names a kind of MPI."""

from __future__ import annotations

from dataclasses import replace

from corral.roles.inventory import Site
from corral.roles.slurm_conf import cluster_conf
from tests.unit.roles.slurm.test_slurm_packages import debs
from tests.unit.roles.test_cluster import laptop, site


def pmix(cluster: Site) -> bool:
    return cluster_conf(cluster, ()).pmix


def test_pmix_needs_every_node_and_packages_of_which_it_is_known() -> None:
    here = site(laptop())
    assert not pmix(here)
    every = replace(here, facts={n: replace(f, pmix=True) for n, f in here.facts.items()})
    assert pmix(every)
    last = here.names[-1]
    one_less = replace(every, facts={**every.facts, last: here.facts[last]})
    assert not pmix(one_less)
    assert not pmix(replace(every, debs=debs()))
