"""``corral run``: a script as a job, followed to its end."""

from __future__ import annotations

import os
from typing import Any

from rich.text import Text

from corral import api
from corral.api.batch import JobHandle, JobSpec
from corral.cli.joboptions import (
    ARGS,
    CPUS_PER_RANK,
    DETACH,
    DRY_RUN,
    ENV,
    GPU_TYPE,
    GPUS_PER_NODE,
    LAUNCHER,
    MEM,
    NAME,
    NODES,
    PARTITION,
    RANKS_PER_NODE,
    REQUEUE,
    SCRIPT,
    TIME,
    USER,
    WORKDIR,
)
from corral.cli.jobview import Lines, end_line
from corral.cli.options import CLUSTER, JSON, examples, verb_app
from corral.cli.ui import InterruptedByUserError, Ui
from corral.cli.which import cluster
from corral.errors import Code, CorralError, Exit
from corral.spec.models import ClusterSpec

app = verb_app()


@app.command(
    epilog=examples(
        "corral run train.py --nodes 3 --gpus-per-node 1",
        "corral run train.py -N 2 -G 4 --time 2h --env LR=0.1 -- --epochs 10",
        "corral run sweep.sh --detach",
        "corral run train.py --nodes 3 --dry-run",
    )
)
def run(
    script: SCRIPT,
    args: ARGS = None,
    *,
    nodes: NODES = 1,
    gpus_per_node: GPUS_PER_NODE = 0,
    gpu_type: GPU_TYPE = "",
    ranks_per_node: RANKS_PER_NODE = None,
    cpus_per_rank: CPUS_PER_RANK = None,
    mem: MEM = "",
    time: TIME = "",
    partition: PARTITION = "",
    name: NAME = "",
    env: ENV = None,
    launcher: LAUNCHER = "auto",
    workdir: WORKDIR = "",
    user: USER = "",
    requeue: REQUEUE = False,
    detach: DETACH = False,
    dry_run: DRY_RUN = False,
    wanted: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Run a script as a job and follow it to its end.

    The script goes to the cluster's shared storage; one rank runs per GPU, or one per node where no
    GPU is asked for, with the rendezvous of torch.distributed in its environment. What ranks print
    comes as they print it. Ctrl-C leaves the job running, or cancels it when you say so. Exit
    status 1 when the job fails. --json prints one JSON value per line.
    """
    ui = Ui(as_json=as_json)
    spec = cluster(ui, wanted)
    fields: dict[str, Any] = {
        "script": script,
        "args": tuple(args or ()),
        "nodes": nodes,
        "gpus_per_node": gpus_per_node,
        "gpu_type": gpu_type or None,
        "ranks_per_node": ranks_per_node,
        "cpus_per_rank": cpus_per_rank,
        "mem": mem or None,
        "time": time or None,
        "partition": partition or None,
        "name": name or None,
        "env": environment(env or []),
        "launcher": launcher,
        "workdir": workdir or None,
        "user": user or None,
        "requeue": requeue,
    }
    job = api.job_spec(fields)
    if dry_run:
        text = api.job_script(spec, job)
        ui.json({"script": text})
        ui.show(Text(text.rstrip("\n")))
        return Exit.GOOD
    if detach:
        return _detached(ui, spec, job)
    return _Run(ui, spec, job).to_its_end()


def environment(pairs: list[str]) -> dict[str, str]:
    """``KEY=VALUE`` as it is, ``KEY`` with its value from here.

    Raises:
        CorralError: USAGE, no name, or a name that has no value here.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or (not equals and key not in os.environ):
            raise CorralError(
                Code.USAGE,
                f"--env {pair}: there is no such variable here",
                hint="write it as --env KEY=VALUE",
            )
        found[key] = value if equals else os.environ[key]
    return found


def _detached(ui: Ui, spec: ClusterSpec, job: JobSpec) -> int:
    handle = ui.quietly(lambda: api.submit(spec, job))
    ui.json({"event": "submitted", **handle.as_dict()})
    ui.show(f"job {handle.id}: submitted", f"next: corral logs {handle.id} --follow")
    return Exit.GOOD


class _Run:
    """One job, from its submission to its end or to Ctrl-C."""

    def __init__(self, ui: Ui, spec: ClusterSpec, job: JobSpec) -> None:
        self._ui = ui
        self._spec = spec
        self._job = job
        self._handle: JobHandle | None = None

    def to_its_end(self) -> int:
        """Follow it; gives the exit status."""
        ui, lines = self._ui, Lines(self._ui, several=self._job.logs > 1)
        try:
            outcome = ui.run(
                lambda emit: api.run(
                    self._spec, self._job, emit, on_line=lines, on_submit=self._submitted
                ),
                lines_only=True,
            )
        except InterruptedByUserError as error:
            raise self._interrupted() from error
        ui.json({"event": "ended", **outcome.as_dict()})
        if not ui.as_json:
            for line in end_line(outcome):
                ui.err.print(line, soft_wrap=True)
        return Exit.GOOD if outcome.good else Exit.NOT_GOOD

    def _submitted(self, handle: JobHandle) -> None:
        self._handle = handle
        self._ui.json({"event": "submitted", **handle.as_dict()})
        self._ui.note(f"job {handle.id}: submitted; Ctrl-C leaves it running")

    def _interrupted(self) -> InterruptedByUserError:
        handle = self._handle
        if handle is None:
            return InterruptedByUserError(
                "the job was not submitted, or only just", again="corral jobs"
            )
        if self._ui.interactive and self._ui.ask(f"Job {handle.id} goes on. Cancel it?"):
            self._ui.quietly(lambda: api.cancel(self._spec, (handle.id,)))
            return InterruptedByUserError(
                f"job {handle.id} is cancelled", again="corral jobs --all"
            )
        return InterruptedByUserError(
            f"job {handle.id} goes on; `corral cancel {handle.id}` ends it",
            again=f"corral logs {handle.id} --follow",
        )
