"""The use cases without async: what ``import corral`` exports."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import update_wrapper
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, TypeVarTuple, Unpack, overload

from corral.api.config import files, known_clusters, rehearsal
from corral.api.evidence import proof
from corral.api.evidence.collective_bench import Benched, BenchRequest, run_bench
from corral.api.lifecycle import deployment
from corral.api.operations import diagnosis, overview, repair
from corral.api.operations import nodes as machines
from corral.api.sync import sync
from corral.api.workload import batch, function, queue
from corral.api.workload.function import JobFields, JobFuture
from corral.api.workload.handle import Job
from corral.errors import CorralError
from corral.events import Emit, ignore
from corral.jobs.model import JobSpec
from corral.plan.model import Plan
from corral.prove.fabric.comparison import Known
from corral.spec.models import ClusterSpec

P = ParamSpec("P")
T = TypeVar("T")
V = TypeVar("V")
Ts = TypeVarTuple("Ts")


def _method(
    use_case: Callable[Concatenate[ClusterSpec, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Cluster, P], T]:
    def method(self: Cluster, *args: P.args, **kwargs: P.kwargs) -> T:
        return sync(use_case(self.spec, *args, **kwargs))

    return _described(method, use_case, 1)


def _with_events(
    use_case: Callable[Concatenate[ClusterSpec, Emit, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Cluster, P], T]:
    def method(self: Cluster, *args: P.args, **kwargs: P.kwargs) -> T:
        return sync(use_case(self.spec, self.emit, *args, **kwargs))

    return _described(method, use_case, 2)


def _described(method: Callable[P, T], use_case: Callable[..., Any], own: int) -> Callable[P, T]:
    """The method with the use case's docstring, and its signature without the first ``own``."""
    given = signature(use_case)
    first = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
    update_wrapper(method, use_case)
    rest = [*given.parameters.values()][own:]
    vars(method)["__signature__"] = given.replace(parameters=[first, *rest])
    return method


