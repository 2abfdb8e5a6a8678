"""What the node health check sees first: links and memory that are less than they were."""

from __future__ import annotations

from typing import Final

from corral.doctor.model import Failure, Layer, Source

FAILURES: Final = (
    Failure(
        "F93",
        "pcie-link-degraded",
        "a PCIe link is narrower or slower than the card on it",
        "a card or riser that does not sit well, or a slot that trained down after errors",
        "reseat the card; where it stays, the slot or the card is to be replaced",
        "check_nv_pcie_link_width of DeepOps' NHC; LnkSta of lspci -vv",
        Layer.MACHINE,
        symptoms=(
            r"PCIe.*limited by .* PCIe x\d+ link",
            r"available PCIe bandwidth, limited by",
        ),
        where=(Source.KERNEL,),
        hardware=True,
    ),
    Failure(
        "F94",
        "rdma-port-down",
        "an RDMA port is down, slow, or loses its link",
        "a cable, a transceiver or a switch port; or a subnet manager that does not run",
        "ibstat and mlxlink on the node; swap cable and port with those of a good node",
        "check_hw_ib of NHC; Azure and Meta take 5 flaps a day for a fault",
        Layer.MACHINE,
        hardware=True,
    ),
    Failure(
        "F95",
        "machine-memory-faulty",
        "memory of the machine is missing or faulty",
        "a module failed or is not seen since the last boot",
        "the machine's event log (ipmitool sel list) names the module; replace it",
        "NHC, check_hw_physmem; the kernel's EDAC counters",
        Layer.MACHINE,
        symptoms=(r"EDAC MC\d+: \d+ UE ", r"Hardware Error.*Uncorrected.*memory"),
        where=(Source.KERNEL,),
        hardware=True,
    ),
)
