"""JobSpec to batch script, and the shell that keeps the job going. Pure.

The script is self-contained: it can be read from top to bottom, and submitted again by hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.durations import clock
from corral.hosts.quote import NOTHING, Script, join, sh, shipped
from corral.jobs import requests, usage
from corral.jobs.batch import containers, fabric
from corral.jobs.batch.fabric import DEFAULT, Rdma
from corral.jobs.batch.tracking import UNTRACKED, Tracking
from corral.jobs.model import JobSpec, seconds_of
from corral.jobs.profile import profiler
from corral.jobs.sweep import point_arguments

AGAIN: Final = 75
"""Exit status by which a script asks to be started again (EX_TEMPFAIL of sysexits.h)."""

MARGIN_S: Final = 20
"""Seconds before the time limit at which the job is requeued even if its ranks have not left."""

# Slurm signals the batch shell alone (--signal=B:), which signals the ranks through srun and waits
# for them to save and leave. A script without a handler dies of SIGUSR1: it then goes on from what
# it saved before.
# `wait` returns early when the trap runs, with a status over 128: then srun is still there.
WAITING: Final = """\
near=""
near() {{
  near=1
  echo "corral: the time limit is near: ranks get SIGUSR1, to save and leave" >&2
  kill -USR1 "$ranks" 2>/dev/null
  (sleep {patience}; scontrol requeue "$SLURM_JOB_ID") >/dev/null 2>&1 &
}}
newest() {{ ls "$CORRAL_CHECKPOINTS" 2>/dev/null | grep '[.]sha256$' | sort | tail -n 1; }}
had=$(newest)
trap near USR1
"""

WAIT: Final = """\
ranks=$!
while wait "$ranks"; status=$?; [ "$status" -gt 128 ] && kill -0 "$ranks" 2>/dev/null; do :; done
"""

# Ranks that lose their peers fail long before Slurm calls the dead node down (SlurmdTimeout): the
# job would count as failed. So each node is asked, and one that cannot start a process is gone.
# Each is asked alone: a launch over all of them waits for the dead one.
# After `scontrol requeue` Slurm ends this script; until then it must not end.
STARTING_AGAIN: Final = """\
gone() {{
  for node in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
    timeout -k 5 {probe} srun --overlap --nodes=1 --ntasks=1 --nodelist="$node" --input=none \\
      --output=none --error=none --cpus-per-task=1 --gres=none true >/dev/null 2>&1 ||
      echo "$node" &
  done
  wait
}}
again() {{
  echo "corral: $1: the job starts again" >&2
  scontrol requeue "$SLURM_JOB_ID" || return
  sleep 600
}}
if [ "$status" -ne 0 ]; then
  if [ -n "$near" ] || [ "$status" -eq {again} ]; then
    if [ -n "$had" ] && [ "$had" = "$(newest)" ]; then
      echo "corral: this run saved no checkpoint after $had: starting again would not end" >&2
    else
      again "it has more to do"
    fi
  else
    dead=$(gone | sort | tr '\\n' ' ')
    [ -z "$dead" ] || again "no answer from ${{dead% }}"
  fi
