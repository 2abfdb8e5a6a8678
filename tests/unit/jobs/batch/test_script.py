"""The batch script: golden files, and a real run of it against a fake srun with hostile input."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corral.jobs.batch.script import Place, batch_script
from corral.jobs.model import JobSpec
from corral.slurm.directives import directives

FIRST_PORT = 20000
"""As agents/jobs/batch/rendezvous.sh has it."""

PLACE = Place("/shared/corral/jobs/corral/x", "/shared/corral/jobs/corral/x/code/train.py", "main")
GOLDEN = {
    "one-node": (JobSpec(script="train.py"), PLACE),
    "three-nodes": (
        JobSpec(
            script="train.py",
            args=("--epochs", "5", "it's $HOME"),
            nodes=3,
            gpus_per_node=2,
            gpu_type="rtx5090",
            time="1-12",
            env={"NCCL_DEBUG": "INFO", "NOTE": "a\nb"},
            requeue=True,
        ),
        Place(PLACE.folder, PLACE.program, "main", 4, "16000M", "eno1"),
    ),
    "torchrun": (
        JobSpec(script="train.py", nodes=2, gpus_per_node=4, launcher="torchrun", workdir="/data"),
        Place(PLACE.folder, PLACE.program, "main", 2),
    ),
    "sweep": (
        JobSpec(
            script="train.py",
            args=("--rate={lr}", "it's"),
            sweep={"lr": ("1e-3", "3e-4"), "seed": ("1", "2")},
            at_once=3,
            requeue=True,
            grace="5m",
            time="2h",
            checkpoints="/shared/mine",
        ),
        Place(
            PLACE.folder,
            PLACE.program,
            "main",
            fabric="roce",
            workdir=f"{PLACE.folder}/code/sub",
            python="/shared/corral/envs/corral/x",
        ),
    ),
    "container": (
        JobSpec(
            script="train.py",
            nodes=2,
            gpus_per_node=8,
            container="docker://nvcr.io/nvidia/pytorch:26.04-py3",
            mounts=("/raid:/raid:ro",),
            env={"NOTE": "it's mine"},
        ),
        Place(
            PLACE.folder,
            PLACE.program,
            "main",
            16,
            fabric="tcpxo",
            workdir=f"{PLACE.folder}/code",
            mounts=("/shared:/shared", "/raid:/raid:ro"),
        ),
    ),
    "command": (
        JobSpec(
            command=("sh", "-c", "echo $HOME 'it is'; nvidia-smi -L | wc -l", ""),
            nodes=3,
            gpus_per_node=1,
            account="lab",
            qos="high,normal",
            nodelist="node[0-1]",
            exclude="node7",
            constraint="[rack1|rack2]&a100*2",
            after=("12", "13_4:ok", "14:any"),
            begin="now+2hours",
            mail="ada@example.org:begin,time_limit_80",
            licenses="matlab:2,ansys@db",
            exclusive=True,
            sbatch=("--reservation=class",),
        ),
        Place(PLACE.folder, "", "main", mem="0"),
    ),
    "command-sweep": (
        JobSpec(
            command=("./train", "--rate={lr}"),
            sweep={"lr": ("1e-3", "3e-4"), "seed": ("1", "2")},
            launcher="torchrun",
            folder=".",
        ),
        Place(PLACE.folder, "", "main", workdir=f"{PLACE.folder}/code/sub"),
    ),
    "binary": (
        JobSpec(script="run.bin", nodes=2, ranks_per_node=2),
        Place("/s/x", "/s/run.bin", "p"),
    ),
}
SRUN = """#!/bin/sh
# Starts each rank here, one after the other, as slurmstepd would.
out=/dev/stdout
for word; do
  case $word in --ntasks=*) tasks=${word#--ntasks=} ;; --output=*) out=${word#--output=} ;; esac
done
while [ "$1" != sh ]; do shift; done
rank=0 worst=0
while [ "$rank" -lt "$tasks" ]; do
  log=$(printf '%s' "$out" | sed "s/%t/$rank/")
  SLURM_PROCID=$rank SLURM_LOCALID=0 SLURM_NODEID=$rank SLURM_STEP_NUM_TASKS=$tasks \
    SLURM_STEP_TASKS_PER_NODE="1(x$tasks)" SLURM_NNODES=$tasks "$@" >> "$log" 2>&1
  status=$?
  if [ "$status" != 0 ]; then
    echo "srun: error: node$rank: task $rank: Exited with exit code $status" >&2
    [ "$rank" = $((tasks - 1)) ] || echo "srun: error: node9: task 9: Terminated" >&2
    worst=143
  fi
  rank=$((rank + 1))
done
exit $worst
"""
SCONTROL = """#!/bin/sh
case "$*" in
  "show hostnames node[0-9]") printf 'node0\\nnode1\\n' ;;
  "--oneliner show node node0") echo "NodeName=node0 Gres=x NodeAddr=$ADDRESS Port=0" ;;
  *) exit 97 ;;
