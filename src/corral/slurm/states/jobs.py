"""Job states and exit codes. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Final

from corral.errors import Code, CorralError


def state_word(text: str) -> str:
    """Slurm's word in a field such as ``CANCELLED by 1000``, also that of a later release."""
    return text.strip().split(" ", 1)[0].rstrip("+").upper()


class Phase(Enum):
    """Where a job stands: before its start, from then to its end, behind that."""

    WAITING = "waiting"
    GOING = "going"
    ENDED = "ended"


class JobState(StrEnum):
    """Job states (job_state_string of slurm_protocol_defs.c, 21.08 to 26.05)."""

    PENDING = "PENDING"
    CONFIGURING = "CONFIGURING"
    POWER_UP_NODE = "POWER_UP_NODE"
    EXPEDITING = "EXPEDITING"
    REQUEUED = "REQUEUED"
    REQUEUE_FED = "REQUEUE_FED"
    REQUEUE_HOLD = "REQUEUE_HOLD"
    RESV_DEL_HOLD = "RESV_DEL_HOLD"
    SPECIAL_EXIT = "SPECIAL_EXIT"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    STOPPED = "STOPPED"
    SIGNALING = "SIGNALING"
    RESIZING = "RESIZING"
    STAGE_OUT = "STAGE_OUT"
    COMPLETING = "COMPLETING"
    UPDATE_DB = "UPDATE_DB"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    NODE_FAIL = "NODE_FAIL"
    PREEMPTED = "PREEMPTED"
    BOOT_FAIL = "BOOT_FAIL"
    DEADLINE = "DEADLINE"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    LAUNCH_FAILED = "LAUNCH_FAILED"
    RECONFIG_FAIL = "RECONFIG_FAIL"
    REVOKED = "REVOKED"

    @classmethod
    def read(cls, text: str) -> JobState:
        """The state in a field such as ``CANCELLED by 1000``.

        Raises:
            CorralError: no release up to 26.05 has this state.
        """
        state = cls.__members__.get(state_word(text))
        if state is None:
            raise CorralError(
                Code.PARSE_FAILED,
                f"{text[:60]!r} is not a job state",
                hint="a newer Slurm than Corral knows? corral doctor shows the versions",
            )
        return state

    @property
    def ended(self) -> bool:
        """It will not run any more (a requeued job gets another record)."""
        return _TABLE[self][0] is Phase.ENDED

    @property
    def good(self) -> bool:
        """It ended as it should."""
        return self is JobState.COMPLETED

    @property
    def waiting(self) -> bool:
        """It has not begun."""
        return _TABLE[self][0] is Phase.WAITING


_TABLE: Final[Mapping[JobState, tuple[Phase, bool]]] = MappingProxyType(
    {
        JobState.PENDING: (Phase.WAITING, False),
        JobState.CONFIGURING: (Phase.WAITING, True),
        JobState.POWER_UP_NODE: (Phase.WAITING, False),
        JobState.EXPEDITING: (Phase.WAITING, False),
        JobState.REQUEUED: (Phase.WAITING, False),
        JobState.REQUEUE_FED: (Phase.WAITING, False),
        JobState.REQUEUE_HOLD: (Phase.WAITING, False),
        JobState.RESV_DEL_HOLD: (Phase.WAITING, False),
        JobState.SPECIAL_EXIT: (Phase.WAITING, False),
        JobState.RUNNING: (Phase.GOING, True),
        JobState.SUSPENDED: (Phase.GOING, True),
        JobState.STOPPED: (Phase.GOING, True),
        JobState.SIGNALING: (Phase.GOING, True),
        JobState.RESIZING: (Phase.GOING, True),
        JobState.STAGE_OUT: (Phase.GOING, True),
        JobState.COMPLETING: (Phase.GOING, True),
        JobState.UPDATE_DB: (Phase.GOING, False),
        JobState.COMPLETED: (Phase.ENDED, False),
        JobState.CANCELLED: (Phase.ENDED, False),
        JobState.FAILED: (Phase.ENDED, False),
        JobState.TIMEOUT: (Phase.ENDED, False),
        JobState.NODE_FAIL: (Phase.ENDED, False),
        JobState.PREEMPTED: (Phase.ENDED, False),
        JobState.BOOT_FAIL: (Phase.ENDED, False),
        JobState.DEADLINE: (Phase.ENDED, False),
        JobState.OUT_OF_MEMORY: (Phase.ENDED, False),
        JobState.LAUNCH_FAILED: (Phase.ENDED, False),
        JobState.RECONFIG_FAIL: (Phase.ENDED, False),
        JobState.REVOKED: (Phase.ENDED, False),
    }
)
"""The phase of each state, and whether a job in it has nodes that no other may use: all that is
decided by a job's state follows from this table."""


def _words(which: Callable[[JobState], bool]) -> tuple[str, ...]:
    return tuple(state.value for state in JobState if which(state))


ENDED: Final = frozenset(_words(lambda state: state.ended))
WAITING: Final = frozenset(_words(lambda state: state.waiting))
GOING_ON: Final = _words(lambda state: not state.ended)
"""Of a job that has not ended."""
HOLDING: Final = ",".join(_words(lambda state: _TABLE[state][1]))
"""squeue's ``--states`` for the jobs that have nodes."""
RECORDED: Final = tuple(sorted(ENDED - {JobState.LAUNCH_FAILED, JobState.RECONFIG_FAIL}))
"""In which accounting has jobs that ended (sacct(1), JOB STATE CODES): the two are slurmctld's."""

_SIGNALS: Final[Mapping[int, str]] = MappingProxyType(
    {1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
     9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM",
     15: "SIGTERM", 24: "SIGXCPU", 25: "SIGXFSZ", 53: "Slurm's own: a file could not be written"}
)  # fmt: skip
_STATUSES: Final[Mapping[int, str]] = MappingProxyType(
    {125: "out of memory", 126: "the command cannot be executed", 127: "command not found"}
)
_SHELL_SIGNAL: Final = 128  # a shell's exit status for a signal is 128 and its number
_EXIT: Final = re.compile(r"(\d+):(\d+)")


@dataclass(frozen=True, slots=True)
class ExitCode:
    """How a job ended: its exit status, and the signal that ended it (0 for none)."""

    status: int
    signal: int = 0

    @classmethod
    def parse(cls, text: str) -> ExitCode:
        """Read Slurm's ``status:signal``; an empty field is 0:0.

        Raises:
            CorralError: it has another form.
        """
        if not text.strip():
            return cls(0)
        match = _EXIT.fullmatch(text.strip())
        if not match:
            raise CorralError(Code.PARSE_FAILED, f"{text[:40]!r} is not an exit code of Slurm")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.status}:{self.signal}"

    @property
    def words(self) -> str:
        """What it means: ``ended by SIGKILL``."""
        signal = self.signal
        if not signal and self.status > _SHELL_SIGNAL:
            signal = self.status - _SHELL_SIGNAL
        if signal:
            return f"ended by {_SIGNALS.get(signal, f'signal {signal}')}"
        if not self.status:
            return "succeeded"
        known = _STATUSES.get(self.status)
        return f"exit status {self.status}" + (f" ({known})" if known else "")
