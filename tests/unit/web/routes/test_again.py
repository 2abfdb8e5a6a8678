"""What a job was, for the form: of ``corral run`` the form again, of others their script."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from corral.api import JobSpec, Recorded, recorded_of
from corral.api.page.job_resubmission import fields_of, folder_of, program_script
from corral.errors import CorralError
from corral.hosts.quote import call
from corral.slurm.records import Job
from corral.web import schemas
from corral.web.routes.form import form_of, sweep_of
from tests.unit.web.fake import FakeRest, Page
from tests.unit.web.shapes import held


class Keeping:
    """A user's own commands: what was recorded."""

    async def recorded(self, login: Any, job: Job) -> Recorded:
        return Recorded("#!/bin/sh\ntrue\n", "sbatch -N2 a.sh")


def test_a_job_is_its_script_again_and_its_owners_alone() -> None:
    async def work() -> None:
        async with Page(FakeRest()) as page:
            await page.login()
            page.app.state.corral.own = Keeping()
            reply = await page.get("jobs/1/again")
            held(schemas.JobAgain, reply.json())
            assert reply.json()["script"] == "#!/bin/sh\n#SBATCH --nodes=2\ntrue\n"
            await page.login("lee", "Administrator")
            assert (await page.get("jobs/1/again")).status_code == 403

    asyncio.run(work())


def an_array(rest: FakeRest) -> None:
    """Array 52 with tasks 0 and 1 failed; task 2 has the array's number, as Slurm's last has."""
    listed = rest.bodies["jobs"]["body"]["jobs"]
    (like,) = [job for job in listed if job["job_id"] == 6]
    number = {"set": True, "infinite": False}
    for task, job_id, state in ((0, 53, "FAILED"), (1, 54, "FAILED"), (2, 52, "COMPLETED")):
        listed.append(
            {
                **copy.deepcopy(like),
                **{"job_id": job_id, "job_state": [state], "user_name": "kim"},
                "array_job_id": {**number, "number": 52},
                "array_task_id": {**number, "number": task},
            }
        )


def test_an_array_is_shown_and_submitted_again_with_all_tasks() -> None:
    async def work() -> None:
        rest = FakeRest()
        an_array(rest)
        async with Page(rest) as page:
            await page.login()
            page.app.state.corral.own = Keeping()
            await page.get("jobs")
            shown = (await page.get("jobs/52/tasks")).json()
            held(schemas.ArrayTasks, shown)
            assert [(task["id"], task["state"]) for task in shown["failed"]] == [
                (53, "FAILED"),
                (54, "FAILED"),
            ]
            counts = {each["state"]: each["count"] for each in shown["array"]["counts"]}
            assert counts == {"FAILED": 2, "COMPLETED": 1}
            assert (await page.get("jobs/1/tasks")).status_code == 404
            entire = (await page.get("jobs/52/again?entire=true")).json()
            assert "#SBATCH --array=0-2\n" in entire["script"]
            assert "array" not in entire["notes"]
            failed = (await page.get("jobs/52/again?failed=true")).json()
            assert "#SBATCH --array=0-1\n" in failed["script"]
            alone = (await page.get("jobs/52/again")).json()
            assert "#SBATCH --array=2\n" in alone["script"]

    asyncio.run(work())


class Swept(Keeping):
    """A user's own commands: the job was a sweep of Corral's."""

    asked = 0

    async def recorded(self, login: Any, job: Job) -> Recorded:
        self.asked += 1
        sweep = {"lr": ["1e-3", "3e-4"], "seed": ["0", "1"]}
        return Recorded("#!/bin/sh\ntrue\n", "sbatch a.sh", own(command=["a"], sweep=sweep))


def test_each_task_of_a_sweep_has_its_point_and_failed_ones_are_a_script() -> None:
    """The form submits a sweep with all of its points; the script takes numbers of tasks."""

    async def work() -> None:
        rest = FakeRest()
        an_array(rest)
        async with Page(rest) as page:
            await page.login()
            swept = page.app.state.corral.own = Swept()
            await page.get("jobs")
            points = (await page.get("jobs/52/points")).json()
            held(schemas.SweepPoints, points)
            assert points["names"] == ["lr", "seed"]
            assert points["points"][2] == ["3e-4", "0"]
            await page.get("jobs/53/points")
            assert swept.asked == 1, "what a job was does not change"
            failed = (await page.get("jobs/52/again?failed=true")).json()
            assert failed["mode"] == "script"
            assert "#SBATCH --array=0-1\n" in failed["script"]
            assert "writes into the folder of job 52" in failed["notes"]["script"]
            await page.login("lee", "Administrator")
            assert (await page.get("jobs/52/points")).status_code == 403

    asyncio.run(work())


@pytest.mark.parametrize("sweep", [None, [], {"lr": "x"}, {"lr": [1], "seed": 7}])
def test_a_job_that_is_no_sweep_has_no_points(sweep: Any) -> None:
    assert sweep_of({"sweep": sweep}) == {}
    assert sweep_of({"sweep": {"n": [1, "2"]}}) == {"n": ["1", "2"]}


def test_a_form_of_an_array_is_the_form_of_all_its_tasks() -> None:
    job = Job(id=52, label="52_2")
    recorded = Recorded(job=own(command=["a"], array="0-2", at_once=1))
    assert form_of(job, recorded)[0]["array"] == "2"
    made, notes = form_of(job, recorded, entire=True)
    assert made["array"] == "0-2"
    assert not notes
    swept = Recorded(job=own(command=["a"], sweep={"x": ["1", "2"]}))
    assert not form_of(job, swept, entire=True)[1]


def own(**fields: Any) -> dict[str, Any]:
    return JobSpec.model_validate({"user": "kim", **fields}).model_dump(mode="json")


