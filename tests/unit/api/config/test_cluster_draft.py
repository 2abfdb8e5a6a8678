"""Cluster files from what machines reported (recorded answers), and what cannot become one."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.api.config.cluster_draft import Draft, Reached, draft
from corral.errors import Code, CorralError
from corral.inspect import discovery
from corral.inspect.discovery import DiscoveredMachine, discovery_inquiry, parse
from corral.inspect.gpu import gpu_types, type_of, type_of_name
from corral.spec.load import load_text
from corral.spec.nodes import nodes_of
from tests.fakes import recorded

RECORDED = Path(__file__).parents[3] / "recorded" / "machines"


def machines(folder: str) -> list[DiscoveredMachine]:
    files = sorted((RECORDED / folder).glob("*.txt"))
    return [parse(f.stem, recorded(f.read_text())) for f in files]


def drafted(folder: str, reached: Reached | None = None, **skews: float) -> Draft:
    return draft("lab", machines(folder), reached or Reached(), skews)


@pytest.mark.parametrize(
    ("listed", "programs", "warning"),
    [
        (("0000:02:00.0", "0000:03:00.0"), ("/usr/bin/nvidia-smi",), ""),
        (("0000:02:00.0",), ("/usr/bin/nvidia-smi",), "does not list the GPU at 0000:03"),
        ((), ("/usr/bin/nvidia-smi",), "its GPU has no working driver yet"),
        ((), (), "its GPU has no working driver yet"),
    ],
)
def test_each_gpu_is_listed_by_the_driver(
    listed: tuple[str, ...], programs: tuple[str, ...], warning: str
) -> None:
    """A driver is proposed where none is there, and not for a GPU that fell off the bus."""
    there = ("0000:02:00.0", "0000:03:00.0")
    first = replace(
        machines("odd")[0],
        on_bus=there,
        listed=listed,
        programs=tuple(map(PurePosixPath, programs)),
    )
    made = draft("lab", [first], Reached(), {})
    about = [w for w in made.warnings if "nvidia-smi" in w or "driver" in w]
    assert len(about) == bool(warning)
    assert all(warning in text for text in about)
    assert ("driver: auto" in made.text) is (not listed)


def test_the_lab_of_three_workstations(golden: Callable[[str, str], None]) -> None:
    made = drafted("lab")
    golden("init/lab.yaml", made.text)
    spec = load_text(made.text, "lab.yaml").spec
    assert spec is not None
    assert {n.name: n.address for n in nodes_of(spec)} == {
        f"node{i}": f"192.168.1.1{i}" for i in range(3)
    }
    (group,) = spec.groups
    assert group.gpu is not None
    assert (group.gpu.type, group.gpu.count, group.ssh.user) == ("rtx5090", 1, "alice")
    assert spec.network.data is not None
    assert (spec.network.data.interface, spec.network.data.gbps) == ("enp130s0", 2.5)
    (shared,) = spec.storage
    assert shared.server == "node2", "the one with the most room"
    assert [u.name for u in spec.users] == ["alice"]


def test_machines_that_are_not_alike(golden: Callable[[str, str], None]) -> None:
    made = draft(
        "lab",
        machines("odd"),
        Reached(2222, "~/.ssh/lab", "admin@gate"),
        {"192.168.1.11": 95.0, "192.168.1.12": -2.0},
        file="odd.yaml",
    )
    golden("init/odd.yaml", made.text)
    text = "\n".join(made.warnings)
    for warning in (
        "different systems",
        "Wi-Fi address; enp130s0 is wired",
        "192.168.1.13 is a DHCP lease: reserve it",
        "node1: its clock is 95 s ahead",
        "node1: a firewall is on (ufw)",
        "node[1-3]: its own name is on 127.0.1.1",
        "node0, node1 have one SSH host key",
        "user alice has unlike numbers: 1000, 1001",
        "PCI device 9999 is not in Corral's table",
    ):
        assert warning in text
    assert text.count("its clock") == 1
    assert text.count("DHCP lease") == 1
    assert "node[1-3]: sshd takes passwords" in text


def test_every_warning_is_in_the_file() -> None:
    made = drafted("odd")
    assert made.warnings
    assert all(f"#   * {warning}" in made.text for warning in made.warnings)


def test_addresses_stay_with_their_nodes_whatever_the_order() -> None:
    turned = list(reversed(machines("lab")))
    spec = load_text(draft("lab", turned, Reached(), {}).text, "x").spec
    assert spec is not None
    assert {n.name: n.address for n in nodes_of(spec)} == {
        f"node{i}": f"192.168.1.1{i}" for i in range(3)
    }
    assert spec.controller == "node2", "the first one named"


def test_a_host_of_the_ssh_config_gives_way_to_the_address() -> None:
    machine = replace(machines("lab")[0], at="ws1")
    spec = load_text(draft("lab", [machine], Reached(), {}).text, "x").spec
    assert spec is not None and nodes_of(spec)[0].address == "192.168.1.10"


def test_two_machines_of_one_address_are_refused() -> None:
    machine = machines("lab")[0]
    with pytest.raises(CorralError) as caught:
        draft("lab", [machine, replace(machine, at="ws1", hostname="other")], Reached(), {})
    assert caught.value.code is Code.SPEC_INVALID


@given(st.text(max_size=60), st.text(max_size=60))
def test_a_machines_own_words_break_out_of_no_comment(system: str, processor: str) -> None:
    machine = replace(machines("lab")[0], system=system, processor=processor, hostname="node0")
    made = draft("lab", [machine], Reached(), {})
    assert load_text(made.text, "x").findings == ()


@given(st.text(max_size=40))
def test_host_names_that_are_none(hostname: str) -> None:
    machine = replace(machines("lab")[0], hostname=hostname)
    assert load_text(draft("lab", [machine], Reached(), {}).text, "x").findings == ()


def test_gpus_of_several_types_are_listed() -> None:
    first = machines("lab")[0]
    machine = replace(first, gpus=3, gpu_kinds=(("a100", 2), ("t4", 1)))
    made = draft("lab", [machine], Reached(), {})
    spec = load_text(made.text, "lab.yaml").spec
    assert spec is not None
    assert [(gpu.type, gpu.count) for gpu in spec.groups[0].gpus] == [("a100", 2), ("t4", 1)]
    assert "2 x a100 + 1 x t4" in made.text


def test_machines_with_the_same_gpus_in_other_slots_are_one_group() -> None:
    kinds = [discovery._kinds(types, 3) for types in (["t4", "a100", "t4"], ["a100", "t4", "t4"])]
    assert kinds == [(("a100", 1), ("t4", 2))] * 2


def test_gpu_types() -> None:
    assert type_of("2B85") == "rtx5090"
    assert type_of("ffff") == ""
    assert type_of("ffff", "NVIDIA GeForce RTX 6090") == "rtx6090"
    for name, kind in (
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("Tesla V100-SXM2-32GB", "v100"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx6000ada"),
        ("NVIDIA GeForce RTX 4080 SUPER", "rtx4080super"),
        ("", ""),
    ):
        assert type_of_name(name) == kind
    assert all(len(device) == 4 and device == device.lower() for device in gpu_types())


def test_an_answer_that_lacks_a_fact() -> None:
    answers = recorded((RECORDED / "lab" / "192.168.1.10.txt").read_text())
    del answers["kernel"]
    with pytest.raises(CorralError) as caught:
        parse("192.168.1.10", answers)
    assert caught.value.code is Code.PARSE_FAILED


def test_the_firewall_of_a_machine_is_reported_once(tmp_path: Path) -> None:
    """Discovery and facts printed sections of one name, and each read the other's."""
    (tmp_path / "ufw.conf").write_text("ENABLED=yes\n")
    asked = discovery_inquiry()
    script = asked.script.replace("/etc/ufw/ufw.conf", str(tmp_path / "ufw.conf"))
    printed = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True).stdout
    machine = parse("192.168.1.10", asked.answers(printed, "192.168.1.10", "asking"))
    assert machine.facts.firewall == "ufw"
    assert "a firewall is on (ufw)" in "\n".join(draft("lab", [machine], Reached(), {}).warnings)


