"""``corral notebook``: JupyterLab as a job."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from corral import api
from corral.api.workload.batch import JobOutcome
from corral.cli.cluster_choice import cluster
from corral.cli.options import BROWSER, CLUSTER, JSON, examples, verb_app
from corral.cli.page.ui_page import open_secretly
from corral.cli.terminal.ui import InterruptedByUserError, Ui
from corral.cli.workload import run as job
from corral.cli.workload.follow import left_running
from corral.cli.workload.session_options import given_fields, with_session_options
from corral.errors import Code, CorralError, Exit
from corral.events import Emit
from corral.spec.models import ClusterSpec


def _optional_ref(text: str) -> str:
    return job.job_ref(text) if text else ""


NUMBER = Annotated[
    str,
    typer.Argument(
        metavar="JOB",
        help="A notebook that was started before. Default: none; a new one is started.",
        callback=_optional_ref,
        show_default=False,
    ),
]
GPUS = Annotated[
    int | None,
    typer.Option(
        "--gpus-per-node", "-G", metavar="G", help="Number of GPUs. Default: 0.", show_default=False
    ),
]
CPUS = Annotated[
    int | None,
    typer.Option(
        "--cpus",
        metavar="C",
        help="Number of CPUs. Default: the GPUs' fair share of the node, else 1.",
        show_default=False,
    ),
]
NAME = Annotated[
    str,
    typer.Option(
        "--name",
        metavar="NAME",
        help="Name of the notebook's job. Default: notebook.",
        show_default=False,
    ),
]
WORKDIR = Annotated[
    str,
    typer.Option(
        "--workdir",
        metavar="DIR",
        help="Folder of the cluster that JupyterLab shows. Default: the home folder.",
        show_default=False,
    ),
]
PYTHON = Annotated[
    str,
    typer.Option(
        "--python",
        metavar="PATH",
        help="Python on the nodes that has JupyterLab. Default: the job's python3.",
        show_default=False,
    ),
]
ENVIRONMENT = Annotated[
    str,
    typer.Option(
        "--environment",
        metavar="LOCK",
        help="uv.lock or pinned requirements.txt that lists jupyterlab. Default: none, the nodes' "
        "own Python.",
        show_default=False,
    ),
]
DETACH = Annotated[
    bool,
    typer.Option("--detach", "-d", help="Submit it and return at once; its number opens it later."),
]
LOCAL_PORT = Annotated[
    int,
    typer.Option("--port", min=0, max=65535, help="Port of this machine; 0 takes a free one."),
]

app = verb_app()


@app.command(
    epilog=examples(
        "corral notebook -G 1 --time 4h",
        "corral notebook --environment requirements.txt --workdir /shared/alice",
        "corral notebook --python /shared/alice/venv/bin/python -d",
        "corral notebook 12",
    )
)
@with_session_options(before="name")
def notebook(
    number: NUMBER = "",
    *,
    gpus_per_node: GPUS = None,
    cpus_per_rank: CPUS = None,
    name: NAME = "",
    workdir: WORKDIR = "",
    python: PYTHON = "",
    environment: ENVIRONMENT = "",
    detach: DETACH = False,
    local_port: LOCAL_PORT = 0,
    browser: BROWSER = False,
    named: CLUSTER = "",
    as_json: JSON = False,
    **given: Any,
) -> int:
    """Run JupyterLab as a job.

    Prints its address on this machine, with a token that opens it, and keeps an ssh tunnel until
    the job ends. Ctrl-C leaves the job running, or cancels it, as you choose; with the job's number
    the same command opens it again, also from another machine. JupyterLab listens on the node's
    loopback.
    """
    fields = given_fields(
        given,
        gpus_per_node=gpus_per_node,
        cpus_per_rank=cpus_per_rank,
        name=name,
        workdir=workdir,
        environment=environment,
    )
    ui = Ui(as_json=as_json)
    spec = cluster(ui, named, administers=False, by_ssh="notebook")
    if number:
        _only_opens(fields, number, python=python, detach=detach)
    else:
        number = _submitted(ui, spec, fields, python)
        if detach:
            ui.show(f"job {number}: submitted", f"next: corral notebook {number}")
            return Exit.GOOD
        ui.note(f"job {number}: submitted; Ctrl-C leaves it running")
    return _open(ui, spec, number, given["user"], local_port, browser=browser)


def _open(
    ui: Ui, spec: ClusterSpec, number: str, user: str, local_port: int, *, browser: bool
) -> int:
    """Hold a tunnel to JupyterLab until its job ends; returns the exit status."""

    async def holding(emit: Emit) -> JobOutcome:
        opened = api.open_notebook(spec, number, emit, user=user, local_port=local_port)
        async with opened as (page, ended):
            ui.json({"event": "opened", **page.as_dict()})
            ui.show(page.url, f"JupyterLab on {page.tunnel.node}, job {number}.")
            if browser:
                open_secretly(page.url)
            return await ended()

    try:
        outcome = ui.run(holding, lines_only=True)
    except InterruptedByUserError as error:
        again = f"corral notebook {number}"
        raise left_running(ui, spec, number, again=again) from error
    ui.json({"event": "ended", **outcome.as_dict()})
    ui.note(f"job {number} ended: {outcome.state.lower()}")
    return Exit.GOOD if outcome.state.good or outcome.state.stopped else Exit.NOT_GOOD


def _only_opens(fields: dict[str, Any], number: str, *, python: str, detach: bool) -> None:
    """Refuse options of a new job for one that there is.

    Raises:
        CorralError: USAGE.
    """
    if set(fields) - {"user"} or python or detach:
        raise CorralError(
            Code.USAGE,
            f"job {number} has been submitted: options of a job cannot change it",
            hint=f"leave them out: corral notebook {number}; or leave out the number",
        )


def _submitted(ui: Ui, spec: ClusterSpec, fields: dict[str, Any], python: str) -> str:
    """The number of a new notebook's job."""
    spec_of_job = api.notebook_job(fields, python=python)
    handle = ui.run(lambda emit: api.submit(spec, spec_of_job, emit), lines_only=True)
    ui.json({"event": "submitted", **handle.as_dict()})
    return str(handle.id)
