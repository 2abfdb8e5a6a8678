"""JobSpec -> batch script. Pure: the same job in the same place gives the same text.

The script stands alone: it can be read from top to bottom, and submitted again by hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, join, sh
from corral.jobs.model import JobSpec
from corral.slurm.duration import clock

# Below the range from which Linux gives out ports by itself (32768-60999) and above Slurm's own.
FIRST_PORT: Final = 20000
PORTS: Final = 10000


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job runs and where its files lie.

    Attributes:
        folder: the job's own folder on shared storage.
        program: absolute path of the script as the nodes see it.
        partition: name of the partition.
        cpus_per_rank: CPUs for each rank.
        mem: memory on each node, "" to leave it to Slurm.
        interface: the cluster file's data network, "" to take the one that leads to the first node.
    """

    folder: str
    program: str
    partition: str
    cpus_per_rank: int = 1
    mem: str = ""
    interface: str = ""


def batch_script(job: JobSpec, place: Place) -> Script:
    """The batch script: what is asked of Slurm, the rendezvous, the ranks."""
    return join(
        [
            *_directives(job, place),
            sh(_HEAD, folder=place.folder, workdir=job.workdir or place.folder),
            sh(_RENDEZVOUS, first=FIRST_PORT, ports=PORTS),
            *(sh("export {name}={value}", name=k, value=v) for k, v in sorted(job.env.items())),
            sh(
                _LAUNCH,
                setup=_rank_setup(job, place),
                srun=_srun(job, place),
                command=_command(job, place),
            ),
        ]
    )


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
        sh("#SBATCH --output={v}", v=f"{place.folder}/batch.log"),
        sh("#SBATCH --open-mode=append"),
        sh("#SBATCH --requeue") if job.requeue else sh("#SBATCH --no-requeue"),
    ]
    return lines


def _tasks(job: JobSpec, place: Place) -> tuple[int, int]:
    """Slurm tasks per node and CPUs of each."""
    if job.torchrun:
        return 1, place.cpus_per_rank * job.ranks_on_node
    return job.ranks_on_node, place.cpus_per_rank


def _rank_setup(job: JobSpec, place: Place) -> Script:
    launcher = sh(_TORCHRUN, ranks=job.ranks_on_node) if job.torchrun else sh(_SRUN)
    return sh(_RANK, threads=place.cpus_per_rank, interface=place.interface, launcher=launcher)


def _srun(job: JobSpec, place: Place) -> Script:
    tasks, cpus = _tasks(job, place)
    # --cpus-per-task again: srun of Slurm 22.05 to 23.02 does not read SLURM_CPUS_PER_TASK.
    # --distribution=block puts rank 0 on the first node, where MASTER_ADDR points to.
    return sh(
        "srun --kill-on-bad-exit=1 --input=none --distribution=block \\\n"
        "  --nodes={nodes} --ntasks={total} --ntasks-per-node={tasks} --cpus-per-task={cpus} \\\n"
        '  --output="$folder/rank-%t.log" --open-mode=append',
        nodes=job.nodes,
        total=job.nodes * tasks,
        tasks=tasks,
        cpus=cpus,
    )


def _command(job: JobSpec, place: Place) -> Script:
    python = place.program.endswith(".py")
    runner = ["python3"] if python and not job.torchrun else []
    if job.torchrun and not python:
        runner = ["--no-python"]
    return sh("{words}", words=[*runner, place.program, *job.args])


_HEAD: Final = """\

set -u
folder={folder}
export CORRAL_JOB_FOLDER="$folder"
rm -f "$folder/ended"
end() {{
  echo "$1" > "$folder/ended.new" && mv "$folder/ended.new" "$folder/ended"
  exit "$1"
}}
fail() {{
  echo "corral: $1" >&2
  end 1
}}
cd {workdir} || fail "the folder to run in cannot be entered on $(hostname)"
"""

# MASTER_ADDR is the address that Slurm itself uses for the first node, never a loopback one:
# Debian and Ubuntu write 127.0.1.1 for a machine's own name into its /etc/hosts.
# A port is a function of the job's id, so that two jobs on one node do not meet, and it is looked
# at before use: this script runs on the first node of the allocation.
_RENDEZVOUS: Final = """\
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
MASTER_ADDR=$(scontrol --oneliner show node "$first" | sed -n 's/.* NodeAddr=\\([^ ]*\\) .*/\\1/p')
case $MASTER_ADDR in
*[!0-9.]*)
  found=$(getent ahostsv4 "$MASTER_ADDR" | awk '$1 !~ /^127[.]/ {{ print $1; exit }}')
  MASTER_ADDR=${{found:-$MASTER_ADDR}} ;;
esac
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
# job's own is the one of the rank that failed first.
_LAUNCH: Final = """\
rank=$(cat <<'END_OF_RANK'
{setup}
END_OF_RANK
)
lines=$(wc -l < "$folder/batch.log") || lines=0
{srun} \\
  sh -c "$rank" rank {command}
status=$?
if [ "$status" -ne 0 ]; then
  code=$(tail -n "+$((lines + 1))" "$folder/batch.log" |
    sed -n '/^srun: error: [^ ]*: tasks* [0-9]/{{s/.* exit code //p;q;}}')
  case $code in ""|*[!0-9]*) ;; *) status=$code ;; esac
fi
end "$status"
"""

# Runs once per rank, and becomes the rank: Slurm signals only the process that it started itself
# (proctrack/cgroup), so that a shell left above the rank would keep SIGTERM from it.
# The interface is the one that holds the first node's address, or that leads to it; a machine's
# other networks (docker0, a tailnet) never carry the job.
_RANK: Final = """\
nic={interface}
[ -n "$nic" ] || nic=$(ip -o addr show to "$MASTER_ADDR" 2>/dev/null | awk '{{ print $2; exit }}')
[ -n "$nic" ] ||
  nic=$(ip -o route get "$MASTER_ADDR" 2>/dev/null | sed -n 's/.* dev \\([^ ]*\\).*/\\1/p')
if [ -n "$nic" ]; then
  export GLOO_SOCKET_IFNAME="${{GLOO_SOCKET_IFNAME-$nic}}"
  export NCCL_SOCKET_IFNAME="${{NCCL_SOCKET_IFNAME-=$nic}}"
fi
export OMP_NUM_THREADS="${{OMP_NUM_THREADS-{threads}}}"
export PYTHONUNBUFFERED="${{PYTHONUNBUFFERED-1}}"
# Debian's python3-torch 2.6 is built without libuv; the other store works with every build.
export USE_LIBUV="${{USE_LIBUV-0}}"
{launcher}
exec "$@\""""

_SRUN: Final = """\
export RANK="$SLURM_PROCID" LOCAL_RANK="$SLURM_LOCALID" NODE_RANK="$SLURM_NODEID"
export WORLD_SIZE="${{SLURM_STEP_NUM_TASKS:-$SLURM_NTASKS}}"
tasks=${{SLURM_STEP_TASKS_PER_NODE:-$SLURM_TASKS_PER_NODE}}
export LOCAL_WORLD_SIZE="${{tasks%%[(,]*}}\""""

_TORCHRUN: Final = """\
set -- python3 -m torch.distributed.run --nnodes="$SLURM_NNODES" --node-rank="$SLURM_NODEID" \\
  --nproc-per-node={ranks} --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@\""""
