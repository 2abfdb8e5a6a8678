"""What a function's job returned or raised: read from its folder, unpickled, explained."""

from __future__ import annotations

import base64
import binascii
import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from corral.errors import BAD_JSON, Code, CorralError
from corral.hosts.fleet import Fleet
from corral.hosts.quote import call
from corral.hosts.transport import check
from corral.jobs.follow import as_user
from corral.jobs.function.plain import NotPlainError, plain_value
from corral.jobs.handle import JobHandle

MOST_BYTES: Final = 32 << 20
"""Of a result: it travels as base64, held completely in memory."""
_HEAD: Final = 1 << 20
"""Bytes that a description and the pickle of an exception take at most."""


class RemoteTraceback(Exception):  # noqa: N818  # the cause of an error, as concurrent.futures has it
    """The traceback of a function's exception on its node."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A file that a function's job wrote.

    Attributes:
        about: what it is.
        data: a pickle.
    """

    about: Mapping[str, Any]
    data: bytes


async def read_answer(
    fleet: Fleet, job: JobHandle, name: Literal["returned", "raised"]
) -> Answer | None:
    """What a job wrote; None where it wrote nothing.

    The file is read with the rights of the job's user, and only where no other user could have
    written it.

    Raises:
        CorralError: COMMAND_FAILED, another user could have written it; PARSE_FAILED.
    """
    script = call("jobs/user.sh", "answer_read", job.folder, name, MOST_BYTES + _HEAD)
    result = await fleet.run(job.controller, as_user(job.user, script), timeout=600)
    text = check(result, f"reading what job {job.ref} {name}").stdout.strip()
    if not text:
        return None
    try:
        head, _, data = base64.b64decode(text, validate=True).partition(b"\n")
        about = json.loads(head)
        if not isinstance(about, dict):
            raise ValueError("not an object")
        return Answer(cast("dict[str, Any]", about), data)
    except (binascii.Error, *BAD_JSON) as error:
        raise CorralError(
            Code.PARSE_FAILED, f"{job.folder}/{name} is damaged", node=job.controller
        ) from error


def result_of(job: JobHandle, answer: Answer, *, trusted: bool) -> Any:
    """The function's result.

    Args:
        job: the job.
        answer: what it wrote.
        trusted: the job's user may run code here: who reads it is that user, or has agreed to it.

    Raises:
        CorralError: PARSE_FAILED, it cannot be unpickled here; FORBIDDEN, it is not a plain value
            and its writer is not trusted.
    """
    try:
        return _unpickled(answer.data, trusted=trusted)
    except NotPlainError as error:
        raise CorralError(
            Code.FORBIDDEN,
            f"reading the result of job {job.ref} would run code that {job.user} wrote: it has a "
            f"{error}",
            hint="return numbers, texts, containers of them or arrays of numpy; or submit as "
            f"yourself (corral login); or, where you trust {job.user} as yourself, set "
            "cluster.trust_results = True",
        ) from error
    except BaseException as error:  # whatever the objects' own methods raise, SystemExit too
        raise CorralError(
            Code.PARSE_FAILED,
            f"the result of job {job.ref} cannot be read here: {error}",
            hint="return values whose types are installed on this machine too",
        ) from error


def _unpickled(data: bytes, *, trusted: bool) -> Any:
    if trusted:
        return pickle.loads(data)  # noqa: S301  # read_answer: only the job's user wrote it
    return plain_value(data)


def exception_of(job: JobHandle, answer: Answer, python: str, *, trusted: bool) -> BaseException:
    """Why a job has no result: the function's own exception, or an error in words.

    Args:
        job: the job.
        answer: what it wrote.
        python: release of this Python.
        trusted: as for ``result_of``; else exceptions that are not Python's own are
            reported in words.
    """
    about = answer.about
    match about.get("kind"):
        case "python":
            return CorralError(
                Code.NOT_GOOD,
                f"job {job.ref} has Python {about.get('python')} and the function is code of "
                f"Python {python}",
                hint="move the function from the script or notebook into a module of the project, "
                f"which is sent as text; or give the job a Python {python}: python=PATH",
            )
        case "size":
            size = about.get("size")
            shown = f"{size >> 20} MiB" if type(size) is int else "too large"
            return CorralError(
                Code.NOT_GOOD,
                f"the result of job {job.ref} is {shown}: {MOST_BYTES >> 20} MiB are the most",
                hint="write it to shared storage, and return its path",
            )
        case _:
            return _raised(job, answer, trusted=trusted)


def _raised(job: JobHandle, answer: Answer, *, trusted: bool) -> BaseException:
    about = answer.about
    traceback = str(about.get("traceback", ""))
    try:
        error = _unpickled(answer.data, trusted=trusted)
    except BaseException:  # its class is not here or ends the program, or half a pickle
        error = None
    if isinstance(error, BaseException):
        error.__cause__ = RemoteTraceback(f"\n{traceback}")
        return error
    return CorralError(
        Code.NOT_GOOD,
        f"rank {about.get('rank')} of job {job.ref} raised {about.get('type')}: "
        f"{about.get('message')}",
        tail=traceback,
        hint=f"corral logs {job.ref} has all that it printed",
    )
