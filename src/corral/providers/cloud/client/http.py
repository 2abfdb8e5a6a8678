"""One account of one cloud over HTTPS: paced, limited in time, repeated only where that is safe.

The only maker of calls to clouds. Tenacity repeats; what is repeated, how often and how long are
the tables below. Stamina, made of tenacity, was tried first: it counts its time limit by the wall
clock, allows one number of attempts for all reasons, and writes each repeat to a logger of the
process.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from types import MappingProxyType
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import httpx
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    wait_exponential,
    wait_fixed,
    wait_random,
)

from corral.errors import Code
from corral.providers.cloud.calls import Call, EndlessError, Steps
from corral.providers.cloud.client.rate_limit import Pacer
from corral.providers.cloud.client.secrets import Place
from corral.providers.cloud.errors import NOT_DONE, CloudError, Reason, Row, judge
from corral.providers.cloud.response import retry_after, strict_json

ATTEMPT_S: Final = 60.0
"""From the first byte sent to the last one read: httpx's own limits are those of one read."""

ANSWER_AT_MOST: Final = 16 << 20
ATTEMPTS: Final[Mapping[Reason, int]] = MappingProxyType(
    {
        Reason.UNREACHED: 5,
        Reason.CUT: 5,
        Reason.BROKEN: 5,
        Reason.SLOW: 3,
        Reason.LIMIT: 100,
    }
)
"""How often a call is made, by why the last one failed; once where a reason is not here."""

PAUSES_S: Final = 120.0
LIMITED_S: Final = 600.0
"""Seconds of one call: pauses after failures; pauses and attempts where the cloud limits calls."""

STRANGE: Final = (
    *(LookupError, TypeError, ValueError, AttributeError),
    *(ArithmeticError, OSError, RecursionError),
)
"""What reading a response of another shape raises."""

UNSURE_TRIES: Final = 3
UNSURE_WAIT_S: Final = 10.0
"""How often, and how far apart, what may exist already is looked for and made."""

HOLD_AT_MOST_S: Final = 60.0
LIST_S: Final = 600.0
GOOD: Final = frozenset((200, 201, 202, 204))
"""Not 206, nor 203: a part of a list, or what a proxy made of it."""

Words = Callable[[Any], tuple[str, str]]
"""The cloud's own code and text from the JSON of an error."""

T = TypeVar("T")
_PAUSE: Final = wait_exponential(multiplier=2, max=60) + wait_random(0, 1)


@dataclass(frozen=True, slots=True)
class Dialect:
    """What differs between clouds.

    Attributes:
        place: its names.
        rows: its documented errors.
        words: reads code and text from an error's JSON.
    """

    place: Place
    rows: Sequence[Row]
    words: Words


