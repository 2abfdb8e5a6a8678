"""What makes a machine a good node: desktop, firewalls of containers, cloud-init."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from corral.errors import Code, CorralError
from corral.plan.make import resources_of
from corral.roles.inventory import Site
from corral.roles.order import desired_stages
from corral.spec.models import Network
from corral.spec.sections.software import Software
from corral.spec.systems import distributions
from corral.state.base import Context, Resource, Seen
from corral.state.files import File
from corral.state.network.host_names import CONF, PROGRAM, UNIT
from tests.unit.roles.test_cluster import apart, laptop, site

SYSTEMS = {"debian": ("12", "13"), "ubuntu": ("22.04", "24.04", "26.04")}


def held(cluster: Site) -> dict[str, dict[str, Resource]]:
    """Resources of each node, by id."""
    resources = resources_of(desired_stages(cluster))
    return {node: {r.id: r for r in on_node} for node, on_node in resources.items()}


def with_desktop(kind: str, os_id: str, version: str) -> Site:
    spec = apart().model_copy(update={"software": Software.model_validate({"desktop": kind})})
    return site(spec, own_clock=True, os_id=os_id, os_version=version)


def test_a_desktop_is_installed_on_the_controller_alone(golden: Callable[[str, str], None]) -> None:
    lines: list[str] = []
    systems = distributions().items()
    for os_id, kind in sorted((os_id, kind) for os_id, known in systems for kind in known.desktops):
        for version in SYSTEMS[os_id]:
            machines = held(with_desktop(kind, os_id, version))
            having = [n for n, resources in machines.items() if "packages:desktop" in resources]
            assert having == ["ctl"]
            change = machines["ctl"]["packages:desktop"].diff(Seen(0, "absent"), Context("ctl"))
            assert change is not None
            lines += [f"== {kind} on {os_id} {version}: {change.summary}", str(change.script), ""]
            assert "sleep.target" in " ".join(machines["ctl"]), "a desktop would send it to sleep"
    golden("roles/desktops.txt", "\n".join(lines))
    assert not any("packages:desktop" in r for r in held(site(apart(), own_clock=True)).values())


def test_a_desktop_that_nobody_knows_is_refused() -> None:
    with pytest.raises(CorralError) as caught:
        desired_stages(with_desktop("gnome", "rocky", "9"))
    assert (caught.value.code, caught.value.node) == (Code.NOT_GOOD, "ctl")


def firewalled(cluster: Site, node: str, kind: str) -> Site:
    facts = {**cluster.facts, node: replace(cluster.facts[node], firewall=kind)}  # type: ignore[arg-type]
    return replace(cluster, facts=facts)


def test_a_container_with_a_firewall_of_its_own_is_opened() -> None:
    machines = held(firewalled(site(laptop()), "node1", "nftables"))
    assert "service:corral-firewall" in machines["node1"]
    assert not any("ports" in machines[n] for n in ("node0", "node2"))
    left = laptop(network=Network(firewall="leave"))
    machines = held(firewalled(site(left), "node1", "ufw"))
    assert "service:corral-firewall" not in machines["node1"]
    assert machines["node1"]["ports"].diff(Seen(0, "there"), Context("ctl")), "ours are taken back"


def test_cloud_init_is_kept_off_the_names() -> None:
    cluster = site(apart(), own_clock=True)
    facts = {**cluster.facts, "a1": replace(cluster.facts["a1"], cloud_init=True)}
    machines = held(replace(cluster, facts=facts))
    program = machines["a1"][f"file:{PROGRAM}"]
    assert isinstance(program, File)
    for node, name in (("10.0.0.10", "ctl"), ("10.0.0.13", "b0")):
        assert f"{node}\t{name}" in program.content
    assert {f"file:{CONF}", f"file:{UNIT}", "service:corral-hosts"} <= machines["a1"].keys()
    assert not any(f"file:{PROGRAM}" in machines[n] for n in ("ctl", "a0", "b0"))
