"""Jobs by form: all of JobSpec, and nothing of the server's own disk."""

from __future__ import annotations

import asyncio
import copy
import json
import re
import subprocess
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from corral import api
from corral.errors import Code, CorralError
from corral.jobs import submit as submission
from corral.jobs.upload.manifest import NO_FILES
from corral.slurm.directives import directives
from corral.slurm.rest.commands import sbatch_of
from corral.slurm.rest.write import Submission
from corral.spec.models import ClusterSpec
from corral.web import app as app_module
from corral.web import schemas
from corral.web.routes.form import OF_THIS_MACHINE, pattern_for_browsers
from corral.web.slurm.slurmrest import Login
from corral.web.users.user_commands import BySsh
from tests.unit.web.fake import FakeRest, Page
from tests.unit.web.shapes import held
from tests.unit.web.test_page_js import NODE
from tests.unit.web.users.test_owner import spec

SUBMIT = Path(app_module.__file__).parent / "static" / "js" / "jobs" / "submit.js"
USER = "corral"
# The form's own functions.
IN_NODE = """
import { readFileSync } from "node:fs";
const { field, fieldsOf, labelOf, valueOf } = await import(process.argv[1]);
const { schema, typed } = JSON.parse(readFileSync(0, "utf8"));
const answer = {};
for (const [name, kind] of fieldsOf(schema)) {
  const text = typed[name];
  const made = field(name, kind, {});
  answer[name] = made && valueOf({ value: text, checked: text === "yes" }, kind);
}
if (process.argv[2]) for (const name in answer) answer[name] = labelOf(name);
console.log(JSON.stringify(answer));
"""


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


class Sent(BySsh):
    """Keeps the job, as it would go to the cluster."""

    def __init__(self) -> None:
        super().__init__(ClusterSpec.model_validate(spec()))
        self.jobs: list[api.JobSpec] = []
        self.scripts: list[Submission] = []

    async def submit(self, login: object, job: api.JobSpec) -> int:
        self.jobs.append(job)
        return 7

    async def expected(self, login: object, job: api.JobSpec) -> api.ExpectedStart:
        self.jobs.append(job)
        return api.ExpectedStart(1795958114, "node1")

    async def script_expected(self, login: object, job: Submission) -> api.ExpectedStart:
        self.scripts.append(job)
        if "--partition=gone" in job.script:
            words = "Batch job submission failed: Invalid partition name specified"
            fields = {"partition": words, "time": words, "mem": words}
            raise CorralError(Code.SLURM_REFUSED, "Slurm refuses the job", fields=fields)
        return api.ExpectedStart(1795958114, "node1")


def test_no_file_of_the_servers_own_machine_goes_along(tmp_path: Path) -> None:
    """Who runs the page has keys to all machines on that disk."""
    (tmp_path / "secret.py").write_text("key of the cluster\n")
    here = str(tmp_path)
    refused: tuple[dict[str, Any], ...] = (
        {"script": f"{here}/secret.py"},
        {"script": f"/shared/..{here}/secret.py"},
        {"script": "/sharedx/a.py"},
        {"script": "/"},
        {"script": 7},
        {},
        {"script": "/shared/a.py", "folder": here},
        {"script": "/shared/a.py", "in_place": False},
        {"script": "/shared/a.py", "environment": f"{here}/secret.py"},
    )

    async def work() -> None:
        async with Page(FakeRest(), spec=spec()) as page:
            state = page.app.state.corral
            state.own = Sent()
            await page.login(USER)
            for body in refused:
                for route in ("preview", "expected", "spec"):
                    reply = await page.post(f"jobs/{route}", body)
                    assert reply.status_code == 400, (body, reply.text)
                    assert "key of the cluster" not in reply.text
            assert not state.own.jobs

    run(work())


def test_a_script_that_is_here_too_is_taken_from_the_cluster(tmp_path: Path) -> None:
    """The machine with the page has the same path: its file stays there."""
    program = tmp_path / "train.py"
    program.write_text("another one's\n")
    here = spec()
    here["storage"][0]["mount"] = str(tmp_path)

    async def work() -> None:
        async with Page(FakeRest(), spec=here) as page:
            state = page.app.state.corral
            state.own = Sent()
            await page.login(USER)
            reply = await page.post("jobs/spec", {"script": str(program), "user": "root"})
            assert reply.json() == {"id": 7}
            (job,) = state.own.jobs
            assert (job.user, job.in_place) == (USER, True)
            assert await submission._parcel(job, state.spec) is None, "nothing is packed"

    run(work())


