"""Job states and exit codes. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from corral.errors import Code, CorralError


def state_word(text: str) -> str:
    """Slurm's word in a field such as ``CANCELLED by 1000``, also that of a later release."""
    return text.strip().split(" ", 1)[0].rstrip("+").upper()


class JobState(StrEnum):
    """Job states (job_state_string of slurm_protocol_defs.c, 21.08 to 26.05)."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    NODE_FAIL = "NODE_FAIL"
    PREEMPTED = "PREEMPTED"
    BOOT_FAIL = "BOOT_FAIL"
    DEADLINE = "DEADLINE"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    COMPLETING = "COMPLETING"
    CONFIGURING = "CONFIGURING"
    EXPEDITING = "EXPEDITING"
    LAUNCH_FAILED = "LAUNCH_FAILED"
    POWER_UP_NODE = "POWER_UP_NODE"
    RECONFIG_FAIL = "RECONFIG_FAIL"
    REQUEUED = "REQUEUED"
    REQUEUE_FED = "REQUEUE_FED"
    REQUEUE_HOLD = "REQUEUE_HOLD"
    RESIZING = "RESIZING"
    RESV_DEL_HOLD = "RESV_DEL_HOLD"
    REVOKED = "REVOKED"
    SIGNALING = "SIGNALING"
    SPECIAL_EXIT = "SPECIAL_EXIT"
    STAGE_OUT = "STAGE_OUT"
    STOPPED = "STOPPED"
    UPDATE_DB = "UPDATE_DB"

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
        return self in _ENDED

    @property
    def good(self) -> bool:
        """It ended as it should."""
        return self is JobState.COMPLETED

    @property
    def waiting(self) -> bool:
        """It has not begun."""
        return self in _WAITING


_ENDED: Final = frozenset(
    {JobState.COMPLETED, JobState.CANCELLED, JobState.FAILED, JobState.TIMEOUT, JobState.NODE_FAIL,
     JobState.PREEMPTED, JobState.BOOT_FAIL, JobState.DEADLINE, JobState.OUT_OF_MEMORY,
     JobState.LAUNCH_FAILED, JobState.RECONFIG_FAIL, JobState.REVOKED}
)  # fmt: skip
RECORDED: Final = tuple(
    sorted(str(state) for state in _ENDED - {JobState.LAUNCH_FAILED, JobState.RECONFIG_FAIL})
)
"""In which accounting has jobs that ended (sacct(1), JOB STATE CODES): the two are slurmctld's."""
_WAITING: Final = frozenset(
    {JobState.PENDING, JobState.CONFIGURING, JobState.POWER_UP_NODE, JobState.REQUEUED,
     JobState.REQUEUE_FED, JobState.REQUEUE_HOLD, JobState.RESV_DEL_HOLD, JobState.SPECIAL_EXIT,
     JobState.EXPEDITING}
)  # fmt: skip

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
