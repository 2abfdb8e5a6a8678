"""Rules about the nodes' own health check."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from corral.durations import interval_seconds
from corral.spec.findings import Level
from corral.spec.view import Problem, Rule, View

SHORTEST: Final = 30
LONGEST: Final = 18 * 3600
"""HealthCheckInterval is a 16-bit number of seconds: 65535 are 18 hours and some minutes."""


def interval(view: View) -> Iterator[Problem]:
    """Too often, or more seldom than Slurm can count."""
    every = view.spec.health.every
    seconds = interval_seconds(every)
    if seconds and not SHORTEST <= seconds <= LONGEST:
        message = f"a health check every {every} is outside of 30s to 18h"
        yield Problem(("health", "every"), message, "write 5m, or off")


RULES: Final = (
    Rule("health-interval", Level.ERROR, "A health check too often or too seldom for Slurm.",
         ("health.every",), interval),
)  # fmt: skip