def test_a_command_takes_no_file_of_the_server_along(tmp_path: Path) -> None:
    """It is the viewer's own, and runs as that user; no folder of the server is uploaded."""
    here = str(tmp_path)

    async def work() -> None:
        async with Page(FakeRest(), spec=spec()) as page:
            state = page.app.state.corral
            state.own = Sent()
            await page.login(USER)
            command = ["sh", "-c", "echo $HOME"]
            reply = await page.post("jobs/preview", {"command": command, "nodes": 2})
            assert "rank sh -c 'echo $HOME'" in reply.json()["script"]
            reply = await page.post("jobs/spec", {"command": command, "user": "root"})
            assert reply.json() == {"id": 7}
            (job,) = state.own.jobs
            assert (job.user, job.command, job.folder) == (USER, tuple(command), None)
            assert (await submission._parcel(job, state.spec)) == NO_FILES
            for more in (
                {"folder": here},
                {"environment": f"{here}/uv.lock"},
                {"in_place": False},
                {"script": f"{here}/a.py"},
                {"script": "/shared/a.py"},
            ):
                reply = await page.post("jobs/spec", {"command": command, **more})
                assert reply.status_code == 400, more
            assert len(state.own.jobs) == 1

    run(work())


def test_when_a_job_would_start_is_asked_as_the_viewer() -> None:
    async def work() -> None:
        async with Page(FakeRest(), spec=spec()) as page:
            state = page.app.state.corral
            state.own = Sent()
            await page.login(USER)
            reply = await page.post("jobs/expected", {"command": ["true"], "user": "root"})
            held(schemas.ExpectedStart, reply.json())
            assert reply.json() == {
                **{"start_at": 1795958114, "nodes": "node1"},
                **{"waits": "", "beyond": {}},
            }
            (job,) = state.own.jobs
            assert job.user == USER

    run(work())


class Directory(Sent):
    """A cluster whose controller knows more people than its file."""

    people: tuple[str, ...] = ("kim", "zoe")

    async def known(self, login: Login) -> bool:
        return login.user in self.people


def _with_account(rest: FakeRest, user: str) -> None:
    """An association of this user, as the recorded one of another."""
    listed = rest.bodies["associations"]["body"]["associations"]
    recorded = next(entry for entry in listed if entry["user"])
    listed.append({**recorded, "user": user})


def test_people_of_a_directory_submit_by_form_where_they_have_an_account() -> None:
    """Such a person is in no list of the cluster file: by script was all that the page offered."""

    async def work() -> None:
        rest = FakeRest()
        _with_account(rest, "kim")
        async with Page(rest, spec=spec()) as page:
            state = page.app.state.corral
            state.own = own = Directory()
            await page.login("kim")
            form = (await page.get("jobs/form")).json()
            assert (form["can_spec"], form["why_no_spec"]) == (True, "")
            sweep = {"command": ["a", "{lr}"], "sweep": {"lr": ["1", "2", "3"]}}
            shown = (await page.post("jobs/preview", sweep)).raise_for_status().json()
            assert shown["jobs"] == 3
            assert (await page.post("jobs/spec", sweep)).json() == {"id": 7}
            assert [job.user for job in own.jobs] == ["kim"]

    run(work())


@pytest.mark.parametrize(
    ("user", "why"),
    [
        ("eve", "the controller knows no user eve"),
        ("zoe", "zoe has no account in Slurm's accounting"),
        ("Zoe.X", "a job by form takes no user name such as Zoe.X"),
    ],
)
def test_why_there_is_no_form_is_stated_and_nothing_is_submitted(user: str, why: str) -> None:
    async def work() -> None:
        async with Page(FakeRest(), spec=spec()) as page:
            state = page.app.state.corral
            state.own = own = Directory()
            await page.login(user)
            form = (await page.get("jobs/form")).json()
            assert (form["can_spec"], form["why_no_spec"]) == (False, why)
            for route in ("preview", "expected", "spec"):
                reply = await page.post(f"jobs/{route}", {"command": ["true"]})
                assert (reply.status_code, reply.json()["error"]["message"]) == (403, why)
            assert not own.jobs

    run(work())


