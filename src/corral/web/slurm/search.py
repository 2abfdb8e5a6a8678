"""Which jobs a page shows: words and ``key=value`` as Slurm's commands have them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from corral.errors import Code, CorralError
from corral.roles.machine.people import PROOF
from corral.slurm.records import Job

MAX_QUERY: Final = 300
KEYS: Final = (
    "id", "array", "state", "user", "account", "partition", "qos", "name", "reason", "nodes",
)  # fmt: skip
SHOWN: Final[Mapping[str, Callable[[Job], bool]]] = MappingProxyType(
    {
        "all": lambda _: True,
        "running": lambda job: not job.waiting and not job.ended,
        "waiting": lambda job: job.waiting,
        "ended": lambda job: job.ended,
    }
)
"""The tabs of the page."""
ORDERS: Final = (
    "id", "name", "user", "account", "state", "partition", "qos", "submit_at", "start_at", "end_at",
    "priority", "node_count", "gpus", "cpus", "memory", "limit",
)  # fmt: skip

Test = Callable[[Job], bool]


def parse(query: str) -> Test:
    """The test that a query stands for: ``state=pending,running user=kim train``.

    A bare word is searched for in number, name, user, partition and nodes. ``key=a,b`` takes a or
    b, ``key!=a`` anything else, without regard to case; a state may be cut short as in squeue.
    Corral's own jobs, of the proof, are left out unless the query names their user or account.

    Raises:
        CorralError: USAGE, an unknown key, or it is too long.
    """
    if len(query) > MAX_QUERY:
        raise CorralError(Code.USAGE, "this filter is too long", hint="use fewer words")
    tests = [_test(word) for word in query.split()]
    if PROOF not in query.lower():
        tests.append(is_users)
    return lambda job: all(test(job) for test in tests)


def is_users(job: Job) -> bool:
    """Whether it is a user's job, not one of Corral's own."""
    return job.user != PROOF


def _test(word: str) -> Test:
    key, equals, value = word.partition("=")
    if not equals:
        needle = word.lower()
        return lambda job: any(needle in text.lower() for text in _texts(job))
    negated = key.endswith("!")
    key = key.rstrip("!").lower()
    if key not in KEYS:
        raise CorralError(
            Code.USAGE, f"there is no {key!r} to filter by", hint=f"use one of {', '.join(KEYS)}"
        )
    values = [part.lower() for part in value.split(",") if part]

    def matches(job: Job) -> bool:
        has = str(getattr(job, key)).lower()
        if key == "state":
            hit = any(has.startswith(part) for part in values)
        elif key in ("name", "nodes", "reason"):
            hit = any(part in has for part in values)
        else:
            hit = has in values
        return hit != negated

    return matches


def _texts(job: Job) -> tuple[str, ...]:
    return (job.label, str(job.id), job.name, job.user, job.partition, job.nodes, job.state)


def ordered(jobs: Iterable[Job], by: str, *, down: bool) -> list[Job]:
    """Jobs in an order; those without the value come last either way.

    Raises:
        CorralError: USAGE, no such order.
    """
    if by not in ORDERS:
        raise CorralError(Code.USAGE, f"no order {by!r}", hint=f"one of {', '.join(ORDERS)}")
    known = [job for job in jobs if getattr(job, by) is not None]
    unknown = [job for job in jobs if getattr(job, by) is None]

    def key(job: Job) -> Any:
        return getattr(job, by), job.id

    return sorted(known, key=key, reverse=down) + unknown