esac
"""
IP = """#!/bin/sh
case "$*" in
  "-o addr show to 10.0.0.5") echo "2: eth7    inet 10.0.0.5/24 brd 10.0.0.255 scope global eth7" ;;
  "-o addr show to "*) ;;
  "-o route get 10.0.0.6") echo "10.0.0.6 dev bond0 src 10.0.0.9 uid 0" ;;
  *) exit 97 ;;
esac
"""


class Machine:
    """A folder with fake srun, scontrol and ip, in which a batch script really runs."""

    def __init__(self, folder: Path) -> None:
        self.bin, self.work = folder / "bin", folder / "job"
        self.bin.mkdir()
        self.work.mkdir()
        for name, text in (("srun", SRUN), ("scontrol", SCONTROL), ("ip", IP)):
            (self.bin / name).write_text(text)
            (self.bin / name).chmod(0o755)

    def run(
        self,
        job: JobSpec,
        program: str,
        *,
        address: str = "10.0.0.5",
        job_id: int = 7,
        python: str = "",
    ) -> subprocess.CompletedProcess[str]:
        shutil.rmtree(self.work)
        self.work.mkdir()
        text = batch_script(job, Place(str(self.work), program, "main", 3, python=python))
        with (self.work / "batch.log").open("w") as log:
            return subprocess.run(
                ["/bin/sh", "-c", text],
                env={
                    "PATH": f"{self.bin}:{os.environ['PATH']}",
                    "ADDRESS": address,
                    "SLURM_JOB_ID": str(job_id),
                    "SLURM_JOB_NODELIST": "node[0-9]",
                    "SLURM_JOB_NUM_NODES": str(job.nodes),
                },
                stdout=log,
                stderr=log,
                text=True,
                check=False,
                timeout=30,
            )

    def log(self, name: str) -> str:
        return (self.work / f"{name}.log").read_text()

    @property
    def ended(self) -> str:
        return (self.work / "ended").read_text().strip()


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return Machine(tmp_path_factory.mktemp("machine"))


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"jobs/{name}.sh", batch_script(*GOLDEN[name]))


@pytest.mark.parametrize("shell", ["dash", "bash"])
@pytest.mark.parametrize("name", GOLDEN)
def test_shells_can_read_it(name: str, shell: str) -> None:
    text = batch_script(*GOLDEN[name])
    subprocess.run([shell, "-n"], input=text, text=True, check=True, capture_output=True)


SHOW = """
import os, sys
for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
    print(name, os.environ.get(name))
