"""Names of the user: what a user exports reaches the user's program as it was exported.

A variable that comes from the environment stays exported when a shell assigns to it: where the
script of a job has a variable ``device``, the program sees that script's value. So each name there
begins with ``corral_``, or it is one that Corral documents for the program.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from corral.agents import FOLDER
from corral.hosts.quote import call
from corral.jobs.batch.fabric import explain_script, setting_rows, settings
from corral.jobs.batch.script import batch_script
from corral.jobs.model import OF_THE_SHELL, RENDEZVOUS, SHELL_PREFIX, JobSpec
from tests.unit.jobs.batch import test_fabric as fabrics
from tests.unit.jobs.batch.test_observed import JOBS as OBSERVED
from tests.unit.jobs.batch.test_script import GOLDEN, PLACE

SHELLS = ("dash", "bash")
JOBS = GOLDEN | OBSERVED

OUTPUTS = RENDEZVOUS | {
    *("PATH", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX"),  # --python, --environment
    *("LD_LIBRARY_PATH", "HOME", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"),
    *("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_RUN_ID"),
    *("CORRAL_CONTAINER_MOUNTS", "CORRAL_CONTAINER_ENV"),
}
"""What these programs set for the user's one: the pages name them."""
FOR_ONE_COMMAND = frozenset({"IFS", "NCCL_LIB_DIR"})
"""Written in front of a command (``IFS='=' read``), and its alone."""

PYTHONS = sum(1 << number - 1 for number in (2, 3, 13, 25))
"""Bits of signals that are ignored here and not in a job: SIGPIPE and SIGXFSZ by Python, SIGINT and
SIGQUIT by a program of a shell in the background, which srun is and slurmstepd's ranks are not."""

# The user's program, in the place of every program that a job may start with.
PROGRAM = r"""#!PYTHON -S
import json, os, sys
PREFIX, SEEN = os.environ["PREFIX"], os.environ["SEEN"]
if sys.argv[1:2] == ["-c"]:
    print(PREFIX)
elif sys.argv[1:3] == ["-m", "corral.track"]:
    print("run1")
else:
    umask = os.umask(0)
    status = dict(line.split(":\t") for line in open("/proc/self/status"))
    files = [fd for fd in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + fd)]
    with open(os.path.join(SEEN, os.environ.get("SLURM_PROCID", "0")), "w") as file:
        json.dump([dict(os.environ), umask, status["SigIgn"], sorted(files)], file)
"""
# Starts the first and the last rank here, as slurmstepd would; has no variables of a shell.
SRUN = r"""#!PYTHON -S
import os, subprocess, sys
if "--overlap" in sys.argv:
    sys.exit(0)
tasks = next(word[9:] for word in sys.argv if word.startswith("--ntasks="))
slurm = dict(SLURM_LOCALID="0", SLURM_NODEID="0", SLURM_STEP_NUM_TASKS=tasks, SLURM_NNODES=tasks)
slurm["SLURM_STEP_TASKS_PER_NODE"] = "1(x" + tasks + ")"
command, worst = sys.argv[sys.argv.index("sh"):], 0
for rank in sorted({0, int(tasks) - 1}):
    env = {**os.environ, **slurm, "SLURM_PROCID": str(rank)}
    worst = max(worst, subprocess.run(command, env=env).returncode)
sys.exit(worst)
"""


@dataclass(frozen=True)
class Seen:
    """What the user's program saw."""

    env: Mapping[str, str]
    umask: int
    ignored: str
    files: Sequence[str]


def words(text: str) -> list[str]:
    """Every word that could be a variable of it, apart from Corral's: parsers miss some."""
    tokens = set(re.findall(r"[A-Za-z_]\w*", text))
    return sorted(w for w in tokens if re.search("[a-z]", w) and not w.startswith(SHELL_PREFIX))


def mine(text: str) -> dict[str, str]:
    return {word: f"my {word}" for word in words(text)}