class Caller:
    """Makes the calls of one account.

    Args:
        dialect: what is particular to this cloud.
        url: its address.
        key: the API key; it is in no message.
        pacer: whose turn it is.
        transport: another one than the network, in tests.
    """

    def __init__(
        self,
        dialect: Dialect,
        url: str,
        key: str,
        pacer: Pacer,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._dialect = dialect
        self._key = key
        self._pacer = pacer
        self._client = httpx.AsyncClient(
            base_url=url,
            headers={"Authorization": f"Bearer {key}", "User-Agent": "corral"},
            timeout=ATTEMPT_S,
            transport=transport,
            # A redirect would carry the key, and a launch, to another place.
            follow_redirects=False,
        )

    async def close(self) -> None:
        """Close the connection."""
        await self._client.aclose()

    async def call(
        self,
        method: str,
        path: str,
        read: Callable[[Any], T],
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
        again: bool | None = None,
        limits: Sequence[str] = ("calls",),
    ) -> T:
        """Make a call, and again where that is safe, within limits of time.

        Args:
            method: HTTP method.
            path: below the cloud's address.
            read: gives the result from the response's JSON; what it raises is the cloud's fault.
            body: JSON of the request.
            query: query parameters.
            again: it may take effect twice without harm; None: GET and DELETE may.
            limits: rate limits it counts under, the slowest first: whoever waits long for one must
                not hold a turn of another that is stale by then (seen: 429 with 200 launches).

        Raises:
            CloudError: refused, failed, or the response is not a complete one of the document;
                ``unsure`` states whether the call may have taken effect.
        """
        safe = method in ("GET", "DELETE") if again is None else again
        clock = asyncio.get_running_loop().time
        busy = 0.0

        async def attempt() -> T:
            nonlocal busy
            await self._pacer.turn(*limits)
            began = clock()
            try:
                return await self._once(method, path, read, body, query)
            finally:
                busy += clock() - began

        def hold(state: RetryCallState) -> None:
            error = _error(state)
            if error.reason is Reason.LIMIT:
                self._pacer.hold(limits[0], min(state.upcoming_sleep, HOLD_AT_MOST_S))

        retrying = AsyncRetrying(
            retry=retry_if_exception(lambda error: _repeatable(error, safe=safe)),
            stop=lambda state: _enough(state, busy),
            wait=lambda state: _error(state).after or _PAUSE(state),
            before_sleep=hold,
            # Tenacity's own looks for the loop's kind; the loop's clock may be a test's.
            sleep=asyncio.sleep,
            reraise=True,
        )
        return await retrying(attempt)

    async def find_or_make(
        self, find: Callable[[], Awaitable[T | None]], make: Callable[[], Awaitable[T]]
    ) -> T:
        """What ``find`` finds, else what ``make`` makes; looked for again when that is unsure.

        Raises:
            CloudError: as ``call``, of the last attempt.
        """

        async def attempt() -> T:
            known = await find()
            return await make() if known is None else known

        retrying = AsyncRetrying(
            retry=retry_if_exception(lambda e: isinstance(e, CloudError) and e.unsure),
            stop=stop_after_attempt(UNSURE_TRIES),
            wait=wait_fixed(UNSURE_WAIT_S),
            sleep=asyncio.sleep,
            reraise=True,
        )
        return await retrying(attempt)

    async def make(self, call: Call) -> Any:
        """Make one call; None where it is refused for a reason that it tolerates.

        Raises:
            CloudError: as ``call``.
        """
        try:
            return await self.call(
                call.method,
                call.path,
                call.read,
                body=call.body,
                query=call.query,
                again=call.again,
            )
        except CloudError as error:
            if error.reason.value in call.tolerated:
                return None
            raise

    async def run(self, steps: Steps[T]) -> T:
        """Make the calls of ``cloud.calls``, one after the other.

        Raises:
            CloudError: as ``call``; or a list does not end.
        """
        return await self._run(steps, [])

    async def pages(self, steps: Steps[T]) -> T:
        """As ``run``, for a list of pages: limited in time, too."""
        made: list[Call] = []
        try:
            async with asyncio.timeout(LIST_S):
                return await self._run(steps, made)
        except TimeoutError as error:
            why = f"not complete after {LIST_S:.0f} s"
            raise self._endless(made[-1].path, why) from error

    async def _run(self, steps: Steps[T], made: list[Call]) -> T:
        """Make the calls, and note each before it is made."""
        result: Any = None
        while True:
            try:
                made.append(steps.send(result))
            except StopIteration as end:
                return end.value
            except EndlessError as error:
                raise self._endless(error.path, error.why) from error
            except STRANGE as error:  # by what puts several responses together
                command = "".join(f"{call.method} {call.path}" for call in made[-1:])
                raise self._strange(command, f"{type(error).__name__}: {error}") from error
            result = await self.make(made[-1])

    def _endless(self, path: str, why: str) -> CloudError:
        return CloudError(
            Code.PARSE_FAILED,
            f"{self._dialect.place.title}: the list does not end: {why}",
            command=f"GET {path}",
            hint="nothing was concluded from the part that came; run the same command again",
            reason=Reason.STRANGE,
        )

    async def _once(
        self,
        method: str,
        path: str,
        read: Callable[[Any], T],
        body: Mapping[str, Any] | None,
        query: Mapping[str, str] | None,
    ) -> T:
        try:
            async with (
                asyncio.timeout(ATTEMPT_S),
                self._client.stream(method, path, json=body, params=query) as response,
            ):
                content = await _content(response)
        except (TimeoutError, httpx.HTTPError, ValueError) as error:
            raise self._broken_off(f"{method} {path}", error) from error
        if response.status_code in GOOD:
            return self._result(f"{method} {path}", response, content, read)
        raise self._refused(f"{method} {path}", response, content)

    def _result(
        self, command: str, response: httpx.Response, content: bytes, read: Callable[[Any], T]
    ) -> T:
        kind = response.headers.get("content-type", "json")
        if content.strip() and "json" not in kind.lower():
            raise self._strange(command, f"the response is {kind[:60]} instead of JSON")
        try:
            data = strict_json(content) if content.strip() else None
        except ValueError as error:
            raise self._incomplete(command, Reason.CUT, f"it is not JSON: {error}") from error
        try:
            return read(data)
        except STRANGE as error:
            raise self._strange(command, f"{type(error).__name__}: {error}") from error

    def _broken_off(self, command: str, error: Exception) -> CloudError:
        if isinstance(error, TimeoutError | httpx.ReadTimeout | httpx.WriteTimeout):
            why = f"not complete after {ATTEMPT_S:.0f} s"
            return self._incomplete(command, Reason.SLOW, why)
        if not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
            return self._incomplete(command, Reason.CUT, str(error) or type(error).__name__)
        stranger = _certificate(error)
        return CloudError(
            Code.UNREACHABLE,
            f"{self._dialect.place.title} cannot be reached",
            command=command,
            tail=self._masked(str(error) or type(error).__name__),
            hint="its certificate is not trusted here: is there a proxy that replaces it?"
            if stranger
            else "check the network, DNS and proxy settings of this machine",
            reason=Reason.FORBIDDEN if stranger else Reason.UNREACHED,
        )

    def _incomplete(self, command: str, reason: Reason, why: str) -> CloudError:
        return CloudError(
            Code.TIMED_OUT,
            f"incomplete response from {self._dialect.place.title}: {self._masked(why)[:200]}",
            command=command,
            hint="run the same command again: it first lists what took effect",
            reason=reason,
        )

    def _strange(self, command: str, why: str) -> CloudError:
        return CloudError(
            Code.PARSE_FAILED,
            f"{self._dialect.place.title} sent a response that its document does not have",
            command=command,
            tail=self._masked(why)[:300],
            hint="a login page or proxy of this network, or the API has changed: is there a newer "
            "Corral?",
            reason=Reason.STRANGE,
        )

    def _refused(self, command: str, response: httpx.Response, content: bytes) -> CloudError:
        place = self._dialect.place
        if response.is_redirect or response.status_code < httpx.codes.BAD_REQUEST:
            return self._moved(command, response)
        code, words = "", content.decode("utf-8", "replace")
        with contextlib.suppress(ValueError, TypeError, AttributeError, LookupError):
            code, words = self._dialect.words(strict_json(content))
        error = judge(
            self._dialect.rows,
            provider=place.title,
            variable=place.variable,
            status=response.status_code,
            code=code,
            text=words,
        )
        error.command = command
        error.tail = self._masked(error.tail)
        if error.transient:
            headers = response.headers
            date = headers.get("date") or formatdate(usegmt=True)
            error.after = retry_after(headers.get("retry-after", ""), date)
        if error.reason is Reason.LIMIT and error.after > LIMITED_S:
            error.hint = f"it takes the next call in {error.after / 60:.0f} minutes: wait as long"
        return error

    def _moved(self, command: str, response: httpx.Response) -> CloudError:
        """A redirect, or another status that is neither a result nor a refusal."""
        title, status = self._dialect.place.title, response.status_code
        location, where = str(response.headers.get("location", "")), ""
        with contextlib.suppress(ValueError):
            where = urlsplit(location).hostname or ""
        return CloudError(
            Code.PROVIDER_FAILED,
            f"{title} redirects the call{f' to {where[:100]}' if where else ''} (HTTP {status})"
            if response.is_redirect
            else f"{title} sent a response that its document does not have (HTTP {status})",
            command=command,
            status=status,
            hint="not followed: the API key would be sent. A login page or proxy of this network, "
            "or the API has moved: is there a newer Corral?",
            reason=Reason.REQUEST if response.is_redirect else Reason.STRANGE,
        )

    def _masked(self, text: str) -> str:
        return text.replace(self._key, "***")


def _error(state: RetryCallState) -> CloudError:
    error = state.outcome.exception() if state.outcome else None
    # Others are not repeated, so no state of a repeat holds one.
    return error if isinstance(error, CloudError) else CloudError(Code.PROVIDER_FAILED, str(error))


def _repeatable(error: BaseException, *, safe: bool) -> bool:
    return isinstance(error, CloudError) and (
        error.reason in NOT_DONE or (safe and error.reason in ATTEMPTS)
    )


def _enough(state: RetryCallState, busy: float) -> bool:
    """Whether a call is not made again.

    Args:
        state: attempts and pauses.
        busy: seconds that the attempts took, which 100 slow refusals make long (a minute each).
    """
    error = _error(state)
    limited = error.reason is Reason.LIMIT
    spent = state.idle_for + state.upcoming_sleep + (busy if limited else 0.0)
    return state.attempt_number >= ATTEMPTS.get(error.reason, 1) or spent > (
        LIMITED_S if limited else PAUSES_S
    )


async def _content(response: httpx.Response) -> bytes:
    """The response's body.

    Raises:
        ValueError: it is too large.
    """
    content = bytearray()
    async for chunk in response.aiter_bytes():
        content += chunk
        if len(content) > ANSWER_AT_MOST:
            raise ValueError(f"more than {ANSWER_AT_MOST >> 20} MiB")
    return bytes(content)


def _certificate(error: BaseException | None) -> bool:
    """Whether a connection failed because the server's certificate is not trusted."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False
