"""Which jobs a page shows: words and ``key=value`` as Slurm's commands have them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import takewhile
from operator import attrgetter
from types import MappingProxyType
from typing import Final

from corral.errors import Code, CorralError
from corral.roles.machine.people import PROOF
from corral.slurm.records import Job
from corral.spec.slurm.hostlist import Hosts, hosts, split

MAX_QUERY: Final = 300
KEPT: Final = 1 << 14
"""Hostlists of jobs that are kept as they were read: some 400 bytes each."""
LONG: Final = 128
"""Signs of a hostlist above which it is not kept: with many ranges it takes 40 times its length."""
SHORT: Final = 32
"""Nodes of a job up to which their names are kept too: another 300 bytes."""
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

    A bare word is searched for in number, name, user, partition, state and nodes. ``key=a,b`` takes
    a or b, ``key!=a`` anything else, without regard to case; a state may be cut short as in squeue.
    Of nodes both the query and the job have hostlists, ``nodes=gpu[003-004,7]``: a job matches that
    has one of these nodes; ``nodes=node1`` is not node10. Corral's own jobs, of the proof, are left
    out unless the query names their user or account, or whose jobs does not matter: jobs by their
    number, or on nodes.

    Raises:
        CorralError: USAGE, an unknown key, a broken hostlist, or it is too long.
    """
    if len(query) > MAX_QUERY:
        raise CorralError(Code.USAGE, "this filter is too long", hint="use fewer words")
    words = query.split()
    tests = [_test(word) for word in words]
    if PROOF not in query.lower() and not any(_names_jobs(word) for word in words):
        tests.append(is_users)
    if len(tests) <= 1:
        return tests[0] if tests else lambda _: True
    first, *others = tests  # of 50,000 jobs most fail at the first
    return lambda job: first(job) and all(test(job) for test in others)


def is_users(job: Job) -> bool:
    """Whether it is a user's job, not one of Corral's own."""
    return job.user != PROOF


def _names_jobs(word: str) -> bool:
    return word.lower().startswith(("id=", "nodes="))


def _test(word: str) -> Test:
    key, equals, value = word.partition("=")
    if not equals:
        return _bare(word.lower())
    negated = key.endswith("!")
    key = key.rstrip("!").lower()
    if key not in KEYS:
        raise CorralError(
            Code.USAGE, f"there is no {key!r} to filter by", hint=f"use one of {', '.join(KEYS)}"
        )
    hit = _TESTS.get(key, _exactly)(key, split(value.lower()))
    return (lambda job: not hit(job)) if negated else hit


def _exactly(key: str, values: Sequence[str]) -> Test:
    return lambda job: str(getattr(job, key)).lower() in values


def _one_of_several(key: str, values: Sequence[str]) -> Test:
    """A pending job may name several: ``--partition=a,b``, from 24.11 on ``--qos=a,b``."""

    def hit(job: Job) -> bool:
        has = str(getattr(job, key)).lower()
        return has in values or ("," in has and any(part in values for part in has.split(",")))

    return hit


def _begins(key: str, values: Sequence[str]) -> Test:
    return lambda job: str(getattr(job, key)).lower().startswith(tuple(values))


def _part_of(key: str, values: Sequence[str]) -> Test:
    def hit(job: Job) -> bool:
        has = str(getattr(job, key)).lower()
        return any(part in has for part in values)

    return hit


def _numbered(_: str, values: Sequence[str]) -> Test:
    """Its number, or what it is called: ``12``, ``12_3``, ``12_[4-7]``."""
    return lambda job: str(job.id) in values or job.label.lower() in values


def _on_nodes(_: str, values: Sequence[str]) -> Test:
    nodes = _asked(",".join(values))
    known = dict[str, bool]()  # many jobs share a hostlist

    def hit(job: Job) -> bool:
        text = job.nodes.lower()
        if text not in known:
            has = _hosts(text) if _several(text) else None
            known[text] = text in nodes if has is None else has.meets(nodes)
        return known[text]

    return hit


def _asked(text: str) -> Hosts:
    try:
        return hosts(text)
    except CorralError as error:
        raise replace(error, code=Code.USAGE) from error


_TESTS: Final[Mapping[str, Callable[[str, Sequence[str]], Test]]] = MappingProxyType(
    {
        "id": _numbered,
        "state": _begins,
        "partition": _one_of_several,
        "account": _one_of_several,
        "qos": _one_of_several,
        "name": _part_of,
        "reason": _part_of,
        "nodes": _on_nodes,
    }
)


def _bare(needle: str) -> Test:
    listed = _on_nodes("nodes", [needle]) if hostlist_of(needle) is not None else None
    head = "".join(takewhile(lambda sign: not sign.isdigit(), needle))
    # Of a folded list the names are made only for words that may be a name: text, then digits.
    named = head not in ("", needle)
    known = dict[str, bool]()

    def on_its_nodes(text: str) -> bool:
        if text not in known:
            short, has = _names(text), _hosts(text)
            names = has or () if short is None else (short,)
            known[text] = any(needle in name for name in names)
        return known[text]

    def hit(job: Job) -> bool:
        if needle in _text(job):
            return True
        if listed is not None:
            return listed(job)
        nodes = job.nodes.lower()
        return named and _several(nodes) and head in nodes and on_its_nodes(nodes)

    return hit


def _several(nodes: str) -> bool:
    return "[" in nodes or "," in nodes


def hostlist_of(word: str) -> Hosts | None:
    """A bare word that is a folded hostlist; None for any other, and one that is half typed."""
    return _hosts(word) if "[" in word else None


def _names(nodes: str) -> str | None:
    """The names of a short hostlist, a blank between them; None where it is long."""
    return _kept_names(nodes) if len(nodes) <= LONG else None


@lru_cache(maxsize=KEPT)
def _kept_names(nodes: str) -> str | None:
    has = _hosts(nodes)
    return " ".join(has) if has is not None and len(has) <= SHORT else None


def _hosts(nodes: str) -> Hosts | None:
    """The hostlist of a job; None where it is none that can be read."""
    return _kept_hosts(nodes) if len(nodes) <= LONG else _read_hosts(nodes)


@lru_cache(maxsize=KEPT)
def _kept_hosts(nodes: str) -> Hosts | None:
    return _read_hosts(nodes)


def _read_hosts(nodes: str) -> Hosts | None:
    try:
        return hosts(nodes)
    except CorralError:
        return None


def _text(job: Job) -> str:
    """What a bare word is searched for in; a word has no end of a line in it."""
    return (
        f"{job.label}\n{job.id}\n{job.name}\n{job.user}\n{job.partition}\n{job.nodes}\n{job.state}"
    ).lower()


def ordered(jobs: Iterable[Job], by: str, *, down: bool) -> list[Job]:
    """Jobs in an order; those without the value come last either way.

    Raises:
        CorralError: USAGE, no such order.
    """
    if by not in ORDERS:
        raise CorralError(Code.USAGE, f"no order {by!r}", hint=f"one of {', '.join(ORDERS)}")
    value, known, unknown = attrgetter(by), list[Job](), list[Job]()
    for job in jobs:
        (unknown if value(job) is None else known).append(job)
    key = value if by == "id" else attrgetter(by, "id")
    return sorted(known, key=key, reverse=down) + unknown
