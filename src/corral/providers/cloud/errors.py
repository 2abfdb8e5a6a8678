"""What a cloud's refusal means: one row per documented error, with a sentence and a hint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from corral.errors import Code, CorralError


class Reason(StrEnum):
    """What can be done about a refusal."""

    CAPACITY = "capacity"  # try the next offer
    REQUEST = "request"  # the request is wrong: nothing else will do
    KEY = "key"  # the API key is not taken
    MONEY = "money"  # balance, payment method, account
    QUOTA = "quota"  # the account may not have more of it
    FORBIDDEN = "forbidden"
    MISSING = "missing"  # no such thing
    BUSY = "busy"  # not now, in this state
    LIMIT = "limit"  # too many calls
    BROKEN = "broken"  # the cloud failed: whether it took effect is not known
    CUT = "cut"  # no whole answer came: whether it took effect is not known


UNSURE = frozenset((Reason.BROKEN, Reason.CUT))
"""After these nobody knows whether the call took effect: look before you call again."""


@dataclass(slots=True)
class CloudError(CorralError):
    """A cloud refused, failed or did not answer; ``reason`` says which."""

    reason: Reason = Reason.BROKEN
    after: float = 0.0

    @property
    def unsure(self) -> bool:
        """True when the call may have taken effect."""
        return self.reason in UNSURE


@dataclass(frozen=True, slots=True)
class Row:
    """One documented error.

    Attributes:
        status: HTTP status, 0 for any.
        code: the cloud's own code, or a part of its text; "" for any.
        reason: what can be done.
        message: what it means, one sentence.
        hint: what to do.
    """

    status: int
    code: str
    reason: Reason
    message: str
    hint: str


# Before all others: Paperspace's words for it hold "limit", which elsewhere is a quota's.
TOO_MANY = Row(
    429,
    "",
    Reason.LIMIT,
    "too many calls",
    "another program uses the same account: wait a minute",
)
COMMON = (
    Row(401, "", Reason.KEY, "the API key is wrong, expired or deleted",
        "make a new key on the provider's page and set {variable}"),
    Row(402, "", Reason.MONEY, "the account has no balance left", "add credit on its billing page"),
    Row(403, "", Reason.FORBIDDEN, "the API key may not do this",
        "give the key the rights to read and write, or use another"),
    Row(404, "", Reason.MISSING, "there is no such thing (any more)", "list again: corral offers"),
    Row(408, "", Reason.BROKEN, "the cloud gave up waiting", "try again"),
    Row(409, "", Reason.BUSY, "it cannot be done in its state", "wait until it has settled"),
    Row(422, "", Reason.REQUEST, "the request does not fit", "correct the field that it names"),
    Row(400, "", Reason.REQUEST, "the request does not fit", "correct the field that it names"),
)  # fmt: skip


def judge(
    rows: Sequence[Row], *, provider: str, variable: str, status: int, code: str, text: str
) -> CloudError:
    """The error for an answer: the first row that fits; a 5xx is a failure of the cloud.

    Args:
        rows: the provider's own rows; ``COMMON`` comes after them.
        provider: name for the message.
        variable: the environment variable of the key.
        status: HTTP status.
        code: the provider's own code, "" when there is none.
        text: its own words.
    """
    for row in (TOO_MANY, *rows, *COMMON):
        if row.status not in (0, status) or row.code not in f"{code} {text}":
            continue
        return CloudError(
            Code.PROVIDER_FAILED,
            f"{provider}: {row.message}",
            tail=f"HTTP {status} {code}: {text}".strip(": ")[:500],
            hint=row.hint.format(variable=variable),
            reason=row.reason,
        )
    return CloudError(
        Code.PROVIDER_FAILED,
        f"{provider} failed (HTTP {status})",
        tail=f"{code}: {text}".strip(": ")[:500],
        hint="look at the provider's status page, then run the same command again",
        reason=Reason.BROKEN,
    )
