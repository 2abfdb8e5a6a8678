"""What jobs and nodes use over time: out of Prometheus, else sampled while somebody looks."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Generic, Protocol, TypeVar

import httpx

from corral import api
from corral.errors import Code, CorralError
from corral.inspect.jobs import BUSY_STEP_S, LEAST_STEPS, busy_query, busy_seconds, either
from corral.runtime.tasks import concurrently
from corral.slurm.records import Job
from corral.spec.slurm.hostlist import expand
from corral.web import history
from corral.web.daemon_client import daemon_client
from corral.web.history import Grid, Span, finite
from corral.web.settings import Declared
from corral.web.slurm.efficiency import GpuUse, seconds_of

T = TypeVar("T")
POINTS: Final = 240
STEP_S: Final = 15.0
NODES_S: Final = 15.0
"""How long one answer about all nodes serves all viewers."""
TROUBLE_S: Final = 10.0
"""How long a failure serves all viewers: each of them would wait ``ANSWER_S`` for the next one."""
SAMPLE_S: Final = 4.0
KEPT: Final = 900
ANSWER_S: Final = 10.0
"""How long Prometheus may take for one answer, and all answers of a history together."""
ANSWER_BYTES: Final = 16 << 20
"""Of one answer: 240 points of 10,000 series are 60 MB, which nobody can look at."""
MOST_NODES: Final = 32
"""Nodes of a job that are sampled by ssh; the first ones."""
OF_A_JOB: Final[Mapping[str, str]] = MappingProxyType(
    {
        "memory": 'sum by (node) (corral_job_memory_bytes{{cluster="{cluster}",jobid="{job}"}})',
        "cpus": "sum by (node) (rate("
        'corral_job_cpu_seconds_total{{cluster="{cluster}",jobid="{job}"}}[1m]))',
        "gpu": "corral_gpu_utilization_ratio * on (cluster, node, gpu)"
        ' corral_gpu_job{{cluster="{cluster}",jobid="{job}"}}',
        "gpu_memory": "corral_gpu_memory_used_bytes * on (cluster, node, gpu)"
        ' corral_gpu_job{{cluster="{cluster}",jobid="{job}"}}',
        "watts": "corral_gpu_watts * on (cluster, node, gpu)"
        ' corral_gpu_job{{cluster="{cluster}",jobid="{job}"}}',
    }
)
DAY_S: Final = 86400.0
OVER_S: Final = 600
GPUS: Final = (
    'avg_over_time(corral_gpu_utilization_ratio{{cluster="{cluster}",node=~"{nodes}"}}[{over}s])'
)
GPU_JOBS: Final = 'corral_gpu_job{{cluster="{cluster}",node=~"{nodes}"}}'
WEEK: Final = 7
MOST_MEASURED: Final = 40
"""Jobs in one such question: those with the most GPU hours."""
OF_A_NODE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "gpu": 'corral_gpu_utilization_ratio{{cluster="{cluster}",node="{node}"}}',
        "gpu_memory": 'corral_gpu_memory_used_bytes{{cluster="{cluster}",node="{node}"}}',
        "watts": 'corral_gpu_watts{{cluster="{cluster}",node="{node}"}}',
        "celsius": 'corral_gpu_celsius{{cluster="{cluster}",node="{node}"}}',
        "memory": 'node_memory_MemTotal_bytes{{cluster="{cluster}",node="{node}"}}'
        ' - node_memory_MemAvailable_bytes{{cluster="{cluster}",node="{node}"}}',
        "cpus": "sum by (node) (rate("
        'node_cpu_seconds_total{{cluster="{cluster}",node="{node}",mode!~"idle|iowait"}}[5m]))',
    }
)
"""Curves of one node; the exporters' labels are those of ``roles/services/metrics.py``."""
GPUS_OF_A_NODE: Final = (
    '{{__name__=~"corral_gpu_.+|corral_health_.+|DCGM_FI_DEV_XID_ERRORS|DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",'
    'cluster="{cluster}",node="{node}"}}'
)
OF_NODES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "celsius": 'max by (node) (corral_gpu_celsius{{cluster="{cluster}"}})'
        ' or max by (node) (node_hwmon_temp_celsius{{cluster="{cluster}"}})',
        "watts": 'sum by (node) (corral_gpu_watts{{cluster="{cluster}"}})',
        "gpu": 'avg by (node) (corral_gpu_utilization_ratio{{cluster="{cluster}"}})',
    }
)


