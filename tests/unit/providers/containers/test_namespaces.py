"""Network namespaces that podman forgot: what is found on the bridge, removed, and left alone.

The records are those of ``ip`` of iproute2 6.1 with podman 4.3 and netavark 1.4, after all
processes of a cluster of two nodes were killed and podman's runtime state was removed. Times and
flags are left out.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from corral.errors import Code, CorralError
from corral.events import Event, ignore
from corral.providers.base import Action
from corral.providers.containers import stale_objects
from corral.providers.containers.podman import Podman
from tests.unit.providers.containers.fake_podman import FakePodman
from tests.unit.providers.embedded import test_embedded as embedded
from tests.unit.providers.embedded.test_embedded import podman  # noqa: F401  # the fixture

BRIDGE = "podman1"
OLD = "netns-b9ab781f-56ef-71ad-eef0-f4e6511c327e"
LIVE = "netns-99fa9b25-1c00-e689-1cbe-a53212cb59e6"
KNOWN = "netns-184fa254-48e8-cd2f-e292-467e1e1e6689"
OTHERS = "cni-39c8d88c-96df-1e43-4240-2d9030fb4019"


def card(address: str, name: str = "eth0") -> dict[str, Any]:
    inet = {"family": "inet", "local": address, "prefixlen": 24, "scope": "global", "label": name}
    inet6 = {"family": "inet6", "local": "fe80::858:aff:feae:50b", "prefixlen": 64, "scope": "link"}
    return {"ifname": name, "link_type": "ether", "addr_info": [inet, inet6]}


LO = {
    "ifname": "lo",
    "link_type": "loopback",
    "addr_info": [{"family": "inet", "local": "127.0.0.1", "prefixlen": 8, "scope": "host"}],
}
TUNNEL = {"ifname": "tunl0", "link_type": "ipip", "addr_info": []}


@dataclass
class Host:
    """The links and network namespaces of a machine, behind ``namespaces.ip``."""

    folder: Path
    links: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Bridge and namespace of each veth."""
    inside: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    bridges: list[str] = field(default_factory=lambda: [BRIDGE, "podman2"])
    calls: list[str] = field(default_factory=list)
    broken: str = ""

    def add(self, veth: str, namespace: str, *cards: dict[str, Any], bridge: str = BRIDGE) -> None:
        self.links[veth] = (bridge, namespace)
        self.inside[namespace] = [LO, TUNNEL, *cards]
        (self.folder / namespace).touch()

    async def __call__(self, *args: str) -> Sequence[dict[str, Any]]:
        text = " ".join(args)
        if self.broken and text.startswith(self.broken):
            raise CorralError(Code.PROVIDER_FAILED, f"ip -json {text} failed: not permitted")
        numbers = dict(zip(self.inside, itertools.count(), strict=False))
        match args:
            case ("netns", "list"):
                return [{"name": n, "id": i} for n, i in numbers.items()] + [{"name": "stale"}]
            case ("link", "show", "type", "bridge"):
                return [{"ifname": b} for b in self.bridges]
            case ("link", "show", *_):
                ports = [
                    {"ifname": v, "master": b, "link_netnsid": numbers.get(n, 99)}
                    for v, (b, n) in self.links.items()
                ]
                return [{"ifname": "lo"}, {}, *ports]
            case ("-n", name, "address"):
                return self.inside[name]
            case ("link", "delete", name):
                self.links.pop(name, None) or self.bridges.remove(name)
            case ("netns", "delete", name):
                del self.inside[name]
            case _:
                raise AssertionError(args)
        self.calls.append(text)
        return []


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Host]:
    """Two old namespaces: of node1 on the cluster's bridge, and of another cluster."""
    machine = Host(tmp_path / "netns")
    machine.folder.mkdir()
    monkeypatch.setattr(stale_objects, "FOLDER", machine.folder)
    monkeypatch.setattr(stale_objects, "ip", machine)
    machine.add("veth1", OLD, card("10.174.5.11"))
    machine.add("veth0", LIVE, card("10.174.5.10"))
    machine.add("veth5", OTHERS, card("10.88.0.5"), bridge="podman2")
    live = (machine.folder / LIVE).stat().st_ino
    monkeypatch.setattr(stale_objects, "occupied", lambda: frozenset({live}))
    yield machine


def find(fake: FakePodman) -> stale_objects.Leftovers:
    return asyncio.run(stale_objects.find(Podman(run=fake), "corral-lab", BRIDGE))


def remove(fake: FakePodman) -> stale_objects.Leftovers:
    return asyncio.run(stale_objects.remove(Podman(run=fake), "corral-lab", BRIDGE))


def container(fake: FakePodman, namespace: str) -> None:
    """A container in the network that podman takes to have this namespace."""
    key = f"/run/netns/{namespace}"
    fake.containers["x"] = {"Id": "f" * 64, "Names": ["x"], "Labels": {}, "SandboxKey": key}


def test_only_what_no_process_and_no_container_has_is_removed(host: Host) -> None:
    fake = FakePodman()
    container(fake, KNOWN)
    host.add("veth2", KNOWN, card("10.174.5.12"))
    host.add("veth3", "probe", card("10.174.5.99"))  # a namespace that the user made
    host.links["veth4"] = (BRIDGE, "without a name")
    assert [str(leftover) for leftover in find(fake).namespaces] == [
        f"network namespace {OLD} (10.174.5.11)"
    ]
    assert host.calls == []
    assert remove(fake).addresses == {"10.174.5.11"}
    assert host.calls == ["link delete veth1", f"netns delete {OLD}"]
    assert remove(fake) == stale_objects.Leftovers()


