"""What a user asks for (JobSpec) and what stands for it afterwards (JobHandle). Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, ValidationError, model_validator

from corral import durations
from corral.errors import Code, CorralError
from corral.jobs import requests
from corral.jobs.batch.image_names import image_of, mount_of
from corral.jobs.directives import carried
from corral.jobs.profile.profiler import Profiler
from corral.jobs.sweep import ArrayIndices, Sweep, indices, points
from corral.spec.values import (
    AbsolutePath,
    GpuType,
    Model,
    PartitionName,
    UserName,
)

# What Corral takes from Slurm in each rank; a value of the user's own would split the job.
RENDEZVOUS: Final = frozenset(
    {"MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE"}
    | {"LOCAL_WORLD_SIZE", "CORRAL_JOB_FOLDER", "CORRAL_CHECKPOINTS", "CORRAL_PYTHON"}
)

SHELL_PREFIX: Final = "corral_"
"""How each name of a job's own shell text begins: a user's variable so called would replace one."""

OF_THE_SHELL: Final = frozenset({"IFS", "OLDPWD", "OPTIND", "PPID", "PWD"})
"""A shell sets these itself (dash 0.5.12, bash 5.2): what is exported so reaches no rank."""


def _no_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("a NUL byte cannot appear in an argument, a path or an environment")
    return text


def _env(pairs: dict[str, str]) -> dict[str, str]:
    own = sorted(k for k in pairs if k in RENDEZVOUS or k.startswith(("SLURM_", SHELL_PREFIX)))
    if own:
        raise ValueError(
            f"{', '.join(own)}: Corral and Slurm set these in each rank; leave them out"
        )
    lost = sorted(OF_THE_SHELL & pairs.keys())
    if lost:
        raise ValueError(
            f"{', '.join(lost)}: each shell begins with its own value, no rank would get yours; "
            "leave it out, and set it in the script"
        )
    return pairs


Text = Annotated[str, Field(max_length=65536), AfterValidator(_no_nul)]
Image = Annotated[str, Field(max_length=1024), AfterValidator(image_of)]
Mount = Annotated[str, Field(max_length=4096), AfterValidator(mount_of)]
EnvName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,254}$")]
JobName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+=:@-]{0,63}$")]
SbatchOption = Annotated[str, Field(max_length=1100), AfterValidator(carried)]
Memory = Annotated[str, Field(pattern=r"^[1-9]\d{0,8}[MGT]$")]
JobTime = Annotated[
    str, Field(pattern=r"^([1-9]\d{0,5}[smhd]|(\d{1,3}-)?\d{1,4}:[0-5]\d:[0-5]\d|\d{1,3}-\d{1,2})$")
]


class JobSpec(Model):
    """One job: a script or a command, and what of the cluster it runs on.

    One rank runs per GPU, or one per node where no GPU is asked for.
    """

    script: Text = Field(
        default="",
        description="The program: a file of this machine, whose #SBATCH lines count, or one on the "
        "cluster's shared storage, whose do not.",
    )
    command: tuple[Text, ...] = Field(
        default=(),
        description="In place of a script: a program of the nodes and its arguments. Each rank "
        "runs it; no shell reads the words; no project is uploaded unless folder names one.",
    )
    args: tuple[Text, ...] = Field(default=(), description="The script's arguments.")
    name: JobName | None = Field(
        default=None, description="Left out: the name of the script or the command."
    )
    nodes: int = Field(default=1, ge=1, le=100_000, description="How many nodes: 1 or more.")
    gpus_per_node: int = Field(default=0, ge=0, le=64, description="GPUs on each node.")
    gpu_type: GpuType | None = Field(default=None, description="Type of GPU; left out: any.")
    ranks_per_node: int | None = Field(
        default=None, ge=1, le=1024, description="Left out: one per GPU, else one."
    )
    cpus_per_rank: int | None = Field(
        default=None, ge=1, le=4096, description="Left out: a GPU's fair share of its node, else 1."
    )
    mem: Memory | None = Field(default=None, description="Memory on each node, such as 16G.")
    time: JobTime | None = Field(
        default=None, description="Time limit: 90s, 30m, 12h, 2d or [days-]hours:minutes:seconds."
    )
    partition: PartitionName | None = Field(default=None, description="Left out: the default one.")
    account: requests.AccountName | None = Field(
        default=None, description="Slurm account that is charged; left out: the user's default one."
    )
    qos: requests.QosNames | None = Field(
        default=None,
        description="Quality of service, or several with commas; left out: the user's default one.",
    )
    nodelist: requests.Hosts | None = Field(
        default=None,
        description="Nodes that the job must have, as Slurm writes them: node[0-2]; others are "
        "added up to nodes.",
    )
    exclude: requests.Hosts | None = Field(
        default=None, description="Nodes that the job must not have: node[3,5]."
    )
    constraint: requests.Constraint | None = Field(
        default=None, description="Features its nodes must have: a100, a100&nvlink, [rack1|rack2]."
    )
    after: tuple[requests.After, ...] = Field(
        default=(),
        description="Begin after these jobs: 12 or 12:ok when it completed, 12:any however it "
        "ended. A job whose turn can never come is cancelled.",
    )
    begin: requests.Begin | None = Field(
        default=None,
        description="Not before: 18:00, tomorrow, now+2hours, 2027-01-31T08:00; the controller's "
        "clock.",
    )
    mail: requests.Mail | None = Field(
        default=None,
        description="Who gets mail from Slurm, and about what: ada@example.org (end and failure), "
        "ada@example.org:begin,end,time_limit_80.",
    )
    licenses: requests.Licenses | None = Field(
        default=None, description="Licences it holds while it runs: matlab, matlab:2,ansys@db:4."
    )
    exclusive: bool = Field(
        default=False,
        description="Share its nodes with no other job; without mem it gets all of their memory.",
    )
    env: Annotated[dict[EnvName, Text], AfterValidator(_env)] = Field(
        default={},
        description="Environment of each rank, such as LR: 0.1 (--env LR=0.1); these values "
        "win over Corral's.",
    )
    launcher: Literal["auto", "srun", "torchrun"] = Field(
        default="auto",
        description="Who starts the ranks: Slurm, or one torchrun per node. auto takes Slurm.",
    )
    workdir: AbsolutePath | None = Field(
        default=None, description="Folder to run in, seen by all nodes; left out: the job's own."
    )
    user: UserName | None = Field(default=None, description="Left out: the cluster's first user.")
    requeue: bool = Field(
        default=False,
        description="Start again when a node fails, and before the time limit ends it; the script "
        "goes on from its last checkpoint.",
    )
    grace: JobTime = Field(
        default="2m",
        description="With requeue: how long before the time limit ranks get SIGUSR1, to save and "
        "leave.",
    )
    checkpoints: AbsolutePath | None = Field(
        default=None,
        description="CORRAL_CHECKPOINTS, a folder all nodes see; left out: one of the job's own.",
    )
    data: tuple[AbsolutePath, ...] = Field(
        default=(), description="What must be there and readable before the job is submitted."
    )
    array: ArrayIndices | None = Field(
        default=None,
        description="The same job once for each number, as SLURM_ARRAY_TASK_ID: 0-9, 1,5,7, 0-8:2.",
    )
    sweep: Sweep = Field(
        default={},
        description="One job per point, all as one array: lr=1e-3,3e-4. An argument {lr} takes the "
        "value, else --lr=VALUE is added.",
    )
    at_once: int | None = Field(
        default=None, ge=1, le=100_000, description="Parts of an array that run at once at most."
    )
    folder: Text | None = Field(
        default=None,
        description="Folder of this machine that is uploaded, or none: only the script. Left out: "
        "the project the script is in; for a command: none.",
    )
    in_place: bool = Field(
        default=False,
        description="Send nothing: run where the script is on shared storage, in its folder.",
    )
    environment: Text | None = Field(
        default=None,
        description="uv.lock or requirements.txt with pins, or none; left out: the one in the "
        "folder that is uploaded.",
    )
    python: AbsolutePath | None = Field(
        default=None,
        description="A Python that the nodes have, in place of one made from a lock: the folder of "
        "an environment (venv, uv, conda) or an interpreter.",
    )
    container: Image | None = Field(
        default=None,
        description="Image the ranks run in, by Pyxis: a .sqsh file on shared storage, or "
        "[REGISTRY/]NAME[:TAG].",
    )
    mounts: tuple[Mount, ...] = Field(
        default=(),
        description="More of the nodes in the container: SRC:DST or SRC:DST:ro. Shared storage is "
        "in its place anyway.",
    )
    sbatch: tuple[SbatchOption, ...] = Field(
        default=(),
        description="More options for sbatch, such as --reservation=class "
        "(--sbatch=--reservation=class): what chooses nodes, times and accounts and has no field "
        "here.",
    )
    profile: Profiler = Field(
        default="none",
        description="Record each rank: torch (a few steps, by PyTorch's profiler; needs a Python "
        "script) or nsys (the entire run, by Nsight Systems).",
    )

    @model_validator(mode="after")
    def _script_or_command(self) -> JobSpec:
        if bool(self.script) == bool(self.command):
            raise ValueError("give a script or a command, one of the two")
        if self.command and (not self.command[0] or self.command[0].startswith("-")):
            raise ValueError("the first word of a command is a program; none begins with -")
        if self.command and (self.args or self.in_place):
            raise ValueError("args and in_place are for a script; a command has its own words")
        return self

    @model_validator(mode="after")
    def _no_option_twice(self) -> JobSpec:
        for option, field in requests.FIELDS.items():
            again = requests.option_in(self.sbatch, f"--{option}")
            if again is not None and getattr(self, field):
                raise ValueError(f"{field} is given, and {again} in sbatch too: leave out one")
        if self.shares_gpu and self.gpus_per_node:
            raise ValueError("a job has GPUs or a part of one: gpus_per_node 0 with --gres=shard")
        return self

    @model_validator(mode="after")
    def _one_kind_of_array(self) -> JobSpec:
        if self.array is not None and self.sweep:
            raise ValueError("array and sweep exclude each other: give one")
        if self.at_once is not None and not self.tasks:
            raise ValueError("at_once needs an array or a sweep")
        return self

    @model_validator(mode="after")
    def _container_or_environment(self) -> JobSpec:
        if self.mounts and self.container is None:
            raise ValueError("mounts are for a container: name its image, or leave them out")
        locked = self.environment not in (None, "none")
        if self.container and locked:
            raise ValueError(
                "an image brings its own Python: give a container or an environment, not both"
            )
        if self.python and (self.container or locked):
            other = "a container" if self.container else "an environment"
            raise ValueError(f"a job has one Python: give python or {other}, not both")
        return self

    @model_validator(mode="after")
    def _torch_profiles_python(self) -> JobSpec:
        if self.profile == "torch" and not self.script.endswith(".py"):
            raise ValueError("profile torch records Python scripts (.py); nsys records any program")
        return self

    @property
    def points(self) -> tuple[Mapping[str, str], ...]:
        """The points of the sweep, in the order of their numbers."""
        return points(self.sweep)

    @property
    def tasks(self) -> Sequence[int]:
        """Numbers of the array's parts; empty for a job that is none."""
        if self.sweep:
            return range(len(self.points))
        return () if self.array is None else indices(self.array)

    @property
    def title(self) -> str:
        """The job's name in Slurm: the one given, or one made from the script's or command's."""
        program = self.script or self.command[0]
        stem = re.sub(r"[^A-Za-z0-9_.-]+", "_", PurePosixPath(program).stem)[:64]
        return self.name or stem.lstrip(".-") or "job"

    @property
    def ranks_on_node(self) -> int:
        return self.ranks_per_node or max(1, self.gpus_per_node)

    @property
    def shares_gpu(self) -> bool:
        """True when it asks for a part of a GPU that other jobs have parts of."""
        return requests.option_in(self.sbatch, "--gres") is not None

    @property
    def torchrun(self) -> bool:
        """True when one torchrun per node starts the ranks."""
        return self.launcher == "torchrun"

    @property
    def logs(self) -> int:
        """How many rank logs there will be: one per rank, or one per node under torchrun."""
        return self.nodes * (1 if self.torchrun else self.ranks_on_node)

    @property
    def seconds(self) -> int | None:
        """The time limit in seconds; None when there is none."""
        return None if self.time is None else seconds_of(self.time)


