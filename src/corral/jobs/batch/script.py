"""JobSpec to batch script, and the shell that keeps the job going. Pure.

The script is self-contained: it can be read from top to bottom, and submitted again by hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.durations import clock
from corral.hosts.quote import NOTHING, Script, filled, join, piece, sh, shipped
from corral.jobs import usage
from corral.jobs.batch import containers, fabric, options
from corral.jobs.batch.fabric import DEFAULT, Rdma
from corral.jobs.batch.tracking import UNTRACKED, Tracking
from corral.jobs.model import JobSpec, seconds_of
from corral.jobs.profile import profiler
from corral.jobs.requests import option_in
from corral.jobs.sweep import point_arguments

AGAIN: Final = 75
"""Exit status by which a script asks to be started again (EX_TEMPFAIL of sysexits.h)."""

MARGIN_S: Final = 20
"""Seconds before the time limit at which the job is requeued even if its ranks have not left."""

PROBE_S: Final = 40
"""Seconds a node may take to start a process before it counts as gone (MessageTimeout is 30)."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job runs and where its files are.

    Attributes:
        folder: the job's own folder on shared storage.
        program: absolute path of the script as the nodes see it, "" for a command.
        partition: name of the partition.
        cpus_per_rank: CPUs for each rank.
        mem: memory on each node, "" to leave it to Slurm.
        interface: the cluster file's data network, "" to take the one that leads to the first node.
        fabric: its kind, "" where none is declared.
        rdma: what else is declared of it.
        workdir: the folder to run in, "" for the job's own.
        python: a Python environment's folder or an interpreter, "" for the nodes' own Python.
        tracking: where the job's run is tracked.
        mounts: what of the nodes is seen in the job's container.
    """

    folder: str
    program: str
    partition: str
    cpus_per_rank: int = 1
    mem: str = ""
    interface: str = ""
    fabric: str = ""
    workdir: str = ""
    python: str = ""
    tracking: Tracking = UNTRACKED
    mounts: tuple[str, ...] = ()
    rdma: Rdma = DEFAULT


def batch_script(job: JobSpec, place: Place) -> Script:
    """The batch script: what is asked of Slurm, the rendezvous, the ranks."""
    array = bool(job.tasks)
    return join(
        [
            *_directives(job, place),
            NOTHING,
            filled(
                "jobs/batch/begin.sh",
                job=place.folder,
                own=shipped("jobs/batch/part.sh") if array else sh("corral_folder=$corral_job"),
            ),
            _where(job, place),
            shipped("node-address.sh"),
            piece("jobs/batch/rendezvous.sh"),
            *(sh("export {name}={value}", name=k, value=v) for k, v in sorted(job.env.items())),
            _surroundings(job, place),
            *([place.tracking.begin] if place.tracking.uri else []),
            *([_waiting(job)] if job.requeue else []),
            _launch(job, place),
        ]
    )


def _launch(job: JobSpec, place: Place) -> Script:
    before = containers.before(job, _settings(job, place, write=True))
    waiting = join([sh(" &"), piece("jobs/batch/wait.sh")])
    again = piece("jobs/batch/again.sh", again=AGAIN, probe=PROBE_S)
    return join(
        [
            before,
            piece(
                "jobs/batch/launch.sh",
                setup=_rank_setup(job, place),
                srun=_srun(job, place),
                command=_command(job, place),
                wait=waiting if job.requeue else sh("\ncorral_status=$?\n"),
                ended=join([profiler.after(job.profile), place.tracking.end], ""),
                after=again if job.requeue else NOTHING,
            ),
        ],
        "",
    )


def _where(job: JobSpec, place: Place) -> Script:
    checkpoints = sh('"$corral_folder/{sub}"', sub="checkpoints")
    if job.checkpoints:
        part = sh('"/task-$SLURM_ARRAY_TASK_ID"') if job.tasks else NOTHING
        checkpoints = sh("{path}{part}", path=job.checkpoints, part=part)
    workdir = job.workdir or place.workdir
    return piece(
        "jobs/batch/where.sh",
        checkpoints=checkpoints,
        workdir=_inside(job, place, workdir) if workdir else sh('"$corral_folder"'),
    )


def _inside(job: JobSpec, place: Place, path: str) -> Script:
    """A path; for a part of an array, one in the job's folder is the same one in its own folder."""
    if job.tasks and path.startswith(f"{place.folder}/code"):
        return sh('"$corral_folder"{rest}', rest=path.removeprefix(place.folder))
    return sh("{path}", path=path)


def _surroundings(job: JobSpec, place: Place) -> Script:
    # corral.checkpoint is in lib; a PYTHONPATH of the user's own stays behind it.
    path = sh('export PYTHONPATH="$corral_job/lib${{PYTHONPATH:+:$PYTHONPATH}}"\n')
    return join([path, _python(place), _point(job)], "")


def _python(place: Place) -> Script:
    return piece("jobs/batch/python.sh", path=place.python) if place.python else NOTHING


def _point(job: JobSpec) -> Script:
    return piece("jobs/batch/point.sh") if job.sweep else NOTHING


def _waiting(job: JobSpec) -> Script:
    patience = max(1, seconds_of(job.grace) - MARGIN_S)
    return piece("jobs/batch/near-limit.sh", patience=patience)


