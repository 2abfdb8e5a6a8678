"""Firewall, PCI and Secure Boot facts: the real shell with fake tools, and the reading of it."""

from __future__ import annotations

import os
import subprocess
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from corral.inspect import (
    gpu,
    machine,
    network,
    system,
)
from corral.inspect.facts import Facts
from corral.inspect.question import inquiry
from tests.unit.roles.test_cluster import FACTS

DROPS = "table inet f {\n chain i {\n  type filter hook input priority 0; policy drop;\n }\n}\n"
ENDS = (
    "table inet f {\n chain i {\n  type filter hook input priority 0; policy accept;\n"
    "  ct state established accept\n  reject with icmpx admin-prohibited\n }\n}\n"
)
OPEN = (
    "table ip f {\n chain i {\n  type filter hook input priority 0; policy accept;\n"
    "  tcp dport 22 accept\n }\n chain o {\n  type filter hook output priority 0; policy drop;\n"
    " }\n}\n"
)


def answer(tmp_path: Path, ruleset: str) -> dict[str, str]:
    nft = tmp_path / "nft"
    (tmp_path / "ruleset").write_text(ruleset)
    nft.write_text(f"#!/bin/sh\ncat {tmp_path}/ruleset\n")
    nft.chmod(0o755)
    asked = inquiry((system.FIREWALL,))
    text = asked.script.replace("/etc/ufw/ufw.conf", str(tmp_path / "ufw.conf"))
    done = subprocess.run(
        ["/bin/sh", "-c", text],
        capture_output=True,
        text=True,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    return asked.answers(done.stdout, "n", "asking")


@pytest.mark.parametrize(
    ("ruleset", "kind"), [(DROPS, "nftables"), (ENDS, "nftables"), (OPEN, ""), ("", "")]
)
def test_a_firewall_is_on_where_a_chain_drops(tmp_path: Path, ruleset: str, kind: str) -> None:
    assert system.FIREWALL.read(answer(tmp_path, ruleset)) == kind


def test_ufw_is_asked_first_and_counts_only_when_it_is_on(tmp_path: Path) -> None:
    (tmp_path / "ufw.conf").write_text("# x\nENABLED=yes\n")
    assert system.FIREWALL.read(answer(tmp_path, DROPS)) == "ufw"
    (tmp_path / "ufw.conf").write_text("ENABLED=no\n")
    assert system.FIREWALL.read(answer(tmp_path, "")) == ""


def test_gpus_and_switches_are_distinguished_from_sound_and_usb() -> None:
    text = "0x030000 0x2b85\n0x040300 0x22e8\n0x068000 0x22a3\n0x030200 0x2335\n0x0c0330 0x1ad6"
    assert gpu.nvidia_pci({"pci": text}) == ("22a3", "2335", "2b85")
    assert gpu.nvidia_pci({}) == ()
    assert gpu.gpu_pci({"pci": text}) == ("2b85", "2335")


def test_secure_boot_and_cloud_init() -> None:
    assert system.SECURE_BOOT.read_or_empty({"secureboot": "   1\n"})
    assert not system.SECURE_BOOT.read_or_empty({"secureboot": "   0\n"})
    assert not system.SECURE_BOOT.read_or_empty({})
    assert system.CLOUD_INIT.read_or_empty({"cloudinit": "yes\n"})
    assert not system.CLOUD_INIT.read_or_empty({})


def test_a_host_key_is_one_or_none() -> None:
    key = f"ssh-ed25519 {'A' * 68}"
    assert system.HOST_KEY.read_or_empty({"sshdkey": f"{key}\n"}) == key
    for text in ("", "ssh-rsa AAAA", f"{key}\n{key}", f"{key} evil", "ssh-ed25519 A B"):
        assert system.HOST_KEY.read_or_empty({"sshdkey": text}) == ""


def test_facts_recorded_before_are_read_with_defaults() -> None:
    fields = FACTS.as_dict()
    for name in ("nvidia_pci", "secure_boot", "firewall", "cloud_init", "host_key"):
        del fields[name]
    assert Facts.from_dict(fields) == FACTS


def test_os_release_is_quoted_as_in_a_shell() -> None:
    fields = system.release_fields("ID=ubuntu\nVERSION_ID=\"24.04\"\nNAME='U V'\n# x=1\n\n")
    assert fields == {"ID": "ubuntu", "VERSION_ID": "24.04", "NAME": "U V"}


def test_the_kernels_routes() -> None:
    table = (
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
        "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
        "eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
        "br\t0000A00A\t00000000\t0001\t0\t0\t0\t0000E0FF\t0\t0\t0\n"
    )
    routes = [(r.device, str(r.network), r.gateway) for r in network.kernel_routes(table)]
    assert routes == [
        ("eth0", "0.0.0.0/0", True),
        ("eth0", "192.0.2.0/24", False),
        ("br", "10.160.0.0/11", False),
    ]


def test_sockets_that_listen() -> None:
    text = (
        "   0: 0100007F:1AA4 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0\n"
        "   1: 0100007F:1AA5 0100007F:1AA4 01 00000000:00000000 00:00000000 00000000 0\n"
    )
    assert machine.listening(text) == (machine.ListeningSocket(IPv4Address("127.0.0.1"), 6820, 0),)
