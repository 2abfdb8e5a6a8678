"""Calls of a cloud's API as data: what is sent, and what reads the response. Pure.

What a cloud's own calls are is written once, as generators: they yield a ``Call`` and receive what
its ``read`` made of the response. Two programs carry them out: the client
(``cloud.client.http``), and the guard on a controller (``agents/rental_guard.py``), which has the
standard library of Python 3.10.
So this module, ``cloud.model``, ``cloud.response`` and each provider's ``calls`` are copied there.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

PAGES_AT_MOST = 200
MISSING, BUSY = "missing", "busy"
"""Refusals that a call may tolerate: by their HTTP status, or by the cloud's own codes for them."""
BY_STATUS: Mapping[int, str] = {404: MISSING, 409: BUSY}
"""What these mean at any cloud. ``errors.yaml`` has a message and a hint for each; the guard needs
neither, and reads no YAML. A test compares both."""

T = TypeVar("T")


@dataclass(frozen=True)
class Call:
    """One call.

    Attributes:
        method: HTTP method.
        path: below the cloud's address.
        read: gives the result from the response's JSON; what it raises is the cloud's fault.
        body: JSON of the request.
        query: query parameters.
        again: it may take effect twice without harm; None: GET and DELETE may.
        tolerated: refusals after which the result is None instead of an error.
    """

    method: str
    path: str
    read: Callable[[Any], Any]
    body: Mapping[str, Any] | None = None
    query: Mapping[str, str] | None = None
    again: bool | None = None
    tolerated: tuple[str, ...] = ()


Steps = Generator[Call, Any, T]
"""Calls, one after the other, and what they result in."""


class Rented(Protocol):
    """What must be known of a machine to end it."""

    @property
    def id(self) -> str:
        """The cloud's id of it."""
        ...

    @property
    def group(self) -> str:
        """Id of the cloud's cluster that it is a member of."""
        ...


class EndlessError(ValueError):
    """The pages of a list do not end."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"the list does not end: {why}")
        self.path, self.why = path, why


def nothing(data: Any) -> None:
    """Read nothing: the status is enough."""


def carried_out(data: Any) -> bool:
    """Read nothing; unlike a tolerated refusal, a result."""
    return True


def pages(
    path: str,
    page: Callable[[Any], tuple[Sequence[T], dict[str, str]]],
    query: Mapping[str, str],
) -> Steps[list[T]]:
    """All pages of a list. A list that does not end is an error, never a shorter list.

    Args:
        path: below the cloud's address.
        page: reads one page: its items, and the query parameters that the next one adds; none: it
            is the last.
        query: parameters of all pages.

    Raises:
        EndlessError: a cursor comes twice, or there are too many pages.
    """
    items: list[T] = []
    cursors: list[dict[str, str]] = []
    after: dict[str, str] = {}
    while len(cursors) < PAGES_AT_MOST:
        page_items, after = yield Call("GET", path, page, query={**query, **after})
        items += page_items
        if not after:
            return items
        if after in cursors:
            raise EndlessError(path, f"page {len(cursors) + 1} leads to an earlier one")
        cursors.append(after)
    raise EndlessError(path, f"more than {PAGES_AT_MOST} pages")
