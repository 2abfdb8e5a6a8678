"""Use cases of Python functions as jobs, and the futures of what they return."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, Final, Generic, Literal, TypedDict, TypeVar

from corral.api.operations.diagnosis import doctor_job
from corral.api.sync import sync
from corral.api.workload import batch, queue
from corral.api.workload.handle import Job, ended_badly
from corral.apply.connection import Connection
from corral.errors import Code, CorralError
from corral.events import Emit, ignore
from corral.hosts.fleet import Fleet
from corral.hosts.transport import check
from corral.inspect.jobs import UNIX_TIMES, job_queue
from corral.inspect.question import inquiry
from corral.jobs import control
from corral.jobs.function import call
from corral.jobs.function.answer import exception_of, read_answer, result_of
from corral.jobs.handle import JobHandle
from corral.jobs.upload.manifest import folder_of
from corral.slurm.states.jobs import JobState
from corral.spec.client import ClientSpec
from corral.spec.models import ClusterSpec

T = TypeVar("T")
POLL_S: Final = 2.0
BROKEN_S: Final = 600.0
"""Seconds without an answer of the cluster after which futures end with an error."""
LOG_BYTES: Final = 1 << 16


class JobFields(TypedDict, total=False):
    """Options of a function's job: the fields of ``JobSpec`` that apply to one."""

    name: str
    nodes: int
    gpus_per_node: int
    gpu_type: str
    ranks_per_node: int
    cpus_per_rank: int
    mem: str
    time: str
    partition: str
    account: str
    qos: str
    nodelist: str
    exclude: str
    constraint: str
    after: Sequence[str]
    begin: str
    mail: str
    licenses: str
    exclusive: bool
    env: Mapping[str, str]
    launcher: Literal["auto", "srun", "torchrun"]
    workdir: str
    requeue: bool
    grace: str
    checkpoints: str
    data: Sequence[str]
    folder: str
    environment: str
    python: str
    container: str
    mounts: Sequence[str]
    sbatch: Sequence[str]
    profile: Literal["none", "nsys"]


class JobFuture(Future[T], Generic[T]):
    """What a function returns that runs as a job, or as a part of an array.

    It is a ``concurrent.futures.Future``: ``result`` and ``exception`` wait, ``wait`` and
    ``as_completed`` take it. An exception of the function is raised here, with the traceback of its
    node as its cause; a job without a result raises ``CorralError``. The job keeps running when
    this program ends.

    Args:
        job: the job, or the part.
        trust: the job's user may run code here, which reading a pickle does.

    Attributes:
        job: the same.
        trusted: the job's user is the profile's own, or ``trust``.
        started: whether the job was running at the last poll.
    """

    def __init__(self, job: Job, *, trust: bool = False) -> None:
        super().__init__()
        self.job = job
        self.trusted = trust or isinstance(job.spec, ClientSpec)
        self.started = False
        self._cancelling = threading.RLock()

    def __repr__(self) -> str:
        return f"<corral.JobFuture {self.id} {self._word}>"

    @property
    def _word(self) -> str:
        if self.done():
            return "cancelled" if self.cancelled() else "done"
        return "running" if self.started else "pending"

    @property
    def id(self) -> str:
        """What Slurm calls the job: ``12``, or ``12_3`` for a part of an array."""
        return self.job.handle.ref

    def running(self) -> bool:
        """Whether the job runs, as of the last poll."""
        return self.started and not self.done()

    def cancel(self) -> bool:
        """Cancel the job, pending or running; False where it has ended before.

        Raises:
            CorralError: SLURM_REFUSED, NOT_FOUND, UNREACHABLE; the job is as it was.
        """
        with self._cancelling:
            if self.done():
                return self.cancelled()
            outcome = sync(queue.cancel(self.job.spec, (self.id,)))[self.id]
            if isinstance(outcome, CorralError):
                raise outcome
            ended = outcome.state.ended and outcome.state is not JobState.CANCELLED
            if ended or not super().cancel():
                return False
            self.set_running_or_notify_cancel()  # wakes wait and as_completed
            return True


