"""What a cloud's refusal means: one row per documented error, with a sentence and a hint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache

from corral.errors import Code, CorralError
from corral.tables import Row as TableRow
from corral.tables import read_table


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
    UNREACHED = "unreached"  # no connection: the request was not sent
    BROKEN = "broken"  # the cloud failed: whether it took effect is not known
    CUT = "cut"  # the response is incomplete: whether it took effect is not known
    SLOW = "slow"  # no complete response in time: whether it took effect is not known
    STRANGE = "strange"  # a response that the cloud's document does not have: not known either


UNSURE = frozenset((Reason.BROKEN, Reason.CUT, Reason.SLOW, Reason.STRANGE))
"""After these it is unknown whether the call took effect: list before calling again."""

NOT_DONE = frozenset((Reason.LIMIT, Reason.UNREACHED))
"""The call was not carried out: any call may be repeated, a launch too."""


@dataclass(slots=True)
class CloudError(CorralError):
    """A cloud refused, failed or did not answer.

    Args:
        reason: which of these.
        after: seconds after which the cloud takes the call again, 0 when it names none.
    """

    reason: Reason = Reason.BROKEN
    after: float = 0.0

    @property
    def unsure(self) -> bool:
        """True when the call may have taken effect."""
        return self.reason in UNSURE

    @property
    def transient(self) -> bool:
        """True when the same call may succeed later."""
        return self.reason in UNSURE | NOT_DONE


class Row(TableRow):
    """One documented error.

    Attributes:
        status: HTTP status, 0 for any.
        code: the cloud's own code, or a part of its text; "" for any.
        reason: what can be done.
        message: what it means, one sentence.
        hint: what to do; ``{variable}`` stands for the environment variable of the key.
    """

    status: int = 0
    code: str = ""
    reason: Reason
    message: str
    hint: str


@cache
def rows_of(folder: str) -> tuple[Row, ...]:
    """The errors of a provider.

    Args:
        folder: of ``corral.providers``, which has ``errors.yaml``; ``cloud`` has what is common.

    Raises:
        CorralError: PARSE_FAILED, with line and column of every finding.
    """
    return read_table(f"corral.providers.{folder}", "errors.yaml", tuple[Row, ...])


# Before all others: a cloud's words for it may hold "limit", which elsewhere is a quota's.
TOO_MANY = Row(
    status=429,
    reason=Reason.LIMIT,
    message="too many calls",
    hint="another program uses the same account: wait a minute",
)


# A cloud that failed may word it like a refusal: a gateway's page that holds "limit" is not a
# quota.
_REFUSED = range(400, 500)
# No server of these answers otherwise when it is asked again (RFC 9110, 15.6.2 and 15.6.6).
_PERMANENT = frozenset((501, 505))


def judge(
    rows: Sequence[Row], *, provider: str, variable: str, status: int, code: str, text: str
) -> CloudError:
    """The error for a response: the first row that fits, else by the class of its status.

    Args:
        rows: the provider's own rows; those of all clouds come after them.
        provider: name for the message.
        variable: the environment variable of the key.
        status: HTTP status.
        code: the provider's own code, "" when there is none.
        text: its own words.
    """
    tail = f"HTTP {status} {code}: {text}".strip(": ")[:500]
    for row in (TOO_MANY, *rows, *rows_of("cloud")):
        if row.status not in (0, status) or row.code not in f"{code} {text}":
            continue
        if status not in _REFUSED and row.reason is not Reason.BROKEN:
            continue
        return CloudError(
            Code.PROVIDER_FAILED,
            f"{provider}: {row.message}",
            status=status,
            tail=tail,
            hint=row.hint.format(variable=variable),
            reason=row.reason,
        )
    if status in _REFUSED or status in _PERMANENT:
        return CloudError(
            Code.PROVIDER_FAILED,
            f"{provider} refused the call (HTTP {status})",
            status=status,
            tail=tail,
            hint="the API may have changed; is there a newer Corral?",
            reason=Reason.REQUEST,
        )
    return CloudError(
        Code.PROVIDER_FAILED,
        f"{provider} failed (HTTP {status})",
        status=status,
        tail=tail,
        hint="look at the provider's status page, then run the same command again",
        reason=Reason.BROKEN,
    )


def all_failed(failed: Mapping[str, CorralError]) -> CorralError:
    """One error for the clouds that failed, each under its name.

    Clouds without a key here are in its last lines; they are its subject where no other failed.

    Args:
        failed: by cloud, one at least.
    """
    keyed = {n: e for n, e in failed.items() if e.code is not Code.NOT_FOUND} or dict(failed)
    name, first = next(iter(keyed.items()))
    if len(failed) == 1:
        return first
    lines = [f"{n}: {e.message}{f' ({e.command})' if e.command else ''}" for n, e in failed.items()]
    if len(keyed) == 1:
        tail = "\n".join(
            [first.tail, *(line for line in lines if not line.startswith(f"{name}: "))]
        )
        return replace(first, tail=tail.strip())
    hints = dict.fromkeys(f"{n}: {e.hint}" for n, e in keyed.items() if e.hint)
    return CorralError(
        first.code,
        f"{len(keyed)} clouds could not be asked: {', '.join(keyed)}",
        tail="\n".join(lines),
        hint="; ".join(hints),
    )
