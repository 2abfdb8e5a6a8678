"""Tools that people bring run unchanged: plain Slurm, submitit, ReFrame, mpi4py, dask, torchx.

They run as the job user on the controller, out of one environment on shared storage, which is made
from wheels as Corral makes its own (tools.lock).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from corral import api
from corral.api.cluster import Cluster
from corral.api.workload.queue import RankLine
from corral.apply.session import Session
from corral.apply.wheelhouse import cached, fetch
from corral.errors import CorralError
from corral.events import ignore
from corral.hosts.quote import join, sh
from corral.hosts.transport import Result
from corral.jobs.follow import as_user
from corral.roles.services.corral_wheels import parse_lock
from corral.spec.models import ClusterSpec
from corral.state.base import Context, Seen
from corral.state.pyenv import PythonEnv

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
MPI = HERE.parents[1] / "examples" / "hello_mpi"
WHEELS = parse_lock((HERE / "tools.lock").read_text())["3.13"]
USER = "corral"
TOOLS = "/shared/test-tools"
Run = Callable[..., Result]

SUBMITIT = """\
import socket, submitit
def add(a, b):
    env = submitit.JobEnvironment()
    return a + b, env.num_tasks, env.global_rank
def fail():
    raise RuntimeError("on purpose")
executor = submitit.AutoExecutor(folder="log_%j")
executor.update_parameters(timeout_min=5, nodes=2, tasks_per_node=1, slurm_partition="main",
                           slurm_gres="gpu:1")
print("together", executor.submit(add, 2, 3).results())
executor.update_parameters(nodes=1)
print("array", [job.result()[0] for job in executor.map_array(add, [1, 2, 3], [10, 20, 30])])
try:
    executor.submit(fail).result()
except submitit.core.utils.FailedJobError as error:
    print("failed", "on purpose" in str(error))
"""
SETTINGS = """\
site_configuration = {
    "systems": [{"name": "corral", "hostnames": ["node"], "partitions": [{
        "name": "main", "scheduler": "slurm", "launcher": "srun", "environs": ["plain"],
        "access": ["--partition=main"],
        "resources": [{"name": "gpu", "options": ["--gres=gpu:{n}"]}]}]}],
    "environments": [{"name": "plain"}],
}
"""
CHECKS = """\
import reframe as rfm
import reframe.utility.sanity as sn
@rfm.simple_test
class Three(rfm.RunOnlyRegressionTest):
    valid_systems = ["corral:main"]
    valid_prog_environs = ["plain"]
    executable = "sh"
    executable_opts = ["-c", "'echo $(hostname) $SLURM_STEP_GPUS'"]
    num_tasks = 3
    num_tasks_per_node = 1
    time_limit = "5m"
    extra_resources = {"gpu": {"n": 1}}
    count = variable(int, value=3)
    @sanity_function
    def each_node_answers(self):
        return sn.assert_eq(sn.count(sn.extractall(r"^node[0-9] [0-9]$", self.stdout)), self.count)
"""
DASK = """\
from dask_jobqueue import SLURMCluster
from distributed import Client
import sys
cluster = SLURMCluster(queue="main", cores=1, memory="300MB", walltime="00:05:00", processes=1,
                       interface="eth0", log_directory="dask", python=sys.executable)
cluster.scale(2)
with Client(cluster) as client:
    client.wait_for_workers(2, timeout=240)
    print("sum", sum(client.gather(client.map(lambda x: x * x, range(10)))))
cluster.close()
"""


async def install(live: Live, environment: PythonEnv) -> None:
    """Make an environment on shared storage, from wheels that this machine fetches.

    Raises:
        CorralError: NOT_FOUND, the index does not have them.
    """
    await fetch(environment.wheels, ignore)
    change = environment.diff(Seen(0, ""), Context(live.controller))
    assert change is not None
    data = [cached(ref.path).read_bytes() for ref in change.secrets]
    stdin = b"".join(b"%d\n%b" % (len(part), part) for part in data)

    async with await Session.open(live.spec) as session:
        made = await session.fleet.run(live.controller, change.script, stdin=stdin, timeout=580)
    assert made.ok, made.tail


def install_or_skip(live: Live, environment: PythonEnv) -> None:
    """``install``, unless it is there; the tests skip where the index does not have the wheels."""
    seen = live.run(live.controller, environment.probe())
    if seen.stdout.strip() == environment.digest:
        return
    try:
        asyncio.run(install(live, environment))
    except CorralError as error:
        pytest.skip(f"no wheels: {error}")


def runner(cluster: Live, place: str = TOOLS) -> Run:
    """Runs a program's text as the job user in a separate folder, the tools first on its PATH."""

    def run(name: str, *command: str, files: dict[str, str], timeout: float = 300) -> Result:
        folder = f"/shared/test-tools-{name}"
        writes = join(
            sh("printf %s {text} > {file}", text=text, file=file) for file, text in files.items()
        )
        script = sh(
            "cd {folder} && export PATH={path}/bin:$PATH HOME={folder} USER={user}\n{writes}\n"
            "{command}",
            folder=folder,
            path=place,
            writes=writes,
            command=list(command),
            user=USER,
        )
        made = sh("rm -rf {f} && install -d -o {u} -g {u} {f}", f=folder, u=USER)
        return cluster.run(
            cluster.controller, sh("{a} && {b}", a=made, b=as_user(USER, script)), timeout=timeout
        )

    return run