def finish(future: JobFuture[Any], result: Any, error: BaseException | None) -> None:
    """End a future; one that was cancelled meanwhile stays so.

    A callback that raises SystemExit ends nothing but itself, as it would in a thread.
    """
    with suppress(InvalidStateError, SystemExit, KeyboardInterrupt):
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)


async def submit_function(
    spec: ClusterSpec,
    function: Callable[..., Any],
    args: Sequence[Any],
    fields: Mapping[str, Any],
    emit: Emit = ignore,
) -> JobHandle:
    """Submit a call of a function as a job.

    Args:
        spec: the cluster.
        function: what each rank calls.
        args: its arguments.
        fields: of ``JobFields``.
        emit: receives what is uploaded and which environment is made.

    Raises:
        CorralError: USAGE, it cannot be sent, or cannot run as asked; else as ``submit``.
    """
    return await _submit(spec, function, [tuple(args)], fields, emit)


async def map_function(
    spec: ClusterSpec,
    function: Callable[..., Any],
    values: Iterable[Any],
    fields: Mapping[str, Any],
    emit: Emit = ignore,
    *,
    at_once: int | None = None,
) -> JobHandle:
    """Submit calls of a function, one for each value, as one array.

    Args:
        spec: the cluster.
        function: what each rank of a part calls.
        values: its argument in each part; one at least.
        fields: of ``JobFields``, for each part.
        emit: receives what is uploaded and which environment is made.
        at_once: parts that run at once at most.

    Raises:
        CorralError: as ``submit_function``.
    """
    calls = [(value,) for value in values]
    return await _submit(spec, function, calls, fields, emit, array=True, at_once=at_once)


async def _submit(
    spec: ClusterSpec,
    function: Callable[..., Any],
    calls: Sequence[tuple[Any, ...]],
    fields: Mapping[str, Any],
    emit: Emit,
    *,
    array: bool = False,
    at_once: int | None = None,
) -> JobHandle:
    packed = call.pack(function, calls)
    folder = fields.get("folder")
    if folder is None:
        folder = await asyncio.to_thread(folder_of, call.source_of(function))
    job = call.job_of(packed, folder, fields, array=array, at_once=at_once)
    return await batch.submit(spec, job, emit, files=packed.files(folder))


