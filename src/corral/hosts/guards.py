"""What guards a machine and what is in it: the facts on which drivers and ports rest."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from corral.hosts.quote import Script, sh

# What the machine is made of and guarded by, where a driver and open ports depend on it. ufw itself
# takes half a second to print its one setting. nft: a chain that drops, by its policy or by its
# last rule, is a firewall that is on.
GUARD: Final[Mapping[str, Script]] = MappingProxyType(
    {
        "pci": sh(
            """\
for d in /sys/bus/pci/devices/*; do
  v= c= i=
  {{ read -r v <"$d/vendor" && read -r c <"$d/class" && read -r i <"$d/device"; }} 2>/dev/null
  [ "$v" != 0x10de ] || echo "$c $i"
done"""
        ),
        "secureboot": sh(
            """\
for f in /sys/firmware/efi/efivars/SecureBoot-*; do
  [ ! -r "$f" ] || od -An -tu1 -j4 -N1 "$f"
done"""
        ),
        "cloudinit": sh("[ ! -e /etc/cloud/cloud.cfg ] || echo yes"),
        "firewall": sh(
            """\
if grep -q '^ENABLED=yes' /etc/ufw/ufw.conf 2>/dev/null; then echo ufw
elif command -v firewall-cmd >/dev/null && firewall-cmd --state >/dev/null 2>&1; then echo firewalld
elif command -v nft >/dev/null; then
  nft list ruleset 2>/dev/null | awk '
    /hook input/ {{ inside = 1; last = /policy drop/ ? "drop" : "" ; next }}
    inside && $1 == "}}" {{ if (last ~ /(drop|reject)( |$)/) on = 1; inside = 0 }}
    inside {{ if (last != "drop" || /drop|reject/) last = $0 }}
    END {{ if (on) print "nftables" }}'
elif command -v iptables >/dev/null; then
  iptables -S INPUT 2>/dev/null | grep -qE '^-P INPUT DROP|^-A INPUT -j (DROP|REJECT)' &&
    echo iptables
fi"""
        ),
    }
)


Firewall = Literal["", "ufw", "firewalld", "nftables", "iptables"]
_FIREWALLS: Final[Mapping[str, Firewall]] = MappingProxyType(
    {"ufw": "ufw", "firewalld": "firewalld", "nftables": "nftables", "iptables": "iptables"}
)


def firewall(parts: Mapping[str, str]) -> Firewall:
    """The firewall that is on; "" when none is (or when facts were recorded before it was read)."""
    return _FIREWALLS.get(parts.get("firewall", "").strip(), "")


def nvidia_pci(parts: Mapping[str, str]) -> tuple[str, ...]:
    """Device ids of NVIDIA's GPUs and NVSwitches, sorted, one per device: ``("22a3", "2330")``."""
    found: list[str] = []
    for line in parts.get("pci", "").splitlines():
        kind, _, device = line.partition(" ")
        # Class 03 is a display or 3D controller, 0680 a bridge of no other kind: an NVSwitch.
        if kind.startswith(("0x03", "0x0680")):
            found.append(device.removeprefix("0x"))
    return tuple(sorted(found))


def gpu_pci(parts: Mapping[str, str]) -> tuple[str, ...]:
    """Device ids of NVIDIA's GPUs alone (VGA 0300 and 3D controllers 0302)."""
    rows = (line.partition(" ") for line in parts.get("pci", "").splitlines())
    found = (device for kind, _, device in rows if kind.startswith(("0x0300", "0x0302")))
    return tuple(device.removeprefix("0x") for device in found)


def secure_boot(parts: Mapping[str, str]) -> bool:
    """True when the firmware boots signed kernels only, which load signed modules only."""
    return parts.get("secureboot", "").split()[:1] == ["1"]


def cloud_init(parts: Mapping[str, str]) -> bool:
    """True when cloud-init is there, which may write host name and /etc/hosts at each boot."""
    return parts.get("cloudinit", "").strip() == "yes"
