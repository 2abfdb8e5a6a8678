"""Where Slurm comes from, and the stages of an upgrade."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from corral.errors import CorralError
from corral.plan.make import make_plan
from corral.plan.model import Plan
from corral.roles.inventory import Site
from corral.roles.order import desired_stages
from corral.roles.slurm import packages as slurm_packages
from corral.slurm.packages import NAMES, DebSet, Family, Part, deb_set
from corral.spec.impacts import Impact
from corral.spec.models import Slurm
from corral.spec.sections.software import EnrootPackage, Pyxis, PyxisSource, Software
from corral.state.base import HERE, Context, Seen
from corral.state.packages import SlurmPackages
from corral.state.system.enroot import PyxisPlugin
from tests.unit.roles.test_cluster import apart, laptop, people, site

PYXIS = Pyxis(
    enroot=(EnrootPackage(file="/srv/enroot_4.1.2-1_amd64.deb", sha256="0" * 64),),
    source=PyxisSource(file="/srv/pyxis-0.24.0.tar.gz", sha256="0" * 64),
)


def debs(version: str = "26.05.5-1", family: Family = Family.DISTRIBUTION) -> DebSet:
    names = [n for part in NAMES[family].values() for n in part]
    files = {f"{n}_{version}_amd64.deb": f"{i:064x}" for i, n in enumerate(names)}
    return deb_set(files, "/debs", list(Part))


def of(cluster: Site, version: str = "26.05.5-1", **installed: str) -> Site:
    facts = {n: replace(f, slurm=installed.get(n, f.slurm)) for n, f in cluster.facts.items()}
    return replace(cluster, debs=debs(version), facts=facts)


def plan(cluster: Site) -> Plan:
    """The plan of machines of which nothing but the facts is known, except their packages."""
    stages = desired_stages(cluster)
    seen: dict[str, dict[str, Seen]] = {n: {} for n in cluster.names}
    for stage in stages:
        for entry in stage.desired:
            for resource in entry.resources:
                for node in entry.nodes:
                    has = cluster.facts[node].slurm
                    text = "absent"
                    if isinstance(resource, SlurmPackages) and has:
                        text = "\n".join(f"installed {n} {has}-1" for n in resource.names)
                    if resource.id == "service:slurmd" and has:
                        text = "enabled running current"
                    seen[node][resource.id] = Seen(0, text)
    return make_plan(cluster="x", spec_digest="", stages=stages, observed=seen)


def changes(cluster: Site, resource: str) -> list[tuple[str, tuple[str, ...], str]]:
    return [
        (s.name, c.nodes, c.change.summary)
        for s in plan(cluster).stages
        for c in s.changes
        if c.change.resource == resource
    ]


def test_bare_machines_get_the_set_at_once() -> None:
    cluster = of(site(laptop(), slurm=""))
    installs = changes(cluster, "packages:slurm")
    assert [(stage, nodes) for stage, nodes, _ in installs] == [
        ("base", ("node0",)),
        ("base", ("node1", "node2")),
    ]
    assert installs[0][2].startswith("install Slurm 26.05.5-1: slurm-client, slurmctld")
    assert not [s.name for s in desired_stages(cluster) if s.name.startswith("upgrade")]


@pytest.mark.parametrize("family", list(Family))
def test_logins_by_job_take_the_module_of_the_set(family: Family) -> None:
    cluster = site(people(), slurm="")
    module = NAMES[family][Part.ADOPT][0]
    bare = replace(cluster, debs=debs(family=family))
    summaries = {nodes: text for _, nodes, text in changes(bare, "packages:slurm")}
    assert {nodes: module in text for nodes, text in summaries.items()} == {
        ("ctl",): False,
        ("a0", "a1", "b0"): True,
    }
    # Else apt would bring the distribution's, which belongs to another Slurm.
    assert not changes(bare, "packages:access")
    assert changes(site(people()), "packages:access")


def test_a_set_without_the_module_is_refused_where_it_is_needed() -> None:
    names = [n for n in NAMES[Family.SCHEDMD] if n is not Part.ADOPT]
    files = {
        f"{name}_26.05.5-1_amd64.deb": "0" * 64
        for part in names
        for name in NAMES[Family.SCHEDMD][part]
    }
    with pytest.raises(CorralError) as refused:
        deb_set(files, "/debs", slurm_packages.parts_of_spec(people()))
    assert "lacks slurm-smd-libpam-slurm-adopt" in refused.value.message
    deb_set(files, "/debs", slurm_packages.parts_of_spec(apart()))


@pytest.mark.parametrize("family", list(Family))
def test_a_set_brings_the_headers_that_pyxis_is_compiled_against(family: Family) -> None:
    """Else apt would bring the distribution's, and Slurm refuses a plugin of another release."""
    spec = laptop(software=Software(containers="pyxis", pyxis=PYXIS))
    (headers,) = NAMES[family][Part.HEADERS]
    files = {f"{n}_26.05.5-1_amd64.deb": "0" * 64 for part in Part for n in NAMES[family][part]}
    packages = deb_set(files, "/debs", slurm_packages.parts_of_spec(spec))
    assert headers in {d.name for d in packages.debs}
    cluster = replace(of(site(spec, cgroup="v2")), debs=packages)
    plugins = [
        (s.name, w.nodes, r)
        for s in desired_stages(cluster)
        for w in s.desired
        for r in w.resources
        if isinstance(r, PyxisPlugin)
    ]
    # Each machine in the stage that brings its Slurm, or in one after it.
    assert [(s, nodes) for s, nodes, _ in plugins] == [
        ("containers", ("node0",)),
        ("upgrade-2", ("node1", "node2")),
    ]
    assert {r.headers for _, _, r in plugins} == {headers}
    del files[f"{headers}_26.05.5-1_amd64.deb"]
    with pytest.raises(CorralError, match=f"lacks {headers}"):
        deb_set(files, "/debs", slurm_packages.parts_of_spec(spec))
    assert deb_set(files, "/debs", slurm_packages.parts_of_spec(laptop()))


