"""Batch scripts: what the fields next to one show is what the job gets; how it goes to Slurm."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.errors import Code, CorralError
from corral.slurm.directives import directives, sbatch_options
from corral.slurm.rest.adapters import NEWEST
from corral.slurm.rest.write import Submission, faults_of
from corral.web import app as app_module
from corral.web import schemas
from corral.web.routes.scripts import OPTIONS, Script, given_by, submission_of
from tests.unit.web.fake import FakeRest, Page
from tests.unit.web.routes.test_form import Sent
from tests.unit.web.shapes import held
from tests.unit.web.test_page_js import NODE
from tests.unit.web.users.test_owner import spec

SUBMIT = Path(app_module.__file__).parent / "static" / "js" / "jobs" / "submit.js"
BODIES = """
import { readFileSync } from "node:fs";
const { scriptBody, scriptValues } = await import(process.argv[1]);
const cases = JSON.parse(readFileSync(0, "utf8"));
const body = ({ script, typed, read }) =>
  scriptBody(script, scriptValues(typed, read.fields, "/home/kim"), read.fields);
console.log(JSON.stringify(cases.map(body)));
"""
ABSENT = object()
FOLDER = "/home/kim"


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def number(value: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}


@dataclass(frozen=True)
class Row:
    """A field, a line that asks for the same, and the key that Slurm's REST API has for it.

    Attributes:
        lines: options of the script that the field takes the place of.
        typed: another value; sent: what Slurm gets of it; emptied: what it gets of an empty field.
        left: what of the lines stays in any case.
    """

    field: str
    lines: str
    typed: str
    key: str
    sent: Any
    emptied: Any = ABSENT
    left: Any = ABSENT


MAIL = "--mail-user=ada --mail-type=ALL"
ROWS = (
    Row("name", "--job-name=train", "other", "name", "other", "job"),
    Row("partition", "--partition=gpu", "main", "partition", "main"),
    Row("partition", "--partition=gpu,cpu", "main", "partition", "main"),
    Row("account", "-A lab", "vision", "account", "vision"),
    Row("qos", "--qos=high", "low", "qos", "low"),
    Row("nodes", "--nodes=2", "3", "minimum_nodes", 3),
    Row("nodes", "--nodes=2", "3", "maximum_nodes", 3),
    Row("gpus", "--gres=gpu:2", "4", "tres_per_node", "gres/gpu:4"),
    Row("gpus", "--gres=gpu:h100:2", "4", "tres_per_node", "gres/gpu:4"),
    Row("gpus", "--gpus-per-node=h100:2", "h200:1", "tres_per_node", "gres/gpu:h200:1"),
    Row("memory", "--mem=4G", "8G", "memory_per_node", number(8192)),
    Row("minutes", "--time=1-0", "5", "time_limit", number(5)),
    Row("array", "--array=1-9%2", "3-4", "array", "3-4"),
    Row("begin", "--begin=18:00", "tomorrow", "begin_time", "tomorrow"),
    Row("output", "--output=/a", "/b", "standard_output", "/b", f"{FOLDER}/slurm-%j.out"),
    Row("mail", MAIL, "bo", "mail_user", "bo"),
    Row("mail", MAIL, "bo", "mail_type", ["END", "FAIL"]),
    Row("exclusive", "--exclusive", "", "shared", ABSENT),
    Row("workdir", "--chdir=/shared", "/b", "current_working_directory", "/b", "/b"),
    # Of lines that no field holds completely a field takes the place too, once it is filled in.
    Row("gpus", "--gres=gpu:1 --gpus-per-node=1", "2", "tres_per_node", "gres/gpu:2"),
    Row("gpus", "--gres=gpu:1 --gpus-per-node=1", "0", "tres_per_node", ABSENT),
    Row("memory", "--mem-per-cpu=1G", "8G", "memory_per_cpu", ABSENT),
    Row("memory", "--mem-per-cpu=1G", "8G", "memory_per_node", number(8192)),
    Row("nodes", "--nodes=1-4", "3", "maximum_nodes", 3),
    Row("gpus", "--gres=gpu:2,license:1", "0", "tres_per_node", "gres/license:1"),
    Row("gpus", "--gres=license:1", "0", "tres_per_node", "gres/license:1"),
)


def _cases() -> Iterator[tuple[Row, str, Any]]:
    """Each field with its line: emptied, with a zero, with another value."""
    for row in ROWS:
        yield row, row.typed, row.sent
        held_by_line = row.field in given_by(f"#!/bin/sh\n#SBATCH {row.lines}\n")
        if held_by_line and row.field != "workdir":  # which is required
            yield row, "", row.emptied
        if held_by_line and row.field == "gpus":
            yield row, "0", row.emptied


async def _jobs(page: Page, cases: list[tuple[Row, str, Any]]) -> list[dict[str, Any]]:
    """What slurmrestd gets of each, through the page's own functions."""
    asked: list[dict[str, Any]] = []
    for row, typed, _ in cases:
        script = f"#!/bin/sh\n#SBATCH --comment=x {row.lines}\nsrun x\n"
        fields = {row.field: typed}
        read = (await page.post("jobs/directives", {"script": script, "fields": fields})).json()
        held(schemas.Directives, read)
        assert not read["faults"], (row, read)
        asked.append({"script": script, "typed": fields, "read": read})
    argv = [NODE, "--input-type=module", "--eval", BODIES, SUBMIT.as_uri()]
    done = subprocess.run(
        argv, input=json.dumps(asked), capture_output=True, text=True, check=True, timeout=60
    )
    jobs: list[dict[str, Any]] = []
    for body in json.loads(done.stdout):
        (await page.post("jobs", body)).raise_for_status()
        jobs.append(page.rest.sent[-1][2]["job"])
    return jobs