print(sys.prefix, os.environ["CORRAL_PYTHON"])
"""


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A venv, what makes an environment conda's, and an interpreter of another name."""
    folder = tmp_path_factory.mktemp('of "$(false)" it\'s')
    venv.create(folder / "venv", with_pip=False)
    (folder / "conda" / "conda-meta").mkdir(parents=True)
    (folder / "conda" / "bin").mkdir()
    shutil.copy(folder / "venv" / "bin" / "python3", folder / "conda" / "bin" / "python3")
    library = Path(os.__file__).parent  # the prefix is where an interpreter finds it near itself
    (folder / "conda" / "lib").mkdir()
    (folder / "conda" / "lib" / library.name).symlink_to(library)
    (folder / "python3").write_text("#!/bin/sh\nexit 96\n")
    (folder / "python3").chmod(0o755)
    (folder / "python3.99").symlink_to(Path(sys.executable).resolve())
    return folder


@pytest.mark.parametrize(
    ("name", "interpreter", "virtual", "conda"),
    [
        ("venv", "venv/bin/python3", "venv", ""),
        ("venv/bin/python3", "venv/bin/python3", "venv", ""),
        ("venv/bin/python", "venv/bin/python", "venv", ""),
        ("conda", "conda/bin/python3", "", "conda"),
        ("python3.99", "python3.99", "", ""),
    ],
)
def test_a_python_of_the_nodes_is_the_jobs_python3(
    machine: Machine, environments: Path, *, name: str, interpreter: str, virtual: str, conda: str
) -> None:
    """For a script, and by PATH for what a command starts."""
    show = machine.bin / "show.py"
    show.write_text(SHOW)
    python = str(environments / name)
    by_path = JobSpec(command=("sh", "-c", f"exec python3 {show}"))
    for job, program in ((JobSpec(script="show.py"), str(show)), (by_path, "")):
        ran = machine.run(job, program, python=python)
        assert (ran.returncode, machine.log("batch")) == (0, "")
        lines = machine.log("rank-0").splitlines()
        assert lines[0] == f"VIRTUAL_ENV {environments / virtual if virtual else None}"
        assert lines[1] == f"CONDA_PREFIX {environments / conda if conda else None}"
        prefix = str(environments / (virtual or conda)) if virtual or conda else sys.base_prefix
        assert lines[2] == f"{prefix} {environments / interpreter}"


