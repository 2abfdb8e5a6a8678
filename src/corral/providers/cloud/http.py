"""One account of one cloud over HTTPS: paced, repeated only where that is safe, judged by table.

Own loop instead of a retry library (docs/decisions/0041): what may be repeated follows from the
call, the pause from the cloud's header, and both pass through the pacer all processes share.
"""

from __future__ import annotations

import asyncio
import contextlib
import json as jsonlib
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import httpx

from corral.errors import Code
from corral.providers.cloud.errors import CloudError, Reason, Row, judge
from corral.providers.cloud.pacing import Pacer
from corral.providers.cloud.secrets import Place

TRIES: Final = 5
LIMITED_TRIES: Final = 12
PAUSE_S: Final = 2.0
PAUSE_AT_MOST_S: Final = 60.0
TIMEOUT_S: Final = 60.0
ANSWER_AT_MOST: Final = 16 << 20
TOO_MANY: Final = 429
FAILURE: Final = 500

Words = Callable[[Any], tuple[str, str]]
"""The cloud's own code and text from the JSON of an error."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How one cloud is talked to.

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
        manner: how this cloud talks.
        url: its address.
        key: the API key; stands in no message.
        pacer: whose turn it is.
        transport: another way than the network, in tests.
    """

    def __init__(
        self,
        manner: Manner,
        url: str,
        key: str,
        pacer: Pacer,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._manner = manner
        self._key = key
        self._pacer = pacer
        self.calls = 0
        self.waited = 0.0
        self._client = httpx.AsyncClient(
            base_url=url,
            headers={"Authorization": f"Bearer {key}", "User-Agent": "corral"},
            timeout=TIMEOUT_S,
            transport=transport,
            # A redirect would carry the key, and a launch, to another place.
            follow_redirects=False,
        )

    async def close(self) -> None:
        """Give up the connection."""
        await self._client.aclose()

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
        again: bool | None = None,
        limits: Sequence[str] = ("calls",),
    ) -> Any:
        """Make a call and give the JSON of its answer.

        Args:
            method: HTTP method.
            path: below the cloud's address.
            body: JSON of the request.
            query: query parameters.
            again: it may take effect twice without harm; None: GET and DELETE may.
            limits: rate limits it counts under, the slowest first: whoever waits long for one must
                not hold a turn of another that is stale by then (seen: 429 with 200 launches).

        Raises:
            CloudError: refused, failed, or no whole answer came; ``unsure`` says whether it may
                have taken effect.
        """
        safe = method in ("GET", "DELETE") if again is None else again
        attempt = 0
        while True:
            self.waited += await self._pacer.turn(*limits)
            try:
                return await self._once(method, path, body, query)
            except CloudError as error:
                attempt += 1
                # A 429 was not carried out, so it may be repeated even where nothing else may.
                limited = error.reason is Reason.LIMIT
                if attempt >= (LIMITED_TRIES if limited else TRIES if safe else 1):
                    raise
                if not (limited or error.unsure):
                    raise
                pause = error.after or min(PAUSE_S * 2 ** (attempt - 1), PAUSE_AT_MOST_S)
                if limited:
                    self._pacer.hold(limits[0], pause)
                await asyncio.sleep(pause)

    async def _once(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        query: Mapping[str, str] | None,
    ) -> Any:
        self.calls += 1
        place = self._manner.place
        try:
            answer = await self._client.request(method, path, json=body, params=query)
        except httpx.ConnectError as error:
            raise CloudError(
                Code.UNREACHABLE,
                f"{place.title} cannot be reached",
                command=f"{method} {path}",
                tail=self._masked(str(error)),
                hint="check the network, DNS and proxy settings of this machine",
                reason=Reason.CUT,
            ) from error
        except httpx.HTTPError as error:
            raise self._cut(method, path, type(error).__name__) from error
        text = answer.text[:ANSWER_AT_MOST]
        if answer.is_success:
            return self._read(method, path, text)
        raise self._refused(method, path, answer, text)

    def _read(self, method: str, path: str, text: str) -> Any:
        if not text.strip():
            return None
        try:
            return jsonlib.loads(text)
        except ValueError as error:
            raise self._cut(method, path, "the answer is cut off") from error

    def _cut(self, method: str, path: str, why: str) -> CloudError:
        return CloudError(
            Code.TIMED_OUT,
            f"{self._manner.place.title} gave no whole answer ({why})",
            command=f"{method} {path}",
            hint="run the same command again: it first looks at what took effect",
            reason=Reason.CUT,
        )

    def _refused(self, method: str, path: str, answer: httpx.Response, text: str) -> CloudError:
        place = self._manner.place
        code, words = "", text
        with contextlib.suppress(ValueError, TypeError, AttributeError, KeyError):
            code, words = self._manner.words(jsonlib.loads(text))
        error = judge(
            self._manner.rows,
            provider=place.title,
            variable=place.variable,
            status=answer.status_code,
            code=code,
            text=words,
        )
        error.command = f"{method} {path}"
        error.tail = self._masked(error.tail)
        if answer.status_code == TOO_MANY:
            error.reason = Reason.LIMIT
            error.after = _seconds(answer.headers.get("retry-after", ""))
        elif answer.status_code >= FAILURE:
            error.reason = Reason.BROKEN
        return error

    def _masked(self, text: str) -> str:
        return text.replace(self._key, "***")


def _seconds(text: str) -> float:
    try:
        return min(max(float(text), 0.0), PAUSE_AT_MOST_S)
    except ValueError:
        return 0.0


def wrong(place: Place, what: str, error: Exception) -> CloudError:
    """An answer that was whole, and not what the cloud's document promises."""
    return CloudError(
        Code.PARSE_FAILED,
        f"{place.title} answered something else than its document says: {what}",
        tail=f"{type(error).__name__}: {error}"[:300],
        hint="the API may have changed; is there a newer Corral?",
        reason=Reason.CUT,
    )


@contextlib.contextmanager
def understood(place: Place, what: str) -> Generator[None]:
    """Turn what goes wrong while an answer is read into ``wrong``."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise wrong(place, what, error) from error