def test_without_accounting_whom_the_controller_knows_has_the_form() -> None:
    here = spec()
    here["slurm"]["accounting"] = False

    async def work() -> None:
        async with Page(FakeRest(), spec=here) as page:
            page.app.state.corral.own = Directory()
            await page.login("zoe")
            assert (await page.get("jobs/form")).json()["can_spec"]

    run(work())


SCRIPT = {"script": "#!/bin/sh\n#SBATCH --mem=4G\nhostname\n", "workdir": "/shared"}


def test_when_a_script_would_start_is_asked_by_the_same_route() -> None:
    async def work() -> None:
        async with Page(FakeRest(), spec=spec()) as page:
            state = page.app.state.corral
            state.own = own = Sent()
            await page.login("kim")
            body = {**SCRIPT, "partition": "main", "minutes": 5, "nodes": 2}
            reply = await page.post("jobs/expected", body)
            assert reply.json() == {
                **{"start_at": 1795958114, "nodes": "node1"},
                **{"waits": "", "beyond": {}},
            }
            (job,) = own.scripts
            assert "--chdir=/shared" in sbatch_of(job)
            options = {option.name: option.value for option in directives(job.script)}
            assert options == {"mem": "4G", "partition": "main", "nodes": "2", "time": "5"}

    run(work())


NOTIFY = {
    "relay": "mail.example.org",
    "domain": "example.org",
    "sender": "c@example.org",
    "webhooks": [{"name": "lab-chat", "url": "https://chat.example.org/secret"}],
}


def test_who_may_get_a_message_is_offered_by_name_and_no_address_is() -> None:
    here = spec()
    here["services"]["notify"] = NOTIFY

    async def work() -> None:
        async with Page(FakeRest(), spec=here) as page:
            page.app.state.corral.own = own = Sent()
            await page.login(USER)
            reply = await page.get("jobs/form")
            assert reply.json()["recipients"] == [
                {"name": "lab-chat", "about": "webhook"},
                {"name": USER, "about": f"mail to {USER}@example.org"},
            ]
            assert "secret" not in reply.text
            await page.post("jobs/spec", {"command": ["true"], "mail": "lab-chat"})
            assert own.jobs[0].mail == "lab-chat"
            body = {**SCRIPT, "mail": "lab-chat,ada@example.org"}
            (await page.post("jobs/expected", body)).raise_for_status()
            words = own.scripts[0].script
            assert "--mail-user=lab-chat,ada@example.org --mail-type=END,FAIL" in words
            (await page.post("jobs", body)).raise_for_status()
            job = page.rest.sent[-1][2]["job"]
            assert (job["mail_user"], job["mail_type"]) == (body["mail"], ["END", "FAIL"])
            refused = await page.post("jobs", {**SCRIPT, "mail": "--uid=0"})
            assert list(refused.json()["error"]["fields"]) == ["mail"]

    run(work())


def test_what_is_wrong_with_a_script_is_at_its_fields() -> None:
    async def work() -> None:
        async with Page(FakeRest(), spec=spec()) as page:
            page.app.state.corral.own = Sent()
            await page.login("kim")
            reply = await page.post("jobs/expected", {**SCRIPT, "partition": "gone"})
            assert reply.json()["error"]["code"] == "slurm-refused"
            assert list(reply.json()["error"]["fields"]) == ["partition", "minutes", "memory"]
            for route in ("jobs/expected", "jobs"):
                reply = await page.post(route, {**SCRIPT, "nodes": 0, "account": "a b"})
                fields = reply.json()["error"]["fields"]
                assert sorted(fields) == ["account", "nodes"], route
                assert fields["nodes"] == "Input should be greater than or equal to 1"

    run(work())


def test_what_slurmrestd_refuses_of_a_script_is_at_its_field() -> None:
    async def work() -> None:
        rest = FakeRest()
        rest.bodies["submit"] = rest.bodies["refused"]
        async with Page(rest, spec=spec()) as page:
            await page.login("kim")
            reply = await page.post("jobs", SCRIPT)
            (words,) = reply.json()["error"]["fields"].items()
            assert words[0] == "partition"
            assert "Invalid partition name specified" in words[1]

    run(work())