def test_podman_is_asked_after_the_namespaces_were_listed(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container in the middle of its start has no process yet; ``inspect`` waits for it."""
    fake = FakePodman()
    order: list[str] = []

    async def noted(*args: str) -> Sequence[dict[str, Any]]:
        order.append("ip")
        return await host(*args)

    async def starts(argv: Sequence[str], *, stdin: bytes = b"", timeout: float) -> Any:
        order.append(argv[1])
        container(fake, OLD)
        return await fake(argv, stdin=stdin, timeout=timeout)

    monkeypatch.setattr(stale_objects, "ip", noted)
    stale = asyncio.run(stale_objects.find(Podman(run=starts), "corral-lab", BRIDGE))
    assert stale.namespaces == ()
    assert order == ["ip", "ip", "ps", "inspect"]


def test_a_namespace_in_another_network_too_stays_without_its_link(host: Host) -> None:
    host.add("veth1", OLD, card("10.174.5.11"), card("10.88.0.7", "eth1"))
    assert remove(FakePodman()).namespaces != ()
    assert host.calls == ["link delete veth1"]


def test_no_network_is_no_question(host: Host) -> None:
    host.broken = "link show"
    none = asyncio.run(stale_objects.find(Podman(run=FakePodman()), "corral-lab", ""))
    assert none == stale_objects.Leftovers()


@pytest.mark.parametrize("broken", ["link show", "netns list", "-n"])
def test_what_ip_does_not_print_is_unknown_and_stays(host: Host, broken: str) -> None:
    host.broken = broken
    left = remove(FakePodman())
    assert left.namespaces == ()
    assert "not permitted" in left.unknown
    assert host.calls == []


def test_what_podman_does_not_print_is_unknown_and_stays(host: Host) -> None:
    assert "podman ps failed" in remove(FakePodman(fail={"ps": "database is locked"})).unknown
    assert host.calls == []


def test_a_process_that_cannot_be_read_makes_all_unknown(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> frozenset[int]:
        raise PermissionError(13, "Permission denied", "/proc/17/ns/net")

    monkeypatch.setattr(stale_objects, "occupied", refused)
    assert "/proc/17/ns/net" in remove(FakePodman()).unknown
    assert host.calls == []


def test_namespaces_with_processes_are_read(tmp_path: Path) -> None:
    (tmp_path / "17/ns").mkdir(parents=True)
    (tmp_path / "17/ns/net").touch()
    (tmp_path / "18").mkdir()  # it ended while this was read
    (tmp_path / "self").mkdir()
    assert stale_objects.occupied(tmp_path) == {(tmp_path / "17/ns/net").stat().st_ino}
    assert Path("/proc/self/ns/net").stat().st_ino in stale_objects.occupied()


def test_up_of_a_running_node_with_an_occupied_address(podman: FakePodman, host: Host) -> None:  # noqa: F811
    embedded.bring_up(podman)
    assert embedded.plan(podman) == {}
    held = embedded.made(podman)
    asyncio.run(held.read_machines())
    host.add("veth1", OLD, card(held.address("node1")))
    host.add("veth9", KNOWN, card("10.174.5.200"))  # of a node that is declared no longer
    assert embedded.plan(podman) == {"node1": Action.RELEASE_ADDRESS}
    host.calls.clear()
    notes: list[Event] = []
    asyncio.run(_apply(embedded.made(podman), notes))
    assert sorted(host.calls) == [
        *("link delete veth1", "link delete veth9"),
        *(f"netns delete {KNOWN}", f"netns delete {OLD}"),
    ]
    assert any(f"{OLD} ({held.address('node1')})" in e.message for e in notes)
    assert embedded.plan(podman) == {}
    assert len(podman.containers) == 3


async def _apply(provider: Any, notes: list[Event]) -> None:
    await provider.apply(provider.plan(await provider.read_machines()), notes.append)


def test_up_reports_what_it_could_not_read(podman: FakePodman, host: Host) -> None:  # noqa: F811
    embedded.bring_up(podman)
    podman.containers["corral-lab-node1"]["State"] = "exited"
    host.broken = "netns list"
    notes: list[Event] = []
    asyncio.run(_apply(embedded.made(podman), notes))
    assert any("not permitted" in e.message for e in notes)
    assert embedded.plan(podman) == {}


def test_down_removes_them_before_the_containers_and_the_bridge_last(
    podman: FakePodman,  # noqa: F811
    host: Host,
) -> None:
    embedded.bring_up(podman)
    host.add("veth1", OLD, card("10.174.5.11"))
    del host.links["veth0"]
    podman.calls.clear()
    at: list[int] = []
    drop = host.calls.append
    host.calls = _Noting(lambda text: (drop(text), at.append(len(podman.calls))))
    gone = asyncio.run(embedded.made(podman).destroy(ignore))
    assert f"network namespace {OLD} (10.174.5.11)" in gone
    verbs = [" ".join(c[:2]) if c[0] == "network" else c[0] for c in podman.calls]
    assert "rm" not in verbs[: at[0]]
    assert host.bridges == ["podman2"]
    assert "rm" in verbs[: at[-1]]
    assert "network rm" not in verbs[: at[-1]]


class _Noting(list[str]):
    def __init__(self, note: Any) -> None:
        super().__init__()
        self._note = note

    def append(self, text: str) -> None:
        self._note(text)


def test_down_leaves_a_bridge_that_is_in_use(podman: FakePodman, host: Host) -> None:  # noqa: F811
    embedded.bring_up(podman)
    asyncio.run(embedded.made(podman).destroy(ignore))
    assert BRIDGE in host.bridges
    assert "veth0" in host.links