class Figures(Protocol):
    """Where figures over time come from."""

    async def nodes(self) -> dict[str, dict[str, float]]:
        """Figures of each node now, by node and name; only those that there are."""
        ...

    async def job(self, job: Job) -> dict[str, Any]:
        """Curves of one job: ``{"from": ..., "curves": [{"what", "name", "points"}]}``."""
        ...

    async def node(self, name: str) -> dict[str, Any]:
        """Curves of one node over the last day, as ``job`` has them."""
        ...

    async def cluster(self, span: Span) -> dict[str, Any]:
        """Curves of the cluster: ``{"from": ..., "at": times, "curves": [{..., "values"}]}``."""
        ...

    async def readings(self, name: str) -> tuple[api.Reading, ...]:
        """What the GPUs of a node report now; none where it is unknown."""
        ...

    async def gpu_use(self, nodes: Sequence[str]) -> GpuUse:
        """How busy the GPUs of some nodes are; empty where it is unknown."""
        ...

    async def busy(self, jobs: Sequence[Job], days: int) -> dict[int, float]:
        """Seconds that GPUs of jobs which ended in the last days were busy, by job.

        Only of jobs that were measured for nearly all of their time.
        """
        ...

    async def close(self) -> None:
        """End it."""
        ...


@dataclass(slots=True)
class Once(Generic[T]):
    """One answer for all who ask at the same time, kept for a while; a failure too."""

    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _until: float = -math.inf
    _answer: T | None = None
    _failure: CorralError | None = None

    async def get(self, ask: Callable[[], Awaitable[T]], lasts: float) -> T:
        """The answer that is kept, else a new one.

        Args:
            ask: gets one.
            lasts: how many seconds it is kept.

        Raises:
            CorralError: why there is none.
        """
        async with self._asking:
            if time.monotonic() >= self._until:
                self._answer = self._failure = None
                try:
                    self._answer = await ask()
                except CorralError as error:
                    self._failure, lasts = error, TROUBLE_S
                self._until = time.monotonic() + lasts
            if self._answer is None:
                raise self._failure or _silent("no answer")
            return self._answer


