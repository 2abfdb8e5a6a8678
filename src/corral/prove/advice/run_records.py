"""The time of a step, from what ordinary jobs leave behind: MLflow's metrics, a profile."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Final

LEAST_STEPS: Final = 5
"""Fewer intervals are too few: the first steps load libraries and choose kernels."""


def step_of_history(path: Path) -> float:
    """Seconds of a step, by the times at which a run logged a metric.

    The median: start, evaluations and checkpoints are in some intervals only, and what was trained
    a second time after a restart goes back in steps.

    Args:
        path: MLflow's answer to ``metrics/get-history``, as ``corral.track history`` prints it.

    Raises:
        OSError: it cannot be read.
        ValueError, LookupError, TypeError: it is not such a file, or too short.
    """
    logged = sorted(
        (int(entry["timestamp"]), int(entry.get("step", 0)))
        for entry in json.loads(path.read_bytes())["metrics"]
    )
    times = [
        (later - before) / (after - at) / 1000
        for (before, at), (later, after) in pairwise(logged)
        if after > at
    ]
    if len(times) < LEAST_STEPS:
        raise ValueError(f"{len(times)} intervals between steps, {LEAST_STEPS} are needed")
    return median(times)


def step_of_profile(path: Path, gpus: int) -> float:
    """Seconds of a step of the slowest rank of a profiled job.

    Args:
        path: ``summary.json`` of ``corral profile``, or what it prints with ``--json``.
        gpus: of the node that it ran on, each with its own rank.

    Raises:
        OSError: it cannot be read.
        ValueError, LookupError, TypeError: it is not such a file, or not of one node's GPUs.
    """
    ranks: Sequence[Mapping[str, Any]] = json.loads(path.read_bytes())["ranks"]
    if len(ranks) != gpus:
        raise ValueError(f"it has {len(ranks)} ranks, and the node {gpus} GPUs")
    if any(rank["device"] != "gpu" for rank in ranks):
        raise ValueError("it was recorded without GPUs")
    if any(int(rank["steps"]) < 1 for rank in ranks):
        raise ValueError("it has no optimizer steps")
    return max(float(rank["wall_ms"]) / int(rank["steps"]) for rank in ranks) / 1000