@pytest.fixture(scope="module")
def tools(cluster: Live) -> Run:
    """Runs a program's text as the job user, with the tools on its PATH, in a separate folder."""
    install_or_skip(cluster, PythonEnv(TOOLS, "tools", WHEELS))
    return runner(cluster)


def test_plain_sbatch_and_srun(tools: Run) -> None:
    job = "#!/bin/sh\n#SBATCH --nodes=3\n#SBATCH --output=out\nsrun hostname\n"
    done = tools("plain", "sh", "-c", "sbatch --wait job.sh && sort out", files={"job.sh": job})
    assert done.ok, done.tail
    assert done.stdout.splitlines()[-3:] == ["node0", "node1", "node2"]
    done = tools("plain", "srun", "--gres=gpu:1", "sh", "-c", 'echo "$SLURM_STEP_GPUS"', files={})
    assert done.stdout.strip() in {"0", "1"}, done.tail


def test_submitit(tools: Run) -> None:
    done = tools("submitit", "python3", "-W", "ignore", "use.py", files={"use.py": SUBMITIT})
    assert done.ok, done.tail
    assert done.stdout.splitlines() == [
        "together [(5, 2, 0), (5, 2, 1)]",
        "array [11, 22, 33]",
        "failed True",
    ]


def test_reframe_passes_and_fails_as_the_nodes_answer(tools: Run) -> None:
    files = {"settings.py": SETTINGS, "checks.py": CHECKS}
    command = ("reframe", "-C", "settings.py", "-c", "checks.py", "-r", "--nocolor")
    good = tools("reframe", *command, files=files)
    assert good.ok, good.stdout[-2000:]
    assert "Ran 1/1 test case(s)" in good.stdout
    bad = tools("reframe", *command, "-S", "count=4", files=files)
    assert not bad.ok
    assert "FAILED" in bad.stdout


def test_mpi_over_all_nodes_by_pmix(tools: Run) -> None:
    files = {name: (MPI / name).read_text() for name in ("hello.py", "hello.c", "hello.sbatch")}
    submit = "sbatch --wait --nodes 3 --output out hello.sbatch /shared/test-tools && cat out"
    done = tools("mpi", "sh", "-c", submit, files=files)
    assert done.ok, done.tail
    assert 'RESULT {"ranks": 3, "sum": 3}' in done.stdout
    assert {f"rank {n} of 3 on node{n}" for n in range(3)} <= set(done.stdout.splitlines())


@pytest.fixture
def without_mpi(cluster: Live) -> Iterator[ClusterSpec]:
    """The cluster while its file declares MpiDefault=none."""
    slurm = cluster.spec.slurm.model_copy(update={"settings": {"MpiDefault": "none"}})
    spec = cluster.spec.model_copy(update={"slurm": slurm})
    asyncio.run(api.up(spec))
    yield spec
    asyncio.run(api.up(cluster.spec))


def hello(spec: ClusterSpec) -> list[str]:
    """What the ranks of hello.py print as a job of corral run over three nodes."""
    lines: list[RankLine] = []
    job = Cluster(spec)
    outcome = job.run(str(MPI / "hello.py"), nodes=3, python=TOOLS, on_line=lines.append)
    assert outcome.good, lines
    return [line.text for line in lines]


def test_mpi4py_forms_one_world_without_an_option(tools: Run, cluster: Live) -> None:
    run = ("srun", "--nodes=3", "--ntasks-per-node=1", f"{TOOLS}/bin/python3", "hello.py")
    done = tools("mpi4py", *run, files={"hello.py": (MPI / "hello.py").read_text()})
    assert 'RESULT {"ranks": 3, "sum": 3}' in done.stdout.splitlines(), done.tail
    printed = hello(cluster.spec)
    assert 'RESULT {"ranks": 3, "sum": 3}' in printed
    assert not any("separate world" in line for line in printed)


