"""Nodes that ``--keep-going`` goes on without: they do not answer, or a change on them failed.

Of a thousand machines some are always down. Such a node keeps what it holds and its line in
slurm.conf, from the facts that it had when it was last read, or from those of a node of its group:
Slurm marks it down, and the next ``up`` that reaches it does the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from corral.errors import Code, CorralError, NodesFailedError
from corral.events import Emit, Event, Kind
from corral.inspect.facts import Facts
from corral.plurals import plural
from corral.spec.models import ClusterSpec
from corral.spec.nodes import controllers_of, nodes_of
from corral.spec.slurm.hostlist import fold

MOST: Final = 0.5
"""Share of the nodes that may be left out: where more fail, the cause is in the file or here."""

CODES: Final = frozenset(
    {
        Code.UNREACHABLE,
        Code.TIMED_OUT,
        Code.HOST_KEY_CHANGED,
        Code.FORBIDDEN,
        Code.COMMAND_FAILED,
        Code.PARSE_FAILED,
        Code.GATE_FAILED,
    }
)
"""Failures of one machine. A machine that cannot hold what the file declares is another thing."""

HINT: Final = "corral up --keep-going goes on without it, where others do not depend on it"


class LeftOut:
    """The nodes that one run leaves out.

    Args:
        spec: the cluster.
        known: nodes left out from the start, as in an approved plan: node to the reason.

    Attributes:
        errors: why each is left out.
        owed: stages whose gates were not asked, as a change failed in them.
    """

    def __init__(self, spec: ClusterSpec, known: Mapping[str, str] | None = None) -> None:
        self.errors: dict[str, CorralError] = {
            node: CorralError(Code.UNREACHABLE, reason, node=node)
            for node, reason in (known or {}).items()
        }
        self._nodes = {node.name: node.group.name for node in nodes_of(spec)}
        self._needed = needed(spec)
        self.owed: set[str] = set()

    def takes(self, error: CorralError) -> bool:
        """Whether the run can go on without the nodes of this error; then they are left out.

        Not without a node that others depend on, and not where more than half would be left out.
        """
        failures = {e.node: e for e in failures_of(error) if e.code in CODES}
        if not failures or len(failures) < len(failures_of(error)):
            return False
        if any(n not in self._nodes or n in self._needed or n in self.errors for n in failures):
            return False
        both = {**self.errors, **failures}
        if len(both) > len(self._nodes) * MOST:
            return False
        self.errors = both
        return True

    def facts(self, guess: Mapping[str, Facts], read: Mapping[str, Facts]) -> Mapping[str, Facts]:
        """What is known of the nodes that are left out.

        Args:
            guess: facts of the last time.
            read: facts of the nodes that answered.

        Raises:
            CorralError: the node's own error, where it has never answered and no node of its group
                has, or nodes get their addresses from a tailnet, which it has not joined.
        """
        by_group = {self._nodes[n]: f for n, f in read.items() if n in self._nodes}
        facts: dict[str, Facts] = {}
        # A plan may be of another file, which has more nodes: it is found stale later.
        for node, error in ((n, e) for n, e in self.errors.items() if n in self._nodes):
            like = by_group.get(self._nodes[node])
            if node in guess:
                facts[node] = guess[node]
            elif like is None or like.mesh.address:
                raise error
            else:  # the hardware of the other one, and nothing that names that machine
                facts[node] = replace(like, node=node, address="", nics=(), host_key="")
        return facts

    @property
    def reasons(self) -> dict[str, str]:
        """Why each node is left out, one sentence."""
        return {node: error.message for node, error in sorted(self.errors.items())}

    @property
    def error(self) -> CorralError | None:
        """All of them as one error; None where no node was left out."""
        if not self.errors:
            return None
        errors = tuple(error for _, error in sorted(self.errors.items()))
        return NodesFailedError(
            errors[0].code if len({e.code for e in errors}) == 1 else Code.COMMAND_FAILED,
            f"{plural(len(errors), 'node')} left out: {fold(list(self.errors))}",
            hint="run it again when they answer: only what they lack is left to do",
            errors=errors,
        )


def needed(spec: ClusterSpec) -> frozenset[str]:
    """Nodes that others depend on: controllers, and servers of shared folders."""
    servers = {storage.server for storage in spec.storage if storage.server}
    return frozenset({*controllers_of(spec), *servers})


def failures_of(error: CorralError) -> Sequence[CorralError]:
    """The errors of single nodes that an error stands for; none where one names no node."""
    failures = error.errors if isinstance(error, NodesFailedError) else (error,)
    return failures if all(e.node for e in failures) else ()


def note_left_out(error: CorralError, emit: Emit) -> None:
    """Report the nodes that an error leaves out, each with its own failure."""
    for failure in failures_of(error):
        emit(Event(Kind.NOTE, "plan", failure.node, f"left out: {failure.message}"))
