"""``corral run``: a script as a job, with an option for each field of ``JobSpec``."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text

from corral import api
from corral.cli.cluster_choice import cluster
from corral.cli.options import (
    CLUSTER,
    IMAGE_HELP,
    INLINE,
    JSON,
    USER,
    CommandAfterDashes,
    examples,
    verb_app,
)
from corral.cli.terminal.ui import Ui
from corral.cli.workload.follow import Following
from corral.cli.workload.jobview import settings_view
from corral.errors import Code, CorralError, Exit
from corral.spec.models import ClusterSpec

if TYPE_CHECKING:
    from corral.api.workload.batch import JobSpec


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
        help="A file of this machine, or one on the cluster's shared storage; or a job file. "
        "Default: none; what follows -- is a command of the nodes.",
        show_default=False,
    ),
]
ARGS = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ARGS", help="Arguments of the script, after --; or a command.", show_default=False
    ),
]
NODES = Annotated[
    int | None,
    typer.Option(
        "--nodes", "-N", metavar="N", help="Number of nodes. Default: 1.", show_default=False
    ),
]
GPUS_PER_NODE = Annotated[
    int | None,
    typer.Option(
        "--gpus-per-node",
        "-G",
        metavar="G",
        help="GPUs on each node. Default: 0, and 1 for the points of a sweep.",
        show_default=False,
    ),
]
GPU_TYPE = Annotated[
    str,
    typer.Option("--gpu-type", metavar="TYPE", help="GPU type. Default: any.", show_default=False),
]
RANKS_PER_NODE = Annotated[
    int | None,
    typer.Option(
        "--ranks-per-node",
        metavar="R",
        help="Ranks on each node. Default: one per GPU, else one.",
        show_default=False,
    ),
]
CPUS_PER_RANK = Annotated[
    int | None,
    typer.Option(
        "--cpus-per-rank",
        metavar="C",
        help="CPUs of each rank. Default: a GPU's fair share of its node, else 1.",
        show_default=False,
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
        "--partition",
        "-p",
        metavar="NAME",
        help="Partition of the job. Default: the cluster's default one.",
        show_default=False,
    ),
]
ACCOUNT = Annotated[
    str,
    typer.Option(
        "--account",
        "-A",
        metavar="NAME",
        help="Account that is charged. Default: the user's default one.",
        show_default=False,
    ),
]
QOS = Annotated[
    str,
    typer.Option(
        "--qos",
        "-q",
        metavar="NAME",
        help="Quality of service. Default: the user's default one.",
        show_default=False,
    ),
]
NODELIST = Annotated[
    str,
    typer.Option(
        "--nodelist",
        "-w",
        metavar="NODES",
        help="Nodes it must have: node[0-2]; others are added up to --nodes.",
        show_default=False,
    ),
]
EXCLUDE = Annotated[
    str,
    typer.Option(
        "--exclude",
        "-x",
        metavar="NODES",
        help="Nodes it must not have: node[3,5].",
        show_default=False,
    ),
]
CONSTRAINT = Annotated[
    str,
    typer.Option(
        "--constraint",
        "-C",
        metavar="FEATURES",
        help="Features its nodes must have: a100, 'a100&nvlink', '[rack1|rack2]'.",
        show_default=False,
    ),
]
AFTER = Annotated[
    list[str] | None,
    typer.Option(
        "--after",
        metavar="JOB[:ok|any]",
        help="Begin when that job completed (ok, the default), or however it ended (any). A job "
        "whose turn can never come is cancelled.",
    ),
]
BEGIN = Annotated[
    str,
    typer.Option(
        "--begin",
        metavar="TIME",
        help="Earliest start: 18:00, tomorrow, now+2hours, 2027-01-31T08:00.",
        show_default=False,
    ),
]
MAIL = Annotated[
    str,
    typer.Option(
        "--mail",
        metavar="WHO[:EVENTS]",
        help="Mail from Slurm at the end and at a failure, or about EVENTS: begin,end,fail,"
        "requeue,time_limit_80, ...",
        show_default=False,
    ),
]
LICENSES = Annotated[
    str,
    typer.Option(
        "--licenses",
        "-L",
        metavar="NAME[:N]",
        help="Licences it holds while it runs, with commas: matlab:2,ansys.",
        show_default=False,
    ),
]
EXCLUSIVE = Annotated[
    bool,
    typer.Option(
        "--exclusive", help="Share its nodes with no other job; without --mem all their memory."
    ),
]
NAME = Annotated[
    str,
    typer.Option(
        "--name",
        metavar="NAME",
        help="Name of the job. Default: the script's or command's.",
        show_default=False,
    ),
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
        help="Program that starts the ranks: auto, srun, torchrun.",
        show_default=False,
    ),
]
WORKDIR = Annotated[
    str,
    typer.Option(
        "--workdir",
        metavar="DIR",
        help="Working directory, a folder of the cluster. Default: this folder, as it "
        "was uploaded.",
        show_default=False,
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
        help="With --requeue: how long before the limit ranks are signalled to save. Default: 2m.",
        show_default=False,
    ),
]
CHECKPOINTS = Annotated[
    str,
    typer.Option(
        "--checkpoints",
        metavar="DIR",
        help="Folder of the checkpoints on the cluster. Default: a folder for this job.",
        show_default=False,
    ),
]
DATA = Annotated[
    list[str] | None,
    typer.Option(
        "--data",
        metavar="PATH",
        help="File or folder that must be readable on the cluster, or nothing is submitted.",
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
        help="Folder to upload. Default: the project that contains the script, none for a command.",
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
        help="uv.lock or pinned requirements.txt. Default: the one that is uploaded.",
        show_default=False,
    ),
]
PYTHON = Annotated[
    str,
    typer.Option(
        "--python",
        metavar="PATH",
        help="Python on the nodes: the folder of a venv, uv or conda environment, or an "
        "interpreter. Default: an environment made from the lock, else the nodes' python3.",
        show_default=False,
    ),
]
CONTAINER = Annotated[
    str,
    typer.Option(
        "--container",
        metavar="IMAGE",
        help=IMAGE_HELP,
        show_default=False,
    ),
]
MOUNT = Annotated[
    list[str] | None,
    typer.Option(
        "--mount",
        metavar="SRC:DST[:ro]",
        help="Folder of the nodes to mount in the container; shared storage is mounted anyway.",
    ),
]
SBATCH = Annotated[
    list[str] | None,
    typer.Option(
        "--sbatch",
        metavar="OPTION",
        help="One more option for sbatch: --sbatch=--reservation=class.",
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
    typer.Option(
        "--interactive",
        "-i",
        help="A shell with what is asked for, or the command in this terminal, in place of a job.",
    ),
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


SHELL_NOTE: Final = "asks Slurm for it; exit releases it"
_OF_THE_JOB: Final = ("-N", "--nodes", "-G", "--gpus-per-node", "--partition", "--time")
_DEPENDENCY: Final = re.compile(r"(?P<kind>after(?:ok|any)?):(?P<job>[0-9]+)(?::[0-9]+)*")
"""What sbatch's -d takes; here -d takes no value, and the script would get it."""
_SEVERAL: Final = ("args", "command", "data", "after", "mounts", "sbatch")

