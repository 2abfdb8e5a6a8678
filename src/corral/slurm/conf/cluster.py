"""The door for roles: one ``ClusterConf`` in, Slurm's files out, as typed values. Pure.

Values are facts, never guesses; which keys are written, why, under which heading and for which
releases is in ``keys.yaml``. A key that a release does not know is not written for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from corral.slurm.conf.checks import refuse_broken
from corral.slurm.conf.conf_file import (
    ConfFile,
    ConfLine,
    Pairs,
    Setting,
    SlurmFiles,
    assembled,
)
from corral.slurm.conf.model import WITHHELD, ClusterConf, NodeConf, PartitionConf
from corral.slurm.conf.sizes import by_size
from corral.slurm.version import has
from corral.spec.nodes import STATE_DIR
from corral.spec.slurm.hostlist import expand, fold_in_order
from corral.spec.slurm.releases import Feature

SPOOL_DIR: Final = "/var/spool/slurmd"
LOG_DIR: Final = "/var/log/slurm"
JWT_KEY: Final = f"{STATE_DIR}/jwt_hs256.key"
DATABASE: Final = "slurm_acct_db"
SRUN_PORTS: Final = "60001-63000"

# slurmdbd 26.05 on MariaDB 11.8's default: "innodb_snapshot_isolation is enabled, which is not
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


def slurm_files(conf: ClusterConf) -> SlurmFiles:
    """The files of a cluster.

    The same value gives the same bytes; time and size grow linearly with nodes.

    Raises:
        CorralError: a value cannot appear in Slurm's files, or the release cannot do what is asked.
    """
    refuse_broken(conf)
    dbd = _slurmdbd(conf) if conf.accounting_host else None
    return SlurmFiles(_slurm(conf), _gres(conf), _cgroup(conf), dbd, conf.files)


def _auth(conf: ClusterConf) -> tuple[Setting, ...]:
    alternative = (
        Setting("AuthAltTypes", "auth/jwt"),
        Setting("AuthAltParameters", f"jwt_key={JWT_KEY}"),
    )
    return (Setting("AuthType", f"auth/{conf.auth}"), *(alternative if conf.rest else ()))


def _pid_file(conf: ClusterConf, daemon: str) -> str:
    """Where the unit lets the daemon write.

    From 23.11 on the units start the daemon as user slurm with a RuntimeDirectory; before, as root
    without one, and Debian 12's units set PIDFile=/run/slurmctld.pid.
    """
    directory = f"/run/{daemon}" if has(conf.version, Feature.UNIT_RUNS_AS_SLURM) else "/run"
    return f"{directory}/{daemon}.pid"


def _slurm(conf: ClusterConf) -> ConfFile:
    lines = (*_nodes(conf), *_partitions(conf))
    file = assembled(
        "slurm.conf",
        conf.version,
        conf.settings,
        defaults=_defaults(conf),
        declared=conf.declared,
        lines=lines,
    )
    return _with_backup(file, conf) if conf.backup else file


def _with_backup(file: ConfFile, conf: ClusterConf) -> ConfFile:
    """The second SlurmctldHost behind the first: their order is that of the take-over."""
    (first,) = file.lines_of("SlurmctldHost")
    at = file.lines.index(first) + 1
    host = (("SlurmctldHost", f"{conf.backup}({conf.backup_address})"),)
    lines = (*file.lines[:at], ConfLine(host, first.section), *file.lines[at:])
    return replace(file, lines=lines)


def _defaults(conf: ClusterConf) -> Iterator[Setting]:
    """What every cluster has, unless a role gives another value; of two values the first counts."""
    yield from by_size(len(conf.nodes), conf.version)
    yield Setting("ClusterName", conf.name)
    yield Setting("SlurmctldHost", f"{conf.controller}({conf.controller_address})")
    yield Setting("SlurmUser", "slurm")
    yield Setting("SlurmctldParameters", "enable_configless")
    yield from _auth(conf)
    yield Setting("CredType", f"cred/{conf.auth}")
    yield Setting("StateSaveLocation", conf.state)
    if conf.backup:
        yield Setting("SlurmctldTimeout", "30")
    yield Setting("SlurmdSpoolDir", SPOOL_DIR)
    yield Setting("SlurmctldLogFile", f"{LOG_DIR}/slurmctld.log")
    yield Setting("SlurmdLogFile", f"{LOG_DIR}/slurmd.log")
    yield Setting("SlurmctldPidFile", _pid_file(conf, "slurmctld"))
    yield Setting("SlurmdPidFile", "/run/slurmd.pid")
    yield from _scheduled(conf)
    yield Setting("SrunPortRange", SRUN_PORTS)
    yield Setting("MessageTimeout", "30")
    yield Setting("SlurmdTimeout", "120")
    yield Setting("ReturnToService", "2")
    if conf.accounting_host:
        yield Setting("AccountingStorageType", "accounting_storage/slurmdbd")
        yield Setting("AccountingStorageHost", conf.accounting_host)
        yield Setting("AccountingStoreFlags", "job_script")


def _scheduled(conf: ClusterConf) -> Iterator[Setting]:
    """How jobs are kept apart and chosen."""
    yield Setting("ProctrackType", "proctrack/cgroup")
    yield Setting("TaskPlugin", "task/affinity,task/cgroup")
    yield Setting("JobAcctGatherType", "jobacct_gather/cgroup")
    yield Setting("PrologFlags", "Contain")
    yield Setting("SelectType", "select/cons_tres")
    yield Setting("SelectTypeParameters", "CR_Core_Memory")
    yield Setting("MpiDefault", "pmix" if conf.pmix else "none")
    yield Setting("PropagateResourceLimitsExcept", "MEMLOCK")
    resources = _resources(conf)
    no_job = (WITHHELD,) if any(node.withheld for node in conf.nodes) else ()
    if kinds := (*resources, *no_job):
        yield Setting("GresTypes", ",".join(kinds))
    if resources and conf.accounting_host:
        tracked = ",".join(f"gres/{name}" for name in resources)
        yield Setting("AccountingStorageTRES", tracked)
    if not conf.accounting_host and not has(conf.version, Feature.NO_DATABASE):
        # At its start slurmctld takes whatever errno holds (any file that was missing) for the
        # answer of a database that it does not have. It then has no list of associations, and its
        # main scheduler calls every pending job InvalidAccount; backfill does not check, and alone
        # starts them, by default each 30 s. Seen with 23.11.4 of Ubuntu 24.04; the same from 22.05
        # to 24.05. 24.11 sets errno to 0 before (commit 4790a7ac53). slurmctld logs "has invalid
        # account" and "_refresh_assoc_mgr_qos_list: no new list given back". Jobs that find room at
        # their submission start at once, which hides it. A round costs such small clusters little.
        yield Setting("SchedulerParameters", "bf_interval=5")


def _resources(conf: ClusterConf) -> tuple[str, ...]:
    """GPUs and shards of them, where a node has some."""
    gpus = ("gpu",) if any(node.gpu_count for node in conf.nodes) else ()
    return (*gpus, "shard") if any(node.shards for node in conf.nodes) else gpus


def _alike(nodes: tuple[NodeConf, ...]) -> list[tuple[NodeConf, list[NodeConf]]]:
    """Nodes that differ in name and address only, in order of first appearance."""
    groups: dict[NodeConf, list[NodeConf]] = {}
    for node in nodes:
        groups.setdefault(replace(node, name="", address=""), []).append(node)
    return list(groups.items())


def _nodes(conf: ClusterConf) -> Iterator[Pairs]:
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
        yield (*pairs, *model.more)


def _partitions(conf: ClusterConf) -> Iterator[Pairs]:
    share = {node.name: node.real_memory // node.cpus for node in conf.nodes}
    for partition in conf.partitions:
        yield (
            ("PartitionName", partition.name),
            ("Nodes", fold_in_order(partition.nodes)),
            ("Default", "YES" if partition.default else "NO"),
            ("MaxTime", partition.max_time),
            ("DefMemPerCPU", str(max(1, min(share[name] for name in partition.nodes)))),
            *(_background(partition) if partition.background_group else ()),
            *partition.more,
        )


def _background(partition: PartitionConf) -> Pairs:
    return (
        ("PriorityTier", "0"),
        ("PreemptMode", "CANCEL"),
        ("OverSubscribe", "EXCLUSIVE"),
        ("AllowGroups", partition.background_group),
        ("Hidden", "YES"),
    )


def _gres(conf: ClusterConf) -> ConfFile:
    seen: dict[Pairs, list[str]] = {}
    for node in conf.nodes:
        for line in _gpu_lines(node):
            seen.setdefault(line, []).append(node.name)
    notes = () if seen else ("No node of this cluster has a GPU.",)
    lines = ((("NodeName", fold_in_order(names)), *line) for line, names in seen.items())
    return assembled("gres.conf", conf.version, lines=lines, notes=notes)


def _gpu_lines(node: NodeConf) -> Iterator[Pairs]:
    if node.gpu_count and node.gpu_detect == "nvidia":
        # Nothing else with it: a bare Name=gpu makes slurmd drop what it detected (F14).
        yield (("AutoDetect", "nvidia"),)
    elif node.gpu_count:
        for gpu in node.gpus:
            kind = (("Type", gpu.type),) if gpu.type else ()
            yield (("Name", "gpu"), *kind, ("File", gpu.files))
    for gpu in node.gpus:
        # One line a GPU: a count without File is divided among all GPUs of the node, also among
        # those that nobody shares (gres.html, Sharding).
        if gpu.shards and node.gpu_detect == "nvidia":
            yield (("Name", "shard"), ("Count", str(gpu.shards * gpu.count)))
        elif gpu.shards:
            for file in expand(gpu.files):
                yield (("Name", "shard"), ("Count", str(gpu.shards)), ("File", file))
    if node.withheld:
        yield (("Name", WITHHELD), ("File", node.withheld), ("Flags", "explicit"))


def _cgroup(conf: ClusterConf) -> ConfFile:
    settings = [
        Setting("CgroupPlugin", "cgroup/v2" if conf.cgroup == "v2" else "cgroup/v1"),
        Setting("ConstrainCores", "yes"),
        Setting("ConstrainDevices", "yes"),
        Setting("ConstrainRAMSpace", "yes"),
    ]
    if conf.cgroup == "v2" and not conf.systemd:
        settings.append(Setting("IgnoreSystemd", "yes"))
    if conf.swap_limit:
        settings.append(Setting("ConstrainSwapSpace", "yes"))
    return assembled("cgroup.conf", conf.version, settings)


def _slurmdbd(conf: ClusterConf) -> ConfFile:
    settings = (
        *_auth(conf),
        Setting("DbdHost", conf.accounting_host),
        Setting("SlurmUser", "slurm"),
        Setting("LogFile", f"{LOG_DIR}/slurmdbd.log"),
        Setting("PidFile", _pid_file(conf, "slurmdbd")),
        Setting("StorageType", "accounting_storage/mysql"),
        Setting("StorageHost", "localhost"),
        Setting("StorageUser", "slurm"),
        Setting("StorageLoc", DATABASE),
    )
    return assembled("slurmdbd.conf", conf.version, settings)
