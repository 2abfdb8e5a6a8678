"""A client of slurmrestd with a user's token, of the base install: one request at a time.

The page has its own (``web/slurm/slurmrest.py``), which streams lists of 50,000 jobs and needs
httpx; paths, bodies and readers are the same (``slurm/rest``).
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeVar
from urllib.parse import urlencode, urlsplit

from corral.errors import BAD_JSON, Code, CorralError
from corral.runtime.http_client import HttpClient, NoResponseError, RefusedError, Response
from corral.runtime.threads import abandonable
from corral.slurm.records import Job, Node, Partition
from corral.slurm.rest import past_jobs, read, write
from corral.slurm.rest.adapters import NEWEST, OLDEST
from corral.slurm.rest.answers import (
    FORBIDDEN,
    MISSING,
    OK,
    UNAUTHORIZED,
    Answer,
    no_past,
    perhaps_queued,
    refused,
    require_own,
)
from corral.slurm.rest.json_values import record, text
from corral.slurm.rest.read import Listed, unreadable

TIMEOUT: Final = 30.0
WITHIN_S: Final = 300.0
"""For one answer: that of 50,000 jobs has 300 MB."""
AT_MOST: Final = 1 << 28
LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_ADDRESS: Final = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+(/[A-Za-z0-9._~/-]*)?")
_TOKEN: Final = re.compile(r"[A-Za-z0-9_=-]+\.[A-Za-z0-9_=-]+\.[A-Za-z0-9_=-]+")
_TASKS: Final = 42
"""The first API version that ends one task for 12_3: up to 24.05 slurmrestd reads the number alone
and ends all of the array (_handle_job_delete, openapi/slurmctld/jobs.c)."""
T = TypeVar("T")


def address_of(url: str, *, plain: bool) -> str:
    """The address of a slurmrestd, without a slash at its end.

    Args:
        url: http or https.
        plain: http to another machine is meant.

    Raises:
        CorralError: USAGE, it is none, or would send the token in the clear.
    """
    if not _ADDRESS.fullmatch(url):
        raise CorralError(
            Code.USAGE,
            f"{url[:200]!r} is not an address of slurmrestd",
            hint="such as https://lab.example.org:6820",
        )
    parts = urlsplit(url)
    if parts.scheme == "http" and parts.hostname not in LOOPBACK and not plain:
        raise CorralError(
            Code.USAGE,
            f"{url} would send the token unencrypted",
            hint="use https:// (a proxy in front of slurmrestd), or --plain-http in a network "
            "where nobody else listens",
        )
    return url.rstrip("/")


@dataclass(frozen=True, slots=True)
class Claims:
    """What a token states about itself; only slurmctld can check it.

    Attributes:
        user: whose it is, "" where it names nobody.
        expires: unix seconds, None for never.
    """

    user: str = ""
    expires: int | None = None


def claims_of(token: str) -> Claims:
    """The claims of a JWT as ``scontrol token`` prints it.

    Raises:
        CorralError: USAGE, it is not a token.
    """
    if not _TOKEN.fullmatch(token):
        raise _no_token()
    payload = token.split(".")[1]
    try:
        data: Any = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (*BAD_JSON, binascii.Error) as error:
        raise _no_token() from error
    fields = record(data)
    expires = fields.get("exp")
    if isinstance(expires, float) and not math.isfinite(expires):  # 1e999
        raise _no_token()
    # slurm.conf(5), AuthAltParameters: sun, or what userclaimfield names.
    user = text(fields.get("sun")) or text(fields.get("username"))
    return Claims(user, int(expires) if isinstance(expires, int | float) else None)


def shown_end(expires: int | None) -> str:
    """When a token expires, as people read it; any number may be in one."""
    if expires is None:
        return "never"
    try:
        return f"{datetime.fromtimestamp(expires):%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError, OSError):
        return "a time after the year 9999" if expires > 0 else "a time before the year 1"


def _no_token() -> CorralError:
    return CorralError(
        Code.USAGE,
        "this is not a token of Slurm",
        hint="scontrol token lifespan=SECONDS, on a node of the cluster as yourself, prints "
        "SLURM_JWT=TOKEN",
    )


def read_token(content: str) -> str:
    """The token in a text: it alone, or the line ``SLURM_JWT=...`` of ``scontrol token``.

    Raises:
        CorralError: USAGE, it is none.
    """
    token = content.strip().removeprefix("SLURM_JWT=")
    claims_of(token)
    return token


def require_valid(token: str, user: str) -> Claims:
    """Check what a token states about itself, before anybody is asked.

    Raises:
        CorralError: LOGIN_REFUSED, it has expired, or is another user's.
    """
    claims = claims_of(token)
    if claims.expires is not None and claims.expires <= time.time():
        raise CorralError(
            Code.LOGIN_REFUSED, f"the token expired at {shown_end(claims.expires)}", hint=_RENEW
        )
    if claims.user not in ("", user):
        raise CorralError(
            Code.LOGIN_REFUSED, f"the token is {claims.user}'s, not {user}'s", hint=_RENEW
        )
    return claims


_AUTHORITY: Final = (
    "a certificate of your site's own authority: set SSL_CERT_FILE to the authority's file (PEM); "
    "else ask an administrator before anything is sent there"
)
_RENEW: Final = (
    "get a new one (scontrol token lifespan=28800, on a node of the cluster), then run corral "
    "login --rest again"
)


@dataclass(slots=True)
class RestClient:
    """One slurmrestd, asked as one user.

    Attributes:
        address: as of ``address_of``.
        user: who asks.
        token: the user's; it shows in no repr.
        cluster: name of the cluster, once ``version`` was asked; "" where it does not state it.
        release: of Slurm, likewise.
        controller: the host of the slurmctld that responds, likewise.
        notes: what of its answers could not be read and was left out, a sentence each.
    """

    address: str
    user: str
    token: str = field(repr=False)
    cluster: str = ""
    release: str = ""
    controller: str = ""
    notes: list[str] = field(default_factory=list[str])
    _http: HttpClient = field(init=False, repr=False)
    _version: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """No redirect gets the token, and no proxy what is sent to this machine."""
        near = urlsplit(self.address).hostname in LOOPBACK
        self._http = HttpClient(redirects=False, proxies=not near)

    async def version(self) -> int:
        """The newest API version that both sides speak: 42 for v0.0.42.

        Raises:
            CorralError: UNREACHABLE; PARSE_FAILED, something else answers there; NOT_FOUND,
                nothing of Slurm's, or too old or new.
        """
        if self._version:
            return self._version
        for number in range(NEWEST, OLDEST - 1, -1):
            answer = await self._ask("GET", f"/slurm/v0.0.{number}/ping")
            if answer.status == OK:
                if not isinstance(record(answer.body).get("pings"), list):
                    raise unreadable("it is not slurmrestd's to a ping")
                self._version, self.release = number, answer.meta.release
                self.cluster = read.cluster_of(answer.body)
                self.controller = read.controller_of(answer.body)
                return number
            if answer.status != MISSING:
                raise self._refused(answer, "asking slurmrestd for its version")
        raise CorralError(
            Code.NOT_FOUND,
            f"{self.address} speaks no API version of Slurm from v0.0.{OLDEST} to v0.0.{NEWEST}",
            hint="name slurmrestd's own address, such as https://lab.example.org:6820",
        )

    async def partitions(self) -> tuple[Partition, ...]:
        """All partitions; unlike ping, Slurm answers it for a good token only."""
        return self._noted("partitions", read.partitions_of(*await self._list("partitions")))

    async def nodes(self) -> tuple[Node, ...]:
        """All nodes."""
        return self._noted("nodes", read.nodes_of(*await self._list("nodes")))

    async def jobs(self) -> tuple[Job, ...]:
        """All jobs that slurmctld knows."""
        return self._noted("jobs", read.jobs_of(*await self._list("jobs")))

    async def past(self, days: int) -> tuple[Job, ...]:
        """Jobs that ended in the last days, out of accounting.

        Raises:
            CorralError: NOT_FOUND, the cluster has no accounting, or an older one; UNREACHABLE.
        """
        number = await self.version()
        params = urlencode(past_jobs.params((days, 0), "", self.cluster), doseq=True)
        answer = await self._ask("GET", f"/slurmdb/v0.0.{number}/jobs?{params}")
        if answer.status != OK:
            raise no_past(answer, "asking accounting for jobs")
        if answer.meta.errors:
            raise self._refused(answer, "asking accounting for jobs")
        ended = read.listed(answer.body, "jobs", read.past_job, number)
        return past_jobs.newest(self._noted("jobs of accounting", ended)).jobs

    async def records(self, number: int) -> tuple[Job, ...]:
        """A job, or all records of an array; none when slurmctld has forgotten it.

        Raises:
            CorralError: PARSE_FAILED, also where one record of several cannot be read: it may be
                the one that is looked for; UNREACHABLE; SLURM_REFUSED.
        """
        version = await self.version()
        answer = await self._ask("GET", f"/slurm/v0.0.{version}/job/{number}")
        if answer.status == OK:
            known = read.jobs_of(answer.body, version)
            if known.unread:
                raise unreadable(known.note("records"))
            return known.records
        if answer.status == MISSING or any("job id" in e.lower() for e in answer.meta.errors):
            return ()
        raise self._refused(answer, f"asking for job {number}")

    async def submit(self, submission: write.Submission) -> int:
        """Submit a batch job; its number.

        Raises:
            CorralError: SLURM_REFUSED, with Slurm's own words; SPEC_INVALID; UNREACHABLE or
                PARSE_FAILED, where the message states whether Slurm may have the job.
        """
        version = await self.version()
        body = write.submit_body(submission, version)
        try:
            answer = await self._ask("POST", f"/slurm/v0.0.{version}/job/submit", body)
        except CorralError as error:
            cause = error.__cause__
            if isinstance(cause, NoResponseError) and not cause.sent:
                raise
            raise perhaps_queued(error, submission.name) from error
        if answer.status == MISSING or (answer.status != OK and self._not_taken(answer)):
            raise self._refused(answer, "submitting the job")
        try:
            return read.submitted(answer.body)
        except CorralError as error:
            if error.code is Code.PARSE_FAILED:
                raise perhaps_queued(error, submission.name) from error
            raise

    async def cancel(self, ref: str, record: int) -> None:
        """End a job, all of an array, or one of its tasks.

        Args:
            ref: 12, or 12_3 for a task.
            record: Slurm's number of the record that has it.

        Raises:
            CorralError: SLURM_REFUSED; FORBIDDEN, another user's; UNREACHABLE.
        """
        version = await self.version()
        array, _, task = ref.partition("_")
        target = ref
        if task and version < _TASKS:
            if str(record) == array:
                raise CorralError(
                    Code.SLURM_REFUSED,
                    f"slurmrestd before Slurm 24.11 cancels only all of array {array}, "
                    f"not its part {task}",
                    hint=f"on a node of the cluster: scancel {ref}",
                )
            target = str(record)
        answer = await self._ask("DELETE", f"/slurm/v0.0.{version}/job/{target}")
        if answer.status != OK or answer.meta.errors:
            raise self._refused(answer, f"cancelling job {ref}")
        require_own(answer)

    async def _list(self, key: str) -> tuple[Any, int]:
        version = await self.version()
        answer = await self._ask("GET", f"/slurm/v0.0.{version}/{key}")
        if answer.status != OK or (answer.meta.errors and not record(answer.body).get(key)):
            raise self._refused(answer, f"asking for {key}")
        return answer.body, version

    def _noted(self, what: str, known: Listed[T]) -> tuple[T, ...]:
        """The records; how many others there are is noted."""
        if (note := known.note(what)) and note not in self.notes:
            self.notes.append(note)
        return known.records

    def _not_taken(self, answer: Answer) -> bool:
        return refused(answer, "").code in (Code.LOGIN_REFUSED, Code.FORBIDDEN)

    def _refused(self, answer: Answer, doing: str) -> CorralError:
        error = refused(answer, doing)
        if error.code is Code.LOGIN_REFUSED:
            error.message = (
                f"Slurm at {self.address} does not take {self.user}'s token: it is wrong, has "
                "expired, or is another cluster's"
            )
            error.hint = _RENEW
        return error

    async def _ask(self, method: str, path: str, body: Any = None) -> Answer:
        headers = {"X-SLURM-USER-NAME": self.user, "X-SLURM-USER-TOKEN": self.token}
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        try:
            response = await abandonable(
                self._http.send,
                *(method, f"{self.address}{path}", content),
                headers=headers,
                timeout_s=TIMEOUT,
                within_s=WITHIN_S,
                at_most=AT_MOST,
            )
        except RefusedError as error:
            return self._no(error)
        except NoResponseError as error:
            raise CorralError(
                Code.UNREACHABLE,
                f"slurmrestd at {self.address} does not answer: {error}",
                hint=_AUTHORITY
                if "CERTIFICATE_VERIFY_FAILED" in str(error)
                else "correct the address (corral login --rest URL again), or check the network; "
                "an administrator looks at systemctl status slurmrestd",
            ) from error
        answer = _content(response)
        return Answer(OK, answer, read.metadata(answer))

    def _no(self, error: RefusedError) -> Answer:
        """A refusal, as far as it is slurmrestd's own.

        Raises:
            CorralError: UNREACHABLE, a page of a web server, which also writes 404: that does not
                mean that Slurm has no such job. One of 401 or 403 is a refusal of the user.
        """
        page = error.body.lstrip()[:1] == b"<"
        if page and error.status in (UNAUTHORIZED, FORBIDDEN):  # a proxy refuses who asks
            words = f"a web server at {self.address} refuses it with status {error.status}"
            return Answer(error.status, None, read.Metadata(errors=(words,)))
        if page:
            raise CorralError(
                Code.UNREACHABLE,
                f"not slurmrestd but a web server answers at {self.address}, with status "
                f"{error.status}",
                tail=error.body[:200].decode("utf-8", "replace"),
                hint="is slurmrestd down behind its proxy? Else name slurmrestd's own address, "
                "such as https://lab.example.org:6820",
            ) from error
        try:
            body: Any = json.loads(error.body)
        except BAD_JSON:  # an unknown path is refused in plain text
            body = None
        return Answer(error.status, body, read.metadata(body))


def _content(response: Response) -> Any:
    """The JSON of a good answer.

    Raises:
        CorralError: PARSE_FAILED, it broke off or is none.
    """
    if response.missing:
        raise unreadable(f"{response.missing} bytes of it did not come")
    try:
        return json.loads(response.body)
    except BAD_JSON as error:
        shown = response.body[:200].decode("utf-8", "replace")
        raise unreadable("it is not JSON, or was cut off", shown) from error
