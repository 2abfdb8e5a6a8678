"""A job as slurmrestd takes it: a batch script's text, since no file travels with it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Final

from corral.errors import Code, CorralError
from corral.jobs.batch import options
from corral.jobs.model import JobSpec
from corral.slurm.rest.write import Submission, options_of

CARRIED: Final = frozenset(
    {
        *("script", "command", "args", "name", "nodes", "gpus_per_node", "gpu_type", "mem", "time"),
        *("ranks_per_node", "cpus_per_rank", "partition", "account", "qos", "nodelist", "exclude"),
        *("constraint", "after", "begin", "mail", "licenses", "exclusive", "env", "workdir"),
        *("sbatch", "user", "array", "at_once"),
    }
)
"""Fields of a job that need no file on shared storage."""
PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_SSH: Final = "log in by ssh for that: corral login USER@HOST"


def submission_of(job: JobSpec, script: str | None, folder: str, version: int) -> Submission:
    """The submission of a job.

    Args:
        job: the job.
        script: text of its script, where that is a file of this machine.
        folder: where it runs, and Slurm puts its output.
        version: of the API.

    Raises:
        CorralError: USAGE, it needs files that slurmrestd does not take, or ``requeue`` without
            the script's own; SPEC_INVALID, an option without a field there.
    """
    others = sorted(set(job.model_dump(exclude_defaults=True)) - CARRIED - {"requeue"})
    if others:
        raise CorralError(
            Code.USAGE,
            f"slurmrestd takes no files, which {', '.join(others)} needs",
            hint=_SSH,
        )
    own = options_of(script, version) if script else {}
    if job.requeue and not own.get("requeue"):
        raise CorralError(
            Code.USAGE,
            "--requeue signals the ranks from Corral's own batch script, which slurmrestd does "
            "not take",
            hint="#SBATCH --requeue in a batch script is Slurm's own: the job starts again when a "
            f"node fails, without a signal before the time limit; else {_SSH}",
        )
    words = _words(job, _given(job) if script else _layout(job))
    lines = "".join(f"#SBATCH {shlex.quote(word)}\n" for word in words)
    return Submission(
        script=_text(job, script),
        name=job.name or own.get("name") or (job.script or job.command[0]).rpartition("/")[2],
        workdir=job.workdir or own.get("current_working_directory") or folder,
        partition=job.partition or "",
        options=options_of(f"#!/bin/sh\n{lines}", version),
        environment=(("PATH", PATH), *job.env.items()),
    )


def _layout(job: JobSpec) -> dict[str, str]:
    """Nodes and ranks of a command, which has no lines that state them."""
    return {"nodes": str(job.nodes), "ntasks-per-node": str(job.ranks_on_node)}


def _given(job: JobSpec) -> dict[str, str]:
    """Nodes and ranks as far as they are given; else the script's own ``#SBATCH`` lines count."""
    return {
        "nodes": str(job.nodes) if "nodes" in job.model_fields_set else "",
        "ntasks-per-node": str(job.ranks_per_node or ""),
    }


def _words(job: JobSpec, layout: Mapping[str, str]) -> list[str]:
    gpus = f"{job.gpu_type}:{job.gpus_per_node}" if job.gpu_type else str(job.gpus_per_node)
    given = {
        **layout,
        "cpus-per-task": str(job.cpus_per_rank or ""),
        "gpus-per-node": gpus if job.gpus_per_node else "",
        "mem": job.mem or "",
        "time": str(-(-job.seconds // 60)) if job.seconds else "",
        "array": "%".join(str(part) for part in (job.array, job.at_once) if part),
    }
    named = [f"--{name}={value}" for name, value in given.items() if value]
    return [*named, *options.words(job)]


def _text(job: JobSpec, script: str | None) -> str:
    """The batch script: that of the file, or one that starts the command on each rank."""
    if script is None:
        words = [*(job.command or (job.script,)), *job.args]
        return f"#!/bin/sh\nexec srun {shlex.join(words)}\n"
    first = script.partition("\n")[0]
    if not first.startswith("#!") or "python" in first:
        raise CorralError(
            Code.USAGE,
            f"{job.script} is not a shell script, and slurmrestd takes no files to run it with",
            hint="name a batch script (#!/bin/sh), a command (-- python3 /shared/train.py), or "
            f"{_SSH}",
        )
    if job.args:
        return _with_arguments(script, job.args)
    return script


def _with_arguments(script: str, args: Sequence[str]) -> str:
    """The script with its arguments set behind the comments at its head.

    ``#SBATCH`` lines count up to the first line that is neither blank nor a comment.
    """
    lines = script.split("\n")
    head = takewhile(lambda line: not line.strip() or line.lstrip().startswith("#"), lines)
    at = len(list(head))
    return "\n".join([*lines[:at], f"set -- {shlex.join(args)}", *lines[at:]])
