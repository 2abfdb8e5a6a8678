"""``corral cancel``: end jobs."""

from __future__ import annotations

from typing import Annotated

import typer

from corral import api
from corral.cli.cluster_choice import cluster
from corral.cli.options import CLUSTER, JSON, examples, verb_app
from corral.cli.terminal.ui import Ui, error_dict, error_text
from corral.cli.workload.jobview import end_line
from corral.cli.workload.run import job_ref
from corral.errors import CorralError, Exit

app = verb_app()


@app.command(epilog=examples("corral cancel 12", "corral cancel 12 13 14"))
def cancel(
    jobs: Annotated[
        list[str],
        typer.Argument(
            metavar="JOB",
            help="Numbers of the jobs; 12_3: part 3 of array 12.",
            show_default=False,
            parser=job_ref,
        ),
    ],
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Cancel jobs; one that has ended already stays as it is.

    All jobs are tried; the exit status is the worst of them.
    """
    ui = Ui(as_json=as_json)
    spec = cluster(ui, named, administers=False)
    outcomes = ui.quietly(lambda: api.cancel(spec, tuple(jobs)))
    ui.json(
        {
            "jobs": [
                {"id": job, "error": error_dict(outcome)}
                if isinstance(outcome, CorralError)
                else outcome.as_dict()
                for job, outcome in outcomes.items()
            ]
        }
    )
    for outcome in outcomes.values():
        if isinstance(outcome, CorralError):
            ui.err.print(error_text(outcome), soft_wrap=True)
        else:
            ui.show(*end_line(outcome))
    failed = [outcome.exit for outcome in outcomes.values() if isinstance(outcome, CorralError)]
    return max(failed, default=Exit.GOOD)