def test_worlds_of_one_are_named(tools: Run, without_mpi: ClusterSpec) -> None:
    """Once, in the output of a job that Slurm calls completed."""
    printed = hello(without_mpi)
    assert printed.count('RESULT {"ranks": 1, "sum": 0}') == 3
    warned = [line for line in printed if "separate world" in line]
    assert len(warned) == 1, printed
    assert "Slurm starts MPI without PMIx and PMI-2 here, so each of 3 ranks is" in warned[0]


@pytest.fixture(scope="module")
def compiler(cluster: Live) -> str:
    """A node with mpicc, from the distribution's archive; the image itself leaves headers out."""
    install = sh(
        "[ -e /usr/include/stdio.h ] || {{ apt-get update -q >/dev/null 2>&1; "
        "DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "
        "-o Dpkg::Options::=--path-include=/usr/include/\\* "
        "libopenmpi-dev openmpi-bin gcc libc6-dev linux-libc-dev >/dev/null 2>&1; }}; "
        "[ -e /usr/include/stdio.h ] && command -v mpicc"
    )
    done = cluster.run("node1", install, timeout=900)
    if not done.ok:
        pytest.skip("no package archive: mpicc cannot be installed on node1")
    return "node1"


def test_hello_mpi_in_c(cluster: Live, compiler: str) -> None:
    """Compiled by the job on its first node; the others have Open MPI's library only."""
    files = {name: (MPI / name).read_text() for name in ("hello.py", "hello.c", "hello.sbatch")}
    nodes = f"--nodes=2 --nodelist={compiler},node2"
    submit = f"sbatch --wait {nodes} --output out hello.sbatch; cat out; ls"
    done = runner(cluster)("mpi-c", "sh", "-c", submit, files=files)
    lines = done.stdout.splitlines()
    assert 'RESULT {"ranks": 2, "sum": 1}' in lines, done.tail
    assert {"rank 0 of 2 on node1", "rank 1 of 2 on node2"} <= set(lines)
    assert not [name for name in lines if name.startswith("hello.") and name[6:].isdecimal()]


PERF = """\
#!/bin/sh
# In the place of nccl-tests' all_reduce_perf, which needs GPUs: the same arguments, real MPI.
[ "$*" = "-b 8 -e 8G -f 2 -g 1 -J nccl-$SLURM_JOB_ID.json" ] || exit 97
echo "interface $NCCL_SOCKET_IFNAME"
exec ./hello
"""


def test_the_script_of_nccl_tests_starts_one_mpi_world(cluster: Live, compiler: str) -> None:
    files = {
        "hello.c": (MPI / "hello.c").read_text(),
        "all_reduce.sbatch": (MPI.parent / "nccl" / "all_reduce.sbatch").read_text(),
        "all_reduce_perf": PERF,
    }
    nodes = f"--nodes=2 --nodelist={compiler},node2 --ntasks-per-node=1"
    script = (
        f"srun --nodelist={compiler} mpicc -o hello hello.c && chmod 755 all_reduce_perf && "
        f"sbatch --wait {nodes} --output out all_reduce.sbatch $PWD; cat out; "
        f"sbatch --wait {nodes} --output gone all_reduce.sbatch /nowhere; cat gone"
    )
    done = runner(cluster)("nccl", "sh", "-c", script, files=files)
    lines = done.stdout.splitlines()
    assert 'RESULT {"ranks": 2, "sum": 1}' in lines, done.tail
    assert lines.count("interface =eth0") == 2
    assert "/nowhere/all_reduce_perf is not there: build nccl-tests with MPI=1 first" in lines


def test_dask_jobqueue(tools: Run) -> None:
    done = tools("dask", "python3", "-W", "ignore", "use.py", files={"use.py": DASK})
    assert done.ok, done.tail
    assert done.stdout.splitlines()[-1] == "sum 285"


def test_torchx(tools: Run) -> None:
    command = ("torchx", "run", "--wait", "--scheduler", "slurm", "--workspace=")
    options = ("--scheduler_args", "partition=main,time=5", "utils.sh", "hostname")
    done = tools("torchx", *command, *options, files={})
    assert done.ok, done.tail
    assert "Job finished: SUCCEEDED" in done.stderr + done.stdout