def seconds_of(time: str) -> int:
    """Seconds of a JobTime: ``90s``, ``2h``, ``1-12:00:00``; a bare number has no meaning here.

    Slurm reads one as minutes, the cluster file as hours: so a job has to give the unit.
    """
    if time[-1:] in durations.UNITS and time[:-1].isdecimal():
        return durations.interval_seconds(time)
    return durations.seconds(time) or 0


def readable(message: str) -> str:
    """Give pydantic's message without its own words for what kind of check it was."""
    return message.removeprefix("Value error, ")


def _fault(fault: Mapping[str, Any]) -> str:
    """What is wrong with one field; its description has what it takes."""
    bounds = {"greater_than_equal": ("ge", "at least"), "less_than_equal": ("le", "at most")}
    if fault["type"] == "string_pattern_mismatch":
        return f"{fault['input']!r} is not of the form it must have"
    if fault["type"] in bounds:
        key, words = bounds[fault["type"]]
        return f"it is {fault['input']} and must be {words} {fault['ctx'][key]}"
    return readable(fault["msg"])


def parse_job(fields: Mapping[str, Any]) -> JobSpec:
    """A JobSpec from loose fields, as a command line or a job file gives them.

    Raises:
        CorralError: USAGE, with every fault in one message.
    """
    try:
        return JobSpec.model_validate(dict(fields))
    except ValidationError as error:
        errors = error.errors(include_url=False)
        faults = [
            f"{'.'.join(str(part) for part in fault['loc'])}: {_fault(fault)}".lstrip(": ")
            for fault in errors
        ]
        raise CorralError(
            Code.USAGE,
            "the job cannot be run as asked: " + "; ".join(faults),
            hint="; ".join(
                f"{name}: {field.description}"
                for name, field in JobSpec.model_fields.items()
                if any(fault.startswith(name) for fault in faults)
            ),
            fields={str(fault["loc"][0]): _fault(fault) for fault in errors if fault["loc"]},
        ) from error
