"""Every key Corral writes to slurm.conf's lines of nodes and partitions, with its reason. Data."""

from __future__ import annotations

from typing import Final

from corral.slurm.conf.key import ImpactWord, Key

_MANUAL: Final = "slurm.conf(5)"


def _node(name: str, value: str, reason: str, impact: ImpactWord, source: str = "") -> Key:
    source = f"{_MANUAL}, {source}" if source else _MANUAL
    return Key("slurm.conf", name, value, reason, source, impact, line="NodeName")


def _partition(name: str, value: str, reason: str) -> Key:
    return Key("slurm.conf", name, value, reason, _MANUAL, "reload", line="PartitionName")


LINES: Final = (
    _node(
        "NodeName",
        "names of nodes that are alike, folded",
        "Nodes with equal hardware share one line: short, and one difference stands out.",
        "restart",
    ),
    _node(
        "NodeAddr",
        "their addresses, in the same order",
        "Always written: a name service that fails or answers 127.0.1.1 cannot mislead Slurm.",
        "restart",
        "F05, F06",
    ),
    _node("Port", "6818, or the node's own", "Where slurmd listens on this node.", "restart"),
    _node(
        "CPUs",
        "as slurmd -C reports",
        "More CPUs than the node reports make it INVAL.",
        "restart",
        "F09",
    ),
    _node("Sockets", "as slurmd -C reports", "Topology for binding.", "restart", "F09"),
    _node("CoresPerSocket", "as slurmd -C reports", "Topology for binding.", "restart", "F09"),
    _node(
        "ThreadsPerCore",
        "as slurmd -C reports",
        "Jobs get whole cores: Slurm must know what a core is.",
        "restart",
        "F09",
    ),
    _node(
        "RealMemory",
        "97 % of what slurmd -C reports, in MiB",
        "Unset it is 1 MiB and every --mem fails; all of it, and a kernel update that reserves "
        "more makes the node INVAL.",
        "restart",
        "F07, F08",
    ),
    _node(
        "Gres",
        "gpu:type:count",
        "What jobs may ask for; gres.conf alone has no effect.",
        "restart",
        "F10, F11",
    ),
    _node("Feature", "group name and features", "Jobs choose nodes by --constraint.", "reload"),
    _partition("PartitionName", "the cluster file's partition", "Jobs are submitted to it."),
    _partition("Nodes", "its nodes, folded", "Which nodes it holds."),
    _partition("Default", "YES or NO", "Jobs that name no partition go to the one with YES."),
    _partition("MaxTime", "the cluster file's max_time", "No job holds nodes for longer."),
    _partition(
        "DefMemPerCPU",
        "memory per CPU of the partition's smallest node",
        "Without it a job that says no --mem takes all memory of its node, and the next job waits "
        "while GPUs stand idle.",
    ),
    _partition(
        "PriorityTier",
        "0, partition corral-proof",
        "Below all others, which have 1: scheduled proofs start last and are preempted by any job.",
    ),
    _partition(
        "PreemptMode",
        "CANCEL, partition corral-proof",
        "A measurement that was cut is worth nothing; the next round makes another one.",
    ),
    _partition(
        "OverSubscribe",
        "EXCLUSIVE, partition corral-proof",
        "A measurement beside somebody's job would disturb both.",
    ),
    _partition(
        "AllowGroups", "corral-proof, partition corral-proof", "It is no place for users' jobs."
    ),
    _partition("Hidden", "YES, partition corral-proof", "sinfo shows users what they can use."),
)