class Prometheus:
    """Figures out of the cluster's Prometheus.

    Args:
        address: ``http://127.0.0.1:9090``, or ``unix:/path`` of a socket that leads there.
        transport: httpx's, for tests; None: the network.
        cluster: its name, as the label ``cluster`` has it.
    """

    def __init__(
        self, address: str, transport: httpx.AsyncBaseTransport | None = None, cluster: str = ""
    ) -> None:
        self._http = daemon_client(address, timeout=ANSWER_S, transport=transport)
        self._cluster = cluster
        self._histories: dict[Span, tuple[Grid, dict[str, Any]]] = {}
        self._remembering = {span: asyncio.Lock() for span in history.SPANS}
        self._failed: dict[Span, tuple[float, CorralError]] = {}
        self._nodes = Once[dict[str, dict[str, float]]]()

    async def close(self) -> None:
        await self._http.aclose()

    async def nodes(self) -> dict[str, dict[str, float]]:
        return await self._nodes.get(self._of_nodes, NODES_S)

    async def _of_nodes(self) -> dict[str, dict[str, float]]:
        queries = [query.format(cluster=self._cluster) for query in OF_NODES.values()]
        answers = await self._all("query", [{"query": query} for query in queries])
        by_node: dict[str, dict[str, float]] = {}
        for what, samples in zip(OF_NODES, answers, strict=True):
            for sample in samples:
                value = finite(sample["value"][1])
                if value is not None:
                    by_node.setdefault(sample["metric"].get("node", ""), {})[what] = value
        return by_node

    async def _all(self, path: str, asked: Sequence[dict[str, str]]) -> list[list[Any]]:
        """Several answers, all of which together take no longer than one may.

        Raises:
            CorralError: UNREACHABLE.
        """
        try:
            async with asyncio.timeout(ANSWER_S):
                return await concurrently(*(self._ask(path, params) for params in asked))
        except TimeoutError as error:
            raise _silent(f"no answer within {ANSWER_S:.0f} s") from error

    async def job(self, job: Job) -> dict[str, Any]:
        start, end = job.start_at or time.time(), time.time()
        if job.ended and job.end_at:
            end = min(end, job.end_at + STEP_S)
        params = {
            "start": f"{start:.0f}",
            "end": f"{max(end, start + 1):.0f}",
            "step": f"{max(STEP_S, math.ceil((end - start) / POINTS)):.0f}",
        }
        asked = [
            self._ask(
                "query_range", {**params, "query": query.format(job=job.id, cluster=self._cluster)}
            )
            for query in OF_A_JOB.values()
        ]
        answers = zip(OF_A_JOB, await concurrently(*asked), strict=True)
        curves = [_curve(what, series) for what, matrix in answers for series in matrix]
        return {"from": "prometheus", "curves": curves}

    async def node(self, name: str) -> dict[str, Any]:
        end = time.time()
        step = f"{DAY_S / POINTS:.0f}"
        params = {"start": f"{end - DAY_S:.0f}", "end": f"{end:.0f}", "step": step}
        asked = [
            self._ask(
                "query_range", {**params, "query": query.format(node=name, cluster=self._cluster)}
            )
            for query in OF_A_NODE.values()
        ]
        answers = zip(OF_A_NODE, await concurrently(*asked), strict=True)
        curves = [_curve(what, series) for what, matrix in answers for series in matrix]
        for curve in curves:
            curve["name"] = curve["name"].removeprefix(name).strip() or name
        return {"from": "prometheus", "curves": curves}

    async def cluster(self, span: Span) -> dict[str, Any]:
        """See ``Figures``: one answer for all viewers until the next point is due."""
        async with self._remembering[span]:
            grid = Grid.of(span, time.time())
            known = self._histories.get(span)
            if known is not None and known[0] == grid:
                return known[1]
            until, failure = self._failed.get(span, (0.0, None))
            if failure is not None and time.monotonic() < until:
                raise failure
            params = {"start": f"{grid.start}", "end": f"{grid.end}", "step": f"{grid.step}"}
            queries = history.questions(self._cluster)
            try:
                answers = await self._all("query_range", [{**params, "query": q} for q in queries])
            except CorralError as error:
                self._failed[span] = time.monotonic() + TROUBLE_S, error
                raise
            self._failed.pop(span, None)
            made = {"from": "prometheus", **history.curves(grid, answers)}
            self._histories[span] = grid, made
            return made

    async def readings(self, name: str) -> tuple[api.Reading, ...]:
        samples = await self._ask(
            "query", {"query": GPUS_OF_A_NODE.format(node=name, cluster=self._cluster)}
        )
        values = [(s["metric"], finite(s["value"][1])) for s in samples]
        return tuple(
            api.Reading(labels.get("__name__", ""), labels, value)
            for labels, value in values
            if value is not None
        )

    async def gpu_use(self, nodes: Sequence[str]) -> GpuUse:
        """See ``Figures``: the mean of ten minutes."""
        if not nodes:
            return GpuUse({}, {}, OVER_S)
        names = {"nodes": either(nodes), "cluster": self._cluster}
        used, owned = await concurrently(
            self._ask("query", {"query": GPUS.format(over=OVER_S, **names)}),
            self._ask("query", {"query": GPU_JOBS.format(**names)}),
        )
        shares = {
            place: value
            for sample in used
            if (place := _place(sample["metric"])) is not None
            and (value := finite(sample["value"][1])) is not None
        }
        jobs = dict[tuple[str, int], frozenset[str]]()
        for sample in owned:
            if (place := _place(sample["metric"])) is not None:
                jobs[place] = jobs.get(place, frozenset()) | {sample["metric"].get("jobid", "")}
        return GpuUse(shares, jobs, OVER_S)

    async def busy(self, jobs: Sequence[Job], days: int) -> dict[int, float]:
        """See ``Figures``: of the jobs with the most GPU hours."""
        step = BUSY_STEP_S * (5 if days > WEEK else 1)
        lengths = {job.id: seconds_of(job, 0.0) for job in jobs}
        long = [job for job in jobs if lengths[job.id] >= LEAST_STEPS * step]
        largest = sorted(long, key=lambda job: -(job.gpus or 0) * (job.elapsed or 0))
        chosen = [job for job in largest[:MOST_MEASURED] if job.gpus and job.nodes]
        if not chosen:
            return {}
        # A job that ended in the period began before it.
        query = busy_query(chosen, self._cluster, span_s=(days + 1) * 86400, step=step)
        samples = await self._ask("query", {"query": query})
        return busy_seconds(samples, [(job, lengths[job.id]) for job in chosen], step=step)

    async def _ask(self, path: str, params: dict[str, str]) -> list[Any]:
        limits = {"timeout": f"{ANSWER_S:.0f}s"}
        try:
            async with self._http.stream(
                "GET", f"/api/v1/{path}", params={**params, **limits}
            ) as reply:
                body = bytearray()
                async for part in reply.aiter_bytes():
                    body += part
                    if len(body) > ANSWER_BYTES:
                        raise _silent(f"its answer exceeds {ANSWER_BYTES >> 20} MiB")
            return list(json.loads(body)["data"]["result"])
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            raise _silent(str(error)) from error