class Node:
    """A folder in which batch scripts run, with each shell as ``sh``."""

    def __init__(self, folder: Path, shell: str) -> None:
        self.folder, self.job, self.seen = folder, folder / "job", folder / "seen"
        self.fabric = fabrics.Machine(folder)
        self.bin = self.fabric.bin
        for place in (self.seen, self.job / "code/sub", self.job / "task-0/code/sub"):
            place.mkdir(parents=True)
        (self.job / "points").write_text("1e-3 1\n")
        for log in (self.job, self.job / "task-0"):
            (log / "batch.log").touch()
        python = folder / "venv/bin/python3"
        python.parent.mkdir(parents=True)
        (folder / "venv/pyvenv.cfg").touch()
        for file in (python, *(self.bin / n for n in ("python3", "nsys", "program", "salloc"))):
            self.program(file, PROGRAM)
        self.program(self.bin / "srun", SRUN)
        self.program(self.bin / "nvidia-smi", "#!/bin/sh\n")
        scontrol = fabrics.SCONTROL.replace("node[0-1]", "node[0-9]")
        self.program(self.bin / "scontrol", scontrol)
        self.sh = self.bin / "sh"
        self.sh.symlink_to(shutil.which(shell) or shell)
        self._adapters()

    @staticmethod
    def program(file: Path, text: str) -> None:
        file.write_text(text.replace("#!PYTHON", f"#!{sys.executable}"))
        file.chmod(0o755)

    def _adapters(self) -> None:
        """Two ports and a GPU, and the plugin of an A3 Mega: all loops over them have turns."""
        for name in ("mlx5_0", "mlx5_4"):
            self.fabric.port(name, layer="Ethernet", gids={3: fabrics.V2})
            keys = self.fabric.sys / f"class/infiniband/{name}/ports/1/pkeys"
            keys.mkdir()
            (keys / "0").write_text("0x8001\n")
        self.fabric.pci("pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0")
        self.fabric.pci("pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0", "mlx5_0")
        fabrics.a3mega(self.fabric)

    def here(self, text: str) -> str:
        """The text with this machine's folders in the place of a node's."""
        for there, own in (
            (PLACE.folder, self.job),
            ("/shared/j", self.job),
            ("/shared/corral/envs/corral/x", self.folder / "venv"),
            ("corral_sys=/sys", f"corral_sys={self.fabric.sys}"),
            ("/var/lib/tcpxo/lib64", self.fabric.tcpxo),
            ("ls -A /dev/aperture_devices", f"ls -A {self.folder}/aperture"),
            ("/shared/mine", self.folder / "mine"),
            ("cd /data", f"cd {self.job}"),
            ("cd /s/x", f"cd {self.job}"),
            ("/s/x", self.job),
        ):
            text = text.replace(there, str(own))
        return text

    def run(self, text: str, given: Mapping[str, str], *shell: str) -> str:
        env = {
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "SLURM_JOB_ID": "7",
            "SLURM_JOB_NODELIST": "node[0-9]",
            "SLURM_JOB_NUM_NODES": "2",
            "SLURM_ARRAY_TASK_ID": "0",
            "PREFIX": str(self.folder / "venv"),
            "SEEN": str(self.seen),
        }
        ran = subprocess.run(
            [*(shell or (str(self.sh),)), "-c", text],
            env={**env, **given},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
            umask=0o027,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def ranks(self) -> list[Seen]:
        """What the user's program saw, of each rank."""
        return [Seen(*json.loads(file.read_text())) for file in sorted(self.seen.iterdir())]

    def changed(self, given: Mapping[str, str]) -> dict[str, str | None]:
        """Variables of the user that the program did not get as they were."""
        ranks = self.ranks()
        assert ranks
        return {
            name: rank.env.get(name)
            for rank in ranks
            for name, value in given.items()
            if rank.env.get(name) != value
        }


@pytest.fixture(params=SHELLS)
def node(tmp_path: Path, request: pytest.FixtureRequest) -> Node:
    return Node(tmp_path, request.param)


def rendered(name: str, env: Mapping[str, str] | None = None) -> str:
    """A job's batch script, its command the user's program."""
    job, place = JOBS[name]
    options = [word for word in job.command if word.startswith("--")]
    more = {"command": ("program", *options)} if job.command else {}
    job = job.model_copy(update={**more, **({"env": dict(env)} if env else {})})
    program = place.program.replace("/s/run.bin", "program")
    return str(batch_script(job, replace(place, program=program)))


@pytest.mark.parametrize("name", JOBS)
def test_what_is_exported_where_a_job_is_submitted(name: str, node: Node) -> None:
    text = rendered(name)
    given = mine(text)
    assert len(given) > 100
    node.run(node.here(text), given)
    assert node.changed(given) == {}


@pytest.mark.parametrize("name", JOBS)
def test_what_a_job_is_given(name: str, node: Node) -> None:
    """By --env, by ``env`` of a job file, by ``#SBATCH --export``: all are the job's ``env``."""
    given = JobSpec(script="a", env=mine(rendered(name))).env
    node.run(node.here(rendered(name, given)), {})
    assert node.changed(given) == {}


@pytest.mark.parametrize("name", JOBS)
def test_nothing_else_of_the_shells_reaches_the_program(name: str, node: Node) -> None:
    """Options, masks, ignored signals, open files: those of the job; 9 is for samplers alone."""
    options = {"SHELLOPTS": "braceexpand:hashall"}
    node.run(node.here(rendered(name)), options)
    names = set(re.findall(r"(\w+)\(\)", rendered(name)))
    for rank in node.ranks():
        assert not {"nounset", "errexit", "xtrace"} & {*rank.env["SHELLOPTS"].split(":")}
        assert not [n for n in rank.env if n.startswith(SHELL_PREFIX) or n.strip("()%") in names]
        assert rank.umask == 0o027
        assert rank.files in (["0", "1", "2"], ["0", "1", "2", "9"])
        assert not int(rank.ignored, 16) & ~PYTHONS


@pytest.mark.parametrize(
    ("example", "group"), [("dgx-infiniband.yaml", "dgx"), ("a3mega.yaml", "a3mega")]
)
@pytest.mark.parametrize("shell", fabrics.STRICT, ids=" ".join)
def test_a_batch_script_that_reads_the_file_of_corral_env(
    example: str, group: str, shell: tuple[str, ...], tmp_path: Path
) -> None:
    node = Node(tmp_path, "dash")
    text = node.here(fabrics.of_example(example, group, node.fabric))
    (tmp_path / "env.sh").write_text(text)
    given = mine(text)
    flags = "echo $-; umask; trap"
    printed = node.run(f"{flags}; . ./env.sh; {flags}; exec program", given, *shell)
    half = len(printed) // 2
    assert printed[:half] == printed[half:]
    assert node.changed(given) == {}


def test_a_terminal(node: Node) -> None:
    """``corral shell --env``: the variables are read, then salloc is started."""
    held = str(call("jobs/user.sh", "variables_take", str(node.folder / "variables")))
    given = mine(held)
    (node.folder / "variables").mkdir(mode=0o700)
    exports = "\n".join(f"export {name}='{value}'" for name, value in given.items())
    (node.folder / "variables/variables").write_text(f"{exports}\n")
    node.folder.chmod(0o755)
    node.run(f"held() {{ :; }}\n{held.replace('held() (', 'unused() (')}\nexec salloc", {})
    assert node.changed(given) == {}


def test_what_explains_a_job_is_not_led_astray(node: Node) -> None:
    script = settings(
        interface="", fabric="roce", threads=4, sys=str(node.fabric.sys), folder="/no", report=True
    )
    plain = explain_script("10.0.0.5", {}, script)
    expected = setting_rows(node.run(plain, {}))
    assert {name for name, _, _ in expected} > {"NCCL_IB_HCA", "NCCL_IB_GID_INDEX"}
    env = mine(plain) | {"IFS": "0123456789_"}
    assert setting_rows(node.run(explain_script("10.0.0.5", env, script), {})) == expected


# What is assigned in the programs.

_BETWEEN = r"(?:^|[\s;&|({`])"
_ASSIGNED = re.compile(
    rf"{_BETWEEN}(?P<name>[A-Za-z_]\w*)\+?=(?!=)|\bfor\s+(?P<each>\w+)|\$\{{(?P<unset>\w+):?="
    rf"|{_BETWEEN}(?P<function>\w+)\(\)",
    re.MULTILINE,
)
_READ = re.compile(r"\bread -r((?: \w+)+)")
_NOT_SHELL = re.compile(r"'[^']*'|^\s*#.*$|\s#\s.*$|\bawk -v \w+=|-[a-z-]+=", re.MULTILINE)


def assigned(text: str) -> set[str]:
    """Names that a shell program sets: variables, loops', read's, functions'."""
    shell = _NOT_SHELL.sub(" ", text)
    names = {name for match in _ASSIGNED.finditer(shell) for name in match.groups() if name}
    read = [word for match in _READ.finditer(shell) for word in match[1].split()]
    return names | {*read}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a=1 b=$(c=2; d)", {"a", "b", "c"}),
        ("x() { y=1; }\nfor z in 1 2; do :; done", {"x", "y", "z"}),
        ("while IFS='=' read -r k v; do :; done", {"IFS", "k", "v"}),
        ("export RANK=\"$x\" W=1\n# not=this\ntrap 'e=1; f 1' TERM", {"RANK", "W"}),
        ('echo "${p:=2} $(q=3)"; srun --nodes=1; awk -v n="1"', {"p", "q"}),
        ("set -- a; [ x = y ]; r+=1", {"r"}),
    ],
)
def test_what_is_assigned_is_seen(text: str, names: set[str]) -> None:
    assert assigned(text) == names


