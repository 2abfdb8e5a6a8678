"""What is asked of slurmrestd, in the form each API version wants it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from corral.slurm.rest.script import options_of

_SCRIPT_IN_JOB: Final = 41
"""From v0.0.41 on the script is in the job ("script" outside it is deprecated)."""
_ENV_LIST: Final = 39
"""From v0.0.39 on the environment is a list of NAME=VALUE; before, an object."""
_STRUCTS: Final = 39


@dataclass(frozen=True, slots=True)
class Submission:
    """A batch job as it goes to Slurm; what is given here wins over the script's #SBATCH lines.

    Attributes:
        script: the entire script.
        name, partition, workdir, stdout: as sbatch's options of that name.
        options: more fields of Slurm's job description, in the newest shape.
        environment: of the batch script; slurmrestd refuses an empty one.
    """

    script: str
    name: str
    workdir: str
    partition: str = ""
    stdout: str = ""
    options: Mapping[str, Any] | None = None
    environment: tuple[tuple[str, str], ...] = (("PATH", "/usr/local/bin:/usr/bin:/bin"),)


def submit_body(submission: Submission, version: int) -> dict[str, Any]:
    """The body of ``POST /job/submit``.

    Raises:
        CorralError: SPEC_INVALID, a #SBATCH line of the script has no field there.
    """
    pairs = submission.environment
    job: dict[str, Any] = {
        **options_of(submission.script, version),
        **({"name": submission.name} if submission.name else {}),
        "current_working_directory": submission.workdir,
        "environment": [f"{k}={v}" for k, v in pairs] if version >= _ENV_LIST else dict(pairs),
        **(submission.options or {}),
    }
    if submission.partition:
        job["partition"] = submission.partition
    if submission.stdout:
        job["standard_output"] = submission.stdout
    if version >= _SCRIPT_IN_JOB:
        return {"job": {**job, "script": submission.script}}
    return {"job": job, "script": submission.script}


def limit_body(minutes: int, version: int) -> dict[str, Any]:
    """The body that changes a job's time limit."""
    if version < _STRUCTS:
        return {"time_limit": minutes}
    return {"time_limit": {"set": True, "infinite": False, "number": minutes}}


def hold_body(*, held: bool) -> dict[str, Any]:
    """The body that holds a job, or releases it."""
    return {"hold": held}


def drain_body(reason: str) -> dict[str, Any]:
    """The body of ``POST /node/NAME`` that drains it."""
    return {"state": ["DRAIN"], "reason": reason}


def resume_body() -> dict[str, Any]:
    """The body of ``POST /node/NAME`` that takes it back."""
    return {"state": ["RESUME"]}
