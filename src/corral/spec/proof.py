"""The scheduled proof: what the cluster measures of itself while nobody needs its nodes."""

from __future__ import annotations

from corral.spec.kinds import Interval, Model, about


class ScheduledProof(Model):
    """A round of measurements on idle nodes, run by the controller."""

    every: Interval = about(
        "restart",
        "How often; off: never. Only idle nodes take part, at the lowest priority, and any job of "
        "a user's that needs a node ends the measurement there at once.",
        default="off",
    )
    minutes: int = about("reload", "Longest time on one node.", default=10, ge=1, le=240)
    drain: bool = about(
        "none",
        "A node far below its peers' median or its own past, twice, is drained with the figure "
        "as the reason, and resumed when a later round finds it healthy; false: only reported, as "
        "always for embedded nodes, which share one machine.",
        default=True,
    )
    at_most: int = about(
        "none",
        "Percent of the nodes that may be out for this at once (one node always may).",
        default=25,
        ge=0,
        le=100,
    )