def test_what_each_field_shows_is_what_slurm_gets() -> None:
    """A GPU override of 0 was dropped: "overrides line 2" was on the page, and two GPUs came."""
    cases = list(_cases())
    assert {row.field for row in ROWS} == set(OPTIONS)

    async def work() -> list[dict[str, Any]]:
        async with Page(FakeRest()) as page:
            await page.login()
            return await _jobs(page, cases)

    for (row, typed, expected), job in zip(cases, run(work()), strict=True):
        assert job.get(row.key, ABSENT) == expected, (row, typed)
        assert job["comment"] == "x", row
        # And Slurm's own script is of the same job, for sbatch and for who submits it again.
        options = {option.name: option.value for option in directives(job["script"])}
        if not typed and row.field in OPTIONS and row.field != "workdir":
            assert not options.keys() & set(OPTIONS[row.field]), (row, job["script"])
        assert job["script"].startswith("#!/bin/sh\n#SBATCH --comment=x")


def test_a_field_that_is_left_alone_changes_nothing() -> None:
    async def work() -> None:
        async with Page(FakeRest()) as page:
            await page.login()
            for row in ROWS:
                script = f"#!/bin/sh\n#SBATCH {row.lines}\nsrun x\n"
                reply = await page.post("jobs/directives", {"script": script})
                folder = reply.json()["fields"].get("workdir", {"value": FOLDER})["value"]
                (await page.post("jobs", {"script": script, "workdir": folder})).raise_for_status()
                assert page.rest.sent[-1][2]["job"]["script"] == script

    run(work())


TEXT = st.text(
    st.characters(min_codepoint=32, exclude_characters="\x7f", exclude_categories=["Cs"]),
    max_size=64,
)


@settings(max_examples=150)
@given(TEXT, TEXT)
def test_any_name_and_file_is_read_as_it_was_typed(name: str, output: str) -> None:
    script = "#!/bin/sh\n#SBATCH -J 'a b' -N 2\ntrue\n"
    fields = {"script": script, "workdir": "/w", "name": name, "output": output}
    job = submission_of(Script.model_validate(fields))
    options = {option.name: option.value for option in directives(job.script)}
    assert options["job-name"] == (name or "a b")
    assert options["nodes"] == "2"
    assert options.get("output", "") == output
    assert not [option for option in directives(job.script) if option.fault]


def test_typed_gpus_memory_begin_and_exclusive_fill_their_fields() -> None:
    script = (
        "#!/bin/sh\n#SBATCH --gres=gpu:h100:2 --mem=16G\n#SBATCH --begin=now+2hours --exclusive\n"
        "#SBATCH --cpus-per-task=4 --gpus=8 --constraint=ib --dependency=afterok:7\n"
        "#SBATCH --chdir=sub\n"
    )

    async def work() -> dict[str, Any]:
        async with Page(FakeRest()) as page:
            await page.login()
            return (await page.post("jobs/directives", {"script": script})).json()

    read = run(work())
    assert {name: row["value"] for name, row in read["fields"].items()} == {
        "gpus": "h100:2",
        "memory": "16G",
        "begin": "now+2hours",
        "exclusive": "yes",
    }
    assert [(row["text"], row["field"]) for row in read["others"]] == [
        ("--cpus-per-task=4", ""),
        ("--gpus=8", ""),
        ("--constraint=ib", ""),
        ("--dependency=afterok:7", ""),
        ("--chdir=sub", "workdir"),  # a job always goes with a folder, the field's
    ]
    assert not read["faults"]