fi
"""


# Below the range from which Linux assigns ports (32768-60999) and above Slurm's own.
FIRST_PORT: Final = 20000
PORTS: Final = 10000
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
        environment: a Python environment on shared storage, "" for the nodes' own Python.
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
    environment: str = ""
    tracking: Tracking = UNTRACKED
    mounts: tuple[str, ...] = ()
    rdma: Rdma = DEFAULT


def batch_script(job: JobSpec, place: Place) -> Script:
    """The batch script: what is asked of Slurm, the rendezvous, the ranks."""
    array = bool(job.tasks)
    return join(
        [
            *_directives(job, place),
            sh(_HEAD, job=place.folder, own=sh(_OWN) if array else sh("folder=$job")),
            _where(job, place),
            shipped("node-address.sh"),
            sh(_RENDEZVOUS, first=FIRST_PORT, ports=PORTS),
            *(sh("export {name}={value}", name=k, value=v) for k, v in sorted(job.env.items())),
            sh(_SURROUNDINGS, environment=_environment(place), point=_point(job)),
            *([place.tracking.begin] if place.tracking.uri else []),
            *([_waiting(job)] if job.requeue else []),
            sh(
                _LAUNCH,
                before=containers.before(job, _settings(job, place, write=True)),
                setup=_rank_setup(job, place),
                srun=_srun(job, place),
                command=_command(job, place),
                wait=sh(f" &\n{WAIT}") if job.requeue else sh("\nstatus=$?\n"),
                ended=join([profiler.after(job.profile), place.tracking.end], ""),
                after=sh(STARTING_AGAIN, again=AGAIN, probe=PROBE_S) if job.requeue else NOTHING,
            ),
        ]
    )


def _where(job: JobSpec, place: Place) -> Script:
    checkpoints = sh('"$folder/{sub}"', sub="checkpoints")
    if job.checkpoints:
        part = sh('"/task-$SLURM_ARRAY_TASK_ID"') if job.tasks else NOTHING
        checkpoints = sh("{path}{part}", path=job.checkpoints, part=part)
    workdir = job.workdir or place.workdir
    return sh(
        _WHERE,
        checkpoints=checkpoints,
        workdir=_inside(job, place, workdir) if workdir else sh('"$folder"'),
    )


def _inside(job: JobSpec, place: Place, path: str) -> Script:
    """A path; for a part of an array, one in the job's folder is the same one in its own folder."""
    if job.tasks and path.startswith(f"{place.folder}/code"):
        return sh('"$folder"{rest}', rest=path.removeprefix(place.folder))
    return sh("{path}", path=path)


def _environment(place: Place) -> Script:
    return sh(_VENV, path=place.environment) if place.environment else NOTHING


def _point(job: JobSpec) -> Script:
    return sh(_POINT) if job.sweep else NOTHING


def _waiting(job: JobSpec) -> Script:
    patience = max(1, seconds_of(job.grace) - MARGIN_S)
    return sh(WAITING, patience=patience)


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
        sh("#SBATCH {v}", v=option)
        for option in (*requests.words(job), *requests.ended_in_vain(job))
    ]
    if job.requeue:
        lines.append(sh("#SBATCH --signal={v}", v=f"B:USR1@{seconds_of(job.grace)}"))
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


def _rank_setup(job: JobSpec, place: Place) -> Script:
    launcher = sh(_TORCHRUN, ranks=job.ranks_on_node) if job.torchrun else sh(_SRUN)
    setup = containers.rank_setup(job.env, place.folder) if job.container else _settings(job, place)
    first = join([profiler.rank_setup(job.profile), place.tracking.sample, usage.sample(job)], "")
    return sh(_RANK, settings=setup, first=first, launcher=launcher)


