"""The checks of the node health program as data: what each looks at, and what its failure means.

Thresholds stand in ``agents/health.sh`` beside the code that uses them; sources here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

TAG: Final = "health."
"""Begins the id of every check, and so the drain reason of every node that the program drained."""


@dataclass(frozen=True, slots=True)
class HealthKind:
    """One check of a node's health.

    Attributes:
        id: stable; begins the drain reason.
        title: what is wrong when it fails, as a sentence without a full stop.
        looks: what it looks at.
        fails: when it fails.
        fix: what to do.
        source: where the rule comes from.
        failure: the failure of the doctor's catalogue that it shows.
        twice: it must fail twice running before the node is drained.
    """

    id: str
    title: str
    looks: str
    fails: str
    fix: str
    source: str
    failure: str
    twice: bool = False


HEALTH: Final[tuple[HealthKind, ...]] = (
    HealthKind(
        "health.gpus",
        "not all of the node's GPUs are there",
        "the device files of gres.conf, and nvidia-smi's list",
        "fewer GPUs than Slurm hands out; nvidia-smi gives no answer in 4 s (twice running)",
        "read dmesg and nvidia-smi on the node; a GPU off the bus needs a reboot, then a power "
        "cycle, then the vendor",
        "NHC, check_nv_gpu_count of DeepOps; failure F10, F77",
        "F10",
    ),
    HealthKind(
        "health.ecc",
        "a GPU's memory has uncorrected errors",
        "ECC counters since the last reset (nvidia-smi)",
        "one uncorrected error, or 20 million corrected ones",
        "reset the GPU once it is idle (nvidia-smi --gpu-reset) or reboot; if it comes back: "
        "field diagnostics and the vendor",
        "azurehpc-health-checks; NVIDIA, GPU memory error management",
        "F78",
    ),
    HealthKind(
        "health.remap",
        "a GPU has memory rows that wait to be remapped, or cannot be",
        "remapped rows (nvidia-smi, Ampere and newer)",
        "a row is pending, or remapping failed; more than 10 remapped rows are told as a warning",
        "pending: reset the GPU or reboot; failed: the card is to be replaced",
        "NVIDIA, row remapping; SuperBench: 83 % of nodes with more than 10 rows regress",
        "F78",
    ),
    HealthKind(
        "health.pcie",
        "a GPU's PCIe link is narrower or slower than it was",
        "lanes, and in P0 the generation (nvidia-smi)",
        "less than this GPU once had on this machine, or one of four and more GPUs less than all "
        "others; less than the maximum since ever is a warning",
        "reseat the card or its riser; after a wanted change of hardware delete "
        "/var/lib/corral/health/best on the node",
        "check_nv_pcie_link_width of DeepOps, which misfires where a board gives fewer lanes",
        "F93",
    ),
    HealthKind(
        "health.xid",
        "the driver reported an error that takes the GPU out",
        "Xid lines in the kernel's log since boot",
        "an Xid whose action is a reset, a reboot or an inspection (table below)",
        "do what the reason names; corral resume after it tells the check that it is done",
        "NVIDIA's Xid catalogue, gpud",
        "F77",
    ),
    HealthKind(
        "health.nvlink",
        "NVLinks of a GPU are down",
        "nvidia-smi nvlink --status",
        "fewer links up than once on this machine, or than on the other GPUs",
        "reboot (and check nvidia-fabricmanager); if it stays: the vendor",
        "NVIDIA; failure F79",
        "F79",
    ),
    HealthKind(
        "health.ib",
        "an RDMA port is down, slow, or loses its link",
        "state, rate, subnet manager and error counters of each port (/sys/class/infiniband)",
        "a port that was up is not, or runs slower than it once did; 5 losses within 24 hours; an "
        "InfiniBand port sees no subnet manager; InfiniBand is declared and no port is up; 100 "
        "more errors within 24 hours are told as a warning",
        "cable, transceiver and switch port; ibstat and mlxlink on the node",
        "check_hw_ib of NHC; Azure and Meta: 5 flaps a day",
        "F94",
    ),
    HealthKind(
        "health.mounts",
        "a shared folder is not mounted or does not answer",
        "/proc/mounts, and stat -f with a deadline of 4 s",
        "not mounted, stale, or no answer; twice running",
        "the file server first; then: corral up FILE",
        "failure F68",
        "F68",
        twice=True,
    ),
    HealthKind(
        "health.clock",
        "the clock is off",
        "the controller's time, as scontrol tells it",
        "more than 5 s between node and controller; twice running",
        "the time service on both (chronyc tracking)",
        "failure F02: Slurm refuses messages that are 300 s old",
        "F02",
        twice=True,
    ),
    HealthKind(
        "health.disk",
        "a local disk is full",
        "df of /, /tmp, /var, /var/log, /run and slurmd's spool",
        "less than 5 % and less than 2 GiB free, or less than 1 % of the inodes",
        "find what fills it (du -xh --max-depth=2), or make it larger",
        "NHC, check_fs_free; failure F67",
        "F67",
    ),
    HealthKind(
        "health.memory",
        "memory of the machine is missing or faulty",
        "MemTotal, and the kernel's EDAC counters",
        "less than Slurm's RealMemory, or one uncorrected error since boot",
        "the machine's event log (ipmitool sel list) names the module",
        "NHC, check_hw_physmem; failure F07",
        "F95",
    ),
    HealthKind(
        "health.spool",
        "slurmd's spool or /tmp cannot be written",
        "an empty file made and removed",
        "it cannot be made (a disk that went read-only, a folder that is gone)",
        "dmesg says why the disk went read-only; fsck, then reboot",
        "NHC, check_fs_mount_rw; failure F71",
        "F71",
    ),
    HealthKind(
        "health.services",
        "a service that GPUs or jobs need does not run",
        "munge where it is Slurm's key, nvidia-fabricmanager, nvidia-persistenced; where enabled",
        "enabled and not active; twice running",
        "journalctl -u NAME on the node",
        "NHC, check_ps_service; failures F03, F23",
        "F73",
        twice=True,
    ),
    HealthKind(
        "health.leftover",
        "processes of jobs that ended are still there, or hold a GPU outside of any job",
        "cgroups of jobs against squeue, and nvidia-smi's list of processes",
        "a process in the cgroup of a job that ended a minute ago or earlier, or a user's process "
        "with a GPU that belongs to no job; twice running",
        "kill them; one that cannot be killed (state D) needs a reboot",
        "DeepOps' epilog: Residual GPU processes found; failure F84",
        "F84",
        twice=True,
    ),
)

BY_ID: Final[Mapping[str, HealthKind]] = MappingProxyType({one.id: one for one in HEALTH})

Do = Literal["drain", "fatal", "job", "derived"]


@dataclass(frozen=True, slots=True)
class Xid:
    """What an Xid asks for.

    Attributes:
        numbers: the Xids.
        do: drain: the node goes out; fatal: when the line says Fatal; derived: when it says what
            to do; job: the job's matter, or only told.
        action: words for the reason.
    """

    numbers: tuple[int, ...]
    do: Do
    action: str


XIDS: Final[tuple[Xid, ...]] = (
    Xid((79,), "drain", "the GPU fell off the bus: reboot, then power cycle"),
    Xid((54,), "drain", "auxiliary power is missing: check its cables"),
    Xid((46, 62, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158), "drain", "reset the GPU"),
    Xid((64, 95), "drain", "memory errors not contained: reset the GPU, on A100 reboot"),
    Xid((48,), "drain", "double bit error: reset the GPU, then field diagnostics"),
    Xid((74,), "drain", "NVLink error: look at the link, then field diagnostics"),
    Xid((144, 145, 146, 147, 148, 149, 150), "fatal", "NVLink fault: reset all GPUs or reboot"),
    Xid((151,), "drain", "restart the machine"),
    Xid((154,), "derived", "the driver asks for a reset, a reboot or a drain"),
    Xid((8, 11, 13, 25, 31, 32, 39, 40, 41, 45, 63, 68, 69, 92, 94, 121, 126), "job", "none"),
)
"""NVIDIA's Xid catalogue by way of gpud, and AWS's table for r590. 45 follows a killed job; 63 and
92 are only told (Azure's check drains for them, and so drains too much); 94 is contained."""


def xid_words() -> str:
    """The table as the program reads it: ``79=drain=words_with_underscores``, spaces between."""
    return " ".join(
        f"{number}={row.do}={row.action.replace(' ', '_')}"
        for row in XIDS
        for number in row.numbers
    )
