"""Firewall, PCI and Secure Boot facts: the real shell with fake tools, and the reading of it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from corral.inspect import gpu, system
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
    assert system.firewall(answer(tmp_path, ruleset)) == kind


def test_ufw_is_asked_first_and_counts_only_when_it_is_on(tmp_path: Path) -> None:
    (tmp_path / "ufw.conf").write_text("# x\nENABLED=yes\n")
    assert system.firewall(answer(tmp_path, DROPS)) == "ufw"
    (tmp_path / "ufw.conf").write_text("ENABLED=no\n")
    assert system.firewall(answer(tmp_path, "")) == ""


def test_gpus_and_switches_are_distinguished_from_sound_and_usb() -> None:
    text = "0x030000 0x2b85\n0x040300 0x22e8\n0x068000 0x22a3\n0x030200 0x2335\n0x0c0330 0x1ad6"
    assert gpu.nvidia_pci({"pci": text}) == ("22a3", "2335", "2b85")
    assert gpu.nvidia_pci({}) == ()
    assert gpu.gpu_pci({"pci": text}) == ("2b85", "2335")


def test_secure_boot_and_cloud_init() -> None:
    assert system.secure_boot({"secureboot": "   1\n"})
    assert not system.secure_boot({"secureboot": "   0\n"})
    assert not system.secure_boot({})
    assert system.cloud_init({"cloudinit": "yes\n"})
    assert not system.cloud_init({})


def test_facts_recorded_before_are_read_with_defaults() -> None:
    fields = FACTS.as_dict()
    for name in ("nvidia_pci", "secure_boot", "firewall", "cloud_init"):
        del fields[name]
    assert Facts.from_dict(fields) == FACTS
