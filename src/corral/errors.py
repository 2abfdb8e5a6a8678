"""The kernel of failure: one base class, one table from error code to exit status and HTTP status.

Every error that reaches a user states what failed, on which node, the command and its last lines,
the likely cause and what to do. The CLI, the Python API and the page all read the same table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Any, Final

BAD_JSON: Final = (
    *(ValueError, KeyError, TypeError, AttributeError),
    *(RecursionError, ArithmeticError),
)
"""What reading JSON of another shape raises: the last two for deep nesting, and for 1e999."""


def cannot_read(name: object, error: Exception) -> str:
    """What is wrong with a file, in a sentence: it does not exist, or why it cannot be read."""
    if isinstance(error, FileNotFoundError):
        return f"{name} does not exist"
    return f"{name} cannot be read: {getattr(error, 'strerror', None) or error}"


class Exit(IntEnum):
    """Exit statuses of every verb."""

    GOOD = 0
    NOT_GOOD = 1
    USAGE = 2
    FAILED = 3


class Code(StrEnum):
    """Stable names of what can go wrong; they appear in ``--json`` output and in the page."""

    USAGE = "usage"
    SPEC_INVALID = "spec-invalid"
    NOT_FOUND = "not-found"
    NOT_GOOD = "not-good"
    STALE_PLAN = "stale-plan"
    BUSY = "busy"
    UNREACHABLE = "unreachable"
    HOST_KEY_CHANGED = "host-key-changed"
    COMMAND_FAILED = "command-failed"
    TIMED_OUT = "timed-out"
    GATE_FAILED = "gate-failed"
    PROVIDER_FAILED = "provider-failed"
    IMAGE_FAILED = "image-failed"
    MISSING_TOOL = "missing-tool"
    SLURM_REFUSED = "slurm-refused"
    PARSE_FAILED = "parse-failed"
    LOGIN_REFUSED = "login-refused"
    FORBIDDEN = "forbidden"
    TOO_MANY = "too-many"


@dataclass(frozen=True, slots=True)
class CodeInfo:
    """What one error code means to a process (``exit``) and to an HTTP client (``http``)."""

    exit: Exit
    http: int
    meaning: str


CODES: Final[Mapping[Code, CodeInfo]] = MappingProxyType(
    {
        Code.USAGE: CodeInfo(Exit.USAGE, 400, "the command line or request is wrong"),
        Code.SPEC_INVALID: CodeInfo(Exit.USAGE, 422, "the cluster file has errors"),
        Code.NOT_FOUND: CodeInfo(Exit.USAGE, 404, "no such cluster, node, job or file"),
        Code.NOT_GOOD: CodeInfo(Exit.NOT_GOOD, 409, "the thing asked about is not good"),
        Code.STALE_PLAN: CodeInfo(Exit.NOT_GOOD, 409, "the machines moved since the plan was made"),
        Code.BUSY: CodeInfo(Exit.FAILED, 423, "another corral works on this cluster"),
        Code.UNREACHABLE: CodeInfo(Exit.FAILED, 502, "a node could not be reached"),
        Code.HOST_KEY_CHANGED: CodeInfo(Exit.FAILED, 502, "a node shows another host key"),
        Code.COMMAND_FAILED: CodeInfo(Exit.FAILED, 502, "a command on a node failed"),
        Code.TIMED_OUT: CodeInfo(Exit.FAILED, 504, "a node did not answer in time"),
        Code.GATE_FAILED: CodeInfo(Exit.FAILED, 502, "a stage was applied but is not working"),
        Code.PROVIDER_FAILED: CodeInfo(Exit.FAILED, 502, "the provider refused or failed"),
        Code.IMAGE_FAILED: CodeInfo(Exit.FAILED, 500, "the node image could not be built"),
        Code.MISSING_TOOL: CodeInfo(Exit.FAILED, 500, "a program Corral needs is not installed"),
        Code.SLURM_REFUSED: CodeInfo(Exit.NOT_GOOD, 409, "Slurm refused the request"),
        Code.PARSE_FAILED: CodeInfo(Exit.FAILED, 502, "an answer could not be understood"),
        Code.LOGIN_REFUSED: CodeInfo(Exit.FAILED, 401, "nobody is logged in, or Slurm refuses"),
        Code.FORBIDDEN: CodeInfo(Exit.FAILED, 403, "this user may not do it"),
        Code.TOO_MANY: CodeInfo(Exit.FAILED, 429, "too many requests: wait a little"),
    }
)


@dataclass(slots=True)
class CorralError(Exception):
    """Base of every error Corral raises on purpose.

    Args:
        code: which kind of failure; decides exit status and HTTP status through ``CODES``.
        message: what failed, one sentence.
        node: the node it failed on, "" when it is not about one node.
        command: the command that failed, as one could type it; never contains a secret.
        status: the command's exit status, None when there is none.
        tail: last lines of the command's output.
        hint: the likely cause and what to do.
        fields: what is wrong with each field of a request, by its name; empty where it is not
            about fields.
    """

    code: Code
    message: str
    node: str = ""
    command: str = ""
    status: int | None = None
    tail: str = ""
    hint: str = ""
    fields: Mapping[str, str] = field(default_factory=dict[str, str])

    def __str__(self) -> str:
        where = f"{self.node}: " if self.node else ""
        return f"{where}{self.message}"

    @property
    def exit(self) -> Exit:
        """The exit status for this error."""
        return CODES[self.code].exit

    def as_dict(self) -> dict[str, Any]:
        """Code, message, node, command, last lines and hint: ``--json`` and the page's API.

        ``fields`` is there where the error is about fields of a request.
        """
        about = {"fields": dict(self.fields)} if self.fields else {}
        return about | {
            "code": self.code.value,
            "message": self.message,
            "node": self.node,
            "command": self.command,
            "status": self.status,
            "tail": self.tail,
            "hint": self.hint,
        }


@dataclass(slots=True)
class NodesFailedError(CorralError):
    """Several nodes failed at the same work; ``errors`` holds each one's own error."""

    errors: tuple[CorralError, ...] = ()