HELP: Final = """\
Run a script or a command as a job and follow it to its end.

The folder it is in is uploaded to the cluster's shared storage, without what .corralignore or
git ignores; what is there already is not sent again. One rank runs per GPU, or one per node
where no GPU is asked for, with the rendezvous of torch.distributed in its environment. What
ranks print comes as they print it. Ctrl-C leaves the job running, or cancels it, as you choose.
Exit status 1 when the job fails. --json prints one JSON value per line.

Without a script the words after -- are a command of the nodes: each rank runs it, no shell
reads its words, nothing is uploaded (but --folder), and when it fails its exit status is
corral's.

#SBATCH lines of the script count; options given here win, and a line that cannot be carried
over is an error. A job file holds the same as the options, with _ for -; options of the
command line win.
"""

app = verb_app()


@app.command(
    cls=CommandAfterDashes,
    help=HELP,
    epilog=examples(
        "corral run train.py --nodes 3 --gpus-per-node 1",
        "corral run -N3 -- hostname",
        "corral run -G1 -- nvidia-smi -L",
        "corral run train.py -N 2 -G 4 --time 2h --requeue --env LR=0.1 -- --epochs 10",
        "corral run train.py --sweep lr=1e-3,3e-4 --sweep seed=0..4",
        "corral run job.yaml --nodes 2",
        "corral run train.py -N 2 -G 8 --container /shared/pytorch.sqsh --mount /raid:/raid",
        "corral run train.py --nodes 3 --explain",
        "corral run --interactive --gpus-per-node 1 --time 2h",
    ),
)
def run(
    ctx: typer.Context,
    script: SCRIPT = None,
    args: ARGS = None,
    *,
    nodes: NODES = None,
    gpus_per_node: GPUS_PER_NODE = None,
    gpu_type: GPU_TYPE = "",
    ranks_per_node: RANKS_PER_NODE = None,
    cpus_per_rank: CPUS_PER_RANK = None,
    mem: MEM = "",
    time: TIME = "",
    partition: PARTITION = "",
    account: ACCOUNT = "",
    qos: QOS = "",
    nodelist: NODELIST = "",
    exclude: EXCLUDE = "",
    constraint: CONSTRAINT = "",
    after: AFTER = None,
    begin: BEGIN = "",
    mail: MAIL = "",
    licenses: LICENSES = "",
    exclusive: EXCLUSIVE = False,
    name: NAME = "",
    env: ENV = None,
    launcher: LAUNCHER = "",
    workdir: WORKDIR = "",
    user: USER = "",
    requeue: REQUEUE = False,
    profile: PROFILE = "",
    grace: GRACE = "",
    checkpoints: CHECKPOINTS = "",
    data: DATA = None,
    array: ARRAY = "",
    sweep: SWEEP = None,
    at_once: AT_ONCE = None,
    folder: FOLDER = "",
    in_place: IN_PLACE = False,
    environment: ENVIRONMENT = "",
    python: PYTHON = "",
    container: CONTAINER = "",
    mount: MOUNT = None,
    sbatch: SBATCH = None,
    detach: DETACH = False,
    dry_run: DRY_RUN = False,
    explain: EXPLAIN = False,
    interactive: INTERACTIVE = False,
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Run a script or a command as a job and follow it to its end."""
    given = dict(locals())
    del given["ctx"]
    return _carried_out({**given, "command": ctx.meta.get(INLINE, ())})


def _carried_out(given: dict[str, Any]) -> int:
    """Do what the options ask for; those that are not in ``JobSpec`` control how."""
    script, named = given.pop("script"), given.pop("named")
    ui = Ui(as_json=given.pop("as_json"))
    asked = {name: given.pop(name) for name in ("detach", "dry_run", "explain", "interactive")}
    given["sweep"] = api.parse_sweep(given["sweep"] or [])
    fields = asked_fields(given)
    by_ssh = "shell" if asked["interactive"] else ""
    spec = cluster(ui, named, administers=False, by_ssh=by_ssh)
    if asked["interactive"]:
        if script is not None:
            raise CorralError(
                Code.USAGE,
                "a shell does not run a script",
                hint="leave out the script, or leave out --interactive",
            )
        return open_terminal(ui, lambda: api.shell_argv(spec, fields), SHELL_NOTE)
    _note_script(ui, fields)
    _note_options(ui, script or "", fields.get("args", ()))
    fields, notes = api.script_fields(_with_script(script, fields))
    for note in notes:
        ui.note(note)
    job = api.job_spec(fields)
    if asked["dry_run"]:
        text = api.job_script(spec, job)
        ui.json({"script": text})
        ui.show(Text(text.rstrip("\n")))
        return Exit.GOOD
    if asked["explain"]:
        return _explained(ui, spec, job)
    if asked["detach"]:
        return _detached(ui, spec, job)
    return Following(ui, spec, job).to_its_end()


def asked_fields(given: dict[str, Any]) -> dict[str, Any]:
    """Fields of ``JobSpec`` from options of their names, without those that were left out."""
    fields = {**given, "env": variables(given["env"] or []), "mounts": given["mount"]}
    del fields["mount"]
    fields = {k: tuple(v or ()) if k in _SEVERAL else v for k, v in fields.items()}
    # 0 is a number somebody asked for; "", False and nothing at all are options left out.
    return {k: v for k, v in fields.items() if v or str(v) == "0"}


def _note_script(ui: Ui, fields: dict[str, Any]) -> None:
    """A script of this machine behind the dashes would be looked for on the nodes."""
    word = next(iter(fields.get("command", ())), "")
    if word and not word.startswith("/") and "folder" not in fields and Path(word).is_file():
        ui.note(f"{word} is run as a command of the nodes; a script of this machine is before --")


def _note_options(ui: Ui, script: str, args: Sequence[str]) -> None:
    """An option of the job behind the dashes would silently be the script's."""
    for word, value in zip(args, [*args[1:], ""], strict=False):
        if word.partition("=")[0] in _OF_THE_JOB:
            option = word if "=" in word else f"{word} {value}".strip()
            ui.note(
                f"{word} is passed to {script}, since it is after --; "
                f"for the job: corral run {script} {option}"
            )
        elif after := _DEPENDENCY.fullmatch(word):
            how = "any" if after["kind"] == "afterany" else "ok"
            ui.note(
                f"{word} is passed to {script}; for the job: "
                f"corral run {script} --after {after['job']}:{how}"
            )


def _with_script(script: str | None, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a job file with the options over them, or of the options alone."""
    if script is None:
        if "command" in fields:
            return fields
        raise CorralError(
            Code.USAGE,
            "nothing to run: no script, and no command after --",
            hint="corral run train.py, corral run job.yaml or corral run -- hostname; a terminal: "
            "corral shell",
        )
    if not api.is_job_file(script):
        return {"script": script, **fields}
    written = api.job_fields(Path(script))
    both = {**written, **fields}
    if "env" in written and "env" in fields:
        both["env"] = {**written["env"], **fields["env"]}
    return both


def variables(pairs: list[str]) -> dict[str, str]:
    """``KEY=VALUE`` as it is, ``KEY`` with its value from here.

    Raises:
        CorralError: USAGE, no name, or a name that has no value here.
    """
    environment: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or (not equals and key not in os.environ):
            raise CorralError(
                Code.USAGE,
                f"--env {pair}: it has no value, and the variable is not set here",
                hint="write it as --env KEY=VALUE",
            )
        environment[key] = value if equals else os.environ[key]
    return environment


def _detached(ui: Ui, spec: ClusterSpec, job: JobSpec) -> int:
    handle = ui.quietly(lambda: api.submit(spec, job))
    ui.json({"event": "submitted", **handle.as_dict()})
    parts = f", {len(handle.array)} parts" if handle.array else ""
    ui.show(f"job {handle.id}: submitted{parts}", f"next: corral logs {handle.id} --follow")
    return Exit.GOOD


def _explained(ui: Ui, spec: ClusterSpec, job: JobSpec) -> int:
    settings = ui.quietly(lambda: api.explain_job(spec, job))
    ui.json({"environment": [setting.as_dict() for setting in settings]})
    ui.show(settings_view(settings))
    return Exit.GOOD


def open_terminal(ui: Ui, argv_of: Callable[[], Coroutine[Any, Any, list[str]]], note: str) -> int:
    """Become the ssh that has a shell or a command of the cluster in this terminal.

    Args:
        ui: where to.
        argv_of: its command line.
        note: what is shown before.

    Raises:
        CorralError: USAGE, this is not a terminal; MISSING_TOOL.
    """
    if not ui.as_json and not sys.stdin.isatty():
        raise CorralError(
            Code.USAGE,
            "this is not a terminal",
            hint="a command as a job needs none: corral run -G1 -- nvidia-smi; --json prints the "
            "ssh command",
        )
    argv = ui.quietly(argv_of)
    if ui.as_json:
        ui.json({"argv": argv})
        return Exit.GOOD
    ui.note(note)
    try:
        os.execvp(argv[0], argv)  # noqa: S606  # becomes ssh: no shell in between
    except FileNotFoundError as error:
        raise CorralError(
            Code.MISSING_TOOL, "ssh is not installed", hint="install openssh-client"
        ) from error