def test_programs_of_the_system_stay_behind_those_in_front_of_them(
    machine: Machine, environments: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--python /usr/bin/python3.12 must not hide the compiler of a module."""
    nvcc = environments / "nvcc"
    nvcc.write_text("#!/bin/sh\necho system\n")
    mine = machine.bin / "nvcc"
    mine.write_text("#!/bin/sh\necho module\n")
    for program in (nvcc, mine):
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{environments}:{os.environ['PATH']}")  # behind machine.bin
    job = JobSpec(command=("sh", "-c", "nvcc; python3 -c 'import sys; print(sys.version_info[0])'"))
    assert machine.run(job, "", python=str(environments / "python3.99")).returncode == 0
    assert machine.log("rank-0").splitlines() == ["module", "3"]


def test_a_python_that_is_not_there_ends_the_job(machine: Machine, environments: Path) -> None:
    """On the first node, and on a node that alone lacks it: never the next python3 of PATH."""
    job = JobSpec(script="show.py")
    missing = str(environments / "away" / "bin" / "python3")
    assert machine.run(job, "show.py", python=missing).returncode == 1
    assert f"corral: the Python {missing} does not run on" in machine.log("batch")
    alone = environments / "once"
    alone.write_text(f'#!/bin/sh\nrm "$0"\nexec {sys.executable} "$@"\n')
    alone.chmod(0o755)
    assert machine.run(job, "show.py", python=str(alone)).returncode == 127
    assert f"corral: no Python {alone} on" in machine.log("rank-0")


ACCELERATE = "accelerate launch with several processes knows of one machine"


@pytest.mark.parametrize(
    ("command", "env", "warning"),
    [
        (("python3", "mpi.py"), {}, "Slurm starts MPI without PMIx and PMI-2 here"),
        (("python3", "mpi.py"), {"PMIX_RANK": "0"}, ""),
        (("python3", "mpi.py"), {"PMI_RANK": "0"}, ""),
        (("python3", "plain.py"), {}, ""),
        (("accelerate", "launch", "train.py"), {"CUDA_VISIBLE_DEVICES": "0"}, ""),
        (("accelerate", "launch", "train.py"), {"CUDA_VISIBLE_DEVICES": "0,1"}, ACCELERATE),
        (("accelerate", "launch", "--num_processes", "4", "train.py"), {}, ACCELERATE),
        (("accelerate", "launch", "--num_machines", "3", "train.py"), {}, ""),
        (("deepspeed", "train.py"), {}, "deepspeed knows of one machine"),
        (("deepspeed", "--hostfile=h", "train.py"), {}, ""),
        (("python3", "PIPE"), {}, ""),
    ],
)
def test_the_first_rank_warns_of_separate_worlds(
    machine: Machine, command: tuple[str, ...], env: dict[str, str], warning: str
) -> None:
    """Once; and the rank's own variables stay as they are."""
    for name, text in {
        "mpi.py": "from mpi4py import MPI\n",
        "plain.py": "# as mpi4py\n",
        "python3": "#!/bin/sh\necho $remedy\n",
        "accelerate": "#!/bin/sh\necho $remedy\n",
        "deepspeed": "#!/bin/sh\necho $remedy\n",
    }.items():
        (machine.bin / name).write_text(text)
        (machine.bin / name).chmod(0o755)
    os.mkfifo(machine.bin / "PIPE")  # which nobody writes into: reading it would never end
    named = ("i.py", "PIPE")
    words = tuple(str(machine.bin / w) if w.endswith(named) else w for w in command)
    try:
        ran = machine.run(JobSpec(command=words, nodes=2, env={**env, "remedy": "mine"}), "")
    finally:
        (machine.bin / "python3").unlink()
        (machine.bin / "PIPE").unlink()
    assert (ran.returncode, machine.log("batch")) == (0, "")
    assert machine.log("rank-1") == "mine\n"
    expected = f"corral: warning: {warning}, so each of 2 ranks is a separate world: "
    first = machine.log("rank-0")
    assert first.endswith("mine\n")
    assert first.startswith(expected) if warning else first == "mine\n"


TEXT = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30
) | st.sampled_from(["'", '"', "$(touch x)", "`id`", "a\nEND_OF_RANK\nb", "-n", "\\", "{x}", "%t"])


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(args=st.lists(TEXT, max_size=5), values=st.lists(TEXT, min_size=1, max_size=3))
def test_arguments_and_environment_arrive_as_they_are(
    machine: Machine, args: list[str], values: list[str]
) -> None:
    show = machine.bin / 'it\'s a "show" $(touch x)'
    show.write_text('#!/bin/sh\nfor v in "$@" "$V0" "$V1" "$V2"; do printf "%s\\0" "$v"; done\n')
    show.chmod(0o755)
    env = {f"V{n}": values[n] if n < len(values) else "" for n in range(3)}
    ran = machine.run(JobSpec(script="show", args=tuple(args), env=env), str(show))
    assert (ran.returncode, machine.log("batch")) == (0, "")
    seen = (machine.work / "rank-0.log").read_bytes().decode().split("\0")[:-1]
    assert seen == [*args, *env.values()]
    assert {f.name for f in machine.work.iterdir()} == {"batch.log", "rank-0.log", "ended"}


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(words=st.lists(TEXT, max_size=5))
def test_the_words_of_a_command_arrive_as_they_are(machine: Machine, words: list[str]) -> None:
    show = machine.bin / "show me"
    show.write_text('#!/bin/sh\nfor v in "$@"; do printf "%s\\0" "$v"; done\nexit 7\n')
    show.chmod(0o755)
    ran = machine.run(
        JobSpec(command=("show me", *words)), ""
    )  # found on PATH, as a shell finds it
    assert ran.returncode == 7, "the command's own exit status"
    seen = (machine.work / "rank-0.log").read_bytes().decode().split("\0")[:-1]
    assert seen == words


