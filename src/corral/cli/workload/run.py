"""``corral run``: a script as a job, followed to its end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rich.text import Text

from corral import api
from corral.api.workload.batch import JobSpec
from corral.cli.options import CLUSTER, JSON, examples, verb_app
from corral.cli.terminal.ui import Ui
from corral.cli.which import cluster
from corral.cli.workload.joboptions import (
    ARGS,
    ARRAY,
    AT_ONCE,
    CHECKPOINTS,
    CONTAINER,
    CPUS_PER_RANK,
    DATA,
    DETACH,
    DRY_RUN,
    ENV,
    ENVIRONMENT,
    EXPLAIN,
    FOLDER,
    GPU_TYPE,
    GPUS_PER_NODE,
    GRACE,
    IN_PLACE,
    INTERACTIVE,
    LAUNCHER,
    MEM,
    MOUNT,
    NAME,
    NODES,
    PARTITION,
    PROFILE,
    RANKS_PER_NODE,
    REQUEUE,
    SBATCH,
    SCRIPT,
    SWEEP,
    TIME,
    USER,
    WORKDIR,
)
from corral.cli.workload.jobrun import Following
from corral.cli.workload.jobview import settings_view
from corral.errors import Code, CorralError, Exit
from corral.spec.models import ClusterSpec

app = verb_app()


@app.command(
    epilog=examples(
        "corral run train.py --nodes 3 --gpus-per-node 1",
        "corral run train.py -N 2 -G 4 --time 2h --requeue --env LR=0.1 -- --epochs 10",
        "corral run train.py --sweep lr=1e-3,3e-4 --sweep seed=0..4",
        "corral run job.yaml --nodes 2",
        "corral run train.py -N 2 -G 8 --container /shared/pytorch.sqsh --mount /raid:/raid",
        "corral run train.py --nodes 3 --explain",
        "corral run --interactive --gpus-per-node 1 --time 2h",
    )
)
def run(
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
    """Run a script as a job and follow it to its end.

    The folder it is in is uploaded to the cluster's shared storage, without what .corralignore or
    git ignores; what is there already is not sent again. One rank runs per GPU, or one per node
    where no GPU is asked for, with the rendezvous of torch.distributed in its environment. What
    ranks print comes as they print it. Ctrl-C leaves the job running, or cancels it, as you choose.
    Exit status 1 when the job fails. --json prints one JSON value per line.

    #SBATCH lines of the script count; options given here win, and a line that cannot be carried
    over is an error. A job file holds the same as the options, with _ for -; options of the
    command line win.
    """
    return _carried_out(dict(locals()))


def _carried_out(given: dict[str, Any]) -> int:
    """Do what the options ask for; those that are not in ``JobSpec`` control how."""
    script, named = given.pop("script"), given.pop("named")
    ui = Ui(as_json=given.pop("as_json"))
    asked = {name: given.pop(name) for name in ("detach", "dry_run", "explain", "interactive")}
    given["env"] = variables(given["env"] or [])
    given["sweep"] = api.parse_sweep(given["sweep"] or [])
    given["mounts"] = given.pop("mount")
    for several in ("args", "data", "mounts", "sbatch"):
        given[several] = tuple(given[several] or ())
    # 0 is a number somebody asked for; "", False and nothing at all are options left out.
    fields = {k: v for k, v in given.items() if v or str(v) == "0"}
    spec = cluster(ui, named)
    if asked["interactive"]:
        return _shell(ui, spec, script, fields)
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


def _with_script(script: str | None, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a job file with the options over them, or of the options alone."""
    if script is None:
        raise CorralError(
            Code.USAGE,
            "no script to run",
            hint="corral run train.py, or corral run job.yaml, or corral run --interactive",
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
                f"--env {pair}: there is no such variable here",
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


def _shell(ui: Ui, spec: ClusterSpec, script: str | None, fields: dict[str, Any]) -> int:
    if script is not None:
        raise CorralError(
            Code.USAGE,
            "a shell does not run a script",
            hint="leave out the script, or leave out --interactive",
        )
    argv = ui.quietly(lambda: api.shell_argv(spec, fields))
    if ui.as_json:
        ui.json({"argv": argv})
        return Exit.GOOD
    ui.note("asks Slurm for it; exit releases it")
    try:
        os.execvp(argv[0], argv)  # noqa: S606  # becomes ssh: no shell in between
    except FileNotFoundError as error:
        raise CorralError(
            Code.MISSING_TOOL, "ssh is not installed", hint="install openssh-client"
        ) from error
