"""A job that failed is what it was, for "Edit and submit again": form, script or uploaded program.

Asked as the page on a laptop asks (``corral ui``); ``test_services`` asks on the controller.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from corral import api
from corral.errors import CorralError
from corral.hosts.fleet import Fleet
from corral.hosts.quote import Script, join, sh
from corral.inspect.jobs import LONGEST_SCRIPT, job_script
from corral.jobs import control
from corral.jobs.follow import as_user
from corral.jobs.model import parse_job
from corral.jobs.submit import submit
from corral.slurm.records import Job
from corral.slurm.resubmission import resubmission
from corral.web.routes.form import form_of
from corral.web.settings import Declared
from corral.web.slurm.commands import ByCommands
from corral.web.slurm.slurmrest import Login
from corral.web.users.user_commands import BySsh

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

LOGIN = Login("corral", "")
SCRIPT = "#!/bin/sh\n#SBATCH --cpus-per-task=1\n# it's here\nexit 3\n"
# slurmctld forgets a job 300 s after its end.
FORGOTTEN = sh(
    "bin=$(mktemp -d) && printf '%s\\n' '#!/bin/sh' "
    "'echo \"job script retrieval failed: Invalid job id specified\" >&2' >$bin/scontrol && "
    'chmod 755 "$bin/scontrol" && PATH="$bin:$PATH"'
)


def failed(live: Live, **fields: object) -> Job:
    """A job that Corral submitted and that failed, as slurmctld has it."""

    async def work(fleet: Fleet) -> int:
        handle = await submit(fleet, live.controller, live.spec, parse_job(fields))
        outcome = await control.follow(fleet, handle, on_line=lambda _: None)
        assert outcome.state.value == "FAILED"
        return handle.id

    return known(live, live.with_fleet(work))


def by_sbatch(live: Live) -> Job:
    """The same of a job that sbatch submitted."""
    submitted = sh(
        "cd /shared && printf %s {text} | runuser -u corral -- sbatch --parsable --wait --nodes=2"
        " --job-name=plain --chdir=/tmp --output=/dev/null",
        text=SCRIPT,
    )
    return known(live, int(live.run(live.controller, submitted, timeout=120).stdout))


def known(live: Live, number: int) -> Job:
    job = asyncio.run(ByCommands(Declared(live.spec)).job(LOGIN, number))
    assert job is not None
    return job


def recorded(live: Live, job: Job) -> api.Recorded:
    """As the page on a laptop reads it."""
    return asyncio.run(BySsh(Declared(live.spec)).recorded(LOGIN, job))


def test_a_failed_job_of_the_form_is_the_form_again(cluster: Live) -> None:
    job = failed(cluster, command=["sh", "-c", "exit 3"], nodes=2, name="form", env={"A": "it's"})
    kept = recorded(cluster, job)
    form, notes = form_of(job, kept)
    assert form == {
        "command": ["sh", "-c", "exit 3"],
        "nodes": 2,
        "name": "form",
        "env": {"A": "it's"},
    }
    assert not notes
    assert "SBATCH" in kept.script
    assert "sbatch" in kept.submit_line


def test_a_failed_run_is_its_program_again(cluster: Live, tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text("raise SystemExit(3)\n")
    job = failed(cluster, script=str(program), args=["--lr", "1"])
    form, _ = form_of(job, recorded(cluster, job))
    assert form["args"] == ["--lr", "1"]
    kept = cluster.run(cluster.controller, sh("cat {path}", path=form["script"]))
    assert kept.stdout == program.read_text()


def test_a_failed_script_is_its_script_again(cluster: Live) -> None:
    job = by_sbatch(cluster)
    kept = recorded(cluster, job)
    assert kept.script == SCRIPT
    assert not kept.job
    made = resubmission(job, kept.script, kept.submit_line)
    assert "#SBATCH --nodes=2\n" in made.script
    assert made.script.endswith("# it's here\nexit 3\n")


def test_accounting_keeps_the_script_that_slurmctld_has_forgotten(cluster: Live) -> None:
    job = by_sbatch(cluster)

    def asked(number: int) -> Script:
        question = job_script(number, LONGEST_SCRIPT)
        return as_user(LOGIN.user, join([FORGOTTEN, question.shell]))

    answer = cluster.run(cluster.controller, asked(job.id))
    assert (answer.status, answer.stdout) == (0, SCRIPT), answer.stderr
    none = cluster.run(cluster.controller, asked(job.id + 4_000_000))
    assert (none.status, none.stdout.strip()) == (0, ""), none.stderr


def test_a_job_without_a_script_is_not_an_empty_one(cluster: Live) -> None:
    with pytest.raises(CorralError, match="has no script"):
        asyncio.run(BySsh(Declared(cluster.spec)).script(LOGIN, 4_000_000))