def test_a_command_runs_in_each_rank(machine: Machine) -> None:
    job = JobSpec(command=("sh", "-c", 'echo "$RANK of $WORLD_SIZE"'), nodes=2)
    assert machine.run(job, "").returncode == 0
    assert [machine.log(f"rank-{n}") for n in (0, 1)] == ["0 of 2\n", "1 of 2\n"]


def test_a_command_that_is_not_there_ends_with_127(machine: Machine) -> None:
    assert machine.run(JobSpec(command=("no such program", "x")), "").returncode == 127


def variables(machine: Machine, job: JobSpec, *, address: str = "10.0.0.5") -> list[dict[str, str]]:
    ran = machine.run(job, "/usr/bin/env", address=address)
    assert ran.returncode == 0, machine.log("batch")
    logs = [machine.log(f"rank-{n}") for n in range(job.nodes)]
    return [dict(row.split("=", 1) for row in log.splitlines() if "=" in row) for log in logs]


def test_rendezvous(machine: Machine) -> None:
    ranks = variables(machine, JobSpec(script="x", nodes=2))
    for number, rank in enumerate(ranks):
        assert rank["MASTER_ADDR"] == "10.0.0.5"
        assert rank["MASTER_PORT"] == str(FIRST_PORT + 7)
        assert rank["RANK"] == rank["NODE_RANK"] == str(number)
        assert (rank["WORLD_SIZE"], rank["LOCAL_RANK"], rank["LOCAL_WORLD_SIZE"]) == ("2", "0", "1")
        assert (rank["GLOO_SOCKET_IFNAME"], rank["NCCL_SOCKET_IFNAME"]) == ("eth7", "=eth7")
        assert (rank["OMP_NUM_THREADS"], rank["USE_LIBUV"]) == ("3", "0")


def test_interface_that_leads_to_the_first_node(machine: Machine) -> None:
    rank = variables(machine, JobSpec(script="x", nodes=2), address="10.0.0.6")[0]
    assert rank["GLOO_SOCKET_IFNAME"] == "bond0"


def test_values_of_the_user_win(machine: Machine) -> None:
    job = JobSpec(script="x", env={"OMP_NUM_THREADS": "9", "NCCL_SOCKET_IFNAME": "ib0"})
    rank = variables(machine, job)[0]
    assert (rank["OMP_NUM_THREADS"], rank["NCCL_SOCKET_IFNAME"]) == ("9", "ib0")


@pytest.mark.parametrize("address", ["127.0.1.1", "localhost", ""])
def test_never_a_loopback_address(machine: Machine, address: str) -> None:
    ran = machine.run(JobSpec(script="x", nodes=2), "/usr/bin/env", address=address)
    assert (ran.returncode, machine.ended) == (1, "1")
    assert "corral: " in machine.log("batch")
    assert not (machine.work / "rank-0.log").exists()


def test_two_jobs_have_two_ports(machine: Machine) -> None:
    port = variables(machine, JobSpec(script="x"))[0]["MASTER_PORT"]
    ran = machine.run(JobSpec(script="x"), "/usr/bin/env", job_id=8)
    assert ran.returncode == 0
    assert f"MASTER_PORT={port}" not in machine.log("rank-0")