def test_an_upgrade_goes_from_slurmdbd_to_the_nodes() -> None:
    cluster = of(site(laptop()))
    names = [s.name for s in desired_stages(cluster)]
    order = ["upgrade-controller", "accounting", "controller", "upgrade-1", "upgrade-2", "compute"]
    assert [n for n in names if n in order] == order
    upgrades = changes(cluster, "packages:slurm")
    assert [(stage, nodes) for stage, nodes, _ in upgrades] == [
        ("upgrade-controller", ("node0",)),
        ("upgrade-2", ("node1", "node2")),
    ]
    assert upgrades[0][2].startswith(
        "upgrade Slurm 24.11.5-1 to 26.05.5-1: slurm-client, slurmctld"
    )


def test_copies_are_made_before_anything_is_replaced() -> None:
    stage = next(s for s in plan(of(site(laptop()))).stages if s.name == "upgrade-controller")
    kinds = [c.change.resource.partition(":")[0] for c in stage.changes]
    assert kinds == ["backup", "packages"]
    assert "slurm_acct_db" in stage.changes[0].change.script
    bare = of(site(laptop(slurm=Slurm(accounting=False, rest=False))))
    stage = next(s for s in plan(bare).stages if s.name == "upgrade-controller")
    assert " whole '' /var/spool/slurmctld\n" in stage.changes[0].change.script


def test_each_slurmd_restarts_once_and_after_its_packages() -> None:
    restarts = changes(of(site(laptop())), "service:slurmd")
    assert [(stage, nodes) for stage, nodes, _ in restarts] == [
        ("upgrade-1", ("node0",)),
        ("upgrade-2", ("node1", "node2")),
    ]


def test_batches_begin_with_one_node() -> None:
    cluster = of(site(apart(), slurm="24.11.5"))
    stages = [s for s in desired_stages(cluster) if s.name.startswith("upgrade-") and s.gates]
    assert [s.gates[0].name for s in stages] == [
        "slurmd 26.05.5 runs on a0",
        "slurmd 26.05.5 runs on a1,b0",
    ]