def test_choices_are_partitions_and_without_accounting_no_accounts() -> None:
    async def work() -> list[dict[str, Any]]:
        rest = FakeRest()
        async with Page(rest, spec=spec()) as page:
            await page.login()
            known = (await page.get("jobs/choices")).json()
        rest.accounting = False
        async with Page(rest, spec=spec()) as page:
            await page.login()
            return [known, (await page.get("jobs/choices")).json()]

    known, unknown = run(work())
    assert known["known"] and known["accounts"] and known["partitions"]
    assert not unknown["known"] and unknown["why"]
    assert unknown["accounts"] == unknown["qos"] == []
    assert unknown["partitions"] == known["partitions"]


@pytest.mark.parametrize(
    ("more", "jobs"),
    [
        ({}, 1),
        ({"array": "0-9,20"}, 11),
        ({"sweep": {"lr": ["1", "2"], "seed": ["1", "2", "3"]}, "at_once": 2}, 6),
    ],
)
def test_the_number_of_jobs_is_known_before_they_go(more: dict[str, Any], jobs: int) -> None:
    async def work() -> dict[str, Any]:
        async with Page(FakeRest(), spec=spec()) as page:
            await page.login(USER)
            reply = await page.post("jobs/preview", {"command": ["true"], **more})
            return reply.raise_for_status().json()

    shown = run(work())
    held(schemas.JobPreview, shown)
    assert (shown["jobs"], shown["at_once"]) == (jobs, more.get("at_once"))


def test_a_refusal_states_what_is_wrong_with_each_field() -> None:
    """Through the process that reads the form, so that the page need not read sentences."""

    async def work() -> None:
        async with Page(FakeRest(), spec=spec()) as page:
            page.app.state.corral.own = Sent()
            await page.login(USER)
            wrong = {"command": ["true"], "nodes": 0, "time": "soon; nodes: 1", "env": {"A B": "1"}}
            for route in ("preview", "spec"):
                reply = await page.post(f"jobs/{route}", wrong)
                fields = reply.json()["error"]["fields"]
                assert fields.pop("nodes") == "it is 0 and must be at least 1"
                assert "soon; nodes: 1" in fields.pop("time")
                assert list(fields) == ["env"]
            reply = await page.post("jobs/spec", {"script": "/"})
            assert "fields" not in reply.json()["error"]

    run(work())


def test_the_form_is_all_of_jobspec_but_what_the_page_decides() -> None:
    async def work() -> dict[str, Any]:
        async with Page(FakeRest(), spec=spec()) as page:
            await page.login(USER)
            return (await page.get("jobs/form")).json()

    form = run(work())
    assert form["can_spec"]
    left_out = set(api.JobSpec.model_fields) - set(form["schema"]["properties"])
    assert left_out == {"user", "folder", "in_place", "environment"}