def _srun(job: JobSpec, place: Place) -> Script:
    tasks, cpus = _tasks(job, place)
    # --cpus-per-task again: srun of Slurm 22.05 to 23.02 does not read SLURM_CPUS_PER_TASK.
    # --distribution=block puts rank 0 on the first node, where MASTER_ADDR points to.
    return sh(
        "srun --kill-on-bad-exit=1 --input=none --distribution=block \\\n"
        "  --nodes={nodes} --ntasks={total} --ntasks-per-node={tasks} --cpus-per-task={cpus} \\\n"
        '  --output="$folder/rank-%t.log" --open-mode=append{container}',
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
        runner.append(sh('"$job/lib/corral/lines.py"'))
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


_HEAD: Final = """\

set -u
job={job}
{own}
export CORRAL_JOB_FOLDER="$folder"
rm -f "$folder/ended"
end() {{
  echo "$1" > "$folder/ended.new" && mv "$folder/ended.new" "$folder/ended"
  exit "$1"
}}
fail() {{
  echo "corral: $1" >&2
  end 1
}}"""

# Each part of an array has a copy of the code (of links), so that what two of them write under one
# relative name never is one file.
_OWN: Final = """\
folder=$job/task-$SLURM_ARRAY_TASK_ID
[ ! -d "$job/code" ] || [ -d "$folder/code" ] || cp -al "$job/code" "$folder/code" || exit 1"""

_WHERE: Final = """\
export CORRAL_CHECKPOINTS={checkpoints}
cd {workdir} || fail "the folder to run in cannot be entered on $(hostname)"
"""

# corral.checkpoint is in lib; a PYTHONPATH of the user's own stays behind it.
_SURROUNDINGS: Final = """\
export PYTHONPATH="$job/lib${{PYTHONPATH:+:$PYTHONPATH}}"
{environment}{point}"""

_VENV: Final = """\
export VIRTUAL_ENV={path}
export PATH="$VIRTUAL_ENV/bin:$PATH"
python3 -c '' || fail "the Python environment $VIRTUAL_ENV does not run on $(hostname)"
"""

# A line per point, its values quoted for a shell by Corral.
_POINT: Final = """\
point=$(sed -n "$((SLURM_ARRAY_TASK_ID + 1))p" "$job/points")
[ -n "$point" ] || fail "$job/points has no point $SLURM_ARRAY_TASK_ID"
eval "set -- $point"
"""

# MASTER_ADDR is the address that Slurm itself uses for the first node, never a loopback one.
# A port is a function of the job's id, so that two jobs on one node do not meet, and it is looked
# at before use: this script runs on the first node of the allocation.
_RENDEZVOUS: Final = """\
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
MASTER_ADDR=$(node_address "$first")
case $MASTER_ADDR in
"") fail "Slurm knows no address of $first" ;;
127.*|localhost|::1)
  [ "$SLURM_JOB_NUM_NODES" = 1 ] ||
    fail "$first has the address $MASTER_ADDR, which other nodes cannot reach: set its NodeAddr" ;;
esac
in_use() {{
  cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk -v port="$(printf '%04X' "$1")" \\
    '{{ n = split($2, a, ":"); if (a[n] == port) found = 1 }} END {{ exit !found }}'
}}
tries=0
while
  MASTER_PORT=$(({first} + (SLURM_JOB_ID + tries * 257) % {ports}))
  in_use "$MASTER_PORT"
do
  tries=$((tries + 1))
  [ "$tries" -lt 1000 ] || fail "no free port on $first"
done
export MASTER_ADDR MASTER_PORT
"""

# srun ends with the highest status of all ranks, which is that of a rank it ended itself (143); the
# job's own is the one of the rank that failed first. Of a signal srun prints strsignal(3) alone.
_LAUNCH: Final = """\
{before}rank=$(cat <<'END_OF_RANK'
{setup}
END_OF_RANK
)
lines=$(wc -l < "$folder/batch.log") || lines=0
{srun} \\
  sh -c "$rank" rank {command}{wait}
if [ "$status" -ne 0 ]; then
  how=$(tail -n "+$((lines + 1))" "$folder/batch.log" |
    sed -n '/^srun: error: [^ ]*: tasks* [0-9]/{{s/.*: tasks* [^ ]*: //p;q;}}')
  case $how in
  *" exit code "*) code=${{how##* exit code }} ;;
  "Illegal instruction"*) code=132 ;;
  Aborted*) code=134 ;;
  "Bus error"*) code=135 ;;
  "Floating point exception"*) code=136 ;;
  Killed*) code=137 ;;
  "Segmentation fault"*) code=139 ;;
  *) code= ;;
  esac
  case $code in ""|*[!0-9]*) ;; *) status=$code ;; esac
fi
{after}{ended}end "$status"
"""

# Runs once per rank, and becomes the rank: Slurm signals only the process that it started itself
# (proctrack/cgroup), so that a shell left above the rank would keep SIGTERM from it.
_RANK: Final = """\
{settings}
{first}{launcher}
exec "$@\""""

_SRUN: Final = """\
export RANK="$SLURM_PROCID" LOCAL_RANK="$SLURM_LOCALID" NODE_RANK="$SLURM_NODEID"
export WORLD_SIZE="${{SLURM_STEP_NUM_TASKS:-$SLURM_NTASKS}}"
tasks=${{SLURM_STEP_TASKS_PER_NODE:-$SLURM_TASKS_PER_NODE}}
export LOCAL_WORLD_SIZE="${{tasks%%[(,]*}}\""""

# corral.torchrun is in lib: PyTorch's own, for builds without libuv too.
_TORCHRUN: Final = """\
set -- python3 -m corral.torchrun --nnodes="$SLURM_NNODES" --node-rank="$SLURM_NODEID" \\
  --nproc-per-node={ranks} --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@\""""
