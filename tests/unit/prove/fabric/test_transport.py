"""NCCL's log lines about the transport that it used."""

from __future__ import annotations

import pytest

from corral.prove.fabric.transport import complaints, transport_of

HEAD = "node0:4242:4242 [0] NCCL INFO "
SOCKET = f"""{HEAD}NET/Socket : Using [0]eno1:192.168.1.10<0>
{HEAD}Using network Socket
NCCL version 2.27.3+cuda12.9
{HEAD}Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0
{HEAD}Channel 01/0 : 0[0] -> 1[0] [send] via NET/Socket/0
"""
IB = f"""{HEAD}NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB ib0:10.0.0.1<0>
{HEAD}Using network IB
{HEAD}Channel 00/0 : 7[7] -> 8[0] [receive] via NET/IB/0/GDRDMA
{HEAD}Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
"""
PLUGIN = f"""{HEAD}NET/FasTrak plugin initialized
{HEAD}Using network FasTrak
"""


CHANNELS_ONLY = "\n".join(line for line in SOCKET.splitlines() if "Channel" in line)
OFI = f"{HEAD}Channel 00/0 : 0[0] -> 8[0] [send] via NET/AWS Libfabric/0/GDRDMA\n"


def test_sockets() -> None:
    transport = transport_of(SOCKET)
    assert transport.network == "Socket"
    assert transport.devices == ("eno1",)
    assert transport.channels == (("NET/Socket", 2),)
    assert transport.version == "2.27.3+cuda12.9"
    assert transport.gpu_direct == 0


def test_infiniband() -> None:
    transport = transport_of(IB)
    assert transport.network == "IB"
    assert transport.devices == ("mlx5_0", "mlx5_1")
    assert transport.channels == (("NET/IB", 1), ("P2P/CUMEM", 1))
    assert transport.gpu_direct == 1


@pytest.mark.parametrize(
    ("log", "fabric", "interface", "message"),
    [
        (SOCKET, "ethernet", "", ""),
        (SOCKET, "ethernet", "eno1", ""),
        (SOCKET, "ethernet", "enp5s0", "took the interface eno1"),
        (SOCKET, "infiniband", "", "silent fall-back"),
        (SOCKET, "tcpxo", "", "silent fall-back"),
        (IB, "infiniband", "", ""),
        (IB, "roce", "", ""),
        (IB, "ethernet", "", "NCCL used IB where the fabric is ethernet"),
        (PLUGIN, "tcpxo", "", ""),
        (PLUGIN, "infiniband", "", "NCCL used FasTrak"),
        (IB.replace("IB", "gIB"), "gib", "", ""),
        (IB, "gib", "", "NCCL used IB where the fabric is gib"),
        (SOCKET, "gib", "", "silent fall-back"),
        ("nothing of NCCL", "infiniband", "", ""),
        (CHANNELS_ONLY, "infiniband", "", "silent fall-back"),
        (CHANNELS_ONLY, "ethernet", "", ""),
        (CHANNELS_ONLY.replace("Socket", "IB"), "infiniband", "", ""),
        (IB + CHANNELS_ONLY, "infiniband", "", "silent fall-back"),
        (OFI, "efa", "", ""),
        (OFI, "infiniband", "", "NCCL used AWS Libfabric"),
    ],
)
def test_what_is_not_as_declared(log: str, fabric: str, interface: str, message: str) -> None:
    messages = complaints(transport_of(log), fabric, interface)
    assert (len(messages) == 1 and message in messages[0]) if message else messages == ()
