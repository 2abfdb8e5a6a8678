"""Who joins and how, islands, and what a node without init gets instead. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from corral.errors import Code, CorralError
from corral.inspect.facts import Facts, Traits
from corral.inspect.mesh import MeshFacts
from corral.roles.inventory import Site
from corral.roles.machine import mesh
from corral.roles.order import desired_stages
from corral.roles.slurm import pods
from corral.spec.models import ClusterSpec
from corral.state.base import Context, Resource, Seen
from corral.state.network.mesh import MINT, MeshMember, Supervised

URL = "https://headscale.example.org"
HOME = MeshFacts(
    tun=True, net_admin=True, version="1", state="Running", kernel=True, server=URL, joined=True
)
POD = MeshFacts(
    container=True, limit_mib=2048, version="1", state="Running", server=URL, joined=True
)
NODES = {"desk0": "100.64.0.1", "rent0": "100.64.0.2", "rent1": "100.64.0.3", "pod0": "100.64.0.4"}


def spec_of(**changes: Any) -> ClusterSpec:
    groups = [
        {"name": g, "provider": "ssh", "nodes": n, "addresses": a}
        for g, n, a in (
            ("desk", "desk0", "10.0.0.1"),
            ("rent", "rent[0-1]", "10.0.0.[2-3]"),
            ("pod", "pod0", "10.0.0.4"),
        )
    ]
    network = {"control": "tailscale", "mesh": {"url": URL, **changes}}
    fields = {"corral": "v1", "name": "lab", "groups": groups, "network": network}
    return ClusterSpec.model_validate(fields)


def site_of(**changes: Any) -> Site:
    facts: dict[str, Facts] = {}
    for node, address in NODES.items():
        known = replace(POD if node == "pod0" else HOME, address=address)
        facts[node] = Facts(
            node,
            "debian",
            "13",
            "6.12",
            2,
            1,
            2,
            1,
            4096,
            "v2",
            node != "pod0",
            f"10.0.0.{address[-1]}",
            slurm="24.11.5",
            mesh=known,
        )
    spec = spec_of(**changes)
    traits = {n: mesh.contained(Traits(), f) for n, f in facts.items()}
    declared = {n: f.address for n, f in facts.items()}
    return Site(spec, facts, traits, mesh.addresses(spec, facts, declared))


def out(site: Site, node: str, **how: Any) -> Site:
    facts = site.facts[node]
    gone = replace(facts, mesh=replace(facts.mesh, **{"state": "NeedsLogin", "address": "", **how}))
    return replace(site, facts={**site.facts, node: gone})


def resources(site: Site, node: str) -> dict[str, Resource]:
    return {
        r.id: r
        for s in desired_stages(site)
        for w in s.desired
        if node in w.nodes
        for r in w.resources
    }


def test_addresses_are_those_of_the_tailnet() -> None:
    assert site_of().addresses == NODES


def test_while_one_is_outside_only_joining_is_planned() -> None:
    site = out(site_of(), "rent1")
    assert mesh.outside(site.spec, site.facts) == ("rent1",)
    (stage,) = desired_stages(site)
    assert stage.name == "mesh"
    assert "once they have their addresses" in stage.title
    assert len(desired_stages(site_of())) > 5


def test_one_in_another_tailnet_is_outside() -> None:
    elsewhere = out(site_of(), "desk0", state="Running", address="100.64.0.9", server="https://b")
    assert mesh.outside(elsewhere.spec, elsewhere.facts) == ("desk0",)


def test_each_group_is_an_island_and_so_is_each_pod() -> None:
    assert mesh.islands(site_of()) == (
        ("desk", ("desk0",)),
        ("rent", ("rent0", "rent1")),
        ("alone-pod0", ("pod0",)),
    )
    assert mesh.bridged(site_of()) == ()
    joined = site_of(islands=[{"name": "home", "groups": ["desk", "rent", "pod"]}])
    assert mesh.islands(joined) == (
        ("home", ("desk0", "rent0", "rent1")),
        ("alone-pod0", ("pod0",)),
    )


def test_across_islands_leaves_pods_alone() -> None:
    assert mesh.bridged(site_of(jobs="across-islands")) == ("desk", "rent")


def member(text: str) -> Any:
    resource = MeshMember("rent0", URL, URL, "tag:corral-lab", "by TUN", 10)
    return resource.diff(Seen(0, text), Context("rent0"))


@pytest.mark.parametrize(
    "text",
    [
        f"Running {URL} corral tag:corral-lab",
        f"Running {URL}/ corral tag:a,tag:corral-lab",
        f"Running {URL} owner -",
    ],
)
def test_a_member_stays(text: str) -> None:
    assert member(text) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("absent - owner -", "join the tailnet at"),
        ("NeedsLogin - owner -", "join the tailnet at"),
        (f"NeedsLogin {URL} corral -", "join the tailnet again"),
        (f"Running {URL} corral tag:other", "take the tag"),
    ],
)
def test_joining_asks_for_a_key_of_its_own(text: str, words: str) -> None:
    change = member(text)
    assert words in change.summary
    assert [(s.node, s.path) for s in change.secrets] == [(MINT, "rent0")]
    assert '--auth-key="file:' in change.script
    assert not change.refuses


def test_one_that_corral_joined_and_somebody_stopped_comes_back_without_a_key() -> None:
    change = member(f"Stopped {URL} corral -")
    assert change.secrets == ()
    assert "auth-key" not in change.script


@pytest.mark.parametrize("text", ["Running https://another owner -", f"Stopped {URL} owner -"])
def test_the_owners_doing_is_not_undone(text: str) -> None:
    assert member(text).refuses


def test_a_pod_gets_daemons_under_supervisord_and_files_of_its_own() -> None:
    site = site_of()
    pod = resources(site, "pod0")
    assert "service:slurmd" not in pod
    assert isinstance(pod["supervised:slurmd"], Supervised)
    assert "supervised:corral-mesh-relay" in pod
    assert "hostname" not in pod
    conf = pod["file:/etc/slurm/slurm.conf"].content  # type: ignore[attr-defined]
    assert "ProctrackType=proctrack/linuxproc" in conf
    assert "TaskPlugin=task/none" in conf
    assert "PrologFlags" not in conf
    assert "SlurmctldHost=desk0(127.0.0.1)" in conf
    assert "NodeAddr=10.0.0.4" in conf
    assert "NodeAddr=100.64.0.[2-3]" in conf
    assert "file:/etc/slurm/cgroup.conf" in pod
    hosts = dict((n, a) for a, n in pod["hosts"].entries)  # type: ignore[attr-defined]
    assert hosts["pod0"] == "10.0.0.4"
    assert hosts["desk0"] == "100.64.0.1"
    rented = resources(site, "rent0")
    assert "service:slurmd" in rented
    assert not any(name.startswith("supervised:") for name in rented)


def test_the_key_daemon_of_a_pod_runs_under_supervisord_too() -> None:
    site = site_of()
    spec = ClusterSpec.model_validate(
        {**site.spec.model_dump(mode="json", exclude_unset=True), "slurm": {"auth": "munge"}}
    )
    pod = resources(replace(site, spec=spec), "pod0")
    assert isinstance(pod["supervised:munged"], Supervised)
    assert "service:munge" not in pod
    assert "service:munge" in resources(replace(site, spec=spec), "rent0")


def test_the_plan_warns_that_nothing_is_fenced_there() -> None:
    slurmd = resources(site_of(), "pod0")["supervised:slurmd"]
    change = slurmd.diff(Seen(0, "stopped stale"), Context("pod0"))
    assert change is not None
    assert "not fenced" in change.summary


def test_a_pod_has_the_memory_of_its_cgroup() -> None:
    site = site_of()
    assert site.traits["pod0"].memory_mib == 2048
    assert not site.traits["pod0"].own_clock
    assert mesh.on_control(site.spec, site.facts["pod0"]).memory_mib == 2048


def test_a_pod_cannot_be_the_controller() -> None:
    site = site_of()
    spec = site.spec.model_copy(update={"controller": "pod0"})
    with pytest.raises(CorralError) as refused:
        pods.check(replace(site, spec=spec))
    assert refused.value.code is Code.NOT_GOOD


def test_supervised_starts_restarts_and_rests() -> None:
    daemon = Supervised("x", "/bin/x", ("/etc/x",))
    assert daemon.diff(Seen(0, "running current"), Context("n")) is None
    stale = daemon.diff(Seen(0, "running stale"), Context("n"))
    assert stale is not None
    assert stale.summary.startswith("restart x")
    stopped = daemon.diff(Seen(0, "stopped stale"), Context("n"))
    assert stopped is not None
    assert stopped.keeps == ("file:/etc/supervisor/conf.d/corral-x.conf",)


def together_of(**fabric: str) -> Site:
    """A desk and two pods of one RunPod cluster, each with its address in the cluster's network."""
    desk = {"name": "desk", "provider": "ssh", "nodes": "desk0", "addresses": "10.0.0.1"}
    pods = {"name": "pods", "provider": "runpod", "nodes": "pod[0-1]",
            "cloud": {"type": "NVIDIA H100 80GB HBM3", "cluster": True}}  # fmt: skip
    network = {"control": "tailscale", "mesh": {"url": URL, "jobs": "across-islands"}}
    spec = ClusterSpec.model_validate(
        {"corral": "v1", "name": "lab", "groups": [desk, pods], "network": network}
    )
    facts: dict[str, Facts] = {}
    for number, node in enumerate(("desk0", "pod0", "pod1"), 1):
        known = POD if node in fabric else HOME
        known = replace(known, address=f"100.64.0.{number}", fabric=fabric.get(node, ""))
        facts[node] = Facts(
            node,
            "debian",
            "13",
            "6.12",
            2,
            1,
            2,
            1,
            4096,
            "v2",
            node not in fabric,
            f"10.0.0.{number}",
            slurm="24.11.5",
            mesh=known,
        )
    declared = {n: f.address for n, f in facts.items()}
    traits = {n: mesh.contained(Traits(), f) for n, f in facts.items()}
    return Site(spec, facts, traits, mesh.addresses(spec, facts, declared))


