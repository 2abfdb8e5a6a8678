"""The client of slurmrestd: picks the API version by asking, speaks as the token's user."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from shlex import quote
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

import httpx

from corral.errors import BAD_JSON, Code, CorralError
from corral.runtime.tasks import concurrently
from corral.slurm.array_tasks import array_label, without_limit
from corral.slurm.job_use import JobUse, use_of
from corral.slurm.records import Job, Node, Partition
from corral.slurm.rest import past_jobs, read, write
from corral.slurm.rest.adapters import NEWEST, OLDEST
from corral.slurm.rest.answers import (
    MISSING,
    OK,
    SACCT,
    UNCHANGED,
    Answer,
    no_past,
    perhaps_queued,
    refused,
    require_own,
)
from corral.slurm.rest.json_values import Record, integer, record, records, text
from corral.slurm.rest.policy import RestQuestion
from corral.slurm.rest.read import USER
from corral.slurm.rest.stream import Memory, RecordStream
from corral.web.daemon_client import daemon_client

TIMEOUT: Final = 20.0
_UNSENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


def unreachable(error: httpx.HTTPError) -> CorralError:
    """Slurmrestd did not answer; one that took the question waits for slurmctld or slurmdbd."""
    slow = isinstance(error, httpx.TimeoutException)
    asked = slow and not isinstance(error, httpx.ConnectTimeout)
    who = "Slurm" if asked else "slurmrestd"
    daemons = "slurmctld slurmdbd slurmrestd" if asked else "slurmrestd"
    return CorralError(
        Code.TIMED_OUT if slow else Code.UNREACHABLE,
        f"{who} does not answer" + (f" within {TIMEOUT:g} s" if slow else ""),
        tail=str(error)[:200],
        hint=f"on the controller: systemctl status {daemons}",
    )


T = TypeVar("T")
CHUNK: Final = 1 << 16
SEVERAL_FROM: Final = 41
"""The first API version that cancels jobs by their state (DELETE jobs/, Slurm 24.05)."""
BRIEF_S: Final = 1.5
"""What answers does so in this time, however busy slurmctld is: no list is asked for."""
NO_PATH: Final = "/corral"


@dataclass(frozen=True, slots=True)
class Login:
    """Who asks: a user's name and token. The token shows in no repr."""

    user: str
    token: str = field(repr=False)


class Listing(NamedTuple, Generic[T]):
    """A complete list of Slurm's, as one user sees it.

    Attributes:
        records: None where none changed since the last list.
        changed_at: when they last changed.
        unread: how many records could not be read and are left out, in words.
    """

    records: tuple[T, ...] | None
    changed_at: int = 0
    unread: str = ""


class Slurm(Protocol):
    """How Slurm is asked, by REST or by commands: see ``SlurmRest``."""

    release: str
    waited: float

    async def close(self) -> None: ...
    async def version(self, login: Login) -> int: ...
    def forget(self) -> None: ...
    async def silent(self, login: Login) -> str: ...
    async def check(self, login: Login) -> None: ...
    async def role(self, login: Login) -> str: ...
    async def nodes(self, login: Login, since: int = 0) -> Listing[Node]: ...
    async def jobs(
        self, login: Login, since: int = 0, memory: Memory[Job] | None = None
    ) -> Listing[Job]: ...
    async def partitions(self, login: Login) -> Listing[Partition]: ...
    async def jobs_of(self, login: Login, number: int) -> tuple[Job, ...]: ...
    async def job(self, login: Login, job_id: int) -> Job | None: ...
    async def past(self, login: Login, days: int, user: str) -> past_jobs.Past: ...
    async def past_tasks(self, login: Login, job_id: int) -> tuple[Job, ...]: ...
    async def past_use(self, login: Login, job_id: int) -> JobUse: ...
    async def past_uses(self, login: Login, seconds: int, user: str) -> dict[int, JobUse]: ...
    async def answer(self, login: Login, question: RestQuestion[T]) -> T: ...
    async def states(self, login: Login) -> dict[str, str]: ...
    async def submit(self, login: Login, submission: write.Submission) -> int: ...
    async def cancel(self, login: Login, job: Job) -> None: ...
    async def cancel_pending(self, login: Login, array: int, tasks: str = "") -> None: ...
    async def update(self, login: Login, job: Job, body: Any, doing: str) -> None: ...
    async def change(self, login: Login, method: str, path: str, body: Any, doing: str) -> None: ...


