"""Nodes that a rolling stage drained and that nobody resumed, since Corral was stopped. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, sh
from corral.slurm.records import Node
from corral.slurm.text import readable_nodes
from corral.state.base import ROLL_TAG, Change, Context, Impact, Seen, Standalone


@dataclass(frozen=True, slots=True)
class Resumed(Standalone):
    """On the controller: no node is drained for a stage that is over.

    Its stage is the last one, so what drained the nodes has been done by then.
    """

    @property
    def id(self) -> str:
        """``resume``."""
        return "resume"

    def probe(self) -> Script:
        """Name, state and reason, one node a line; nothing while slurmctld does not answer."""
        return sh("! command -v scontrol >/dev/null || {{ {nodes}; }}", nodes=_NODES)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Resume those that are drained for Corral's own reason, and still are by then."""
        listed = readable_nodes(seen.text).values()
        nodes = [node.name for node in listed if drained_by_roll(node)]
        if not nodes:
            return None
        return Change(
            self.id,
            f"resume {', '.join(nodes)} (drained by a corral that was stopped)",
            " ".join(nodes),
            "",
            sh(
                "for n in {nodes}; do "
                "timeout 10 scontrol --oneliner show nodes $n | grep -qF {reason} || continue; "
                "timeout 30 scontrol update NodeName=$n State=RESUME || exit 1; done",
                nodes=nodes,
                reason=f" Reason={ROLL_TAG}",
            ),
            Impact.NONE,
        )


def drained_by_roll(node: Node) -> bool:
    """Whether a rolling stage drained it."""
    return node.state.drained and node.reason.startswith(ROLL_TAG)


# Three fields of each line: a node's load and free memory differ from one probe to the next.
_NODES: Final = sh(
    "timeout 10 scontrol --oneliner show nodes 2>/dev/null | "
    "sed -n 's/^\\(NodeName=[^ ]*\\) .* \\(State=[^ ]*\\) .* \\(Reason={tag}.*\\)/\\1 \\2 \\3/p' | "
    "sort",
    tag=Script(ROLL_TAG),
)
