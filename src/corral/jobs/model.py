"""What a user asks for (JobSpec) and what stands for it afterwards (JobHandle). Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, ValidationError

from corral.errors import Code, CorralError
from corral.slurm import duration
from corral.spec.kinds import AbsolutePath, GpuType, Model, Name, UserName

# What Corral takes from Slurm in each rank; a value of the user's own would split the job.
RENDEZVOUS: Final = frozenset(
    {"MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE"}
    | {"LOCAL_WORLD_SIZE", "CORRAL_JOB_FOLDER"}
)
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def _no_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("a NUL byte cannot stand in an argument, a path or an environment")
    return text


def _env(pairs: dict[str, str]) -> dict[str, str]:
    taken = sorted(k for k in pairs if k in RENDEZVOUS or k.startswith("SLURM_"))
    if taken:
        raise ValueError(
            f"{', '.join(taken)}: Corral and Slurm set these in each rank; leave them out"
        )
    return pairs


Text = Annotated[str, Field(max_length=65536), AfterValidator(_no_nul)]
EnvName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,254}$")]
JobName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+=:@-]{0,63}$")]
Memory = Annotated[str, Field(pattern=r"^[1-9]\d{0,8}[MGT]$")]
JobTime = Annotated[
    str, Field(pattern=r"^([1-9]\d{0,5}[smhd]|(\d{1,3}-)?\d{1,4}:[0-5]\d:[0-5]\d|\d{1,3}-\d{1,2})$")
]


class JobSpec(Model):
    """One job: a script, and what of the cluster it runs on.

    One rank runs per GPU, or one per node where no GPU is asked for.
    """

    script: Annotated[Text, Field(min_length=1)] = Field(
        description="The program: a file of this machine, or one on the cluster's shared storage."
    )
    args: tuple[Text, ...] = Field(default=(), description="Its arguments.")
    name: JobName | None = Field(default=None, description="Left out: the script's name.")
    nodes: int = Field(default=1, ge=1, le=100_000, description="Nodes.")
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
    partition: Name | None = Field(default=None, description="Left out: the default one.")
    env: Annotated[dict[EnvName, Text], AfterValidator(_env)] = Field(
        default={}, description="Environment of each rank; these values win over Corral's."
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
        description="Start again when a node fails; the script must resume by itself.",
    )

    @property
    def title(self) -> str:
        """The job's name in Slurm: the one given, or one made from the script's."""
        stem = re.sub(r"[^A-Za-z0-9_.-]+", "_", PurePosixPath(self.script).stem)[:64]
        return self.name or stem.lstrip(".-") or "job"

    @property
    def ranks_on_node(self) -> int:
        """Ranks on each node."""
        return self.ranks_per_node or max(1, self.gpus_per_node)

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

    Slurm reads one as minutes, the cluster file as hours: so a job has to say which.
    """
    if time[-1:] in _UNITS and time[:-1].isdecimal():
        return int(time[:-1]) * _UNITS[time[-1]]
    return duration.seconds(time) or 0


def parse_job(fields: Mapping[str, Any]) -> JobSpec:
    """A JobSpec from loose fields, as a command line or a job file gives them.

    Raises:
        CorralError: USAGE, with every fault in one message.
    """
    try:
        return JobSpec.model_validate(dict(fields))
    except ValidationError as error:
        faults = [
            f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}"
            for fault in error.errors(include_url=False)
        ]
        raise CorralError(
            Code.USAGE,
            "the job cannot be run as asked: " + "; ".join(faults),
            hint="; ".join(
                f"{name}: {field.description}"
                for name, field in JobSpec.model_fields.items()
                if any(fault.startswith(name) for fault in faults)
            ),
        ) from error


@dataclass(frozen=True, slots=True)
class JobHandle:
    """A submitted job.

    Attributes:
        id: Slurm's number for it.
        name: its name.
        user: who it runs as.
        folder: its own folder on shared storage: script, batch script, logs; "" for a job that
            Corral did not submit.
        logs: number of rank logs.
        controller: the node that is asked about it.
    """

    id: int
    name: str
    user: str
    folder: str
    logs: int
    controller: str

    def as_dict(self) -> dict[str, str | int]:
        """JSON-ready fields."""
        return asdict(self)