def test_of_the_form_only_what_was_filled_in() -> None:
    job = Job(id=5, label="5")
    made, notes = form_of(job, Recorded(job=own(command=["a", "b"], nodes=3, env={"A": "b"})))
    assert made == {"command": ["a", "b"], "nodes": 3, "env": {"A": "b"}}
    assert notes == {}
    uploaded = own(script="train.py", environment="x.txt")
    made, notes = form_of(job, Recorded(job={**uploaded, "old": 1}, program="/shared/x/train.py"))
    assert made == {"script": "/shared/x/train.py"}
    assert notes == {
        "script": "the copy of train.py that the job ran",
        "options": "not carried over: environment x.txt",
        "old": "this version of Corral has no such field; it was 1",
    }
    made, notes = form_of(job, Recorded(job=own(script="train.py")))
    assert "script" not in made
    assert "not there any more" in notes["script"]
    task = Job(id=6, label="5_3")
    made, notes = form_of(task, Recorded(job=own(command=["a"], array="0-9")))
    assert (made["array"], notes["array"]) == ("3", "task 3 of array 5 alone")
    _, notes = form_of(task, Recorded(job=own(command=["a", "{lr}"], sweep={"lr": ["1", "2"]})))
    assert "all points" in notes["sweep"]


@pytest.mark.parametrize(
    ("kept", "text"),
    [("slurmctld", "#!/bin/sh\n# it's here\n"), ("accounting", "#!/bin/sh\n-----\n"), ("none", "")],
)
def test_a_script_comes_from_slurmctld_else_from_accounting(
    tmp_path: Path, kept: str, text: str
) -> None:
    (tmp_path / "text").write_text(text)
    line = "-" * 80
    there = f"cat {tmp_path}/text"
    programs = {
        "scontrol": there if kept == "slurmctld" else "exit 1",
        "sacct": f"echo 'Batch Script for 5'; echo '{line}'; "
        + (there if kept == "accounting" else "echo NONE"),
    }
    ran = job_script(tmp_path, programs["scontrol"], programs["sacct"])
    assert ran.stdout.strip("\n") == text.strip("\n")


FORGOTTEN = "echo 'job script retrieval failed: Invalid job id specified' >&2"
SILENT = "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2"
NONE = f"echo 'Batch Script for 5'; echo '{'-' * 80}'; echo NONE"


@pytest.mark.parametrize(
    ("scontrol", "sacct", "known"),
    [
        (FORGOTTEN, NONE, True),
        (FORGOTTEN, "echo 'Slurm accounting storage is disabled' >&2; exit 1", True),
        (FORGOTTEN, "echo 'sacct: error: Problem talking to the database' >&2; exit 1", False),
        (FORGOTTEN, "exit 124", False),
        (SILENT, NONE, False),
        ("exit 124", NONE, False),
    ],
)
def test_a_script_that_nobody_could_look_for_is_unknown(
    tmp_path: Path, scontrol: str, sacct: str, known: bool
) -> None:
    """scontrol 24.11 ends with status 0 whatever it could not do."""
    ran = job_script(tmp_path, scontrol, sacct)
    assert (ran.stdout.strip("\n"), ran.returncode == 0) == ("", known)


def job_script(tmp_path: Path, scontrol: str, sacct: str) -> subprocess.CompletedProcess[str]:
    for name, program in {"scontrol": scontrol, "sacct": sacct}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{program}\n")
        (tmp_path / name).chmod(0o755)
    script = str(call("jobs/user.sh", "job_script", 5, 1000))
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    return subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True)


def test_of_an_array_accounting_has_one_script(tmp_path: Path) -> None:
    """sacct --batch-script prints that of each task (24.11)."""
    script = "#!/bin/sh\n# -----------\nBatch Script for nobody\nexit 3\n"
    (tmp_path / "text").write_text(script)
    each = f"echo Batch Script for 5_$task; echo {'-' * 80}; cat {tmp_path}/text"
    ran = job_script(tmp_path, FORGOTTEN, f"for task in 0 1 2; do {each}; done")
    assert (ran.stdout, ran.returncode) == (script, 0)


def test_the_program_of_an_uploaded_job(hostile_tmp_path: Path) -> None:
    code = hostile_tmp_path / "code" / "src"
    code.mkdir(parents=True)
    (code / "train.py").write_text("")
    (code.parent / "other.py").write_text("")

    def located(script: str) -> str:
        text = str(program_script(str(hostile_tmp_path), {"script": script}))
        return subprocess.run(["sh", "-c", text], capture_output=True, text=True).stdout[:-1]

    assert located("src/train.py") == str(code / "train.py")
    assert located("/project/of/mine/other.py") == str(code.parent / "other.py")
    assert located("../../etc/passwd") == ""


def test_what_corral_keeps_of_a_job() -> None:
    assert folder_of(Job(id=1, stdout="/s/jobs/a/batch.log")) == "/s/jobs/a"
    assert folder_of(Job(id=1, stdout="/s/jobs/a/task-3/batch.log")) == "/s/jobs/a"
    assert folder_of(Job(id=1, stdout="/tmp/slurm-1.out")) == "/nonexistent"
    assert fields_of(json.dumps({"job": {"nodes": 2}})) == {"nodes": 2}
    for text in ("", "[]", "{", '{"job": 3}', "null"):
        assert fields_of(text) == {}
    kept = Recorded("a", "b", {"c": 1}, "d")
    sent = {"script": "a", "submit_line": "b", "job": {"c": 1}, "program": "d"}
    assert recorded_of(sent) == kept
    with pytest.raises(CorralError):
        recorded_of({"script": "a"})
