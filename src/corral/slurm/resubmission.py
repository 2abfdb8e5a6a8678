"""A job that ended as a script that can be edited and submitted again. Pure.

Its script comes from Slurm; what its user gave on the command line is in the submit line, which
accounting keeps (21.08) and slurmctld reports from 26.05 on. Slurm joins the words of that line by
blanks without quotes, so a value with a blank looks like two words: the record's own
fields win where it has them, and what remains is reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.durations import clock
from corral.slurm.array_tasks import array_label, without_limit
from corral.slurm.directives import (
    Directive,
    command_options,
    directives,
    line_of,
    sbatch_options,
    with_lines,
)
from corral.slurm.records import Job
from corral.slurm.tres import gres_option

_OF_THE_COMMAND: Final = frozenset({"test-only", "wrap", "pty", "jobid", "label"})
"""What srun, and sbatch in place of a script, do themselves: nothing of the job."""
_NOT_CARRIED: Final = frozenset({"export", "export-file", "get-user-env", "dependency", "begin"})


@dataclass(frozen=True, slots=True)
class Resubmission:
    """A job as it can be submitted again.

    Attributes:
        script: with a line for each option of the submit line that it lacks.
        name, workdir: what no line has.
        notes: by field what could not be read or is not carried over.
    """

    script: str
    name: str
    workdir: str
    notes: dict[str, str]


def resubmission(
    job: Job, script: str, submit_line: str, tasks: str = "", *, alone: bool = False
) -> Resubmission:
    """The job as a script.

    Args:
        job: as slurmctld or accounting reports it.
        script: its batch script, "" where Slurm has none.
        submit_line: the command that submitted it, "" where it is unknown.
        tasks: all tasks of its array, as ``--array`` takes them; "": it alone.
        alone: they are some of them, and no other one is submitted.
    """
    notes: dict[str, str] = {}
    options, rest = _of_line(job, submit_line, notes)
    if not script:
        script = _written(rest if submit_line.startswith("srun") else (), notes)
    if tasks:
        known = [*directives(script), *options]
        before = next((o.value for o in reversed(known) if o.name == "array"), None)
        if alone or before is None:
            _, at_once = without_limit(before or "")
            options = [o for o in options if o.name != "array"]
            value = f"{tasks}%{at_once}" if at_once else tasks
            options.append(Directive(0, "array", value))
    elif label := array_label(job.label):
        options = [o for o in options if o.name != "array"]
        options.append(Directive(0, "array", label.written))
        notes["array"] = (
            f"the tasks of array {label.array} that were left: {label.pending}"
            if label.pending
            else f"task {label.task} of array {label.array} alone; change --array to run more of it"
        )
    own = {option.name: option.value for option in directives(script)}
    added = [option for option in options if own.get(option.name) != option.value]
    known = own | {option.name: option.value for option in added}
    return Resubmission(
        with_lines(script, [line_of(option) for option in added]),
        "" if "job-name" in known else job.name,
        "" if "chdir" in known else job.workdir,
        notes,
    )


def _of_line(
    job: Job, submit_line: str, notes: dict[str, str]
) -> tuple[list[Directive], tuple[str, ...]]:
    """The options of the submit line, without those that are not the job's."""
    program, *words = submit_line.split() or [""]
    if program.rpartition("/")[2] not in {"sbatch", "srun", "salloc"}:
        notes["options"] = (
            "Slurm reports no submit line of this job: options of its command line other than "
            "these are unknown"
        )
        return _of_record(job), ()
    options, rest = command_options(words)
    kept: list[Directive] = []
    left_out: list[str] = []
    for option in options:
        if option.fault or not option.name:
            left_out.append(option.value or option.name)
        elif option.name == "export" and option.value in {"", "ALL"}:
            continue
        elif option.name in _NOT_CARRIED:
            left_out.append(f"--{option.name}" + (f"={option.value}" if option.value else ""))
        elif option.name == "job-name" and job.name:
            kept.append(Directive(0, option.name, job.name))
        elif not (option.name in _OF_THE_COMMAND or sbatch_options()[option.name].terminal):
            kept.append(option)
    if left_out:
        notes["options"] = f"not carried over from the command line: {' '.join(left_out)}"
    wrapped = any(option.name == "wrap" for option in options)
    if rest and program.endswith("sbatch") and not wrapped and len(rest) > 1:
        notes["script"] = (
            f"the command line went on with: {' '.join(rest)}. Arguments of a script are not "
            "carried over: write them into it"
        )
    notes["env"] = "the environment in which it was submitted is not recorded by Slurm"
    return kept, rest


def _of_record(job: Job) -> list[Directive]:
    """What the record has, where there is no submit line."""
    limit = clock(job.limit) if job.limit else ""
    values = {
        "account": job.account,
        "partition": job.partition,
        "qos": job.qos,
        "nodes": str(job.node_count or ""),
        "gres": gres_option(job.gres),
        "time": limit,
    }
    return [Directive(0, name, value) for name, value in values.items() if value]


def _written(command: tuple[str, ...], notes: dict[str, str]) -> str:
    if command:
        notes["script"] = "written from the command of srun: Slurm keeps no script of it"
        return f"#!/bin/bash\n\nsrun {' '.join(command)}\n"
    notes["script"] = (
        "Slurm has no script of this job: slurmctld keeps it for MinJobAge, accounting with "
        "AccountingStoreFlags=job_script. Write it again below the lines"
    )
    return "#!/bin/bash\n\n"
