"""Curves of the cluster over an hour, a day or a week: fixed questions to Prometheus. Pure.

The browser chooses a span and no question. All spans have the same number of points, whose times
are multiples of the step: viewers of one span share an answer until the next point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

from corral.errors import CorralError
from corral.slurm.states.nodes import POWERED_OFF, NodeBase, NodeState

Span = Literal["hour", "day", "week"]
SPANS: Final[Mapping[Span, int]] = MappingProxyType({"hour": 3600, "day": 86400, "week": 7 * 86400})
POINTS: Final = 240
QUESTIONS: Final[tuple[tuple[str, str, str], ...]] = (
    ("nodes", "take jobs", "sum(corral_node_usable{cluster})"),
    ("nodes", "all", "count(corral_node_usable{cluster})"),
    (
        "nodes",
        "drained",
        "count(corral_node_drained{cluster}) or 0 * count(corral_node_usable{cluster})",
    ),
    (
        "gpus",
        "in use",
        "sum(corral_node_gpus_used{cluster}) and sum(corral_node_gpus{cluster}) > 0",
    ),
    ("gpus", "all", "sum(corral_node_gpus{cluster}) > 0"),
    ("gpus", "busy", "sum(corral_gpu_utilization_ratio{cluster})"),
    ("cpus", "allocated", "sum(corral_node_cpus_used{cluster})"),
    ("cpus", "all", "sum(corral_node_cpus{cluster})"),
    (
        "queue",
        "running",
        'sum(corral_jobs{cluster,state="running"}) or 0 * count(corral_node_usable{cluster})',
    ),
    (
        "queue",
        "pending",
        "sum(corral_jobs_pending{cluster}) or 0 * count(corral_node_usable{cluster})",
    ),
    ("power", "GPUs", "sum(corral_gpu_watts{cluster})"),
    ("power", "nodes", "sum(corral_node_watts{cluster})"),
    ("node_states", "", "sum by (state) (corral_nodes{cluster})"),
    ("job_states", "", "sum by (state) (corral_jobs{cluster})"),
)
"""What is drawn, the name of the curve, and its PromQL with ``{cluster`` for the cluster's label.
Those without a name have a curve for each state (``_BY_STATE``).

Each is unknown while slurmctld does not answer: the exporter has no figures of nodes then, and
``or 0 * count(...)`` is a zero only where it has.
"""


def node_state_name(label: str) -> str:
    """What the page calls the nodes of a state, which Slurm writes as ``idle+drain``."""
    try:
        state = NodeState.parse(label)
    except CorralError:
        return "other"
    if POWERED_OFF & state.flags:
        return "powered down"
    if state.broken:
        return "down"
    if state.drained:
        return "drained" if state.base is NodeBase.IDLE else "draining"
    if state.serviced:
        return "maintenance"
    return state.base.lower() if state.usable else "other"


def job_state_name(label: str) -> str:
    """What the page calls the jobs of a state, which Slurm writes as ``OUT_OF_MEMORY``."""
    return label.lower().replace("_", " ")


_BY_STATE: Final[Mapping[str, Callable[[str], str]]] = MappingProxyType(
    {"node_states": node_state_name, "job_states": job_state_name}
)


@dataclass(frozen=True, slots=True)
class Grid:
    """The times of a span's points.

    Attributes:
        start, end, step: unix seconds.
    """

    start: int
    end: int
    step: int

    @classmethod
    def of(cls, span: Span, now: float) -> Grid:
        """The points of a span that ends now."""
        step = SPANS[span] // POINTS
        end = math.floor(now / step) * step
        return cls(end - SPANS[span], end, step)

    @property
    def times(self) -> list[int]:
        """All of them."""
        return list(range(self.start, self.end + 1, self.step))


def questions(cluster: str) -> list[str]:
    """The PromQL of a cluster, in the order of ``QUESTIONS``."""
    escaped = cluster.replace("\\", r"\\").replace('"', r"\"")
    return [query.replace("{cluster", f'{{cluster="{escaped}"') for _, _, query in QUESTIONS]


def curves(grid: Grid, answers: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """What the page draws of Prometheus' answers; a point that it does not have is None.

    Args:
        grid: the times that were asked for.
        answers: the matrix of each question; a sum is one series, or none.
    """
    times = grid.times
    series: dict[tuple[str, str], dict[int, float | None]] = {}
    for (what, name, _), matrix in zip(QUESTIONS, answers, strict=True):
        if what not in _BY_STATE:
            series[what, name] = _known(matrix)
            continue
        # A state that no node or job had has no value: it is 0 where Slurm answered.
        answered = [at for at, value in series["nodes", "all"].items() if value is not None]
        for state, values in _by_state(matrix, _BY_STATE[what]).items():
            series[what, state] = {**dict.fromkeys(answered, 0.0), **values}
    made: list[dict[str, Any]] = []
    for (what, name), known in series.items():
        values = [known.get(at) for at in times]
        if any(value is not None for value in values):
            made.append({"what": what, "name": name, "values": values})
    return {"at": times, "curves": made}


def _known(matrix: Sequence[Any]) -> dict[int, float | None]:
    return {round(float(at)): finite(text) for row in matrix for at, text in row["values"]}


def _by_state(
    matrix: Sequence[Any], name_of: Callable[[str], str]
) -> dict[str, dict[int, float | None]]:
    """The sum of each state by its name on the page: several of Slurm's have one name."""
    sums: dict[str, dict[int, float | None]] = {}
    for row in matrix:
        values = sums.setdefault(name_of(row["metric"].get("state", "")), {})
        for at, value in _known([row]).items():
            if value is not None:
                values[at] = (values.get(at) or 0.0) + value
    return sums


def finite(text: object) -> float | None:
    """A figure of Prometheus'; None for NaN, infinity and what is not a number."""
    try:
        value = float(str(text))
    except ValueError:
        return None
    return value if math.isfinite(value) else None