def programs() -> list[str]:
    """Those whose shell, or whose child, is the user's program: by their first lines."""
    about = re.compile(r"\bbatch script\b|each rank|\bjob scripts\b")
    files = {*(FOLDER / "jobs/batch").glob("*.sh")}
    for file in FOLDER.rglob("*.sh"):
        labels = file.read_text().partition("Installed as:")[2].partition("Runs as:")[0]
        if about.search(labels):
            files.add(file)
    return sorted(str(file.relative_to(FOLDER)) for file in files)


@pytest.mark.parametrize("name", programs())
def test_each_name_is_corrals_or_an_output(name: str) -> None:
    names = assigned((FOLDER / name).read_text())
    others = {n for n in names - OUTPUTS - FOR_ONE_COMMAND if not n.startswith(SHELL_PREFIX)}
    assert not others, f"{name}: begin them with {SHELL_PREFIX} (CONTRIBUTING.md)"


def test_all_programs_of_jobs_are_looked_at() -> None:
    other = {name for name in programs() if not name.startswith("jobs/batch/")}
    nsys = {f"jobs/nsys-{part}.sh" for part in ("path", "rank", "stats")}
    assert other == {"jobs/fabric.sh", "node-address.sh", *nsys}


@pytest.mark.parametrize("name", JOBS)
def test_and_of_the_scripts_that_are_made_of_them(name: str) -> None:
    job, _ = JOBS[name]
    names = assigned(rendered(name)) - OUTPUTS - FOR_ONE_COMMAND - job.env.keys()
    assert {n for n in names if not n.startswith((SHELL_PREFIX, "NCCL_", "GLOO_"))} == set()


# Names that no job can be given.


@pytest.mark.parametrize("name", ["corral_folder", "IFS", "PWD", "RANK", "SLURM_JOB_ID"])
def test_names_that_would_not_arrive_are_refused(name: str) -> None:
    with pytest.raises(ValidationError, match=f"{name}: .*; leave (it|them) out"):
        JobSpec(script="a", env={name: "mine"})


@pytest.mark.parametrize("shell", SHELLS)
def test_shells_set_those_themselves(shell: str) -> None:
    for name in sorted(OF_THE_SHELL):
        text = f"export {name}=mine; cd /; exec {shell} -c 'exec env'"
        env = subprocess.run([shell, "-c", text], capture_output=True, text=True).stdout
        assert f"{name}=mine" not in env.splitlines()
