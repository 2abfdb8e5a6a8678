"""What NCCL really used, out of its own log (NCCL_DEBUG=INFO): the commonest fault is silent.

NCCL falls back to TCP sockets when it does not find its fast network, reports that in one INFO
line, and runs at a tenth of the speed (failure F59).
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Final

from corral.roles.machine.nccl_plugin import PLUGINS

NETWORKS: Final = {
    "infiniband": ("IB", "IBext", "IBext_v6", "IBext_v7", "IBext_v8", "IBext_v9", "IBext_v10"),
    "roce": ("IB", "IBext", "IBext_v6", "IBext_v7", "IBext_v8", "IBext_v9", "IBext_v10"),
    "ethernet": ("Socket",),
    "efa": ("AWS Libfabric", "Libfabric", "OFI"),
    "tcpx": ("GPUDirectTCPX_v7", "GPUDirectTCPX"),
    **{fabric: (plugin.network,) for fabric, plugin in PLUGINS.items()},
}
"""Names under which NCCL and its plugins announce each kind of fabric."""

SOCKETS: Final = "Socket"
"""NCCL's word for TCP sockets."""

_USING: Final = re.compile(r"NCCL INFO Using network (.+?)\s*$", re.MULTILINE)
_NET: Final = re.compile(r"NCCL INFO NET/([A-Za-z0-9_]+)\s*: Using \[?(.*)", re.MULTILINE)
_VIA: Final = re.compile(r"NCCL INFO Channel [\d/]+ ?: [^\n]{0,120}? via (\S+(?: Libfabric\S*)?)")
_DEVICE: Final = re.compile(r"\[\d+\]([\w.-]+?)(?::\d+/|:[\d.]+<|:[0-9a-f:]+<|/| |$)")
_VERSION: Final = re.compile(r"NCCL version (\S+)")


@dataclass(frozen=True, slots=True)
class Transport:
    """What was used, by a log.

    Attributes:
        network: between nodes, in NCCL's word (``IB``, ``Socket``, ``FasTrak``); "" when it is
            not there.
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
        """True when the log has anything about it."""
        return bool(self.network or self.channels)

    @property
    def within_nodes(self) -> bool:
        """True when the log has channels and none of them goes over a network."""
        return bool(self.channels) and not any(_network(kind) for kind, _ in self.channels)


def transport_of(log: str) -> Transport:
    """Read a log, whatever else is in it."""
    networks = Counter(_USING.findall(log))
    announced = _NET.findall(log)
    paths = _VIA.findall(log)
    kinds = Counter("/".join(path.split("/")[:2]) for path in paths)
    # Without a plugin old versions print only which interfaces were taken, and a log that was
    # filtered may hold the channels alone.
    names = (
        *(name for name, _ in networks.most_common(1)),
        *(name for name, _ in announced[-1:]),
        *(_network(kind) for kind, _ in kinds.most_common()),
    )
    network = next(filter(None, names), "")
    devices: dict[str, None] = {}
    for name, rest in announced:
        if name in network or network in name:
            devices |= dict.fromkeys(_DEVICE.findall("[" + rest))
    version = _VERSION.search(log)
    return Transport(
        network,
        tuple(devices),
        tuple(sorted(kinds.items())),
        sum("GDRDMA" in path for path in paths),
        version[1] if version else "",
    )


def _network(kind: str) -> str:
    """The network of a kind of channel, "" for one within a node."""
    return kind.removeprefix("NET/") if kind.startswith("NET/") else ""


def complaints(transport: Transport, fabric: str, interface: str = "") -> tuple[str, ...]:
    """What is wrong with it, as sentences; empty when it is as declared.

    Args:
        transport: what was used.
        fabric: the declared kind, a key of ``NETWORKS``.
        interface: the declared interface of an Ethernet fabric, "" when any will do.
    """
    expected = NETWORKS.get(fabric, ())
    used = transport.network
    # The network that NCCL names may carry nothing: what the channels took counts as well.
    for name in filter(None, (used, *(_network(kind) for kind, _ in transport.channels))):
        if expected and not any(
            name == known or name.startswith(f"{known} ") for known in expected
        ):
            fallen = " (silent fall-back to TCP sockets)" if name == SOCKETS else ""
            return (f"NCCL used {name} where the fabric is {fabric}{fallen}",)
    if interface and used == SOCKETS and transport.devices and interface not in transport.devices:
        taken = ", ".join(transport.devices)
        return (f"NCCL took the interface {taken}, the data network is {interface}",)
    return ()
