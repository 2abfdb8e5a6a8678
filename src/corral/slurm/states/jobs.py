"""Job states (``job_states.toml``) and exit codes. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Final, Literal

from corral.errors import Code, CorralError
from corral.tables import Row, read_table


def state_word(text: str) -> str:
    """Slurm's word in a field such as ``CANCELLED by 1000``, also that of a later release."""
    return text.strip().split(" ", 1)[0].rstrip("+").upper()


class Phase(StrEnum):
    """Where a job stands: before its start, from then to its end, behind that."""

    WAITING = "waiting"
    GOING = "going"
    ENDED = "ended"


class Began(StrEnum):
    """Whether a job in a state has started."""

    NEVER = "never"
    WITH_NODES = "with nodes"
    ALWAYS = "always"


class JobState(StrEnum):
    """Slurm's word for a job's state; what each decides is in ``job_states.toml``."""

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
        return job_states()[self].phase is Phase.ENDED

    @property
    def good(self) -> bool:
        """It ended as it should."""
        return self is JobState.COMPLETED

    @property
    def waiting(self) -> bool:
        """It has not begun."""
        return job_states()[self].phase is Phase.WAITING

    @property
    def stopped(self) -> bool:
        """It ended by its user or a limit of its time: its program did not fail."""
        return job_states()[self].stopped


EndsAbout = Literal["", "memory", "time", "nodes"]
"""Which part of its request a job's end is about."""


class StateRow(Row):
    """All that a job state decides (``job_states.toml`` has what the fields mean)."""

    phase: Phase
    holds: bool = False
    began: Began = Began.NEVER
    steps: bool = False
    paused: bool = False
    stopped: bool = False
    about: EndsAbout = ""
    ends: str = ""
    recorded: bool = True


@cache
def job_states() -> Mapping[str, StateRow]:
    """The table, by Slurm's word."""
    # TOML: verbs about jobs read it, and most read nothing that is YAML (30 ms of imports).
    rows = read_table("corral.slurm.states", "job_states.toml", dict[JobState, StateRow])
    return MappingProxyType({state.value: row for state, row in rows.items()})


@cache
def ended_states() -> tuple[str, ...]:
    """In which a job will not run any more."""
    return tuple(word for word, row in job_states().items() if row.phase is Phase.ENDED)


@cache
def going_on_states() -> tuple[str, ...]:
    """In which a job has not ended."""
    return tuple(word for word, row in job_states().items() if row.phase is not Phase.ENDED)


@cache
def holding_states() -> str:
    """The value of squeue's ``--states`` for the jobs that have nodes."""
    return ",".join(word for word, row in job_states().items() if row.holds)


@cache
def recorded_states() -> tuple[str, ...]:
    """In which accounting has jobs that ended; the others are slurmctld's."""
    return tuple(sorted(word for word in ended_states() if job_states()[word].recorded))


def has_ended(word: str) -> bool:
    """Whether a job in this state will not run any more; no, in one of a later release."""
    row = job_states().get(word)
    return row is not None and row.phase is Phase.ENDED


def is_waiting(word: str) -> bool:
    """Whether a job in this state has not begun; no, in one of a later release."""
    row = job_states().get(word)
    return row is not None and row.phase is Phase.WAITING


class ExitCodes(Row):
    """The table ``exit_codes.yaml``, which explains each key."""

    signals: Mapping[int, str]
    statuses: Mapping[int, str]


@cache
def exit_codes() -> ExitCodes:
    """Names of signals, and meanings of exit statuses."""
    return read_table("corral.slurm.states", "exit_codes.yaml", ExitCodes)


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
            return f"ended by {exit_codes().signals.get(signal, f'signal {signal}')}"
        if not self.status:
            return "succeeded"
        known = exit_codes().statuses.get(self.status)
        return f"exit status {self.status}" + (f" ({known})" if known else "")
