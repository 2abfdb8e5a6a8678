"""What NCCL really used, out of its own log (NCCL_DEBUG=INFO): the commonest fault is silent.

NCCL falls back to TCP sockets when it does not find its fast network, says so in one INFO line, and
runs at a tenth of the speed (failure F59).
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Final

NETWORKS: Final = {
    "infiniband": ("IB", "IBext", "IBext_v6", "IBext_v7", "IBext_v8", "IBext_v9", "IBext_v10"),
    "roce": ("IB", "IBext", "IBext_v6", "IBext_v7", "IBext_v8", "IBext_v9", "IBext_v10"),
    "ethernet": ("Socket",),
    "efa": ("AWS Libfabric", "Libfabric", "OFI"),
    "tcpx": ("GPUDirectTCPX_v7", "GPUDirectTCPX"),
    "tcpxo": ("FasTrak",),
}
"""Names under which NCCL and its plugins announce each kind of fabric."""

SOCKETS: Final = "Socket"
"""NCCL's word for TCP sockets."""

_USING: Final = re.compile(r"NCCL INFO Using network (.+?)\s*$", re.MULTILINE)
_NET: Final = re.compile(r"NCCL INFO NET/([A-Za-z0-9_]+)\s*: Using \[?(.*)", re.MULTILINE)
_VIA: Final = re.compile(r"NCCL INFO Channel [\d/]+ ?: .*? via (\S+)")
_DEVICE: Final = re.compile(r"\[\d+\]([\w.-]+?)(?::\d+/|:[\d.]+<|:[0-9a-f:]+<|/| |$)")
_VERSION: Final = re.compile(r"NCCL version (\S+)")


@dataclass(frozen=True, slots=True)
class Transport:
    """What a log says was used.

    Attributes:
        network: between nodes, in NCCL's word (``IB``, ``Socket``, ``FasTrak``); "" when it does
            not say.
        devices: interfaces or adapters it took.
        channels: connections by kind (``P2P/CUMEM``, ``NET/IB``, ``SHM``), counted.
        gpu_direct: network connections that go straight to GPU memory (GDRDMA).
        version: of NCCL.
    """

    network: str = ""
    devices: tuple[str, ...] = ()
    channels: tuple[tuple[str, int], ...] = ()
    gpu_direct: int = 0
    version: str = ""

    @property
    def known(self) -> bool:
        """True when the log says anything about it."""
        return bool(self.network or self.channels)


def transport_of(log: str) -> Transport:
    """Read a log, whatever else stands in it."""
    networks = Counter(_USING.findall(log))
    # Without a plugin old versions say only which interfaces were taken.
    announced = _NET.findall(log)
    network = networks.most_common(1)[0][0] if networks else announced[-1][0] if announced else ""
    devices: dict[str, None] = {}
    for name, rest in announced:
        if name in network or network in name:
            devices |= dict.fromkeys(_DEVICE.findall("[" + rest))
    ways = _VIA.findall(log)
    kinds = Counter("/".join(way.split("/")[:2]) for way in ways)
    version = _VERSION.search(log)
    return Transport(
        network,
        tuple(devices),
        tuple(sorted(kinds.items())),
        sum("GDRDMA" in way for way in ways),
        version[1] if version else "",
    )


def complaints(found: Transport, fabric: str, interface: str = "") -> tuple[str, ...]:
    """What is wrong with it, as sentences; empty when it is as declared.

    Args:
        found: what was used.
        fabric: the declared kind, a key of ``NETWORKS``.
        interface: the declared interface of an Ethernet fabric, "" when any will do.
    """
    if not found.network:
        return ()
    wanted = NETWORKS.get(fabric, ())
    used = found.network
    if wanted and not any(used == name or used.startswith(f"{name} ") for name in wanted):
        fallen = " (silent fall-back to TCP sockets)" if used == SOCKETS else ""
        return (f"NCCL used {used} where the fabric is {fabric}{fallen}",)
    if interface and used == SOCKETS and found.devices and interface not in found.devices:
        taken = ", ".join(found.devices)
        return (f"NCCL took the interface {taken}, the data network is {interface}",)
    return ()
