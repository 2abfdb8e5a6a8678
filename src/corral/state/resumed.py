"""Nodes that a rolling stage drained and that nobody resumed, since Corral was stopped. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from corral.hosts.quote import Script, sh
from corral.state.base import ROLL_TAG, Change, Context, Impact, Seen


@dataclass(frozen=True, slots=True)
class Resumed:
    """On the controller: no node is drained for a stage that is over.

    Its stage is the last one, so what drained the nodes has been done by then.
    """

    @property
    def id(self) -> str:
        """``resume``."""
        return "resume"

    @property
    def watches(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def probe(self) -> Script:
        """The nodes, one a line; nothing while slurmctld does not answer."""
        return sh("! command -v sinfo >/dev/null || {{ {nodes}; }}", nodes=_NODES)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Resume those that are drained for Corral's own reason."""
        nodes = seen.text.split()
        if not nodes:
            return None
        return Change(
            self.id,
            f"resume {', '.join(nodes)} (drained by a corral that was stopped)",
            " ".join(nodes),
            "",
            sh(
                "for n in $({nodes}); do timeout 30 scontrol update NodeName=$n State=RESUME "
                "|| exit 1; done",
                nodes=_NODES,
            ),
            Impact.NONE,
        )


_NODES = sh(
    "timeout 10 sinfo -h -N -o '%N|%T|%E' | awk -F'|' -v tag={tag} "
    "'$2 ~ /^(drain|drng)/ && index($3, tag) == 1 {{ print $1 }}' | sort -u",
    tag=ROLL_TAG,
)
