"""The options of ``corral run``: one per field of ``JobSpec``."""

from __future__ import annotations

import re
from typing import Annotated

import typer


def job_ref(text: str) -> str:
    """A job's number as it is, ``12`` or ``12_3``.

    Raises:
        typer.BadParameter: it is none.
    """
    if not re.fullmatch(r"[0-9]{1,10}(_[0-9]{1,7})?", text):
        raise typer.BadParameter(
            f"{text!r} is not a job number: 12, or 12_3 for part 3 of an array"
        )
    return text


SCRIPT = Annotated[
    str | None,
    typer.Argument(
        metavar="SCRIPT|JOB.YAML",
        help="A file of this machine, or one on the cluster's shared storage; or a job file.",
        show_default=False,
    ),
]
ARGS = Annotated[
    list[str] | None,
    typer.Argument(metavar="ARGS", help="Its arguments, after --.", show_default=False),
]
NODES = Annotated[
    int | None, typer.Option("--nodes", "-N", metavar="N", help="Nodes; left out: 1.")
]
GPUS_PER_NODE = Annotated[
    int | None,
    typer.Option(
        "--gpus-per-node",
        "-G",
        metavar="G",
        help="GPUs on each node; left out: 0, and 1 for the points of a sweep.",
    ),
]
GPU_TYPE = Annotated[
    str,
    typer.Option("--gpu-type", metavar="TYPE", help="Left out: any type.", show_default=False),
]
RANKS_PER_NODE = Annotated[
    int | None,
    typer.Option("--ranks-per-node", metavar="R", help="Left out: one per GPU, else one."),
]
CPUS_PER_RANK = Annotated[
    int | None,
    typer.Option(
        "--cpus-per-rank", metavar="C", help="Left out: a GPU's fair share of its node, else 1."
    ),
]
MEM = Annotated[
    str,
    typer.Option("--mem", metavar="SIZE", help="Memory on each node: 16G.", show_default=False),
]
TIME = Annotated[
    str,
    typer.Option(
        "--time", "-t", metavar="TIME", help="Time limit: 30m, 12h, 2d.", show_default=False
    ),
]
PARTITION = Annotated[
    str,
    typer.Option(
        "--partition", "-p", metavar="NAME", help="Left out: the default.", show_default=False
    ),
]
NAME = Annotated[
    str,
    typer.Option("--name", metavar="NAME", help="Left out: the script's.", show_default=False),
]
ENV = Annotated[
    list[str] | None,
    typer.Option(
        "--env",
        "-e",
        metavar="KEY[=VALUE]",
        help="Environment of each rank; KEY alone takes its value from here.",
    ),
]
LAUNCHER = Annotated[
    str,
    typer.Option(
        "--launcher",
        metavar="WORD",
        help="Who starts the ranks: auto, srun, torchrun.",
        show_default=False,
    ),
]
WORKDIR = Annotated[
    str,
    typer.Option(
        "--workdir",
        metavar="DIR",
        help="A folder of the cluster; left out: this one, as it was uploaded.",
        show_default=False,
    ),
]
USER = Annotated[
    str,
    typer.Option(
        "--user", metavar="NAME", help="Left out: the cluster's first.", show_default=False
    ),
]
REQUEUE = Annotated[
    bool,
    typer.Option(
        "--requeue",
        help="Start it again when a node fails or its time limit comes; it resumes from its last "
        "checkpoint.",
    ),
]
GRACE = Annotated[
    str,
    typer.Option(
        "--grace",
        metavar="TIME",
        help="With --requeue: how long before the limit ranks are signalled to save; left out: 2m.",
        show_default=False,
    ),
]
CHECKPOINTS = Annotated[
    str,
    typer.Option(
        "--checkpoints",
        metavar="DIR",
        help="Where they are on the cluster; left out: a folder for this job.",
        show_default=False,
    ),
]
DATA = Annotated[
    list[str] | None,
    typer.Option(
        "--data", metavar="PATH", help="Must be readable on the cluster, or nothing is submitted."
    ),
]
ARRAY = Annotated[
    str,
    typer.Option(
        "--array",
        metavar="NUMBERS",
        help="The same job for each number: 0-9, 1,5,7, 0-8:2.",
        show_default=False,
    ),
]
SWEEP = Annotated[
    list[str] | None,
    typer.Option(
        "--sweep",
        metavar="NAME=V,V",
        help="One job per point of all sweeps together; {NAME} in an argument takes the value, "
        "else --NAME=VALUE is added. seed=0..9 counts.",
    ),
]
AT_ONCE = Annotated[
    int | None,
    typer.Option("--at-once", metavar="N", help="Parts of an array that run at once at most."),
]
FOLDER = Annotated[
    str,
    typer.Option(
        "--folder",
        metavar="DIR|none",
        help="What is uploaded; left out: the project that contains the script.",
        show_default=False,
    ),
]
IN_PLACE = Annotated[
    bool,
    typer.Option("--in-place", help="Upload nothing: run the script where it is, on the cluster."),
]
ENVIRONMENT = Annotated[
    str,
    typer.Option(
        "--environment",
        metavar="LOCK|none",
        help="uv.lock or pinned requirements.txt; left out: the one that is uploaded.",
        show_default=False,
    ),
]
CONTAINER = Annotated[
    str,
    typer.Option(
        "--container",
        metavar="IMAGE",
        help="Run the ranks in this image, by Pyxis: a .sqsh file on shared storage, or "
        "[REGISTRY/]NAME[:TAG].",
        show_default=False,
    ),
]
MOUNT = Annotated[
    list[str] | None,
    typer.Option(
        "--mount",
        metavar="SRC:DST[:ro]",
        help="More of the nodes in the container; shared storage is in its place anyway.",
    ),
]
SBATCH = Annotated[
    list[str] | None,
    typer.Option(
        "--sbatch",
        metavar="OPTION",
        help="One more option for sbatch: --sbatch=--account=lab.",
    ),
]
EXPLAIN = Annotated[
    bool,
    typer.Option(
        "--explain",
        help="Show what each rank would find in its environment, and why; submit nothing.",
    ),
]
INTERACTIVE = Annotated[
    bool,
    typer.Option("--interactive", "-i", help="A shell with what is asked for, in place of a job."),
]
PROFILE = Annotated[
    str,
    typer.Option(
        "--profile",
        metavar="TOOL",
        help="Record each rank: torch (a few steps), nsys (the entire run).",
        show_default=False,
    ),
]
DETACH = Annotated[bool, typer.Option("--detach", "-d", help="Submit it and return at once.")]
DRY_RUN = Annotated[bool, typer.Option("--dry-run", help="Print the batch script; submit nothing.")]
