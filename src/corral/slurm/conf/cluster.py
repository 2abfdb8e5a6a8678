"""The door for roles: one ``ClusterConf`` in, the text of Slurm's files out. Pure.

Values are facts, never guesses; which keys are written, why, and for which releases stands in
``keys.yaml``. A key that a release does not know is not written for it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from corral.slurm.conf.checks import refuse_broken
from corral.slurm.conf.hostlist import fold_in_order
from corral.slurm.conf.model import ClusterConf, NodeConf, PartitionConf, PowerConf
from corral.slurm.conf.writer import HEADER, Writer
from corral.slurm.version import Feature, has

__all__ = [
    "MARIADB_CNF",
    "MARIADB_CONF",
    "ClusterConf",
    "NodeConf",
    "PartitionConf",
    "PowerConf",
    "render",
]

STATE_DIR: Final = "/var/spool/slurmctld"
SPOOL_DIR: Final = "/var/spool/slurmd"
LOG_DIR: Final = "/var/log/slurm"
JWT_KEY: Final = f"{STATE_DIR}/jwt_hs256.key"
DATABASE: Final = "slurm_acct_db"
SRUN_PORTS: Final = "60001-63000"

# slurmdbd 26.05 says of MariaDB 11.8's default: "innodb_snapshot_isolation is enabled, which is not
# supported by Slurm and will cause slurmdbd to fatal when a write conflicts with a concurrent
# transaction"; older releases fail in silence. MariaDB before 10.6.18 has no such variable: loose_.
# The lock wait is accounting.html's advice: the hourly roll-up of a busy cluster needs it.
# From 10.11.17, 11.4.11 and 11.8.7 on (MDEV-38671) 8 TiB of addresses are reserved at the start,
# more than a process has on Arm kernels of 39 bits and on user-mode-linux: InnoDB gives up there.
# A larger pool of the machine's owner raises it (seen with 11.8.6, which takes memory for as much
# as the pool might become: no large value is safe).
MARIADB_CNF: Final = "/etc/mysql/mariadb.conf.d/90-corral.cnf"
MARIADB_CONF: Final = """\
# Written by Corral: what slurmdbd needs of MariaDB; it comes over the unix socket.
[mariadbd]
skip-networking
loose_innodb_snapshot_isolation=OFF
innodb_lock_wait_timeout=900
loose_innodb_buffer_pool_size_max=128M
"""


def render(conf: ClusterConf) -> dict[str, str]:
    """The files of a cluster: name to text.

    Always slurm.conf, gres.conf and cgroup.conf; slurmdbd.conf with an accounting host. The same
    value gives the same bytes; time and size grow linearly with nodes.

    Raises:
        CorralError: a value cannot stand in Slurm's files, or the release cannot do what is asked.
    """
    refuse_broken(conf)
    files = {
        "slurm.conf": _slurm(conf),
        "gres.conf": _gres(conf),
        "cgroup.conf": _cgroup(conf),
    }
    if conf.islands:
        files["topology.conf"] = _topology(conf)
    elif conf.switches:
        files["topology.conf"] = HEADER + conf.switches
    if conf.plugstack:
        files["plugstack.conf"] = conf.plugstack
    if conf.accounting_host:
        files["slurmdbd.conf"] = _slurmdbd(conf)
    return files


def _auth(write: Writer, conf: ClusterConf) -> None:
    write.key("AuthType", f"auth/{conf.auth}")
    if write.file == "slurm.conf":
        write.key("CredType", f"cred/{conf.auth}")
    if conf.rest:
        write.key("AuthAltTypes", "auth/jwt")
        write.key("AuthAltParameters", f"jwt_key={JWT_KEY}")


def _pid_file(conf: ClusterConf, daemon: str) -> str:
    """Where the unit lets the daemon write.

    From 23.11 on the units start the daemon as user slurm with a RuntimeDirectory; before, as root
    without one, and Debian 12's units say PIDFile=/run/slurmctld.pid.
    """
    directory = f"/run/{daemon}" if has(conf.version, Feature.UNIT_RUNS_AS_SLURM) else "/run"
    return f"{directory}/{daemon}.pid"


def _slurm(conf: ClusterConf) -> str:
    gpus = any(node.gpu_count for node in conf.nodes)
    write = Writer("slurm.conf", conf.version)
    write.section("Cluster and controller")
    write.key("ClusterName", conf.name)
    write.key("SlurmctldHost", f"{conf.controller}({conf.controller_address})")
    write.key("SlurmUser", "slurm")
    write.key("SlurmctldParameters", "enable_configless")
    write.section("Authentication")
    _auth(write, conf)
    write.section("Files")
    write.key("StateSaveLocation", STATE_DIR)
    write.key("SlurmdSpoolDir", SPOOL_DIR)
    write.key("SlurmctldLogFile", f"{LOG_DIR}/slurmctld.log")
    write.key("SlurmdLogFile", f"{LOG_DIR}/slurmd.log")
    write.key("SlurmctldPidFile", _pid_file(conf, "slurmctld"))
    write.key("SlurmdPidFile", "/run/slurmd.pid")
    _scheduled(write, conf, gpus=gpus)
    if any(partition.gives_way for partition in conf.partitions) and not conf.preempt:
        write.section("Jobs that give way")
        write.key("PreemptType", "preempt/partition_prio")
        write.key("PreemptMode", "CANCEL")
    _programs(write, conf)
    _links(write, conf)
    if conf.accounting_host:
        write.section("Accounting")
        write.key("AccountingStorageType", "accounting_storage/slurmdbd")
        write.key("AccountingStorageHost", conf.accounting_host)
    if conf.accounting_host and gpus:
        write.key("AccountingStorageTRES", "gres/gpu")
    if conf.accounting_host:
        _shares(write, conf)
    if conf.power:
        write_power(write, conf.power)
    if conf.metrics:
        write.section("Metrics")
        write.key("MetricsType", "metrics/openmetrics")
    write.section("Nodes")
    _nodes(write, conf)
    write.section("Partitions")
    _partitions(write, conf)
    return write.text()


def _links(write: Writer, conf: ClusterConf) -> None:
    """What the links between the nodes ask for."""
    mesh = conf.links == "mesh"
    write.section("Network and time limits")
    write.key("SrunPortRange", SRUN_PORTS)
    write.key("MessageTimeout", "60" if mesh else "30")
    write.key("SlurmdTimeout", "300" if mesh else "120")
    if mesh:
        write.key("TCPTimeout", "15")
        write.key("BatchStartTimeout", "60")
        write.key("TreeWidth", "65533")
    if conf.islands or conf.switches:
        write.key("TopologyPlugin", "topology/block" if conf.blocks else "topology/tree")
    if conf.apart:
        write.key("DebugFlags", "NO_CONF_HASH")
    write.key("ReturnToService", "2")


def _scheduled(write: Writer, conf: ClusterConf, *, gpus: bool) -> None:
    """How jobs are kept apart and chosen."""
    write.section("Isolation and scheduling")
    write.key("ProctrackType", "proctrack/cgroup")
    write.key("TaskPlugin", "task/affinity,task/cgroup")
    write.key("JobAcctGatherType", "jobacct_gather/cgroup")
    write.key("PrologFlags", "Contain")
    write.key("SelectType", "select/cons_tres")
    write.key("SelectTypeParameters", "CR_Core_Memory")
    if gpus:
        write.key("GresTypes", "gpu")
    write.key("MpiDefault", "none")
    write.key("PropagateResourceLimitsExcept", "MEMLOCK")
    if parameters := _scheduling(conf):
        write.key("SchedulerParameters", ",".join(parameters))


def _scheduling(conf: ClusterConf) -> list[str]:
    found = ["nohold_on_prolog_fail"] if conf.prolog else []
    if not conf.accounting_host and not has(conf.version, Feature.NO_DATABASE):
        # At its start slurmctld takes whatever errno holds (any file that was missing) for the
        # answer of a database that it does not have. It then has no list of associations, and its
        # main scheduler calls every pending job InvalidAccount; backfill does not check, and alone
        # starts them, by default each 30 s. Seen with 23.11.4 of Ubuntu 24.04; the same from 22.05
        # to 24.05. 24.11 sets errno to 0 before (commit 4790a7ac53). slurmctld logs "has invalid
        # account" and "_refresh_assoc_mgr_qos_list: no new list given back". Jobs that find room at
        # their submission start at once, which hides it. A round costs such small clusters little.
        found.append("bf_interval=5")
    return found


def _programs(write: Writer, conf: ClusterConf) -> None:
    """What slurmd runs on each node beside jobs."""
    if conf.prolog:
        write.section("Before and after each job")
        write.key("Prolog", conf.prolog)
        write.key("Epilog", conf.epilog)
        write.key("PrologEpilogTimeout", str(conf.prolog_minutes * 60))
    if conf.health:
        write.section("Node health")
        write.key("HealthCheckProgram", conf.health)
        write.key("HealthCheckInterval", str(conf.health_seconds))
        write.key("HealthCheckNodeState", "ANY,CYCLE")


def write_power(write: Writer, power: PowerConf) -> None:
    """Cloud nodes: Slurm says which must come and go; ``corral elastic`` reads that and acts."""
    write.section("Nodes that come and go")
    write.key("ResumeProgram", "/bin/true")
    write.key("SuspendProgram", "/bin/true")
    write.key("SuspendTime", str(power.idle))
    write.key("SuspendTimeout", str(power.end))
    write.key("ResumeTimeout", str(power.boot))
    write.key("ResumeRate", "0")
    write.key("SuspendRate", "0")
    stay = [fold_in_order(power.stay)] if power.stay else []
    stay += [f"{fold_in_order(names)}:{count}" for names, count in power.keep if count]
    if stay:
        write.key("SuspendExcNodes", ",".join(stay))
    write.key("PrivateData", "cloud")


def _shares(write: Writer, conf: ClusterConf) -> None:
    """Limits, fair share and preemption, where accounts or QOS declare them."""
    if conf.limits:
        write.key("AccountingStorageEnforce", "associations,limits,qos")
    if conf.shares:
        write.key("PriorityType", "priority/multifactor")
        write.key("PriorityWeightFairshare", "100000")
        write.key("PriorityWeightQOS", "10000")
        write.key("PriorityWeightAge", "1000")
        write.key("PriorityDecayHalfLife", "7-0")
    if conf.preempt:
        write.key("PreemptType", "preempt/qos")
        write.key("PreemptMode", "REQUEUE")


def _alike(nodes: tuple[NodeConf, ...]) -> list[tuple[NodeConf, list[NodeConf]]]:
    """Nodes that differ in name and address only, in order of first appearance."""
    groups: dict[NodeConf, list[NodeConf]] = {}
    for node in nodes:
        groups.setdefault(replace(node, name="", address=""), []).append(node)
    return list(groups.items())


def _nodes(write: Writer, conf: ClusterConf) -> None:
    for model, nodes in _alike(conf.nodes):
        pairs = [
            ("NodeName", fold_in_order(node.name for node in nodes)),
            *(
                [("State", "CLOUD")]
                if model.cloud
                else [("NodeAddr", fold_in_order(node.address for node in nodes))]
            ),
            ("Port", str(model.port)),
            ("CPUs", str(model.cpus)),
            ("Sockets", str(model.sockets)),
            ("CoresPerSocket", str(model.cores_per_socket)),
            ("ThreadsPerCore", str(model.threads_per_core)),
            ("RealMemory", str(model.real_memory)),
        ]
        if model.gres:
            pairs.append(("Gres", model.gres))
        if model.features:
            pairs.append(("Feature", ",".join(model.features)))
        write.line(pairs)


def _partitions(write: Writer, conf: ClusterConf) -> None:
    share = {node.name: node.real_memory // node.cpus for node in conf.nodes}
    for partition in conf.partitions:
        write.line(
            [
                ("PartitionName", partition.name),
                ("Nodes", fold_in_order(partition.nodes)),
                ("Default", "YES" if partition.default else "NO"),
                ("MaxTime", partition.max_time),
                ("DefMemPerCPU", str(max(1, min(share[name] for name in partition.nodes)))),
                *(_gives_way(partition) if partition.gives_way else ()),
            ]
        )


def _gives_way(partition: PartitionConf) -> list[tuple[str, str]]:
    return [
        ("PriorityTier", "0"),
        ("PreemptMode", "CANCEL"),
        ("OverSubscribe", "EXCLUSIVE"),
        ("AllowGroups", partition.gives_way),
        ("Hidden", "YES"),
    ]


def _gres(conf: ClusterConf) -> str:
    write = Writer("gres.conf", conf.version)
    seen: dict[tuple[str, str, str], list[str]] = {}
    for node in conf.nodes:
        if node.gpu_count:
            kind = (node.gpu_detect, node.gpu_type, node.gpu_files)
            seen.setdefault(kind, []).append(node.name)
    if not seen:
        write.note("No node of this cluster has a GPU.")
    for (detect, gpu_type, files), names in seen.items():
        pairs = [("NodeName", fold_in_order(names))]
        if detect == "nvidia":
            # Nothing beside it: a bare Name=gpu makes slurmd drop what it detected (F14).
            pairs.append(("AutoDetect", "nvidia"))
        else:
            pairs.append(("Name", "gpu"))
            if gpu_type:
                pairs.append(("Type", gpu_type))
            pairs.append(("File", files))
        write.line(pairs)
    return write.text()


def _topology(conf: ClusterConf) -> str:
    """Switches that are not connected: a job's nodes hang on one of them (topology.conf(5))."""
    write = Writer("topology.conf", conf.version)
    for name, nodes in conf.islands:
        write.line([("SwitchName", name), ("Nodes", fold_in_order(nodes))])
    if conf.bridged:
        write.line([("SwitchName", "mesh"), ("Switches", ",".join(conf.bridged))])
    return write.text()


def _cgroup(conf: ClusterConf) -> str:
    write = Writer("cgroup.conf", conf.version)
    write.key("CgroupPlugin", "cgroup/v2" if conf.cgroup == "v2" else "cgroup/v1")
    if conf.cgroup == "v2" and not conf.systemd:
        write.key("IgnoreSystemd", "yes")
    write.key("ConstrainCores", "yes")
    write.key("ConstrainDevices", "yes")
    write.key("ConstrainRAMSpace", "yes")
    if conf.swap_limit:
        write.key("ConstrainSwapSpace", "yes")
    return write.text()


def _slurmdbd(conf: ClusterConf) -> str:
    write = Writer("slurmdbd.conf", conf.version)
    _auth(write, conf)
    write.key("DbdHost", conf.accounting_host)
    write.key("SlurmUser", "slurm")
    write.key("LogFile", f"{LOG_DIR}/slurmdbd.log")
    write.key("PidFile", _pid_file(conf, "slurmdbd"))
    write.key("StorageType", "accounting_storage/mysql")
    write.key("StorageHost", "localhost")
    write.key("StorageUser", "slurm")
    write.key("StorageLoc", DATABASE)
    return write.text()