class Sbatch(Sent):
    """A controller with sbatch, that knows kim."""

    def __init__(self, error: CorralError | None = None) -> None:
        super().__init__()
        self.error = error

    async def known(self, login: Any) -> bool:
        return login.user == "kim"

    async def submit_script(self, login: Any, job: Submission) -> int:
        if self.error:
            raise self.error
        self.scripts.append(job)
        return 77


def _lacking() -> list[str]:
    """Lines with each option of sbatch that no field of the REST API stands for."""
    lines = [
        f"--{option.name}" + ("=1" if option.value == "required" else "")
        for option in sbatch_options().values()
        if not option.same_as and option.name != "chdir"  # which the folder overrides
    ]
    return [line for line in lines if faults_of(f"#!/bin/sh\n#SBATCH {line}\n", NEWEST)]


NOT_HERE = {"clusters", "gid", "help", "test-only", "uid", "usage", "version", "wrap"}
VALUES = ("--exclusive=user", "--mem=0", "--nodes=2,4", "--begin=010227", "--nice=-5")


def test_a_script_goes_by_sbatch_where_the_rest_api_lacks_an_option() -> None:
    lacking = _lacking()
    names = {line.removeprefix("--").partition("=")[0] for line in lacking}
    assert {"export", "signal", "open-mode", "distribution", "hint", "gpu-bind"} <= names
    assert {"cpus-per-gpu", "mem-per-gpu", "switches", "profile", "container-image"} <= names

    async def work() -> None:
        async with Page(FakeRest(), spec=spec()) as page:
            page.app.state.corral.own = own = Sbatch()
            await page.login("kim")
            for line in (*lacking, *VALUES):
                script = f"#!/bin/sh\n#SBATCH {line}\n#SBATCH --nodes=2\nsrun x\n"
                if line.startswith("--nodes"):  # the last of a name counts
                    script = f"#!/bin/sh\n#SBATCH {line}\nsrun x\n"
                refused = line.removeprefix("--").partition("=")[0] in NOT_HERE
                read = (await page.post("jobs/directives", {"script": script})).json()
                held(schemas.Directives, read)
                wrong, by = read["faults"], read["sbatch"]
                assert [row["line"] for row in (wrong if refused else by)] == [2], (line, read)
                assert not (by if refused else wrong), (line, read)
                reply = await page.post("jobs", {"script": script, "workdir": "/w", "minutes": 5})
                if refused:
                    assert reply.status_code == 422, line
                    assert "line 2" in reply.json()["error"]["message"]
                    assert not own.scripts
                    continue
                assert reply.json() == {"id": 77}, (line, reply.text)
                (job,) = own.scripts
                options = {option.name: option.value for option in directives(job.script)}
                assert (options["time"], job.workdir) == ("5", "/w")
                own.scripts.clear()
            assert not page.rest.sent

    run(work())


def test_without_commands_as_the_user_such_a_line_is_refused_by_its_number() -> None:
    script = "#!/bin/sh\n#SBATCH --nodes=2\n#SBATCH --export=NONE\nsrun x\n"

    async def refused(page: Page) -> None:
        read = (await page.post("jobs/directives", {"script": script})).json()
        assert [row["line"] for row in read["faults"]] == [3]
        assert (read["sbatch"], read["others"]) == ([], [])
        reply = await page.post("jobs", {"script": script, "workdir": "/w"})
        assert "line 3: --export" in reply.json()["error"]["message"]
        assert not page.rest.sent

    async def work() -> None:
        async with Page(FakeRest()) as page:
            await page.login("kim")
            await refused(page)
        async with Page(FakeRest(), spec=spec()) as page:
            page.app.state.corral.own = own = Sbatch()
            await page.login("eve")  # whom the controller does not know
            await refused(page)
            assert not own.scripts

    run(work())


def test_what_sbatch_refuses_is_at_its_field() -> None:
    error = CorralError(Code.SLURM_REFUSED, "Slurm refuses the job", fields={"gres": "no GPUs"})

    async def work() -> None:
        async with Page(FakeRest(), spec=spec()) as page:
            page.app.state.corral.own = Sbatch(error)
            await page.login("kim")
            script = "#!/bin/sh\n#SBATCH --signal=B:TERM@60 --gres=gpu:9\nsrun x\n"
            reply = await page.post("jobs", {"script": script, "workdir": "/w"})
            assert reply.json()["error"]["fields"] == {"gpus": "no GPUs"}

    run(work())


@pytest.mark.parametrize("wrong", [{"without": ["x"]}, {"memory": "0"}, {"begin": "later; rm"}])
def test_what_no_field_takes_is_refused(wrong: dict[str, Any]) -> None:
    async def work() -> None:
        async with Page(FakeRest()) as page:
            await page.login()
            body = {"script": "#!/bin/sh\n", "workdir": "/w", **wrong}
            assert (await page.post("jobs", body)).status_code == 422

    run(work())
