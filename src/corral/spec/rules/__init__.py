"""Rules over the cluster file: a table of pure functions, each with id, level and meaning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from corral.spec.findings import Level
from corral.spec.models import ClusterSpec
from corral.spec.providers import PROVIDERS, part_of
from corral.spec.rules import (
    clouds,
    containers,
    drivers,
    fabric,
    machines,
    mesh,
    partitions,
    people,
    queues,
    racks,
    reservations,
    scheduled,
    services,
    shared_resources,
    slurm_settings,
    software,
)
from corral.spec.schema import path_of
from corral.spec.tree import Path
from corral.spec.view import Problem, Rule, View, view_of

__all__ = ["RULES", "Judged", "Problem", "Rule", "View", "judge", "view_of"]

PROBLEMS_AT_MOST: Final = 100
"""Of one rule. A file of 1 MiB has room for 20,000, each with a search for a name like it."""

_OF_PROVIDERS: Final[tuple[Rule, ...]] = tuple(
    rule for provider in PROVIDERS.values() if provider.rules for rule in part_of(provider.rules)
)

RULES: Final = (
    *clouds.RULES,
    *containers.RULES,
    *drivers.RULES,
    *fabric.RULES,
    *_OF_PROVIDERS,
    *machines.RULES,
    *mesh.RULES,
    *queues.RULES,
    *slurm_settings.RULES,
    *partitions.RULES,
    *reservations.RULES,
    *racks.RULES,
    *shared_resources.RULES,
    *people.RULES,
    *software.RULES,
    *services.RULES,
    *scheduled.RULES,
)


@dataclass(frozen=True, slots=True)
class Judged:
    """One problem with the rule that found it."""

    rule: str
    level: Level
    path: Path
    message: str
    hint: str


def judge(spec: ClusterSpec, unknown: tuple[Path, ...] = ()) -> Iterator[Judged]:
    """What all rules report about a cluster.

    Args:
        spec: the cluster.
        unknown: places whose values are not the user's, since those were wrong; nothing is reported
            that rests on one of them.
    """
    view = view_of(spec)
    named = [(path, path_of(path)) for path in unknown]
    for rule in RULES:
        if any(_overlap(field, name) for field in rule.across for _, name in named):
            continue
        doubtful = [p for p, name in named if any(_overlap(field, name) for field in rule.reads)]
        for number, problem in enumerate(rule.check(view)):
            if number == PROBLEMS_AT_MOST:
                more = f"more than {PROBLEMS_AT_MOST} problems of this kind; the rest is not listed"
                yield Judged(rule.id, rule.level, problem.path, more, "correct the listed ones")
                break
            if not any(_same_entry(path, problem.path) for path in doubtful):
                yield Judged(rule.id, rule.level, problem.path, problem.message, problem.hint)


def _overlap(field: str, other: str) -> bool:
    """Whether the other field is this one, holds it or is in it."""
    return field == other or field.startswith(f"{other}.") or other.startswith(f"{field}.")


def _same_entry(path: Path, other: Path) -> bool:
    """Whether two places are in the same entry of each list that both go through."""
    for a, b in zip(path, other, strict=False):
        if a != b:
            return isinstance(a, str) or isinstance(b, str)
    return True