def test_pods_of_one_cluster_are_an_island_by_their_own_network() -> None:
    site = together_of(pod0="10.65.0.2", pod1="10.65.0.3")
    assert mesh.islands(site) == (("desk", ("desk0",)), ("fabric-pods", ("pod0", "pod1")))
    assert mesh.bridged(site) == ("desk",)
    for node, pod in ((n, resources(site, n)) for n in ("pod0", "pod1")):
        conf = pod["file:/etc/slurm/slurm.conf"].content  # type: ignore[attr-defined]
        assert "NodeAddr=10.65.0.[2-3]" in conf, node
        assert "100.64.0.2" not in conf and "100.64.0.3" not in conf
        hosts = dict((n, a) for a, n in pod["hosts"].entries)  # type: ignore[attr-defined]
        assert hosts == {"desk0": "100.64.0.1", "pod0": "10.65.0.2", "pod1": "10.65.0.3"}
    everywhere = resources(site, "desk0")["file:/etc/slurm/slurm.conf"].content  # type: ignore[attr-defined]
    assert "NodeAddr=100.64.0.[2-3]" in everywhere and "10.65" not in everywhere


def test_the_plan_names_pods_with_their_own_network() -> None:
    assert "by their own network" in mesh.mode_text(replace(POD, fabric="10.65.0.2"))
    assert "own network" not in mesh.mode_text(POD)
    assert "without user namespaces" in mesh.mode_text(POD)
    assert "user namespaces" not in mesh.mode_text(replace(POD, userns=True))


def test_a_pods_own_name_is_known_to_all() -> None:
    site = together_of(pod0="10.65.0.2", pod1="10.65.0.3")
    pod = site.facts["pod0"]
    facts = {**site.facts, "pod0": replace(pod, mesh=replace(pod.mesh, name="4f2a8c"))}
    named = {
        node: resources(replace(site, facts=facts), node)["hosts"].entries  # type: ignore[attr-defined]
        for node in ("desk0", "pod0", "pod1")
    }
    assert ("100.64.0.2", "4f2a8c") in named["desk0"]
    assert ("10.65.0.2", "4f2a8c") in named["pod0"] and ("10.65.0.2", "4f2a8c") in named["pod1"]


def test_pods_that_know_no_such_network_stay_alone() -> None:
    assert [name for name, _ in mesh.islands(together_of(pod0="", pod1=""))] == [
        "desk",
        "alone-pod0",
        "alone-pod1",
    ]