def _silent(why: str) -> CorralError:
    return CorralError(
        Code.UNREACHABLE,
        "Prometheus does not answer",
        tail=why[:200],
        hint="is it up? the controller's: systemctl status prometheus",
    )


def _place(labels: Mapping[str, str]) -> tuple[str, int] | None:
    """Node and GPU of a sample."""
    gpu = labels.get("gpu", "")
    return (labels.get("node", ""), int(gpu)) if gpu.isdecimal() else None


def _curve(what: str, series: Any) -> dict[str, Any]:
    labels = series["metric"]
    name = " ".join(p for p in (labels.get("node", ""), _gpu(labels.get("gpu", ""))) if p)
    points = [[at, number] for at, text in series["values"] if (number := finite(text)) is not None]
    return {"what": what, "name": name, "points": points}


def _gpu(number: str) -> str:
    return f"GPU {number}" if number else ""


@dataclass(slots=True)
class _Kept:
    """One job's samples: each a time and values by what and name."""

    samples: deque[tuple[float, dict[tuple[str, str], float]]] = field(
        default_factory=lambda: deque(maxlen=KEPT)
    )
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    silent_until: float = 0.0


class BySsh:
    """Figures that are sampled on the job's nodes while its page is open, and kept for it.

    Args:
        declared: the cluster file, whose machines are reached from here.
    """

    def __init__(self, declared: Declared) -> None:
        self._declared = declared
        self._jobs: dict[int, _Kept] = {}
        self._readings: dict[str, Once[tuple[api.Reading, ...]]] = {}

    async def close(self) -> None:
        """See ``Figures``."""

    async def nodes(self) -> dict[str, dict[str, float]]:
        """See ``Figures``: nothing, since it would ask every machine again and again."""
        return {}

    async def node(self, name: str) -> dict[str, Any]:
        """See ``Figures``: a day is known to Prometheus alone."""
        return {"from": "", "curves": []}

    async def cluster(self, span: Span) -> dict[str, Any]:
        """See ``Figures``: the past is known to Prometheus alone."""
        return {"from": "", "at": [], "curves": []}

    async def readings(self, name: str) -> tuple[api.Reading, ...]:
        async def ask() -> tuple[api.Reading, ...]:
            return (await api.node_figures(self._declared.spec, [name])).get(name, ())

        return await self._readings.setdefault(name, Once()).get(ask, NODES_S)

    async def gpu_use(self, nodes: Sequence[str]) -> GpuUse:
        """See ``Figures``: of this moment, of the first nodes."""
        first = nodes[:MOST_NODES]
        each = await concurrently(*(self.readings(name) for name in first))
        shares, jobs = dict[tuple[str, int], float](), dict[tuple[str, int], frozenset[str]]()
        for name, readings in zip(first, each, strict=True):
            for reading in readings:
                place = _place({"node": name, "gpu": str(reading.labels.get("gpu", ""))})
                if place is not None and reading.name == "corral_gpu_utilization_ratio":
                    shares[place] = reading.value
                elif place is not None and reading.name == "corral_gpu_job":
                    job = str(reading.labels.get("jobid", ""))
                    jobs[place] = jobs.get(place, frozenset()) | {job}
        return GpuUse(shares, jobs)

    async def busy(self, jobs: Sequence[Job], days: int) -> dict[int, float]:
        """See ``Figures``.

        Raises:
            CorralError: NOT_FOUND: what has passed is known to Prometheus alone.
        """
        raise CorralError(Code.NOT_FOUND, "only Prometheus keeps it (services: metrics)")

    async def job(self, job: Job) -> dict[str, Any]:
        while len(self._jobs) > 100:  # noqa: PLR2004  # the oldest page's
            self._jobs.pop(next(iter(self._jobs)))
        kept = self._jobs.setdefault(job.id, _Kept())
        async with kept.asking:
            last = kept.samples[-1][0] if kept.samples else 0.0
            old = time.time() - last >= SAMPLE_S and time.monotonic() >= kept.silent_until
            if job.running and job.nodes and old:
                names = [*expand(job.nodes)][:MOST_NODES]
                # Where it fails, those who wait behind it would each wait as long.
                kept.silent_until = time.monotonic() + TROUBLE_S
                values = of_job(await api.node_figures(self._declared.spec, names), job.id)
                kept.samples.append((time.time(), values))
                kept.silent_until = 0.0
        return {"from": "here", "curves": curves_of([*kept.samples])}


