"""What a check works with: the cluster's file, its machines, and work that checks share."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from corral.hosts.fleet import Fleet
from corral.hosts.quote import NOTHING, Script, sh
from corral.hosts.transport import Result
from corral.inspect.facts import Facts
from corral.prove.model import Evidence, Judgement, Verdict
from corral.spec.models import ClusterSpec
from corral.spec.nodes import Node, nodes_of, partitions_of

TAIL_CHARS: Final = 4000
MOST_SHOWN: Final = 6  # problems named in a summary; evidence holds all
T = TypeVar("T")


@dataclass(slots=True)
class ProveContext:
    """One proof's surroundings.

    Attributes:
        spec: the cluster file.
        fleet: runs scripts as root on the nodes.
        controller: name of the node that runs slurmctld.
        user: the user whose name the proof's jobs carry; one without limits where there is one.
        person: a user of the cluster, who writes to folders and logs in; "": the same.
        facts: what each machine is; None where it could not be read.
        token: makes the names of this proof's jobs and files its own.
        slack: seconds that limits are longer by, from what the nodes took to answer (``survey``).
        unread: why nodes could not be read, by node (``survey``).
        without: nodes that are not checked.
        rank_setup: shell that sets the environment of a rank on its fabric, as jobs get it, of a
            partition and a number of nodes; MASTER_ADDR is set before.
    """

    spec: ClusterSpec
    fleet: Fleet
    controller: str
    user: str
    facts: Mapping[str, Facts | None]
    token: str = field(default_factory=lambda: secrets.token_hex(4))
    person: str = ""
    slack: float = 0.0
    unread: dict[str, str] = field(default_factory=dict[str, str])
    without: frozenset[str] = frozenset()
    rank_setup: Callable[[str, int], Script] = field(default=lambda _, __: NOTHING, repr=False)
    _shared: dict[str, asyncio.Task[Any]] = field(
        default_factory=dict[str, "asyncio.Task[Any]"], repr=False
    )

    def __post_init__(self) -> None:
        """One user does all where no other is given."""
        self.person = self.person or self.user

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(node for node in nodes_of(self.spec) if node.name not in self.without)

    @property
    def compute(self) -> tuple[str, ...]:
        """Names of the nodes that run jobs: those whose group is in a partition."""
        groups = {group for part in partitions_of(self.spec) for group in part.groups}
        return tuple(node.name for node in self.nodes if node.group.name in groups)

    @property
    def job_name(self) -> str:
        """The name of every job of this proof."""
        return f"corral-prove-{self.token}"

    async def once(self, key: str, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The outcome of ``make``, run once however many checks ask for it.

        An error is shared too: each check that asks gets it.
        """
        task = self._shared.get(key)
        if task is None:
            task = self._shared[key] = asyncio.create_task(make())
        return await asyncio.shield(task)

    async def control(self, script: Script, *, timeout: float = 60.0) -> Result:
        """Run a script as root on the controller."""
        return await self.fleet.run(self.controller, script, timeout=timeout + self.slack)

    async def close(self) -> None:
        """End shared work that nobody waits for any more."""
        tasks = [task for task in self._shared.values() if not task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def as_user(user: str, script: Script) -> Script:
    """The script run as the job user with a clean environment, from / (root's home is closed)."""
    return sh(
        "cd / && exec runuser -u {user} -- env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
        " LC_ALL=C SLURM_TIME_FORMAT=%s sh -c {script}",
        user=user,
        script=str(script),
    )


def clip(text: str) -> str:
    """The text as evidence keeps it: its last 4000 characters."""
    text = text.strip()
    return text if len(text) <= TAIL_CHARS else f"...{text[-TAIL_CHARS:]}"


def output_of(result: Result) -> str:
    """All that a script printed, errors last."""
    return clip(f"{result.stdout.strip()}\n{result.stderr.strip()}")


def passed(summary: str, *evidence: Evidence) -> Judgement:
    return Judgement(Verdict.PASS, summary, evidence)


def warned(summary: str, *evidence: Evidence) -> Judgement:
    return Judgement(Verdict.WARN, summary, evidence)


def failed(summary: str, *evidence: Evidence) -> Judgement:
    return Judgement(Verdict.FAIL, summary, evidence)


def skipped(reason: str) -> Judgement:
    """A check that does not apply here, and why."""
    return Judgement(Verdict.SKIP, reason)


def left_out(reason: str) -> Judgement:
    """A check that applies here and could not be made now, and why: the proof is not complete."""
    return Judgement(Verdict.SKIP, reason, uncovered=reason)


def verdict_of(problems: list[str], good: str, *evidence: Evidence) -> Judgement:
    """Fail with the problems, or pass with ``good``."""
    if not problems:
        return passed(good, *evidence)
    shown = "; ".join(problems[:MOST_SHOWN])
    left = len(problems) - MOST_SHOWN
    more = f" (and {left} more)" if left > 0 else ""
    return failed(shown + more, *evidence)
