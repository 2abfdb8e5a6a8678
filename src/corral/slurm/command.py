"""Slurm's client commands, each with its reader, for who runs them without a shell. Pure.

The page and the exporter on a controller run these words as they are; ``inspect.slurm`` has the
questions of those who ask a machine in shell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Generic, TypeVar

from corral.slurm import diagnostics
from corral.slurm.job_use import JobUse, parse_use, parse_uses, show_use, show_uses
from corral.slurm.records import Job, Node, Outage, Partition
from corral.slurm.rest.commands import COMMANDS, OLDER, body_of, version_of
from corral.slurm.rest.json_values import records
from corral.slurm.rest.read import ADMINISTRATOR, OPERATOR, USER, jobs_of, nodes_of, partition
from corral.slurm.text import (
    QUEUE_COUNTED,
    QUEUE_TRES,
    SHOW_PARTITIONS,
    TIME_FORMAT,
    parse_counted,
    parse_ping,
    parse_tres,
    readable_outages,
    readable_partitions,
    show_events,
)
from corral.slurm.tres import Gpus

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Command(Generic[T_co]):
    """A command and the reader of what it prints.

    Attributes:
        words: program and arguments.
        parse: reads its standard output.
    """

    words: tuple[str, ...]
    parse: Callable[[str], T_co]


def _nodes(output: str) -> tuple[Node, ...]:
    body = body_of(output)
    return nodes_of(body, version_of(body)).records


def _jobs(output: str) -> tuple[Job, ...]:
    body = body_of(output)
    return jobs_of(body, version_of(body)).records


def _partitions(output: str) -> tuple[Partition, ...]:
    body = body_of(output)
    return tuple(partition(fields, version_of(body)) for fields in records(body.get("partitions")))


_HIDES_NOTHING: Final = frozenset({"", "none", "cloud", "(null)"})


def _hides(output: str) -> frozenset[str] | None:
    """What PrivateData hides, in slurm.conf's words; None where it was not printed.

    ``cloud`` hides nothing: it shows nodes that are powered down.
    """
    values = [value for key, value in _settings(output) if key == "PrivateData"]
    if not values:
        return None
    return frozenset(word.strip().lower() for word in values[-1].split(",")) - _HIDES_NOTHING


def _accounting_hides(output: str) -> frozenset[str] | None:
    """The same of slurmdbd's part: before it sacctmgr prints slurm.conf as it reads it here."""
    _, heading, of_slurmdbd = output.partition("SlurmDBD configuration")
    return _hides(of_slurmdbd) if heading else None


def _settings(output: str) -> Iterable[tuple[str, str]]:
    for line in output.splitlines():
        key, equals, value = line.partition("=")
        if equals:
            yield key.strip(), value.strip()


def _gpus_of_jobs(output: str) -> dict[int, Gpus]:
    return {job.id: gpus for job in _jobs(output) if (gpus := job.gpu_count)}


UNIX_TIMES: Final = MappingProxyType(dict([TIME_FORMAT]))
"""Environment in which these commands print times as unix seconds."""
NODES: Final = Command(COMMANDS["nodes"], _nodes)
NODES_OF_22_05: Final = Command(OLDER["nodes"], _nodes)
PARTITIONS: Final = Command(COMMANDS["partitions"], _partitions)
PARTITIONS_OF_22_05: Final = Command(SHOW_PARTITIONS, readable_partitions)
RUNNING: Final = Command(("squeue", "--all", "--states=running", "--json"), _jobs)
"""22.05 prints the other jobs too."""
COUNTED: Final = Command(QUEUE_COUNTED, parse_counted)
"""All jobs in the columns that metrics need; its times are unix seconds with ``UNIX_TIMES``."""
GPUS_OF_JOBS: Final[Mapping[bool, Command[dict[int, Gpus]]]] = {
    True: Command(QUEUE_TRES, parse_tres),
    False: Command(COMMANDS["jobs"], _gpus_of_jobs),
}
"""GPUs by job, by whether Slurm counts GPUs among the resources of jobs: else only its JSON has
them."""
SCHEDULER: Final = Command(diagnostics.DIAGNOSTICS, diagnostics.scheduler)
SHARES: Final = Command(diagnostics.SHARES, diagnostics.shares)
PRIVATE: Final = Command(("scontrol", "show", "config"), _hides)
"""What slurmctld hides of users from each other."""
PRIVATE_ACCOUNTING: Final = Command(("sacctmgr", "show", "configuration"), _accounting_hides)
"""What slurmdbd hides, by its own PrivateData."""
RELEASE: Final = Command(("sinfo", "--version"), str.strip)
PING: Final = Command(("timeout", "2", "scontrol", "ping"), parse_ping)
"""A frozen slurmctld lets scontrol wait for 30 s."""


def outages_of(node: str, start: str) -> Command[tuple[Outage, ...]]:
    """When a node took no jobs and why, as slurmdbd keeps it; ``start`` as sacctmgr(1) reads it."""
    # env, not UNIX_TIMES: who runs it by ssh passes no environment on.
    words = ("env", "=".join(TIME_FORMAT), *show_events("node", start, node=node))
    return Command(words, readable_outages)


_LEVELS: Final = {"administrator": ADMINISTRATOR, "operator": OPERATOR}


def level_of(user: str) -> Command[str]:
    """A user's admin level in slurmdbd."""
    words = ("sacctmgr", "--noheader", "--parsable2", "show", "user", user, "format=adminlevel")
    return Command(words, lambda answer: _LEVELS.get(answer.strip().lower(), USER))


def use_of_job(job_id: int) -> Command[JobUse]:
    """What an ended job used."""
    return Command(show_use(job_id), lambda answer: parse_use(answer, job_id))


def use_of_jobs(start: str, user: str, states: Iterable[str]) -> Command[dict[int, JobUse]]:
    """What jobs of a user used; arguments as of ``show_uses``."""
    return Command(show_uses(start, user, states), parse_uses)