def test_every_field_of_the_form_can_be_typed() -> None:
    schema = api.JobSpec.model_json_schema()
    typed = {name: "" for name in schema["properties"]}
    typed |= {
        "script": " /shared/a.py ",
        "args": "--lr  1e-3",
        "nodes": "3",
        "env": "A=b=c D= E",
        "sweep": "lr=1e-3,3e-4 seed=1",
        "requeue": "yes",
        "profile": "torch",
        "launcher": "auto",
        "after": "12 13:any",
        "exclusive": "yes",
        "account": "lab",
        "constraint": "a&b",
    }
    done = subprocess.run(
        [NODE, "--input-type=module", "--eval", IN_NODE, SUBMIT.as_uri()],
        input=json.dumps({"schema": schema, "typed": typed}),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    parsed = json.loads(done.stdout)
    assert not [name for name, value in parsed.items() if value is None], "no field for these"
    assert parsed == {
        "script": "/shared/a.py",
        "args": ["--lr", "1e-3"],
        "nodes": 3,
        "env": {"A": "b=c", "D": "", "E": ""},
        "sweep": {"lr": ["1e-3", "3e-4"], "seed": ["1"]},
        "requeue": True,
        "profile": "torch",
        "after": ["12", "13:any"],
        "exclusive": True,
        "account": "lab",
        "constraint": "a&b",
    }
    api.job_spec({k: v for k, v in parsed.items() if k != "args"} | {"args": ["{lr}"]})


def test_every_field_of_the_form_has_a_label_in_words() -> None:
    """Raw names, mem and env, were on the page."""
    properties = api.JobSpec.model_json_schema()["properties"]
    for name in OF_THIS_MACHINE | {"user"}:
        del properties[name]
    typed = dict.fromkeys(properties, "")
    done = subprocess.run(
        [NODE, "--input-type=module", "--eval", IN_NODE, SUBMIT.as_uri(), "labels"],
        input=json.dumps({"schema": {"properties": properties}, "typed": typed}),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    labels = json.loads(done.stdout)
    assert len(labels) > 30
    assert not [label for label in labels.values() if not label[0].isupper() or "_" in label]
    assert len(set(labels.values())) == len(labels)


def _limited() -> tuple[dict[str, Any], FakeRest]:
    """A cluster whose user has one GPU."""
    cluster = spec()
    cluster["accounts"] = [{"name": "lab"}]
    cluster["users"] = [{"name": USER, "uid": 2000, "account": "lab", "limits": {"gpus": 1}}]
    rest = FakeRest()
    listed = rest.bodies["associations"]["body"]["associations"]
    recorded = copy.deepcopy(next(entry for entry in listed if entry["user"]))
    recorded |= {"user": USER, "account": "lab", "is_default": True, "partition": ""}
    recorded["max"]["tres"]["total"] = [{"type": "gres", "name": "gpu", "id": 1001, "count": 1}]
    listed.append(recorded)
    return cluster, rest


def test_beyond_a_limit_is_refused_at_the_field_of_the_form_and_stated_of_a_script() -> None:
    """``sbatch --test-only`` reports a start "now" for it."""

    async def work() -> None:
        cluster, rest = _limited()
        async with Page(rest, spec=cluster) as page:
            state = page.app.state.corral
            state.own = Sent()
            await page.login(USER)
            asks = {"command": ["true"], "gpus_per_node": 2}
            for route in ("expected", "spec"):
                reply = await page.post(f"jobs/{route}", asks)
                assert reply.status_code == 400, reply.text
                fault = reply.json()["error"]["fields"]["gpus_per_node"]
                assert "user corral in account lab may have 1 GPU (GrpTRES)" in fault
            assert not state.own.jobs
            body = {"script": "#!/bin/sh\n#SBATCH --gres=gpu:2\ntrue\n", "workdir": "/"}
            stated = (await page.post("jobs/expected", body)).json()
            held(schemas.ExpectedStart, stated)
            assert "may have 1 GPU" in stated["beyond"]["gpus"]
            body["script"] = "#!/bin/sh\n#SBATCH --gres=gpu:1\ntrue\n"
            assert (await page.post("jobs/expected", body)).json()["beyond"] == {}

    run(work())


def test_patterns_of_the_form_are_those_of_python_and_of_browsers() -> None:
    """An input's pattern is compiled with the flag v, which refuses ``[.-]``."""
    assert pattern_for_browsers(r"^[a-z_.-]{0,3}\.[(|)\]/-]$") == (
        r"^[a-z_.\-]{0,3}\.[\(\|\)\]\/\-]$"
    )
    texts = [chr(code) for code in range(32, 127)]
    patterns = list(_patterns(api.JobSpec.model_json_schema()))
    assert len(patterns) > 15
    for pattern in patterns:
        written = pattern_for_browsers(pattern)
        for text in [*texts, *(f"a{text}" for text in texts)]:
            assert bool(re.search(written, text)) == bool(re.search(pattern, text)), pattern
    compiles = "for (const p of JSON.parse(process.argv[1])) new RegExp(`^(?:${p})$`, 'v')"
    made = json.dumps([pattern_for_browsers(pattern) for pattern in patterns])
    subprocess.run([NODE, "-e", compiles, made], check=True)


def _patterns(schema: Any) -> Iterator[str]:
    """All patterns of a JSON Schema."""
    if isinstance(schema, dict):
        for name, value in cast("dict[str, Any]", schema).items():
            if name == "pattern" and isinstance(value, str):
                yield value
            yield from _patterns(value)
    elif isinstance(schema, list):
        for each in cast("list[Any]", schema):
            yield from _patterns(each)
