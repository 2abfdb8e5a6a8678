"""Rules about what partitions limit, admit and preempt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from corral.durations import span_seconds
from corral.spec.findings import Level
from corral.spec.rules.people import FIRST_QOS, OWN_ACCOUNT, undeclared
from corral.spec.tree import Path
from corral.spec.view import Problem, Rule, View

_ACCOUNTS: Final = ("allow_accounts", "deny_accounts")
_QOS: Final = ("allow_qos", "deny_qos")
_OF_DATABASE: Final = (*_ACCOUNTS, *_QOS, "qos")


def _at(index: int, *path: str | int) -> Path:
    return ("partitions", index, *path)


def both_lists(view: View) -> Iterator[Problem]:
    """Slurm does not look at the denied ones where some are allowed."""
    for i, partition in enumerate(view.spec.partitions):
        for allow, deny in (_ACCOUNTS, _QOS):
            if getattr(partition, allow) and getattr(partition, deny):
                message = f"{deny} has no effect next to {allow}: Slurm does not read it then"
                yield Problem(_at(i, deny), message, f"write {allow} or {deny}")


def account_unknown(view: View) -> Iterator[Problem]:
    """Accounts that are not declared."""
    names = [*(a.name for a in view.spec.accounts), OWN_ACCOUNT]
    known = frozenset(names)
    for i, partition in enumerate(view.spec.partitions):
        for field in _ACCOUNTS:
            for j, name in enumerate(getattr(partition, field)):
                if name not in known:
                    yield undeclared(_at(i, field, j), "account", name, names)


def qos_unknown(view: View) -> Iterator[Problem]:
    """QOS that are not declared."""
    names = [*(q.name for q in view.spec.qos), FIRST_QOS]
    known = frozenset(names)
    for i, partition in enumerate(view.spec.partitions):
        for field in _QOS:
            for j, name in enumerate(getattr(partition, field)):
                if name not in known:
                    yield undeclared(_at(i, field, j), "QOS", name, names)
        if partition.qos is not None and partition.qos not in known:
            yield undeclared(_at(i, "qos"), "QOS", partition.qos, names)


def without_accounting(view: View) -> Iterator[Problem]:
    """Accounts and QOS are in slurmdbd."""
    if view.spec.slurm.accounting:
        return
    for i, partition in enumerate(view.spec.partitions):
        for field in _OF_DATABASE:
            if getattr(partition, field):
                message = f"{field} needs slurmdbd, and accounting is off"
                yield Problem(
                    _at(i, field), message, "write slurm: {accounting: true}, or leave out"
                )


def node_bounds(view: View) -> Iterator[Problem]:
    """Bounds on nodes that no job can keep."""
    sizes = {group.group.name: len(group.names) for group in view.groups}
    for i, partition in enumerate(view.spec.partitions):
        least, most = partition.min_nodes, partition.max_nodes
        if least is not None and most is not None and least > most:
            message = f"min_nodes {least} is more than max_nodes {most}: no job runs there"
            yield Problem(_at(i, "min_nodes"), message, f"write at most {most}")
        size = sum(sizes.get(name, 0) for name in dict.fromkeys(partition.groups))
        if least is not None and view.complete and least > size > 0:
            message = f"min_nodes is {least}, and {partition.name} has {size} nodes"
            yield Problem(_at(i, "min_nodes"), message, f"write at most {size}")


def default_time(view: View) -> Iterator[Problem]:
    """A default that is longer than the longest job."""
    for i, partition in enumerate(view.spec.partitions):
        if partition.default_time is None:
            continue
        limit, default = span_seconds(partition.max_time), span_seconds(partition.default_time)
        if limit is not None and (default is None or default > limit):
            message = (
                f"default_time {partition.default_time} is longer than max_time "
                f"{partition.max_time}: jobs that give no time never start"
            )
            yield Problem(_at(i, "default_time"), message, f'write "{partition.max_time}" at most')
        if default == 0:
            yield Problem(_at(i, "default_time"), "default_time 0 lets no job run", "leave it out")


def two_preemptions(view: View) -> Iterator[Problem]:
    """PreemptType is one for the cluster."""
    preempting = next((q.name for q in view.spec.qos if q.preempts), "")
    for i, partition in enumerate(view.spec.partitions):
        if preempting and partition.preempt_mode != "off":
            message = f"QOS {preempting} preempts others: Slurm preempts by QOS or by partition"
            yield Problem(_at(i, "preempt_mode"), message, "leave preempt_mode or preempts out")


def nobody_preempts(view: View) -> Iterator[Problem]:
    """A preemption mode without a partition of a higher tier."""
    highest = max((p.priority_tier or 1 for p in view.spec.partitions), default=1)
    for i, partition in enumerate(view.spec.partitions):
        if partition.preempt_mode != "off" and (partition.priority_tier or 1) >= highest:
            message = f"no partition has a higher priority_tier than {partition.name}: nothing "
            message += "preempts its jobs"
            hint = "write priority_tier: 2 in the partition whose jobs go first"
            yield Problem(_at(i, "preempt_mode"), message, hint)
        if partition.preempt_mode == "off" and partition.grace_time != "off":
            message = f"grace_time has no effect: jobs of {partition.name} are not preempted"
            yield Problem(_at(i, "grace_time"), message, "write preempt_mode, or remove grace_time")


def closed_default(view: View) -> Iterator[Problem]:
    """A default partition that starts no jobs."""
    for i, partition in enumerate(view.spec.partitions):
        if partition.default and partition.state != "up":
            message = f"{partition.name} is the default, and its state is {partition.state}"
            yield Problem(
                _at(i, "state"), message, "jobs that name no partition wait or are refused"
            )


def unused(view: View) -> Iterator[Problem]:
    """Fields that need global keys, which a provider that sets up Slurm does not take."""
    groups = view.where(lambda c: c.configures)
    for i, partition in enumerate(view.spec.partitions if groups else ()):
        for field, idle in (("preempt_mode", "off"), ("priority_job_factor", None)):
            if getattr(partition, field) != idle:
                provider = groups[0].group.provider
                message = f"{field} has no effect with provider {provider}, which sets up Slurm"
                yield Problem(_at(i, field), message, f"remove {field}")


_DATABASE: Final = tuple(f"partitions.{field}" for field in _OF_DATABASE)
_E, _W = Level.ERROR, Level.WARNING
RULES: Final = (
    Rule("partition-access-both", _E, "Accounts or QOS that a partition allows, and others that it "
         "denies: Slurm does not read the second list then.", _DATABASE, both_lists),
    Rule("partition-account-unknown", _E, "A partition for an account that is not declared.",
         ("partitions.allow_accounts", "partitions.deny_accounts"), account_unknown,
         ("accounts.name",)),
    Rule("partition-qos-unknown", _E, "A partition with a QOS that is not declared.",
         ("partitions.allow_qos", "partitions.deny_qos", "partitions.qos"), qos_unknown,
         ("qos.name",)),
    Rule("partition-access-without-accounting", _E, "Accounts or QOS of a partition without "
         "slurmdbd.", _DATABASE, without_accounting, ("slurm.accounting",)),
    Rule("partition-node-bounds", _E, "Fewest nodes above the most nodes, or above all nodes of "
         "the partition.", ("partitions.min_nodes", "partitions.max_nodes", "partitions.groups"),
         node_bounds, ("groups.nodes",)),
    Rule("partition-default-time", _E, "A default time that is zero, or longer than the maximum.",
         ("partitions.default_time", "partitions.max_time"), default_time),
    Rule("partition-preemption-two", _E, "Preemption by QOS and by partition.",
         ("partitions.preempt_mode",), two_preemptions, ("qos.preempts",)),
    Rule("partition-preemption-none", _W, "A partition whose jobs may be preempted, and none of a "
         "higher tier; or a grace time without preemption.",
         ("partitions.grace_time",), nobody_preempts,
         ("partitions.preempt_mode", "partitions.priority_tier")),
    Rule("partition-default-closed", _W, "The default partition is not up.",
         ("partitions.default", "partitions.state"), closed_default),
    Rule("partition-field-unused", _E, "A field of a partition that needs a global key of "
         "slurm.conf, with a provider that sets up Slurm itself.",
         ("partitions.preempt_mode", "partitions.priority_job_factor"), unused,
         ("groups.provider",)),
)  # fmt: skip