def test_a_port_in_use_is_left_alone(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The kernel's table of sockets is read through cat, here one that shows a listener."""
    taken = tmp_path / "tcp"
    taken.write_text(
        "  sl  local_address rem_address   st\n"
        f"   0: 00000000:{FIRST_PORT + 7:04X} 00000000:0000 0A 00000000:00000000\n"
    )
    cat = machine.bin / "cat"
    cat.write_text(
        f'#!/bin/sh\ncase $1 in /proc/*) exec /bin/cat {taken} ;; esac\nexec /bin/cat "$@"\n'
    )
    cat.chmod(0o755)
    try:
        rank = variables(machine, JobSpec(script="x"))[0]
    finally:
        cat.unlink()
    assert rank["MASTER_PORT"] == str(FIRST_PORT + 7 + 257)


def test_the_job_ends_with_the_status_of_the_rank_that_failed_first(machine: Machine) -> None:
    die = machine.bin / "die"
    die.write_text('#!/bin/sh\n[ "$RANK" = 0 ] || exit 5\n')
    die.chmod(0o755)
    ran = machine.run(JobSpec(script="die", nodes=3), str(die))
    assert (ran.returncode, machine.ended) == (5, "5")


@pytest.mark.parametrize(
    ("how", "status"),
    [
        ("Killed", 137),
        ("Segmentation fault (core dumped)", 139),
        ("Aborted", 134),
        ("Exited with exit code 3", 3),
        ("Out Of Memory", 143),
    ],
)
def test_the_signal_that_ended_the_first_rank_is_the_jobs_end(
    machine: Machine, how: str, status: int
) -> None:
    """Srun itself ends with 143, of the ranks that it then ended."""
    (machine.bin / "srun").write_text(
        f"#!/bin/sh\necho 'srun: error: node[0-1]: tasks 0-1: {how}' >&2\n"
        "echo 'srun: error: node2: task 2: Terminated' >&2\nexit 143\n"
    )
    try:
        assert machine.run(JobSpec(script="x", nodes=3), "/usr/bin/env").returncode == status
    finally:
        (machine.bin / "srun").write_text(SRUN)


def test_sbatch_reads_each_directive_as_a_shell_does() -> None:
    """Sbatch has its own parser: what is quoted for a shell may mean something else to it."""
    for job, place in GOLDEN.values():
        lines = [
            line for line in batch_script(job, place).splitlines() if line.startswith("#SBATCH")
        ]
        assert lines
        for line in lines:
            (option,) = directives(line)
            value = f"={option.value}" if option.value else ""
            assert (option.fault, shlex.split(line)) == ("", ["#SBATCH", f"--{option.name}{value}"])


def test_a_job_that_starts_again_keeps_its_own_comment() -> None:
    """Corral's, by which a cloud's notice reaches the job, took its place without a word."""

    _, place = next(iter(GOLDEN.values()))

    def comments(*options: str) -> list[str]:
        job = JobSpec(script="train.py", requeue=True, sbatch=options)
        return [line for line in batch_script(job, place).splitlines() if "--comment" in line]

    assert comments() == ["#SBATCH --comment=corral:signal=USR1"]
    assert comments("--comment=mine") == ["#SBATCH --comment=mine"]


def test_a_rank_in_a_container_gets_what_its_node_wrote(machine: Machine, tmp_path: Path) -> None:
    """The image's own values are there first, as Pyxis leaves them: Corral's and the user's win."""
    program = tmp_path / "show.sh"
    program.write_text("#!/bin/sh\nenv\n")
    program.chmod(0o755)
    job = JobSpec(
        script=str(program),
        nodes=2,
        container="ubuntu",
        env={"NOTE": "it's $HOME", "USE_LIBUV": "1"},
    )
    done = machine.run(job, str(program))
    assert done.returncode == 0, machine.log("batch")
    for rank in ("0", "1"):
        env = dict(li.split("=", 1) for li in machine.log(f"rank-{rank}").splitlines() if "=" in li)
        assert env["GLOO_SOCKET_IFNAME"] == "eth7"
        assert (env["NOTE"], env["USE_LIBUV"]) == ("it's $HOME", "1")
        assert env["OMP_NUM_THREADS"] == "3"
        assert env["PYTHONPATH"].startswith(f"{machine.work}/lib")
        written = (machine.work / f"node-{rank}.env").read_text()
        assert "export NCCL_SOCKET_IFNAME='=eth7'" in written
        assert "USE_LIBUV" not in written