class SlurmRest:
    """One slurmrestd.

    Args:
        address: ``http://127.0.0.1:6820``, ``unix:/path`` of a socket that leads there, or that of
            a profile of ``corral login --rest``.
        transport: httpx's, for tests; None: the network.
    """

    def __init__(self, address: str, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._http = daemon_client(address, timeout=TIMEOUT, transport=transport, proxied=True)
        self._version: int | None = None
        self._cluster = ""
        self._nodes = Memory[Node]()
        self._states: dict[str, str] = {}
        self._states_mark = b""
        self.release = ""
        self.calls = 0
        self.waited = 0.0  # seconds until answers began, all together: slurmctld's time

    async def close(self) -> None:
        """End the connections."""
        await self._http.aclose()

    async def version(self, login: Login) -> int:
        """The newest API version that both sides speak: 42 for v0.0.42.

        slurmrestd answers 404 to a version that it does not have, 200 to any ping of one it has.

        Raises:
            CorralError: UNREACHABLE; NOT_FOUND, it is too old or too new.
        """
        if self._version is None:
            for number in range(NEWEST, OLDEST - 1, -1):
                answer = await self._ask("GET", f"/slurm/v0.0.{number}/ping", login)
                if answer.status == OK:
                    if not isinstance(record(answer.body).get("pings"), list):
                        raise read.unreadable("it is not slurmrestd's to a ping")
                    self._version, self.release = number, answer.meta.release
                    self._cluster = read.cluster_of(answer.body)
                    return number
                if answer.status != MISSING:
                    raise refused(answer, "asking slurmrestd for its version")
            raise CorralError(
                Code.NOT_FOUND,
                f"slurmrestd speaks no API version from v0.0.{OLDEST} to v0.0.{NEWEST}",
                hint="Corral reads Slurm 22.05 to 26.05",
            )
        return self._version

    def forget(self) -> None:
        """Ask for the version again: Slurm was upgraded, perhaps."""
        self._version = None
        self._nodes = Memory[Node]()

    async def silent(self, login: Login) -> str:
        """Which daemon does not answer, in words; "" where slurmctld answers.

        slurmrestd asks slurmctld again for half a minute before it gives up, and its ping waits as
        long for one that is frozen. A path that it does not have it refuses on its own.
        """
        number = self._version or NEWEST
        own, ping = await concurrently(
            self._brief(NO_PATH, login), self._brief(f"/slurm/v0.0.{number}/ping", login)
        )
        if own is None:
            return "slurmrestd does not answer"
        if ping is None:
            return "slurmctld does not answer"
        try:
            down = read.down(ping.json() if ping.status_code == OK else None)
        except BAD_JSON:  # cut off, or of a proxy between
            return "slurmctld does not answer"
        return f"slurmctld on {', '.join(down)} does not answer" if down else ""

    async def _brief(self, path: str, login: Login) -> httpx.Response | None:
        try:
            return await self._http.get(path, headers=_headers(login), timeout=BRIEF_S)
        except httpx.HTTPError:
            return None

    async def check(self, login: Login) -> None:
        """Let Slurm judge a token: ping answers whatever the token is, partitions do not.

        Raises:
            CorralError: LOGIN_REFUSED; UNREACHABLE.
        """
        answer = await self._call("GET", "partitions", login)
        if answer.status not in (OK, UNCHANGED):
            raise refused(answer, "logging in")
        if answer.status == OK:
            require_own(answer)

    async def role(self, login: Login) -> str:
        """The user's role out of slurmdbd; user where there is none to ask.

        Raises:
            CorralError: it does not answer; see ``role_of``.
        """
        number = await self.version(login)
        answer = await self._ask("GET", f"/slurmdb/v0.0.{number}/user/{login.user}", login)
        if answer.status == MISSING:
            return USER
        if answer.status != OK:
            raise refused(answer, "asking accounting for the user's role")
        if not isinstance(record(answer.body).get("users"), list):
            raise read.unreadable("it has no list of users")
        return read.role_of(answer.body, login.user)

    async def nodes(self, login: Login, since: int = 0) -> Listing[Node]:
        """All nodes and when they last changed; None when nothing did since then."""
        try:
            return await self._list(login, "nodes", since, read.node, self._nodes)
        except CorralError as error:
            # 24.11 passes the time on to its question for partitions, and takes "nothing changed"
            # there for a failure: "Unable to query partitions: Unspecified error".
            if not since or "partitions" not in error.message:
                raise
        return await self._list(login, "nodes", 0, read.node, self._nodes)

    async def jobs(
        self, login: Login, since: int = 0, memory: Memory[Job] | None = None
    ) -> Listing[Job]:
        """All jobs slurmctld knows and when they last changed; None: nothing did.

        Args:
            login: who asks.
            since: when they last changed, of the answer before.
            memory: of that answer.
        """
        return await self._list(login, "jobs", since, read.job, memory)

    async def partitions(self, login: Login) -> Listing[Partition]:
        """All partitions."""
        return await self._list(login, "partitions", 0, read.partition)

    async def job(self, login: Login, job_id: int) -> Job | None:
        """One job; None when slurmctld has forgotten it."""
        jobs = await self._records_of(login, job_id)
        exact = [job for job in jobs.records if job.id == job_id]
        if jobs.unread and not exact:
            raise read.unreadable(jobs.note("records"))
        return (exact or [*jobs.records, None])[0]

    async def jobs_of(self, login: Login, number: int) -> tuple[Job, ...]:
        """All records of the answer to one number: of an array's number, those of its tasks too."""
        return (await self._records_of(login, number)).records

    async def _records_of(self, login: Login, number: int) -> read.Listed[Job]:
        answer = await self._call("GET", f"job/{number}", login)
        if answer.status == OK:
            version = await self.version(login)
            # In a thread: an array may have thousands of tasks.
            return await asyncio.to_thread(read.jobs_of, answer.body, version)
        # 22.05 answers 500 where later ones answer 404.
        if answer.status == MISSING or any("job id" in e.lower() for e in answer.meta.errors):
            return read.Listed(())
        raise refused(answer, f"asking for job {number}")

    async def past(self, login: Login, days: int, user: str) -> past_jobs.Past:
        """Jobs that ended in the last days, out of accounting; of one user, or "" for all.

        Raises:
            CorralError: NOT_FOUND, it has no accounting; SLURM_REFUSED; UNREACHABLE.
        """
        number, cluster = await self._accounting(login)
        jobs = list[Job]()
        for window in past_jobs.windows(days):
            stream = RecordStream("jobs", lambda fields: read.past_job(fields, number))
            params = past_jobs.params(window, user, cluster)
            async with self._streamed(f"/slurmdb/v0.0.{number}/jobs", login, params) as reply:
                async for data in reply.aiter_bytes(CHUNK):
                    jobs.extend(stream.feed(data))
                    if len(jobs) > 2 * past_jobs.MOST:
                        jobs = [*past_jobs.newest(jobs, past_jobs.MOST + 1).jobs]
                    await asyncio.sleep(0)  # viewers are served in between
            if reply.status_code != OK:
                raise no_past(_answer(reply.status_code, stream), "asking accounting for jobs")
            _complete(stream, "asking accounting for jobs")
            if len(jobs) > past_jobs.MOST:
                break
        return past_jobs.newest(jobs)

    async def past_tasks(self, login: Login, job_id: int) -> tuple[Job, ...]:
        """A job out of accounting, and the tasks of the array of that number.

        Raises:
            CorralError: as ``past``.
        """
        listed, number = await self._past_records(login, job_id)
        return past_jobs.newest(read.tried(listed, "jobs", read.past_job, number).records).jobs

    async def past_use(self, login: Login, job_id: int) -> JobUse:
        """What an ended job used; of one that ran several times the last time.

        Raises:
            CorralError: as ``past``.
        """
        listed, _ = await self._past_records(login, job_id)
        runs = [raw for raw in listed if integer(raw.get("job_id")) == job_id]
        return use_of(runs[-1]) if runs else JobUse()

    async def past_uses(self, login: Login, seconds: int, user: str) -> dict[int, JobUse]:
        """What jobs of a user used that ended in the last seconds, by their number.

        Raises:
            CorralError: as ``past``.
        """
        number, cluster = await self._accounting(login)

        def read_use(raw: Record) -> tuple[int, JobUse]:
            return integer(raw.get("job_id")), use_of(raw)

        stream, uses = RecordStream("jobs", read_use), dict[int, JobUse]()
        params = past_jobs.measured_params(seconds, user, cluster)
        async with self._streamed(f"/slurmdb/v0.0.{number}/jobs", login, params) as reply:
            async for data in reply.aiter_bytes(CHUNK):
                uses.update(stream.feed(data))
                await asyncio.sleep(0)  # viewers are served in between
        if reply.status_code != OK:
            raise no_past(_answer(reply.status_code, stream), "asking accounting for jobs")
        _complete(stream, "asking accounting for jobs")
        return uses

    async def answer(self, login: Login, question: RestQuestion[T]) -> T:
        """The answer to one question about accounts, QOS, reservations and their kind.

        Raises:
            CorralError: NOT_FOUND, this slurmrestd does not have it; SLURM_REFUSED; UNREACHABLE.
        """
        number = await self.version(login)
        answer = await self._ask("GET", question.path.format(v=number), login)
        doing = f"asking for {question.what}"
        if question.of_accounting and answer.status == MISSING:
            raise no_past(answer, doing)
        if answer.status == MISSING:
            raise CorralError(
                Code.NOT_FOUND, f"slurmrestd of this release does not report {question.what}"
            )
        if answer.status != OK or answer.meta.errors:
            raise refused(answer, doing)
        cluster = self._cluster
        # In a thread: a site may have 10,000 associations.
        return await asyncio.to_thread(
            lambda: question.read(question.of_cluster(answer.body, cluster), number)
        )

    async def _past_records(self, login: Login, job_id: int) -> tuple[list[Record], int]:
        number, cluster = await self._accounting(login)
        answer = await self._ask("GET", f"/slurmdb/v0.0.{number}/job/{job_id}", login)
        if answer.status != OK:
            raise no_past(answer, f"asking accounting for job {job_id}")
        if not isinstance(record(answer.body).get("jobs"), list):
            raise read.unreadable("it has no list of jobs")
        # Several clusters may share one accounting.
        listed = [
            o
            for o in records(record(answer.body).get("jobs"))
            if not cluster or text(o.get("cluster")) == cluster
        ]
        return listed, number

    async def _accounting(self, login: Login) -> tuple[int, str]:
        number = await self.version(login)
        if number < past_jobs.FIRST_VERSION:
            raise CorralError(
                Code.NOT_FOUND, "this slurmrestd is too old to list past jobs", hint=SACCT
            )
        return number, self._cluster

    async def states(self, login: Login) -> dict[str, str]:
        """State of each job by its label; slurmctld answers it from a small table (24.05).

        The same object as before where the answer is the same, byte by byte.
        """
        number = await self.version(login)
        async with self._streamed(f"/slurm/v0.0.{number}/jobs/state/", login, {}) as reply:
            parts = [part async for part in reply.aiter_bytes(CHUNK)]
        mark = hashlib.sha256(b"".join(parts)).digest()
        if reply.status_code == OK and mark == self._states_mark:
            return self._states
        stream, states = RecordStream("jobs", read.state), dict[str, str]()
        for part in parts:
            states.update(stream.feed(part))
            await asyncio.sleep(0)  # 50,000 states are 0.3 s: viewers are served in between
        if reply.status_code != OK:
            raise refused(_answer(reply.status_code, stream), "asking for the jobs' states")
        _complete(stream, "asking for the jobs' states")
        self._states, self._states_mark = states, mark
        return states

    async def submit(self, login: Login, submission: write.Submission) -> int:
        """Submit a batch job; returns its number.

        Raises:
            CorralError: SLURM_REFUSED; UNREACHABLE or PARSE_FAILED, where the message states
                whether Slurm may have the job.
        """
        version = await self.version(login)
        body = await asyncio.to_thread(write.submit_body, submission, version)  # of up to 1 MiB
        try:
            return read.submitted((await self._call("POST", "job/submit", login, body)).body)
        except CorralError as error:
            lost = error.code in (Code.UNREACHABLE, Code.TIMED_OUT, Code.PARSE_FAILED)
            if lost and not isinstance(error.__cause__, _UNSENT):
                raise perhaps_queued(error, submission.name) from error
            raise

    async def change(self, login: Login, method: str, path: str, body: Any, doing: str) -> None:
        """Do something to one job or node, as the user.

        Raises:
            CorralError: SLURM_REFUSED, with Slurm's own words; UNREACHABLE.
        """
        _done(await self._call(method, path, login, body), doing)

    async def update(self, login: Login, job: Job, body: Any, doing: str) -> None:
        """Change one record: its tasks that have begun have their own records (seen with 24.11).

        Raises:
            CorralError: SLURM_REFUSED, with Slurm's own words; UNREACHABLE.
        """
        await self.change(login, "POST", f"job/{job.id}", body, doing)

    async def cancel(self, login: Login, job: Job) -> None:
        """Cancel a job, a task of an array, or those that have not begun; and no other.

        The record of these and an array's last task have the number of the array, with which
        ``DELETE job/12`` ends all of it (24.11).

        Raises:
            CorralError: SLURM_REFUSED, with Slurm's own words, or it is older than 24.05.
        """
        doing = f"cancel job {job.label}"
        label = array_label(job.label)
        if label is not None and label.task is None:
            await self.cancel_pending(login, label.array, label.written if job.ref else "")
        elif job.ref == str(job.id):
            await self.change(login, "DELETE", f"job/{job.id}", None, doing)
        elif await self.version(login) < SEVERAL_FROM:
            raise CorralError(
                Code.SLURM_REFUSED,
                "this slurmrestd ends only the complete array by its last task's number",
                hint=f"on a node of the cluster: scancel {job.ref}",
            )
        else:
            _done(await self._call("DELETE", "jobs/", login, {"jobs": [job.ref]}), doing)

    async def cancel_pending(self, login: Login, array: int, tasks: str = "") -> None:
        """Cancel the tasks of an array that have not begun, and no other.

        Args:
            login: who asks.
            array: its number.
            tasks: only these, as ``--array`` takes them; "" for all.

        Raises:
            CorralError: SLURM_REFUSED, with Slurm's own words, or it is older than 24.05.
        """
        doing = f"cancel pending tasks of {array}"
        named = f"{array}_[{without_limit(tasks)[0]}]" if tasks else str(array)
        if await self.version(login) < SEVERAL_FROM:
            raise CorralError(
                Code.SLURM_REFUSED,
                "this slurmrestd ends only complete arrays and single tasks",
                hint=f"on a node of the cluster: scancel --state=PENDING {quote(named)}",
            )
        body = {"jobs": [named], "job_state": ["PENDING"]}
        answer = await self._call("DELETE", "jobs/", login, body)
        # A task that runs is an error there: "Job state RUNNING != filter state PENDING" (24.11).
        errors = [error for error in answer.meta.errors if "filter state" not in error]
        if errors or (answer.status != OK and not answer.meta.errors):
            raise refused(replace(answer, meta=replace(answer.meta, errors=tuple(errors))), doing)
        require_own(answer)

    async def _list(
        self,
        login: Login,
        key: str,
        since: int,
        reader: Callable[[Record, int], T],
        memory: Memory[T] | None = None,
    ) -> Listing[T]:
        number = await self.version(login)
        params = {"update_time": str(since)} if since else {}
        stream = RecordStream(key, lambda fields: reader(fields, number), memory)
        listed = list[T]()
        async with self._streamed(f"/slurm/v0.0.{number}/{key}", login, params) as reply:
            if reply.status_code == UNCHANGED:
                return Listing(None, since)
            async for data in reply.aiter_bytes(CHUNK):
                listed.extend(stream.feed(data))
                await asyncio.sleep(0)  # viewers are served in between
        if reply.status_code != OK:
            raise refused(_answer(reply.status_code, stream), f"asking for {key}")
        meta = _complete(stream, f"asking for {key}")
        # 24.11 answers 200, no jobs and last_update 0 when no job changed since.
        if since and not listed and meta.last_update == 0:
            return Listing(None, since)
        unread = read.Listed(tuple(listed), stream.unread).note(key)
        return Listing(tuple(listed), meta.last_update or 0, unread)

    def _streamed(self, path: str, login: Login, params: past_jobs.Params) -> Any:
        self.calls += 1
        stream = self._http.stream("GET", path, params=params, headers=_headers(login))
        return _Reached(stream, lambda seconds: self._add(path, seconds))

    def _add(self, path: str, seconds: float) -> None:
        if path.startswith("/slurm/"):  # slurmdbd's time is unrelated to slurmctld's
            self.waited += seconds

    async def _call(self, method: str, path: str, login: Login, body: Any = None) -> Answer:
        number = await self.version(login)
        return await self._ask(method, f"/slurm/v0.0.{number}/{path}", login, body)

    async def _ask(self, method: str, path: str, login: Login, body: Any = None) -> Answer:
        self.calls += 1
        begin = time.monotonic()
        try:
            reply = await self._http.request(method, path, headers=_headers(login), json=body)
        except httpx.HTTPError as error:
            raise unreachable(error) from error
        finally:
            self._add(path, time.monotonic() - begin)
        try:
            data: Any = reply.json()
        except ValueError:
            data = None
        return Answer(reply.status_code, data, read.metadata(data))


class _Reached:
    """httpx's stream whose failures are ours."""

    def __init__(self, stream: Any, began: Callable[[float], None]) -> None:
        self._stream = stream
        self._began = began

    async def __aenter__(self) -> Any:
        begin = time.monotonic()
        try:
            return await self._stream.__aenter__()
        except httpx.HTTPError as error:
            raise unreachable(error) from error
        finally:
            self._began(time.monotonic() - begin)

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        await self._stream.__aexit__(kind, error, trace)
        if isinstance(error, httpx.HTTPError):
            raise unreachable(error) from error


async def role_of(rest: Slurm, login: Login, last: str = USER) -> str:
    """The user's role; the last known one where accounting does not answer: nothing changes then.

    Raises:
        CorralError: LOGIN_REFUSED.
    """
    try:
        return await rest.role(login)
    except CorralError as error:
        if error.code is Code.LOGIN_REFUSED:
            raise
        return last


def _headers(login: Login) -> dict[str, str]:
    return {"X-SLURM-USER-NAME": login.user, "X-SLURM-USER-TOKEN": login.token}


def _done(answer: Answer, doing: str) -> None:
    """Check that a change was made.

    Raises:
        CorralError: SLURM_REFUSED; PARSE_FAILED, it is not slurmrestd's answer.
    """
    if answer.status != OK or answer.meta.errors:
        raise refused(answer, doing)
    require_own(answer)


def _complete(stream: RecordStream[Any], doing: str) -> read.Metadata:
    """What a good answer has next to its list.

    Raises:
        CorralError: SLURM_REFUSED, only an error; PARSE_FAILED, it is not such an answer.
    """
    meta = read.metadata(stream.rest())
    if meta.errors and not stream.known:
        raise refused(Answer(OK, None, meta), doing)
    return meta


def _answer(status: int, stream: RecordStream[Any]) -> Answer:
    try:
        body = stream.rest()
    except CorralError:
        body = {}
    return Answer(status, body, read.metadata(body))


def dumps(value: object) -> bytes:
    """Compact JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
