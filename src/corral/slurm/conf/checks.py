"""What may appear in Slurm's files at all. A value that could become another line is refused."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from corral.durations import is_max_time
from corral.errors import Code, CorralError
from corral.slurm.conf.keys import every_key
from corral.slurm.conf.model import ClusterConf, GpuConf, NodeConf, PartitionConf
from corral.slurm.version import has, supported
from corral.spec.slurm.releases import Feature, since, written

_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,62}[A-Za-z0-9_])?")
_PARTITION: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,62}")
_ADDRESS: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]{0,253}[A-Za-z0-9_])?")
_FILES: Final = re.compile(r"/dev/[A-Za-z0-9_./-]+(\[[0-9,-]+\])?(,/dev/[A-Za-z0-9_./\[\],-]+)?")
_FEATURE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:+-]{0,63}")
_GPU_TYPE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,62}")
_VALUE: Final = re.compile(r"""[^\s#"'\\\0]+""")
_NODE_WORDS: Final = frozenset({"default", "all", "localhost"})
_MAX_CLUSTER_NAME: Final = 40  # slurm.conf(5), ClusterName: table names of MariaDB
_MAX_PORT: Final = 65535


def refuse_broken(conf: ClusterConf) -> None:
    """Raise one error that names everything wrong with ``conf``; at most ten are spelled out.

    Raises:
        CorralError: at least one value cannot be written.
    """
    wrong = [*_cluster(conf), *_versions(conf), *_nodes(conf), *_partitions(conf)]
    wrong += [*_settings(conf), *_declared(conf)]
    if wrong:
        more = f" (and {len(wrong) - 10} more)" if len(wrong) > 10 else ""  # noqa: PLR2004
        raise CorralError(
            Code.SPEC_INVALID,
            "cannot write Slurm's files: " + "; ".join(wrong[:10]) + more,
            hint="correct the cluster file, or what was read from the machines",
        )


def _cluster(conf: ClusterConf) -> Iterator[str]:
    if not _NAME.fullmatch(conf.name) or len(conf.name) > _MAX_CLUSTER_NAME:
        yield f"cluster name {conf.name!r} is not 1 to 40 letters, digits, '.', '_' or '-'"
    if not _NAME.fullmatch(conf.controller):
        yield f"controller {conf.controller!r} is not a host name"
    if not _ADDRESS.fullmatch(conf.controller_address):
        yield f"controller address {conf.controller_address!r} is not an address"
    if conf.accounting_host and not _NAME.fullmatch(conf.accounting_host):
        yield f"accounting host {conf.accounting_host!r} is not a host name"
    if not conf.nodes:
        yield "the cluster has no node"


def _settings(conf: ClusterConf) -> Iterator[str]:
    given = [(setting.key, setting.value) for setting in (*conf.settings, *conf.declared)]
    given += [pair for line in (*conf.nodes, *conf.partitions) for pair in line.more]
    for key, value in given:
        if not _VALUE.fullmatch(value):
            yield f"{key}: {value!r} is not one word"


def _declared(conf: ClusterConf) -> Iterator[str]:
    """Settings of the cluster file that this release does not know, with those that do."""
    for setting in conf.declared:
        key = every_key()["slurm.conf", "", setting.key.lower()]
        if not key.known_to(conf.version.release):
            first = f"from {key.since} on" if key.since else ""
            until = f"before {key.until}" if key.until else ""
            span = " and ".join(filter(None, (first, until)))
            yield f"slurm.settings.{setting.key}: Slurm has it {span}, here is {conf.version}"


def _versions(conf: ClusterConf) -> Iterator[str]:
    version = conf.version
    if not supported(version):
        yield f"Slurm {version} is not among {written()[0]} to {written()[-1]}"
    if conf.auth == "slurm" and not has(version, Feature.AUTH_SLURM):
        yield f"auth/slurm needs Slurm {since(Feature.AUTH_SLURM)}, here is {version}: use munge"
    if conf.cgroup == "v2" and not has(version, Feature.CGROUP_V2):
        first = since(Feature.CGROUP_V2)
        yield f"cgroup v2 needs Slurm {first}, here is {version}: boot the nodes with cgroup v1"
    withheld = [n.name for n in conf.nodes if n.withheld]
    if withheld and not has(version, Feature.EXPLICIT_GRES):
        first = since(Feature.EXPLICIT_GRES)
        yield f"{withheld[0]}: GPUs that no job gets need Slurm {first}, here is {version}"
    if not has(version, Feature.AUTODETECT_NVIDIA):
        detecting = [n.name for n in conf.nodes if n.gpu_count and n.gpu_detect == "nvidia"]
        if detecting:
            first = since(Feature.AUTODETECT_NVIDIA)
            yield f"{detecting[0]}: AutoDetect=nvidia needs Slurm {first}, here is {version}"


def _nodes(conf: ClusterConf) -> Iterator[str]:
    for node in conf.nodes:
        yield from _node(node)
    for kind, values in (
        ("name", [node.name for node in conf.nodes]),
        ("address and port", [f"{n.address} {n.port}" for n in conf.nodes if not n.cloud]),
    ):
        for value, times in Counter(values).items():
            if times > 1:
                yield f"{times} nodes have the {kind} {value}"


def _node(node: NodeConf) -> Iterator[str]:
    if not _NAME.fullmatch(node.name) or node.name.lower() in _NODE_WORDS:
        yield f"{node.name!r} cannot be a node name in Slurm"
    if not node.cloud and not _ADDRESS.fullmatch(node.address):
        yield f"{node.name}: {node.address!r} is not an address"
    if not 0 < node.port <= _MAX_PORT:
        yield f"{node.name}: port {node.port} does not exist"
    layout = node.sockets * node.cores_per_socket * node.threads_per_core
    if node.cpus < 1 or layout != node.cpus:
        # Slurm would overrule CPUs, and a node that reports less becomes INVAL (F09).
        yield f"{node.name}: {node.cpus} CPUs are not {layout} (sockets x cores x threads)"
    if node.real_memory < 1:
        yield f"{node.name}: {node.memory_mib} MiB is not a memory size"
    for feature in node.features:
        if not _FEATURE.fullmatch(feature):
            yield f"{node.name}: {feature!r} cannot be a feature"
    for gpu in node.gpus:
        yield from _gpu(node, gpu)
    if node.withheld and not _FILES.fullmatch(node.withheld):
        yield f"{node.name}: {node.withheld!r} does not name GPU device files under /dev"


def _gpu(node: NodeConf, gpu: GpuConf) -> Iterator[str]:
    if gpu.count < 1:
        yield f"{node.name}: {gpu.count} GPUs"
    if gpu.type and not _GPU_TYPE.fullmatch(gpu.type):
        yield f"{node.name}: {gpu.type!r} cannot be a GPU type"
    if node.gpu_detect == "files" and not _FILES.fullmatch(gpu.files):
        yield f"{node.name}: {gpu.files!r} does not name GPU device files under /dev"


def _partitions(conf: ClusterConf) -> Iterator[str]:
    names = {node.name for node in conf.nodes}
    defaults = [p.name for p in conf.partitions if p.default]
    if len(defaults) > 1:
        yield f"more than one default partition: {', '.join(defaults)}"
    for name, times in Counter(p.name for p in conf.partitions).items():
        if times > 1:
            yield f"{times} partitions have the name {name}"
    for partition in conf.partitions:
        yield from _partition(partition, names)


def _partition(partition: PartitionConf, known: set[str]) -> Iterator[str]:
    if not _PARTITION.fullmatch(partition.name) or partition.name.lower() == "default":
        # PartitionName=DEFAULT would set defaults for the lines below it, and not be a partition.
        yield f"{partition.name!r} cannot be a partition name in Slurm"
    if not is_max_time(partition.max_time):
        yield f"partition {partition.name}: {partition.max_time!r} is not a time limit"
    if not partition.nodes:
        yield f"partition {partition.name} has no node"
    for name in partition.nodes:
        if name not in known:
            yield f"partition {partition.name} names {name}, which is not a node"
