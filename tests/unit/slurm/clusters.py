"""The clusters of the golden files."""

from __future__ import annotations

from dataclasses import replace

from corral.roles.slurm.elastic_nodes import times
from corral.slurm.conf.cluster import slurm_files
from corral.slurm.conf.conf_file import Setting, SlurmFiles, assembled
from corral.slurm.conf.model import ClusterConf, GpuConf, NodeConf, PartitionConf
from corral.slurm.version import SlurmVersion


def nodes(count: int, model: NodeConf, network: str) -> tuple[NodeConf, ...]:
    return tuple(
        replace(model, name=f"{model.name}{i}", address=f"{network}.{i + 10}") for i in range(count)
    )


SLOTS = NodeConf(
    name="node",
    address="",
    cpus=2,
    sockets=1,
    cores_per_socket=2,
    threads_per_core=1,
    memory_mib=7935,
    gpus=(GpuConf("fake", 2, "/dev/nvidia[0-1]"),),
    features=("compute",),
)
WORKSTATION = NodeConf(
    name="node",
    address="",
    cpus=24,
    sockets=1,
    cores_per_socket=24,
    threads_per_core=1,
    memory_mib=128400,
    gpus=(GpuConf("rtx5090", 1, "/dev/nvidia0"),),
    features=("rtx",),
)
PLAIN = NodeConf("cpu", "", 64, 2, 16, 2, 257000)
DGX = NodeConf("dgx", "", 224, 2, 56, 2, 2063000, (GpuConf("h100", 8),), gpu_detect="nvidia")


def cluster(members: tuple[NodeConf, ...], **changes: object) -> ClusterConf:
    base = ClusterConf(
        name="laptop",
        controller=members[0].name,
        controller_address=members[0].address,
        version=SlurmVersion(24, 11, 5),
        auth="slurm",
        accounting_host=members[0].name,
        rest=True,
        cgroup="hybrid",
        systemd=True,
        nodes=members,
        partitions=(PartitionConf("main", tuple(n.name for n in members), True, "INFINITE"),),
    )
    return replace(base, **changes)  # type: ignore[arg-type]


LAPTOP = cluster(nodes(3, SLOTS, "10.88.0"))


def with_settings(**settings: str) -> ClusterConf:
    return replace(LAPTOP, settings=tuple(Setting(k, v) for k, v in settings.items()))


def written(files: SlurmFiles) -> dict[str, str]:
    """The files' texts by name."""
    every = (*files.shared, *((files.dbd,) if files.dbd else ()))
    return {file.name: file.text for file in every}


def render(conf: ClusterConf) -> dict[str, str]:
    return written(slurm_files(conf))


_MIXED = (
    *nodes(2, PLAIN, "10.1.0"),
    *nodes(4, DGX, "10.2.0"),
    replace(SLOTS, name="old9", address="10.3.0.9", gpus=(GpuConf("", 4, "/dev/nvidia[0-2,4]"),),
            features=(), port=7018),
    replace(DGX, name="dgx7", address="10.2.0.17"),
    replace(PLAIN, name="cpu-a", address="10.1.0.99"),
)  # fmt: skip

_TYPES = (
    GpuConf("a100", 2, "/dev/nvidia[0-1]"),
    GpuConf("t4", 2, "/dev/nvidia2,/dev/nvidia3", shards=4),
)
_SHARED = (GpuConf("l4", 2, "/dev/nvidia[0-1]", shards=2),)

