"""Roles of complete clusters: golden lists of the resources of each machine, and invariants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from corral.errors import Code, CorralError
from corral.inspect.facts import Facts, Traits
from corral.plan.make import resources_of
from corral.roles.inventory import Site
from corral.roles.order import desired_stages
from corral.slurm.conf.real_memory import real_memory
from corral.spec.load import load_or_raise
from corral.spec.models import ClusterSpec, Gpu, NodeGroup, Partition, Slurm, Storage
from corral.spec.nodes import nodes_of
from corral.spec.sections.directory import Directory, DirectoryGroup
from corral.spec.sections.people import Access, Account, Limits, Qos, User
from corral.spec.slurm.hostlist import fold
from corral.state.base import DesiredStage, Resource
from corral.state.files import File
from corral.state.secrets import Secret
from corral.state.service import Service
from corral.state.system.directory import DirectoryFiles, DirectoryPassword

EXAMPLES = Path(__file__).parents[3] / "examples"
FACTS = Facts(
    node="",
    os_id="debian",
    os_version="13",
    kernel="6.12",
    cpus=2,
    sockets=1,
    cores_per_socket=2,
    threads_per_core=1,
    memory_mib=24000,
    cgroup="hybrid",
    systemd=True,
    address="",
    slurm="24.11.5",
    plugins=frozenset({"auth_slurm"}),
)


def site(spec: ClusterSpec, *, own_clock: bool = False, **facts: object) -> Site:
    names = [n.name for n in nodes_of(spec)]
    addresses = {name: f"10.0.0.{i + 10}" for i, name in enumerate(names)}
    common = replace(FACTS, **facts)  # type: ignore[arg-type]
    return Site(
        spec,
        {n: replace(common, node=n, address=addresses[n]) for n in names},
        dict.fromkeys(names, Traits(memory_mib=8000, own_clock=own_clock)),
        addresses,
    )


def laptop(**changes: object) -> ClusterSpec:
    return load_or_raise(EXAMPLES / "laptop.yaml").model_copy(update=changes)


def apart() -> ClusterSpec:
    """A controller that is not a compute node, and two groups."""
    return ClusterSpec(
        corral="v1",
        name="apart",
        groups=(
            NodeGroup(name="head", provider="ssh", nodes="ctl", addresses="10.0.0.10"),
            NodeGroup(
                name="a",
                provider="ssh",
                nodes="a[0-1]",
                addresses="10.0.0.[11-12]",
                gpu=Gpu(type="h100", count=8),
            ),
            NodeGroup(name="b", provider="ssh", nodes="b0", addresses="10.0.0.13"),
        ),
        partitions=(
            Partition(name="gpu", groups=("a",), default=True),
            Partition(name="all", groups=("a", "b"), max_time="8"),
        ),
    )


def people() -> ClusterSpec:
    """Folders by NFS, people with homes on one of them, accounts, and logins by job."""
    return apart().model_copy(
        update={
            "name": "people",
            "storage": (
                Storage(mount="/shared", kind="nfs", server="ctl", path="/srv/shared"),
                Storage(mount="/data", kind="existing"),
            ),
            "users": (
                User(name="alice", uid=2001, account="vision", home="/shared/people/alice"),
                User(name="ada", uid=2002, admin=True),
            ),
            "accounts": (Account(name="vision", fair_share=5, limits=Limits(gpus=8)),),
            "qos": (Qos(name="high", priority=100),),
            "access": Access(ssh="jobs_only"),
        }
    )


def directory() -> Site:
    """People of an LDAP directory, with homes on a folder that the controller serves by NFS."""
    declared = Directory(
        uris=("ldaps://one.example.org", "ldap://two.example.org"),
        base="dc=example,dc=org",
        ca="~/ca.pem",
        bind_dn="cn=reader,dc=example,dc=org",
        password_file="~/ldap",
        homes="/shared/home",
        groups=(
            DirectoryGroup(name="vision", account="vision", qos="high"),
            DirectoryGroup(name="guests", account="vision"),
        ),
    )
    spec = people().model_copy(update={"name": "directory", "directory": declared})
    files = DirectoryFiles("-----BEGIN CERTIFICATE-----\n", "/keys/ldap", "f1")
    return replace(site(spec, own_clock=True), directory=files)


CLUSTERS: dict[str, Callable[[], Site]] = {
    "directory": directory,
    "laptop": lambda: site(laptop()),
    "laptop-munge": lambda: site(laptop(slurm=Slurm(auth="munge"))),
    "laptop-plain": lambda: site(laptop(slurm=Slurm(accounting=False, rest=False))),
    "apart": lambda: site(apart(), own_clock=True, slurm="23.11.4"),
    "people": lambda: site(people(), own_clock=True),
}


@pytest.fixture(params=list(CLUSTERS))
def any_site(request: pytest.FixtureRequest) -> Site:
    return CLUSTERS[request.param]()


def listing(stages: tuple[DesiredStage, ...]) -> str:
    lines: list[str] = []
    for stage in stages:
        lines.append(f"== {stage.name}: {stage.title}")
        for item in stage.desired:
            lines.append(f"  {fold(item.nodes)}")
            lines += [f"    {r.id}" for r in item.resources]
        lines += [f"  gate on {g.node}: {g.name}" for g in stage.gates]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", list(CLUSTERS))
def test_golden(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"roles/{name}.txt", listing(desired_stages(CLUSTERS[name]())))


def each_node(cluster: Site) -> Iterator[tuple[str, tuple[Resource, ...]]]:
    yield from resources_of(desired_stages(cluster)).items()


def test_ids_are_unique_on_a_node(any_site: Site) -> None:
    for _, resources in each_node(any_site):
        ids = [r.id for r in resources]
        assert len(ids) == len(set(ids))


def test_what_a_service_reads_is_there_before_it_starts(any_site: Site) -> None:
    for node, resources in each_node(any_site):
        held: set[str] = set()
        for resource in resources:
            if isinstance(resource, Service):
                missing = [p for p in resource.inputs if p not in held]
                assert missing == [], f"{resource.id} on {node}"
            if isinstance(resource, (File, Secret, DirectoryPassword)):
                held.add(resource.path)


def test_every_node_holds_the_same_key_from_the_controller(any_site: Site) -> None:
    for _, resources in each_node(any_site):
        keys = [r for r in resources if isinstance(r, Secret) and "jwt" not in r.path]
        assert {k.source for k in keys} == {any_site.controller}
        assert [k.path for k in keys if not k.optional] in (
            ["/etc/slurm/slurm.key"],
            ["/etc/munge/munge.key"],
        )


def test_no_secret_is_in_a_file_and_slurmdbd_has_no_password(any_site: Site) -> None:
    for _, resources in each_node(any_site):
        for resource in resources:
            if isinstance(resource, File):
                assert "StoragePass" not in resource.content
                assert "PRIVATE KEY" not in resource.content


def test_no_daemon_of_rest_listens_to_the_world(any_site: Site) -> None:
    drop_ins = [
        r.content
        for _, resources in each_node(any_site)
        for r in resources
        if isinstance(r, File) and "slurmrestd" in r.path
    ]
    assert len(drop_ins) == int(any_site.spec.slurm.rest)
    for text in drop_ins:
        assert "127.0.0.1:6820" in text
        assert text.count(":6820") == 1
        assert "User=slurmrestd" in text


def test_auth_follows_the_oldest_slurm() -> None:
    assert site(laptop()).auth == "slurm"
    assert site(laptop(), slurm="24.05.1").auth == "slurm"
    assert site(laptop(), slurm="23.11.4").auth == "munge"
    assert site(laptop(slurm=Slurm(auth="slurm")), slurm="23.11.4").auth == "slurm"
    mixed = site(laptop())
    mixed.facts["node2"] = replace(mixed.facts["node2"], slurm="22.05.8")  # type: ignore[index]
    assert str(mixed.version) == "22.05.8"
    assert mixed.auth == "munge"


def defaults(cluster: Site) -> str:
    return next(
        r.content
        for _, resources in each_node(cluster)
        for r in resources
        if isinstance(r, File) and r.path == "/etc/default/slurmd"
    )


def test_slurmd_restarts_for_settings_it_reads_at_start_only() -> None:
    before = defaults(site(laptop()))
    assert defaults(site(laptop(slurm=Slurm(auth="munge")))) != before
    more = (*laptop().partitions, Partition(name="short", groups=("cpu",), max_time="1"))
    assert defaults(site(laptop(partitions=more))) == before, "a reload brings partitions"


def test_clocks_are_kept_where_machines_have_their_own() -> None:
    ids = {r.id for _, resources in each_node(site(apart(), own_clock=True)) for r in resources}
    assert "service:chrony" in ids
    ids = {r.id for _, resources in each_node(site(apart())) for r in resources}
    assert "service:chrony" not in ids


def test_what_cannot_be_done_is_refused_with_a_hint() -> None:
    cases = {
        Code.NOT_FOUND: site(laptop(), slurm=""),
        Code.NOT_GOOD: site(laptop(), cgroup="none"),
    }
    for code, cluster in cases.items():
        with pytest.raises(CorralError) as caught:
            desired_stages(cluster)
        assert caught.value.code is code
        assert caught.value.hint


def test_memory_is_the_smaller_of_what_is_there_and_what_may_be_used() -> None:
    text = next(
        r.content
        for _, resources in each_node(site(laptop()))
        for r in resources
        if isinstance(r, File) and r.path == "/etc/slurm/slurm.conf"
    )
    assert f"RealMemory={real_memory(8000)}" in text
