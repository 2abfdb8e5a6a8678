"""Answers of slurmrestd: status with body, and the error that a refusal stands for. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from corral.errors import Code, CorralError
from corral.slurm.rest.json_values import record
from corral.slurm.rest.read import Metadata, unreadable

OK, UNCHANGED, MISSING, UNAUTHORIZED, FORBIDDEN, NO_AUTH = 200, 304, 404, 401, 403, 511
SACCT: Final = "where there is accounting, corral jobs --all asks it"
_DENIED: Final = ("permission denied", "invalid user id", "operation not permitted", "access/perm")
_NOT_TAKEN: Final = "authentication"
_NOT_TAKEN_22: Final = "Unspecified error"
"""The only error of 22.05 for a bad token."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A response: the HTTP status, the JSON body, and its own errors and warnings."""

    status: int
    body: Any
    meta: Metadata


def refused(answer: Answer, doing: str) -> CorralError:
    """The error that an unsuccessful response stands for."""
    message = "; ".join(answer.meta.errors)
    lower = message.lower()
    if answer.status in (UNAUTHORIZED, NO_AUTH) or _NOT_TAKEN in lower or message == _NOT_TAKEN_22:
        return CorralError(
            Code.LOGIN_REFUSED,
            "Slurm does not take this token: it is wrong, or it has expired",
            hint="make a new one on the controller: scontrol token lifespan=28800",
        )
    if answer.status == FORBIDDEN or any(word in lower for word in _DENIED):
        return CorralError(
            Code.FORBIDDEN,
            f"Slurm does not let you do this: {message or 'permission denied'}",
            hint="only the owner of the job or an operator can do this",
        )
    return CorralError(
        Code.SLURM_REFUSED,
        f"{doing}: {message or f'slurmrestd answered with status {answer.status}'}",
        hint="" if message else "on the controller: journalctl -u slurmrestd",
    )


def require_own(answer: Answer) -> None:
    """Check that a good answer is slurmrestd's: each lists its errors, or those of each job.

    Raises:
        CorralError: PARSE_FAILED, it was cut off, or is another program's.
    """
    body = record(answer.body)
    if not any(isinstance(body.get(key), list) for key in ("errors", "status")):
        raise unreadable("it is not an answer of slurmrestd's")


def perhaps_queued(error: CorralError, name: str) -> CorralError:
    """The error of a submission whose answer did not come or cannot be read."""
    return replace(
        error,
        message=f"{error.message}; Slurm may have queued the job all the same",
        hint=f"look for it before you submit it again: corral jobs ({name or 'without a name'})",
    )


def no_past(answer: Answer, doing: str) -> CorralError:
    """Without accounting slurmrestd does not have that path at all."""
    if answer.status == MISSING:
        return CorralError(
            Code.NOT_FOUND, "slurmrestd has no accounting of this cluster", hint=SACCT
        )
    return refused(answer, doing)