def _directives(job: JobSpec, place: Place) -> list[Script]:
    # Every value here comes from a pattern without blanks, quotes and #: sbatch has its own parser.
    tasks, cpus = _tasks(job, place)
    gpu = f"gpu:{job.gpu_type}" if job.gpu_type else "gpu"
    lines = [
        sh("#!/bin/sh"),
        sh("#SBATCH --job-name={v}", v=job.title),
        sh("#SBATCH --partition={v}", v=place.partition),
        sh("#SBATCH --nodes={v}", v=job.nodes),
        sh("#SBATCH --ntasks-per-node={v}", v=tasks),
        sh("#SBATCH --cpus-per-task={v}", v=cpus),
    ]
    if job.gpus_per_node:
        # Per node and not per task: a rank that sees only its own GPU cannot use peer-to-peer
        # copies to the others (https://github.com/NVIDIA/nccl/issues/324).
        lines.append(sh("#SBATCH --gres={v}", v=f"{gpu}:{job.gpus_per_node}"))
    if place.mem:
        lines.append(sh("#SBATCH --mem={v}", v=place.mem))
    if job.seconds:
        lines.append(sh("#SBATCH --time={v}", v=clock(job.seconds)))
    lines += [
        *_array(job),
        sh("#SBATCH --output={v}", v=f"{place.folder}/{'task-%a/' if job.tasks else ''}batch.log"),
        sh("#SBATCH --open-mode=append"),
        sh("#SBATCH --requeue") if job.requeue else sh("#SBATCH --no-requeue"),
    ]
    lines += [
        sh("#SBATCH {v}", v=option) for option in (*options.words(job), *options.ended_in_vain(job))
    ]
    if job.requeue:
        lines.append(sh("#SBATCH --signal={v}", v=f"B:USR1@{seconds_of(job.grace)}"))
        # The same signal where a cloud takes a node back; the user's own comment stays.
        if option_in(job.sbatch, "--comment") is None:
            lines.append(sh("#SBATCH --comment=corral:signal=USR1"))
    return lines


def _array(job: JobSpec) -> list[Script]:
    if not job.tasks:
        return []
    numbers = job.array or f"0-{len(job.tasks) - 1}"
    return [sh("#SBATCH --array={v}", v=f"{numbers}%{job.at_once}" if job.at_once else numbers)]


def _tasks(job: JobSpec, place: Place) -> tuple[int, int]:
    """Slurm tasks per node and CPUs of each."""
    if job.torchrun:
        return 1, place.cpus_per_rank * job.ranks_on_node
    return job.ranks_on_node, place.cpus_per_rank


def _settings(job: JobSpec, place: Place, *, write: bool = False) -> Script:
    return fabric.settings(
        interface=place.interface,
        fabric=place.fabric,
        rdma=place.rdma,
        threads=place.cpus_per_rank,
        several=job.nodes > 1,
        write=write,
    )


def samplers(job: JobSpec, tracking: Tracking) -> Script:
    """Shell of each rank: what samples its node until the rank ends; nothing without any."""
    each = join([tracking.sample, usage.sample(job)], "")
    if not each:
        return NOTHING
    return join([piece("jobs/batch/rank-end.sh"), each, sh("exec 8<&-\n")], "")


def _rank_setup(job: JobSpec, place: Place) -> Script:
    launcher = (
        filled("jobs/batch/torchrun.sh", ranks=job.ranks_on_node)
        if job.torchrun
        else shipped("jobs/batch/rank-numbers.sh")
    )
    setup = containers.rank_setup(place.folder) if job.container else _settings(job, place)
    there = piece("jobs/batch/python-there.sh") if place.python else NOTHING
    tasks, _ = _tasks(job, place)
    several = job.nodes * tasks > 1 and not job.torchrun
    others = [
        profiler.rank_setup(job.profile),
        samplers(job, place.tracking),
        piece("jobs/batch/worlds.sh") if several else NOTHING,
    ]
    first = join([there, *others], "")
    return filled("jobs/batch/rank.sh", settings=setup, first=first, launcher=launcher)


def _srun(job: JobSpec, place: Place) -> Script:
    tasks, cpus = _tasks(job, place)
    return filled(
        "jobs/batch/srun.sh",
        nodes=job.nodes,
        total=job.nodes * tasks,
        tasks=tasks,
        cpus=cpus,
        container=containers.words(job, place.mounts),
    )


def _command(job: JobSpec, place: Place) -> Script:
    python = place.program.endswith(".py")
    runner: list[str | Script] = ["python3"] if python else []
    if job.torchrun and python:
        # The ranks of a node share one log.
        runner.append(sh('"$corral_job/lib/corral/lines.py"'))
    before = profiler.words(job.profile, python=python)
    first = [before, *runner] if job.profile == "nsys" else [*runner, *([before] if before else [])]
    # Without it torchrun takes its first word for a script of Python's, be it nsys.
    launched = ["--no-python"] if job.torchrun else []
    words = [*launched, *first]
    if job.script:
        words.append(_inside(job, place, place.program))
    arguments = job.args if job.script else job.command
    if job.sweep:
        points = point_arguments(arguments, tuple(job.sweep))
        return join([*([sh("{words}", words=words)] if words else []), points], " ")
    return sh("{words}", words=[*words, *arguments])
