"""Use case: when nodes took no jobs, why, and which of them are lemons."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final

from corral.api.operations.nodes import chosen
from corral.apply.connection import Connection
from corral.doctor.lemons import CAUSES, DAYS, cause_of, causes_of
from corral.errors import Code, CorralError
from corral.inspect.question import answer_to
from corral.inspect.slurm import outages
from corral.slurm.records import Outage
from corral.spec.models import ClusterSpec
from corral.spec.nodes import nodes_of

ASK_S: Final = 60.0
LONGEST_DAYS: Final = 3650
_DAY_S: Final = 86400


@dataclass(frozen=True, slots=True)
class NodeHistory:
    """When one node took no jobs.

    Attributes:
        node: its name.
        outages: in order of their start.
        causes: what took it out of service in the last 30 days, in words; each once.
    """

    node: str
    outages: tuple[Outage, ...]
    causes: tuple[str, ...]

    @property
    def lemon(self) -> bool:
        """True where three different causes took it out of service within the last 30 days."""
        return len(self.causes) >= CAUSES

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready; times are epoch seconds, ``end`` is null while an outage goes on."""
        return {
            "node": self.node,
            "lemon": self.lemon,
            "causes": list(self.causes),
            "outages": [_as_dict(outage) for outage in self.outages],
        }


def _as_dict(outage: Outage) -> dict[str, Any]:
    cause = cause_of(outage)
    return {
        "start": outage.start,
        "end": outage.end,
        "state": outage.state,
        "by": outage.by,
        "reason": outage.reason,
        "cause": cause.id if cause else "",
        "title": cause.title if cause else "",
    }


async def node_history(
    spec: ClusterSpec, nodes: str = "", *, days: int = DAYS
) -> tuple[NodeHistory, ...]:
    """When nodes took no jobs, from the accounting database; nodes without an outage too.

    Args:
        spec: the cluster.
        nodes: a hostlist; "" for all nodes.
        days: how far back.

    Raises:
        CorralError: USAGE, the cluster has no accounting, or no such list or number of days;
            NOT_FOUND, no such node; COMMAND_FAILED, slurmdbd does not answer.
    """
    require_accounting(spec, "the history of nodes")
    if not 0 < days <= LONGEST_DAYS:
        raise CorralError(
            Code.USAGE,
            f"{days} is not a number of days from 1 to {LONGEST_DAYS}",
            hint="corral nodes history --days 90",
        )
    names = chosen(spec, nodes)
    async with await Connection.open(spec) as session:
        session.require_running()
        answer = await answer_to(
            session.fleet,
            session.controller,
            outages(f"now-{max(days, DAYS)}days"),
            "asking slurmdbd for outages of nodes",
            timeout=ASK_S,
            hint="is slurmdbd up? see: corral status",
        )
    now = time.time()
    shown = [o for o in answer if (o.end or now) >= now - days * _DAY_S]
    late = [o for o in answer if (o.end or now) >= now - DAYS * _DAY_S]
    causes = causes_of(late, len(nodes_of(spec)))
    return tuple(
        NodeHistory(
            name,
            tuple(outage for outage in shown if outage.node == name),
            tuple(cause.title for cause in causes.get(name, {}).values()),
        )
        for name in names
    )


def require_accounting(spec: ClusterSpec, what: str) -> None:
    """Raise where the cluster has no accounting database.

    Args:
        spec: the cluster.
        what: what would be read from it.

    Raises:
        CorralError: USAGE.
    """
    if not spec.slurm.accounting:
        raise CorralError(
            Code.USAGE,
            f"{what} comes from the accounting database, and the cluster file has none",
            hint="write slurm: {accounting: true} and run corral up FILE",
        )
