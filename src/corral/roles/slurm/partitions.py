"""Partitions, and what they need: preemption, priorities, access of proofs. Pure."""

from __future__ import annotations

from typing import Final

from corral.durations import max_time
from corral.roles.inventory import Site
from corral.roles.machine.people import PROOF, own_proof_user
from corral.roles.role import Role
from corral.slurm.conf.conf_file import Pairs, Setting
from corral.slurm.conf.fields import keys_of_fields, pairs_of_fields
from corral.slurm.conf.model import Contribution, PartitionConf
from corral.spec.models import ClusterSpec, Partition
from corral.spec.nodes import declared_of, partitions_of

SECTION: Final = "Jobs that give way"
PREEMPTION: Final = (
    Setting("PreemptType", "preempt/partition_prio", SECTION),
    Setting("PreemptMode", "CANCEL", SECTION),
)
"""Preemption by tiers; each partition's line has its own mode where one has a tier or a mode."""

_ADMITTING: Final = ("AllowAccounts", "AllowQos", "AllowGroups")


def tiers_declared(spec: ClusterSpec) -> bool:
    """Whether partitions differ in who goes first: the global mode must not hold for all then."""
    return any(p.priority_tier or p.preempt_mode != "off" for p in spec.partitions)


def preemption_declared(spec: ClusterSpec) -> bool:
    """A partition's jobs give way to those of a higher tier."""
    return any(p.preempt_mode != "off" for p in spec.partitions)


def _partition(spec: ClusterSpec, partition: Partition) -> PartitionConf:
    """A partition with its nodes, there or not, in the file's order."""
    names = tuple(n.name for n in declared_of(spec) if n.group.name in partition.groups)
    longest = max_time(partition.max_time)
    return PartitionConf(
        partition.name, names, partition.default, longest, more=_keys(spec, partition)
    )


def _keys(spec: ClusterSpec, partition: Partition) -> Pairs:
    """Its fields as keys, with what follows from other parts of the cluster file."""
    values = dict(pairs_of_fields("PartitionName", partition, keys_of_fields()))
    if tiers_declared(spec):
        values["PreemptMode"] = partition.preempt_mode.upper()
    if own_proof_user(spec):
        # corral prove measures in every partition, as this user with this account and QOS.
        for key in _ADMITTING:
            if key in values:
                values[key] = f"{values[key]},{PROOF}"
    return tuple(values.items())


def slurm_conf(site: Site) -> Contribution:
    """The partitions; preemption and priorities, where they declare them."""
    settings: list[Setting] = []
    if any(p.priority_job_factor is not None for p in site.spec.partitions):
        settings += [
            Setting("PriorityType", "priority/multifactor"),
            Setting("PriorityWeightPartition", "10000"),
        ]
    if preemption_declared(site.spec):
        settings += PREEMPTION
    return Contribution(
        tuple(settings),
        partitions=tuple(_partition(site.spec, each) for each in partitions_of(site.spec)),
    )


ROLE: Final = Role("partitions", {}, slurm_conf)
