"""What a backup controller adds to the stages, and an upgrade with one."""

from __future__ import annotations

import pytest

from corral.roles.inventory import Site
from corral.roles.order import desired_stages
from corral.spec.models import BackupController, ClusterSpec
from corral.spec.nodes import guarded_of
from corral.spec.sections.people import Access
from tests.unit.roles.slurm.test_slurm_packages import of
from tests.unit.roles.test_cluster import apart, laptop, people, site


def with_backup(spec: ClusterSpec) -> ClusterSpec:
    backup = BackupController(node="node1", state="/shared/slurmctld")
    return spec.model_copy(
        update={"slurm": spec.slurm.model_copy(update={"backup_controller": backup})}
    )


def ids(cluster: Site, node: str) -> list[tuple[str, str]]:
    """Stage and resource of one node, in order."""
    return [
        (stage.name, resource.id)
        for stage in desired_stages(cluster)
        for entry in stage.desired
        if node in entry.nodes
        for resource in entry.resources
    ]


def test_the_second_slurmctld_starts_after_the_first_from_the_same_files() -> None:
    cluster = site(with_backup(laptop()))
    theirs = dict.fromkeys(ids(cluster, "node1"))
    assert ("backup-controller", "service:slurmctld") in theirs
    assert ("backup-controller", "file:/etc/slurm/slurm.conf") in theirs
    names = [stage.name for stage in desired_stages(cluster)]
    assert names.index("controller") < names.index("backup-controller") < names.index("compute")
    assert not [i for _, i in ids(cluster, "node1") if i in ("service:slurmdbd", "service:mariadb")]
    assert not [i for _, i in ids(cluster, "node2") if i == "service:slurmctld"]


def test_people_may_log_in_to_it_where_no_login_nodes_are_declared() -> None:
    """With the first controller lost, laptops have another node (tests/embedded/test_day.py)."""
    client = ("login", "file:/etc/corral/client.json")
    plain = with_backup(laptop(access=Access(ssh="jobs_only")))
    declared = with_backup(laptop(access=Access(ssh="jobs_only", login="node2")))
    for spec, open_to_all in ((plain, {"node0", "node1"}), (declared, {"node2"})):
        nodes = {"node0", "node1", "node2"}
        assert set(guarded_of(spec)) == nodes - open_to_all
        holders = {name for name in nodes if client in ids(site(spec), name)}
        assert holders == {"node0", *open_to_all}  # the controller has it for its page in any case


@pytest.mark.parametrize(
    "late", [("node0", "node1"), ("node1",)], ids=["both", "what an upgrade that broke off left"]
)
def test_an_older_backup_is_stopped_and_upgraded_with_the_first(late: tuple[str, ...]) -> None:
    installed = dict.fromkeys(("node0", "node1", "node2"), "26.05.5") | dict.fromkeys(
        late, "25.11.1"
    )
    cluster = of(site(with_backup(laptop())), **installed)
    theirs = ids(cluster, "node1")
    assert theirs.index(("stop-backup", "backup-stopped:whatever")) < theirs.index(
        ("upgrade-controller", "packages:slurm")
    )
    first = [i for stage, i in ids(cluster, "node0") if stage == "upgrade-controller"]
    assert bool(first) is ("node0" in late)


@pytest.mark.parametrize("spec", [laptop(), apart(), people(), with_backup(laptop())])
def test_what_has_one_name_on_a_node_has_one_question(spec: ClusterSpec) -> None:
    """The answers of a machine are kept by the resource's name: two questions would share one."""
    clusters = [site(spec)]
    if spec.slurm.backup_controller:
        clusters.append(of(clusters[0], node0="25.11.1", node1="25.11.1", node2="25.11.1"))
    for cluster in clusters:
        asked: dict[tuple[str, str], str] = {}
        for stage in desired_stages(cluster):
            for entry in stage.desired:
                for resource in entry.resources:
                    for node in entry.nodes:
                        probe = str(resource.probe())
                        assert asked.setdefault((node, resource.id), probe) == probe, resource.id
