"""``corral jobs``: the list of jobs."""

from __future__ import annotations

from typing import Annotated

import typer

from corral import api
from corral.api.workload.queue import ArrayOutcome
from corral.cli.cluster_choice import cluster
from corral.cli.options import CLUSTER, JOB_HELP, JSON, examples, verb_app
from corral.cli.terminal.ui import Ui
from corral.cli.workload.jobview import end_line, job_dict, jobs_view, parts_view
from corral.cli.workload.run import job_ref
from corral.errors import Exit
from corral.spec.models import ClusterSpec

app = verb_app()


@app.command(
    epilog=examples("corral jobs", "corral jobs 12", "corral jobs --all --json | jq .jobs[].state")
)
def jobs(
    job: Annotated[
        str | None,
        typer.Argument(metavar="JOB", help=JOB_HELP, show_default=False, parser=job_ref),
    ] = None,
    ended: Annotated[
        bool, typer.Option("--all", "-a", help="Also those of the last week that have ended.")
    ] = False,
    checks: Annotated[
        bool, typer.Option("--checks", help="Also Corral's own jobs, of the proof.")
    ] = False,
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """List jobs, newest first: pending and running ones, with --all also ended ones.

    Of one JOB: how it stands, and once it has ended what it used of the CPUs, memory and GPUs that
    it was given, as seff does.
    """
    ui = Ui(as_json=as_json)
    spec = cluster(ui, named, administers=False)
    if job is not None:
        return _show_job(ui, spec, job)
    listed = ui.quietly(
        lambda: api.jobs(spec, lambda event: ui.note(event.message), ended=ended, checks=checks)
    )
    ui.json({"jobs": [job_dict(job) for job in listed]})
    if listed:
        ui.show(jobs_view(listed))
    else:
        ui.show(
            "no jobs"
            if ended
            else "no jobs are pending or running; --all shows those that have ended"
        )
    return Exit.GOOD


def _show_job(ui: Ui, spec: ClusterSpec, job: str) -> int:
    outcome = ui.quietly(lambda: api.job_state(spec, job, use=True))
    ui.json(outcome.as_dict())
    if isinstance(outcome, ArrayOutcome):
        ui.show(parts_view(outcome))
        return Exit.GOOD
    ui.show(*end_line(outcome))
    if outcome.state.ended and outcome.use is None:
        why = "not known yet" if spec.slurm.accounting else "unknown: the cluster keeps none of it"
        ui.show(f"  what it used is {why}")
    return Exit.GOOD