def test_gpus_of_discovery_and_of_the_facts_are_the_same() -> None:
    for folder in ("lab", "odd"):
        for machine in machines(folder):
            assert machine.gpus == len(machine.facts.nvidia_pci)


@pytest.mark.parametrize(
    "login", ["alice\r      jump: evil@gate", "alice  # x", "&a alice", "'alice'", "a b", ""]
)
def test_no_machine_writes_keys_into_the_file(login: str) -> None:
    """YAML takes a carriage return for a line end: the file declared the machine's jump host."""
    hostile = [replace(machine, login=login) for machine in machines("lab")]
    with pytest.raises(CorralError, match="not a user name") as raised:
        draft("lab", hostile, Reached(), {})
    assert raised.value.code is Code.PARSE_FAILED


def test_the_clock_is_that_of_the_first_question() -> None:
    answers = recorded(min((RECORDED / "lab").glob("*.txt")).read_text())
    assert next(iter(discovery_inquiry().names)) == "clock"
    assert parse("a", answers | {"clock": "1795231950.5"}).clock == 1795231950.5
    assert parse("a", answers | {"clock": "date: invalid"}).clock is None


@pytest.mark.parametrize(
    ("shells", "declared"),
    [
        (["/bin/sh"] * 3, "/bin/sh"),
        (["/bin/bash"] * 3, "/bin/bash"),
        (["/bin/sh", "/bin/sh", "/usr/bin/zsh"], "/bin/bash"),
        (["/bin/sh, admin: true"] * 3, "/bin/bash"),
    ],
)
def test_people_keep_the_shell_that_they_have(shells: list[str], declared: str) -> None:
    """The first ``up`` changed /bin/sh to /bin/bash, and ``down`` did not change it back."""
    known = [replace(m, shells={"alice": s}) for m, s in zip(machines("lab"), shells, strict=True)]
    spec = load_text(draft("lab", known, Reached(), {}).text, "x").spec
    assert spec is not None
    assert {user.name: user.shell for user in spec.users}["alice"] == declared


def test_people_are_read_whatever_their_shell_is() -> None:
    text = (RECORDED / "lab" / "192.168.1.10.txt").read_text()
    people = "alice 1000 /bin/sh\nbob 1001 /opt/a shell\neve 1002 \ncarl 1003\n"
    machine = parse("x", recorded(text.replace("alice 1000\n", people)))
    assert [name for name, _ in machine.people] == ["alice", "bob", "eve", "carl"]
    assert machine.shells == {"alice": "/bin/sh", "bob": "/opt/a shell"}