class Cluster:
    """One cluster: plan, apply, prove, run jobs, look after its nodes, remove it.

    Every method is the use case of the same name in ``corral.api``, run to its end, without its
    ``spec`` and ``emit``, which are the cluster's; it raises ``corral.CorralError``. Works where an
    event loop runs already (notebooks) as well.

    Args:
        spec: what is declared.
        emit: receives the events while a method runs.

    Attributes:
        trust_results: of functions that are submitted from now on any result is read, which runs
            code of the job's user here. A profile's jobs are its own user's. With a cluster file
            they are another user's: only plain values are read, unless this is set.
    """

    def __init__(self, spec: ClusterSpec, emit: Emit = ignore) -> None:
        self.spec = spec
        self.emit = emit
        self.trust_results = False
        self._watcher = function.Watcher(spec)

    def __repr__(self) -> str:
        return f"<corral.Cluster {self.name}>"

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self.spec.name

    def rehearsal(self) -> Cluster:
        """The same cluster on containers of this machine; the real one is not touched."""
        return Cluster(rehearsal.rehearsal(self.spec)[0], self.emit)

    plan = _with_events(deployment.plan)
    up = _with_events(deployment.up)
    down = _with_events(deployment.down)
    prove = _with_events(proof.prove)
    doctor = _method(diagnosis.doctor)
    status = _method(overview.status)
    exec = _method(machines.execute)
    drain = _method(machines.drain)
    resume = _method(machines.resume)
    why_drained = _method(repair.explain_drained)
    why_pending = _method(repair.explain_pending)
    jobs = _method(queue.jobs)
    repair = _with_events(repair.repair)

    def apply(self, plan: Plan) -> None:
        """Do exactly what a plan contains; refuses a plan that is no longer true."""
        sync(deployment.apply(self.spec, plan, self.emit))

    def run(
        self,
        job: str | Sequence[str] | JobSpec,
        *,
        on_line: queue.OnLine = lambda _: None,
        **fields: Any,
    ) -> queue.JobOutcome | queue.ArrayOutcome:
        """Run a script or a command as a job and wait for its end.

        Args:
            job: a script of this machine, or one on the cluster's shared storage; or the words of
                a command of the nodes: ``["nvidia-smi", "-L"]``; or a JobSpec.
            on_line: called with each line that a rank prints, as it comes.
            **fields: more fields of ``JobSpec``: nodes, gpus_per_node, time, env, args, ...
        """
        return sync(batch.run(self.spec, _job(job, fields), self.emit, on_line=on_line))

    @overload
    def submit(self, job: str | Sequence[str] | JobSpec, **fields: Any) -> Job: ...

    @overload
    def submit(
        self, job: Callable[[*Ts], T], *args: *Ts, **fields: Unpack[JobFields]
    ) -> JobFuture[T]: ...

    def submit(
        self,
        job: str | Sequence[str] | JobSpec | Callable[..., Any],
        *args: Any,
        **fields: Any,
    ) -> Job | JobFuture[Any]:
        """Submit a job, or the call of a function as a job, and return at once.

        Each rank calls the function; the future has what rank 0 returned. A function of the script
        or notebook is sent as code, which needs the same Python on the nodes; one of a module of
        the project is uploaded with the project.

        Args:
            job: as for ``run``, or a function.
            *args: the function's arguments; its keyword arguments by ``functools.partial``.
            **fields: more fields of ``JobSpec``: nodes, gpus_per_node, time, env, ...

        Raises:
            CorralError: USAGE, it cannot be sent, or cannot run as asked; SLURM_REFUSED.
        """
        if callable(job):
            handle = sync(function.submit_function(self.spec, job, args, fields, self.emit))
            return self._futures([handle])[0]
        if args:
            raise TypeError("arguments are for a function; those of a script: args=[...]")
        handle = sync(batch.submit(self.spec, _job(job, fields), self.emit))
        return Job(self.spec, handle, self.emit)

    def map(
        self,
        job: Callable[[V], T],
        values: Iterable[V],
        *,
        at_once: int | None = None,
        **fields: Unpack[JobFields],
    ) -> list[JobFuture[T]]:
        """Submit a call of a function for each value, all as one array; returns at once.

        Args:
            job: the function, as for ``submit``.
            values: its argument in each part of the array.
            at_once: parts that run at once at most.
            **fields: as for ``submit``, for each part.

        Returns:
            the futures, in the order of the values.

        Raises:
            CorralError: as ``submit``.
        """
        every = list(values)
        if not every:
            return []
        work = function.map_function(self.spec, job, every, fields, self.emit, at_once=at_once)
        handle = sync(work)
        return self._futures([handle.part(number) for number in handle.array])

    def _futures(self, handles: Iterable[batch.JobHandle]) -> list[JobFuture[Any]]:
        jobs = [Job(self.spec, handle, self.emit) for handle in handles]
        futures = [JobFuture[Any](job, trust=self.trust_results) for job in jobs]
        self._watcher.watch(futures)
        return futures

    def logs(self, job_id: queue.JobRef) -> tuple[queue.RankLine, ...]:
        """What a job printed so far."""
        lines: list[queue.RankLine] = []
        sync(queue.logs(self.spec, job_id, self.emit, on_line=lines.append))
        return tuple(lines)

    def follow(
        self, job_id: queue.JobRef, on_line: queue.OnLine = lambda _: None
    ) -> queue.JobOutcome | queue.ArrayOutcome:
        """Wait until a job that Corral submitted has ended."""
        return sync(queue.logs(self.spec, job_id, self.emit, on_line=on_line, follow=True))

    def cancel(self, *job_ids: queue.JobRef) -> dict[queue.JobRef, queue.JobOutcome | CorralError]:
        """Cancel jobs; returns the state of each, or why it could not be cancelled."""
        return sync(queue.cancel(self.spec, job_ids))

    def bench(self, known: Known | None = None, **fields: Any) -> Benched:
        """Measure collectives through Slurm, judge them, and keep the result.

        Args:
            known: what to compare with; None: what the declared data network should reach.
            **fields: of ``BenchRequest``: collectives, nodes, smallest, largest, type, ...
        """
        request = BenchRequest(**fields)
        return sync(run_bench(self.spec, request, known, self.emit))


def open(path_or_name: str | os.PathLike[str], emit: Emit = ignore) -> Cluster:
    """A cluster by its file, or by its name when it was brought up from here.

    Args:
        path_or_name: a path when it holds a slash, ends in .yaml or .yml or is a file; else a name.
        emit: receives the events while the cluster's methods run.

    Raises:
        CorralError: the file has errors or is not there; no such cluster is known.
    """
    text = os.fspath(path_or_name)
    if known_clusters.is_path(text):
        return Cluster(files.load(Path(text)), emit)
    return Cluster(known_clusters.spec_of(text), emit)


def _job(job: str | Sequence[str] | JobSpec, fields: dict[str, Any]) -> JobSpec:
    if isinstance(job, JobSpec):
        if not fields:
            return job
        given = {name: getattr(job, name) for name in job.model_fields_set}
        return batch.job_spec({**given, **fields})
    program = {"script": job} if isinstance(job, str) else {"command": tuple(job)}
    return batch.job_spec({**program, **fields})