class Watcher:
    """Ends the futures of a cluster as their jobs end: one thread, one poll for all of them.

    Args:
        spec: the cluster.
    """

    def __init__(self, spec: ClusterSpec) -> None:
        self._spec = spec
        self._lock = threading.Lock()
        self._futures: dict[str, JobFuture[Any]] = {}
        self._thread: threading.Thread | None = None

    def watch(self, futures: Iterable[JobFuture[Any]]) -> None:
        """Watch these too."""
        with self._lock:
            self._futures.update({future.id: future for future in futures})
            if self._thread is None and self._futures:
                # A daemon: jobs keep running when the program ends, so nobody waits for it.
                self._thread = threading.Thread(target=self._run, name="corral", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        try:
            asyncio.run(self._watched())
        except BaseException as error:  # no future may wait for a thread that has ended
            self._give_up(error)

    async def _watched(self) -> None:
        """Poll until no future is left; a broken connection is made again."""
        answered = time.monotonic()
        while True:
            try:
                async with await Connection.open(self._spec, root=False) as session:
                    session.require_running()
                    while left := self._left():
                        await _poll(session.fleet, session.controller, left)
                        answered = time.monotonic()
                        await asyncio.sleep(POLL_S)
                    return
            except Exception as error:  # no future may wait for a thread that has ended
                lost = isinstance(error, CorralError) and time.monotonic() - answered < BROKEN_S
                if not lost:
                    self._give_up(error)
                    return
            await asyncio.sleep(POLL_S)

    def _left(self) -> dict[str, JobFuture[Any]]:
        """The futures that are not done; without any this thread has ended."""
        with self._lock:
            self._futures = {ref: each for ref, each in self._futures.items() if not each.done()}
            if not self._futures:
                self._thread = None
            return dict(self._futures)

    def _give_up(self, error: BaseException) -> None:
        with self._lock:
            if self._thread is not threading.current_thread():
                return  # it had no future left; another thread has the new ones
            left, self._futures, self._thread = self._futures, {}, None
        for future in left.values():
            finish(future, None, error)


async def _poll(fleet: Fleet, controller: str, futures: Mapping[str, JobFuture[Any]]) -> None:
    """Take the states of all jobs, and the results of those that have ended."""
    states = await job_states(fleet, controller, [each.job.id for each in futures.values()])
    for ref, future in futures.items():
        state = states.get(ref)
        if state is None or state.ended:
            await _end(fleet, future, state)
        else:
            future.started = not state.waiting


async def job_states(fleet: Fleet, controller: str, job_ids: Iterable[int]) -> dict[str, JobState]:
    """States of jobs and of parts of arrays, by what Slurm calls them; not of forgotten ones.

    Raises:
        CorralError: UNREACHABLE; COMMAND_FAILED, slurmctld does not answer.
    """
    listed = ",".join(map(str, sorted(set(job_ids))))
    jobs = job_queue(f"m{secrets.token_hex(8)}", "--states=all", f"--jobs={listed}")
    asked = inquiry((jobs,), before=UNIX_TIMES)
    result = await fleet.run(controller, asked.script, timeout=60)
    if "Invalid job id" in result.stderr:
        return {}
    what, hint = "asking Slurm for jobs", "is slurmctld up? see corral status"
    sections = asked.read(check(result, what, hint=hint).stdout)
    sections.succeeded(jobs.name, controller, what, hint=hint, stderr=result.stderr)
    known = jobs.read(sections.require(asked.names, controller, what))
    return {job.label: JobState.read(job.state) for job in known}


async def _end(fleet: Fleet, future: JobFuture[Any], state: JobState | None) -> None:
    """Give a future what its job returned or raised.

    Args:
        fleet: the cluster's machines.
        future: of a job that has ended.
        state: its state; None: slurmctld has forgotten the job.

    Raises:
        CorralError: UNREACHABLE, to be tried again.
    """
    handle = future.job.handle
    try:
        if state is None:
            state = (await control.state(fleet, handle)).state
        result, error = await _answer(fleet, handle, state, trusted=future.trusted)
    except CorralError as failure:
        if failure.code is Code.UNREACHABLE:
            raise
        result, error = None, failure
    except asyncio.CancelledError:
        raise
    except BaseException as failure:  # an answer is a user's file: it is this future's error alone
        result, error = None, failure
    finish(future, result, error)


async def _answer(
    fleet: Fleet, handle: JobHandle, state: JobState, *, trusted: bool
) -> tuple[Any, BaseException | None]:
    """Result and error of a job. A job that a limit ended has no exception."""
    if state.good:
        answer = await read_answer(fleet, handle, "returned")
        if answer is not None:
            return result_of(handle, answer, trusted=trusted), None
        return None, CorralError(
            Code.NOT_GOOD,
            f"job {handle.ref} ended without a result: the function ended its process",
            hint=f"corral logs {handle.ref} has what it printed",
        )
    answer = await read_answer(fleet, handle, "raised") if state is JobState.FAILED else None
    if answer is not None:
        return None, exception_of(handle, answer, call.PYTHON, trusted=trusted)
    lines, outcome = await control.logs(fleet, handle, limit=LOG_BYTES)
    return None, explained(outcome, [line.text for line in lines])


def explained(outcome: queue.JobOutcome, lines: Sequence[str]) -> CorralError:
    """The error of a job without a result, with the doctor's first cause for it.

    Args:
        outcome: how the job ended.
        lines: what it printed.
    """
    error = ended_badly(outcome)
    state, code = outcome.state.value, outcome.exit_code
    findings = doctor_job(state, outcome.reason, code, "\n".join(lines)).findings
    if findings:
        cause = findings[0].failure
        error.hint = f"{cause.title}: {cause.fix}; {error.hint}"
    if not error.tail:
        error.tail = "\n".join(lines[-20:])
    return error