CLUSTERS = {
    "laptop": LAPTOP,
    "laptop-munge": replace(LAPTOP, auth="munge"),
    "backup-controller": replace(
        LAPTOP, backup="node1", backup_address="10.89.0.3", state="/shared/slurmctld"
    ),
    "gpu-types": cluster(
        (
            *nodes(2, replace(SLOTS, gpus=_TYPES), "10.88.0"),
            replace(SLOTS, name="share9", address="10.88.0.99", gpus=_SHARED),
        )
    ),
    "gpus-withheld": cluster(
        (
            *nodes(2, replace(SLOTS, withheld="/dev/nvidia2,/dev/nvidia4"), "10.88.0"),
            replace(WORKSTATION, name="all9", address="10.88.0.99"),
        ),
        settings=(Setting("JobSubmitPlugins", "lua"),),
    ),
    "no-accounting-no-rest": replace(LAPTOP, accounting_host="", rest=False),
    "lab-ubuntu-24.04": cluster(
        nodes(3, WORKSTATION, "192.168.1"),
        name="lab",
        version=SlurmVersion(23, 11, 4),
        auth="munge",
        cgroup="v2",
        partitions=(PartitionConf("main", ("node0", "node1", "node2"), True, "2-00:00:00"),),
    ),
    "debian-12": cluster(
        nodes(2, SLOTS, "10.0.0"), version=SlurmVersion(22, 5, 8), auth="munge", cgroup="v2"
    ),
    "ubuntu-22.04": cluster(
        nodes(2, SLOTS, "10.0.0"), version=SlurmVersion(21, 8, 5), auth="munge", cgroup="v1"
    ),
    "ubuntu-26.04": cluster(
        nodes(2, WORKSTATION, "10.0.0"), version=SlurmVersion(25, 11, 2), cgroup="v2"
    ),
    "debian-testing": cluster(
        nodes(2, WORKSTATION, "10.0.0"),
        version=SlurmVersion(26, 5, 5),
        cgroup="v2",
        settings=(Setting("MetricsType", "metrics/openmetrics"),),
    ),
    "no-systemd": cluster(
        nodes(2, WORKSTATION, "10.0.0"), cgroup="v2", systemd=False, swap_limit=False
    ),
    "shares": with_settings(
        AccountingStorageEnforce="associations,limits,qos",
        PriorityType="priority/multifactor",
        PriorityWeightFairshare="100000",
        PriorityWeightQOS="10000",
        PriorityWeightAge="1000",
        PriorityDecayHalfLife="7-0",
        PreemptType="preempt/qos",
        PreemptMode="REQUEUE",
    ),
    "prolog": with_settings(
        Prolog="/etc/slurm/prolog.sh",
        Epilog="/etc/slurm/epilog.sh",
        PrologEpilogTimeout="300",
        SchedulerParameters="nohold_on_prolog_fail",
    ),
    "messages": with_settings(
        MailProg="/usr/local/sbin/corral-notify", ScronParameters="enable", PrologFlags="X11"
    ),
    "health": with_settings(
        HealthCheckProgram="/usr/local/sbin/corral-health",
        HealthCheckInterval="600",
        HealthCheckNodeState="ANY,CYCLE",
    ),
    "nvlink-rack": with_settings(SwitchType="switch/nvidia_imex"),
    "mesh": replace(
        with_settings(
            DebugFlags="NO_CONF_HASH",
            MessageTimeout="60",
            SlurmdTimeout="300",
            TCPTimeout="15",
            BatchStartTimeout="60",
            TreeWidth="65533",
            TopologyPlugin="topology/tree",
        ),
        files=(
            assembled(
                "topology.conf",
                LAPTOP.version,
                lines=(
                    (("SwitchName", "home"), ("Nodes", "node[0-1]")),
                    (("SwitchName", "rent"), ("Nodes", "node2")),
                    (("SwitchName", "mesh"), ("Switches", "home,rent")),
                ),
            ),
        ),
    ),
    "scheduled-proof": replace(
        LAPTOP,
        partitions=(
            *LAPTOP.partitions,
            PartitionConf(
                "corral-proof", ("node0", "node1", "node2"), False, "00:10:00", "corral-proof"
            ),
        ),
        settings=(
            Setting("PreemptType", "preempt/partition_prio", "Jobs that give way"),
            Setting("PreemptMode", "CANCEL", "Jobs that give way"),
        ),
    ),
    "elastic": replace(
        LAPTOP,
        nodes=(LAPTOP.nodes[0], *(replace(n, cloud=True, address="") for n in LAPTOP.nodes[1:])),
        settings=(
            *times(idle=600, boot=900, end=120),
            Setting("SuspendExcNodes", "node0,node[1-2]:1"),
        ),
    ),
    "queues": replace(
        with_settings(
            Licenses="matlab:4,ansys:2",
            PriorityType="priority/multifactor",
            PriorityWeightPartition="10000",
            PreemptType="preempt/partition_prio",
            PreemptMode="CANCEL",
        ),
        partitions=(
            PartitionConf(
                "main",
                ("node0", "node1", "node2"),
                True,
                "INFINITE",
                more=(
                    ("DefaultTime", "01:00:00"),
                    ("State", "DRAIN"),
                    ("MinNodes", "1"),
                    ("MaxNodes", "2"),
                    ("MaxCPUsPerNode", "1"),
                    ("MaxMemPerNode", "1024"),
                    ("PriorityTier", "2"),
                    ("PriorityJobFactor", "10"),
                    ("PreemptMode", "REQUEUE"),
                    ("GraceTime", "30"),
                    ("OverSubscribe", "EXCLUSIVE"),
                    ("AllowGroups", "lab"),
                    ("AllowAccounts", "physics,corral-proof"),
                    ("AllowQos", "high"),
                    ("QOS", "night"),
                    ("Hidden", "YES"),
                ),
            ),
            PartitionConf(
                "low",
                ("node2",),
                False,
                "INFINITE",
                more=(("DenyAccounts", "guests"), ("DenyQos", "high")),
            ),
        ),
    ),
    "settings": replace(
        with_settings(SchedulerParameters="nohold_on_prolog_fail,bf_interval=5"),
        declared=(
            Setting("maxarraysize", "10001"),
            Setting("SchedulerParameters", "bf_interval=60,bf_continue"),
            Setting("MessageTimeout", "60"),
            Setting("PrologFlags", "X11,contain"),
            Setting("KillWait", "20"),
        ),
    ),
    "no-gpu": cluster(nodes(4, PLAIN, "10.1.0"), cgroup="v2"),
    "mixed": cluster(
        _MIXED,
        name="mixed",
        cgroup="v2",
        accounting_host="db1",
        partitions=(
            PartitionConf("cpu", ("cpu0", "cpu1", "cpu-a"), True, "8:00:00"),
            PartitionConf("gpu", tuple(f"dgx{i}" for i in (0, 1, 2, 3, 7)), False, "INFINITE"),
            PartitionConf("all", tuple(n.name for n in _MIXED), False, "30"),
        ),
    ),
}
