"""Rules about Slurm itself: groups, partitions, versions and authentication."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Final

from corral.errors import CorralError
from corral.spec.explain import near
from corral.spec.findings import Level
from corral.spec.slurm.hostlist import expand
from corral.spec.slurm.releases import Feature, Release, oldest_tested, published, since
from corral.spec.view import Problem, Rule, View, repeated

_VERSION: Final = re.compile(r"(>=|==|~=)?([0-9]{2}\.[0-9]{2})(\.[0-9]{1,2})?")
_TWO_FIELDS: Final = re.compile(r"[0-9]{1,3}:[0-9]{2}")


def group_duplicate(view: View) -> Iterator[Problem]:
    """Two groups of one name."""
    names = [group.group.name for group in view.groups]
    for name in repeated(names):
        last = len(names) - 1 - names[::-1].index(name)
        hint = "give every group its own name"
        yield Problem(("groups", last, "name"), f"two groups are called {name}", hint)


def group_idle(view: View) -> Iterator[Problem]:
    """Groups that no job can reach."""
    used = {name for partition in view.spec.partitions for name in partition.groups}
    busy = _with_other_work(view)
    for group in view.groups:
        if busy.issuperset(group.names) and group.names:
            continue
        if view.spec.partitions and group.group.name not in used:
            message = f"group {group.group.name} is in no partition; no job will run there"
            yield Problem(group.at("name"), message, "add it to a partition's groups")


def _with_other_work(view: View) -> set[str]:
    """Nodes that are there for something else than jobs: controller, file servers, logins."""
    reserved = {s.server for s in view.spec.storage if s.server}
    if view.spec.controller:
        reserved.add(view.spec.controller)
    if view.spec.access.login:
        with contextlib.suppress(CorralError):  # another rule reports it
            reserved.update(expand(view.spec.access.login))
    return reserved


def feature_repeated(view: View) -> Iterator[Problem]:
    """Features that are listed twice on a node."""
    for group in view.groups:
        for name in repeated([group.group.name, *group.group.features]):
            message = f"feature {name} is listed twice; the group's name is one already"
            yield Problem(group.at("features"), message, f"remove {name}")


def partition_duplicate(view: View) -> Iterator[Problem]:
    """Two partitions of one name."""
    names = [partition.name for partition in view.spec.partitions]
    for name in repeated(names):
        last = len(names) - 1 - names[::-1].index(name)
        hint = "give every partition its own name"
        yield Problem(("partitions", last, "name"), f"two partitions are called {name}", hint)


def partition_name(view: View) -> Iterator[Problem]:
    """``PartitionName=DEFAULT`` is a keyword of slurm.conf, in any case."""
    for i, partition in enumerate(view.spec.partitions):
        if partition.name.lower() == "default":
            message = (
                f"PartitionName={partition.name} sets defaults in slurm.conf; it makes no partition"
            )
            hint = "call it main and write default: true"
            yield Problem(("partitions", i, "name"), message, hint)


def partition_group(view: View) -> Iterator[Problem]:
    """Partitions over groups that do not exist."""
    known = [group.group.name for group in view.groups]
    for i, partition in enumerate(view.spec.partitions):
        for j, name in enumerate(partition.groups):
            if name not in known:
                meant = near(name, known)
                hint = f"did you mean {meant}?" if meant else f"groups: {', '.join(known[:20])}"
                yield Problem(("partitions", i, "groups", j), f"no group is called {name}", hint)


def partition_group_repeated(view: View) -> Iterator[Problem]:
    """A group twice in one partition."""
    for i, partition in enumerate(view.spec.partitions):
        for name in repeated(list(partition.groups)):
            message = f"group {name} is listed twice in partition {partition.name}"
            yield Problem(("partitions", i, "groups"), message, "write it once")


def default_many(view: View) -> Iterator[Problem]:
    """More than one default."""
    names = [(i, p.name) for i, p in enumerate(view.spec.partitions) if p.default]
    for i, name in names[1:]:
        message = f"{name} and {names[0][1]} are both the default"
        hint = "write default: true in one partition"
        yield Problem(("partitions", i, "default"), message, hint)


def default_missing(view: View) -> Iterator[Problem]:
    """No default."""
    if view.spec.partitions and not any(p.default for p in view.spec.partitions):
        message = "no partition is the default; jobs that name none are refused"
        hint = f"write default: true in {view.spec.partitions[0].name}"
        yield Problem(("partitions",), message, hint)


def max_time_zero(view: View) -> Iterator[Problem]:
    """A partition where no job may run."""
    for i, partition in enumerate(view.spec.partitions):
        if not re.search(r"[1-9a-z]", partition.max_time):
            message = f"max_time {partition.max_time} lets no job run"
            yield Problem(("partitions", i, "max_time"), message, "write infinite for no limit")


def max_time_two(view: View) -> Iterator[Problem]:
    """``12:30`` is hours and minutes here; sbatch reads minutes and seconds."""
    for i, partition in enumerate(view.spec.partitions):
        if _TWO_FIELDS.fullmatch(partition.max_time):
            message = f"max_time {partition.max_time} is hours and minutes; sbatch's are others"
            hint = f'write "{partition.max_time}:00" to leave no doubt'
            yield Problem(("partitions", i, "max_time"), message, hint)


def version_unknown(view: View) -> Iterator[Problem]:
    """Releases that Slurm never had."""
    _, release = version_of(view)
    known = published()
    if release not in known and release < known[-1]:
        older = [each for each in known if each < release]
        newer = [each for each in known if each > release]
        message = f"there is no Slurm {release}"
        hint = f"write a release near it: {' or '.join(map(str, [*older[-1:], *newer[:1]]))}"
        yield Problem(("slurm", "version"), message, hint)


def version_new(view: View) -> Iterator[Problem]:
    """Releases that this Corral does not know."""
    _, release = version_of(view)
    newest = published()[-1]
    if release > newest:
        message = f"Slurm {release} is newer than any that this Corral knows"
        yield Problem(("slurm", "version"), message, f"the newest known is {newest}")


def version_old(view: View) -> Iterator[Problem]:
    """Releases that are too old."""
    _, release = version_of(view)
    oldest = oldest_tested()
    if release in published() and release < oldest:
        message = f"Corral is not tested with Slurm {release}"
        yield Problem(("slurm", "version"), message, f'write ">={oldest}"')


def auth_old(view: View) -> Iterator[Problem]:
    """auth/slurm with a version that lacks it."""
    sign, release = version_of(view)
    first = since(Feature.JWKS_ROTATION)
    if view.spec.slurm.auth == "slurm" and sign != ">=" and release < first:
        message = f"Slurm {release} has no auth/slurm with key rotation"
        hint = f'write auth: munge, or version: ">={first}"'
        yield Problem(("slurm", "auth"), message, hint)


def auth_loose(view: View) -> Iterator[Problem]:
    """auth/slurm with a bound that also takes versions without it."""
    sign, release = version_of(view)
    first = since(Feature.JWKS_ROTATION)
    if view.spec.slurm.auth == "slurm" and sign == ">=" and release < first:
        message = f"auth slurm needs {first}, and version takes {release} too"
        hint = f'write version: ">={first}", or auth: auto'
        yield Problem(("slurm", "auth"), message, hint)


def rest_alone(view: View) -> Iterator[Problem]:
    """REST without accounting."""
    if view.spec.slurm.rest and not view.spec.slurm.accounting:
        message = "without accounting slurmrestd answers nothing about past jobs"
        hint = "write accounting: true for the history, or rest: false"
        yield Problem(("slurm", "accounting"), message, hint)


def version_of(view: View) -> tuple[str, Release]:
    """The sign (== where none is written) and the release of the version asked for."""
    match = _VERSION.fullmatch(view.spec.slurm.version)
    return (match[1] or "==", Release.parse(match[2])) if match else (">=", oldest_tested())


_VERSIONS: Final = ("slurm.version",)
_E, _W, _I = Level.ERROR, Level.WARNING, Level.INFO
RULES: Final = (
    Rule("group-duplicate", _E, "Two groups of one name.",
         (), group_duplicate, ("groups.name",)),
    Rule("group-without-partition", _W, "A group in no partition: its nodes stay idle.",
         (), group_idle, ("groups.name", "partitions.groups", "controller", "storage.server",
                          "access.login")),
    Rule("feature-repeated", _W, "A feature that is listed twice, or that is the group's name, "
         "which is a feature already.", ("groups.name", "groups.features"), feature_repeated),
    Rule("partition-duplicate", _E, "Two partitions of one name.",
         (), partition_duplicate, ("partitions.name",)),
    Rule("partition-name-reserved", _E, "A partition called default: a keyword of slurm.conf.",
         ("partitions.name",), partition_name),
    Rule("partition-group-unknown", _E, "A partition over a group that does not exist.",
         ("partitions.groups",), partition_group, ("groups.name",)),
    Rule("partition-group-repeated", _W, "A group that is listed twice in one partition.",
         ("partitions.groups",), partition_group_repeated),
    Rule("partition-default-many", _E, "More than one default partition.",
         (), default_many, ("partitions.default",)),
    Rule("partition-default-missing", _W, "Partitions, but none for jobs that name none.",
         (), default_missing, ("partitions.default",)),
    Rule("max-time-zero", _E, "A maximum time of zero.",
         ("partitions.max_time",), max_time_zero),
    Rule("max-time-ambiguous", _I, "A maximum time of two numbers: hours and minutes here, minutes "
         "and seconds for sbatch -t.", ("partitions.max_time",), max_time_two),
    Rule("slurm-version-unknown", _E, "A release that Slurm never had.",
         _VERSIONS, version_unknown),
    Rule("slurm-version-new", _W, "A release newer than this Corral knows.",
         _VERSIONS, version_new),
    Rule("slurm-version-old", _W, "A release older than Corral is tested with.",
         _VERSIONS, version_old),
    Rule("auth-slurm-too-old", _E, "auth: slurm with a release older than 24.05.",
         ("slurm.version", "slurm.auth"), auth_old),
    Rule("auth-slurm-loose", _I, "auth: slurm with a version bound that also takes releases before "
         "24.05.", ("slurm.version", "slurm.auth"), auth_loose),
    Rule("rest-without-accounting", _I, "slurmrestd without the database that knows past jobs.",
         ("slurm.rest", "slurm.accounting"), rest_alone),
)  # fmt: skip