def of_job(by_node: Mapping[str, Sequence[api.Reading]], job: int) -> dict[tuple[str, str], float]:
    """Values of one job out of what its nodes reported: by what and by node, or GPU of a node."""
    values: dict[tuple[str, str], float] = {}
    names = {"corral_job_memory_bytes": "memory", "corral_job_cpu_seconds_total": "cpu_seconds"}
    of_gpu = {
        "corral_gpu_utilization_ratio": "gpu",
        "corral_gpu_memory_used_bytes": "gpu_memory",
        "corral_gpu_watts": "watts",
    }
    for node, readings in by_node.items():
        mine = {
            r.labels["gpu"]
            for r in readings
            if r.name == "corral_gpu_job" and r.labels.get("jobid") == str(job)
        }
        for reading in readings:
            if reading.name in names and reading.labels.get("jobid") == str(job):
                values[names[reading.name], node] = reading.value
            elif reading.name in of_gpu and reading.labels.get("gpu") in mine:
                values[of_gpu[reading.name], f"{node} GPU {reading.labels['gpu']}"] = reading.value
    return values


def curves_of(
    samples: Sequence[tuple[float, Mapping[tuple[str, str], float]]],
) -> list[dict[str, Any]]:
    """Samples as curves; processor time becomes processors in use."""
    curves: dict[tuple[str, str], list[list[float]]] = {}
    before: dict[str, tuple[float, float]] = {}
    for at, values in samples:
        for (what, name), value in values.items():
            if what != "cpu_seconds":
                curves.setdefault((what, name), []).append([at, value])
                continue
            since, spent = before.get(name, (at, value))
            if at > since and value >= spent:
                rate = (value - spent) / (at - since)
                curves.setdefault(("cpus", name), []).append([at, rate])
            before[name] = (at, value)
    return [{"what": w, "name": n, "points": p} for (w, n), p in curves.items()]