def test_nodes_that_are_new_already_are_left_alone() -> None:
    """As after a crash in the middle."""
    done = dict.fromkeys(("node0", "node1"), "26.05.5")
    upgrades = changes(of(site(laptop()), **done), "packages:slurm")
    assert [(stage, nodes) for stage, nodes, _ in upgrades] == [("upgrade-1", ("node2",))]


def test_what_would_lose_state_is_refused() -> None:
    with pytest.raises(CorralError, match="downgrade") as caught:
        desired_stages(of(site(laptop()), "24.05.1-1"))
    assert caught.value.node == "node0"
    with pytest.raises(CorralError, match="does not understand"):
        desired_stages(of(site(laptop(), slurm="23.02.7")))


def test_mixed_versions_that_cannot_talk_are_refused_without_a_source() -> None:
    cluster = site(laptop())
    new = replace(cluster.facts["node2"], slurm="26.05.5")
    with pytest.raises(CorralError, match="node2 is newer than the controller"):
        desired_stages(replace(cluster, facts={**cluster.facts, "node2": new}))


def test_the_files_travel_from_this_machine_by_stdin() -> None:
    cluster = of(site(laptop()))
    base = next(s for s in plan(cluster).stages if s.name == "base")
    change = next(c.change for c in base.changes if c.change.resource == "debs:slurm")
    assert {ref.node for ref in change.secrets} == {HERE}
    assert [ref.path for ref in change.secrets] == [
        f"/debs/{d.file}" for d in (cluster.debs.debs if cluster.debs else ())
    ]


def test_the_distribution_is_left_to_itself() -> None:
    """No service watches program files that the distribution's own upgrades replace."""
    text = str(desired_stages(site(laptop())))
    assert "programs=()" in text and "/usr/sbin/slurmctld'" not in text


def test_another_family_is_replaced_and_named() -> None:
    resource = SlurmPackages(debs(family=Family.SCHEDMD), (Part.CLIENT, Part.SLURMD), "why")
    assert "slurm-client" in resource.probe()
    change = resource.diff(Seen(0, "installed slurmd 24.11.5-4"), Context("n"))
    assert change is not None
    assert change.summary.startswith("replace slurmd 24.11.5-4 by Slurm 26.05.5-1: slurm-smd")
    assert change.impact is Impact.RESTART
    done = "\n".join(f"installed {n} 26.05.5-1" for n in resource.names)
    assert resource.diff(Seen(0, done), Context("n")) is None


def test_what_no_wanted_package_conflicts_with_is_removed_by_name() -> None:
    new = SlurmPackages(debs(family=Family.SCHEDMD), (Part.CLIENT, Part.SLURMD), "why")
    change = new.diff(Seen(0, "installed slurmrestd 24.11.5-4"), Context("n"))
    assert change is not None
    assert " slurmrestd- -- " in change.script
    # libslurm42t64 holds files of slurm-smd; Debian's own set needs it.
    assert re.search(r"\nslurm_install \S+ schedmd ", change.script)
    back = SlurmPackages(debs(), (Part.CLIENT, Part.SLURMD), "why")
    change = back.diff(Seen(0, "installed slurm-smd-slurmd 24.11.5-1"), Context("n"))
    assert change is not None
    assert " slurm-smd-slurmd- -- " in change.script
    assert re.search(r"\nslurm_install \S+ distribution ", change.script)


def test_mixed_versions_that_fit_are_reported() -> None:
    cluster = site(laptop())
    new = replace(cluster.facts["node0"], slurm="26.05.5")
    both = replace(cluster, facts={**cluster.facts, "node0": new})
    assert slurm_packages.notice(cluster) == ""
    assert slurm_packages.notice(both) == (
        "Slurm is mixed: 24.11.5 on node1, node2, 26.05.5 on node0"
    )
