"""slurmrestd asked with a token: addresses, tokens, bodies, and refusals in one sentence each."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Callable, Coroutine
from inspect import iscoroutinefunction
from typing import Any

import pytest

from corral.errors import Code, CorralError
from corral.jobs.model import parse_job
from corral.jobs.rest.client import (
    RestClient,
    address_of,
    claims_of,
    read_token,
    require_valid,
)
from corral.jobs.rest.submission import submission_of
from corral.runtime.http_client import NoResponseError, RefusedError, Response

API = 42


def part(fields: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")


def token(**claims: object) -> str:
    return f"{part({'alg': 'HS256'})}.{part(claims)}.c2ln"


class Played:
    """HTTP of a slurmrestd: bodies by path, or what is raised."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.sent: list[tuple[str, str, Any]] = []

    def send(
        self, method: str, url: str, body: bytes | None = None, *, headers: Any, **_: Any
    ) -> Response:
        path = url.partition("v0.0.")[2].partition("/")[2]
        number = int(url.partition("v0.0.")[2].partition("/")[0])
        self.sent.append((method, url, json.loads(body) if body else None))
        assert headers["X-SLURM-USER-NAME"] == "alice"
        assert "token" not in url
        if number > API:
            raise RefusedError(404, "Not Found", b"{}")
        answer = self.answers.get(path.replace("/", "_").partition("?")[0])
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Response):
            return answer
        if answer is None and path == "ping":
            meta = {"slurm": {"cluster": "lab", "release": "24.11.5"}}
            answer = {"meta": meta, "pings": [{"pinged": "UP"}]}
        if answer is None:
            raise RefusedError(404, "Not Found", b"{}")
        return Response(json.dumps(answer).encode(), {}, 0)


def client(played: Played) -> RestClient:
    made = RestClient("http://127.0.0.1:6820", "alice", token(sun="alice"))
    made._http = played  # type: ignore[assignment]
    return made


@pytest.mark.parametrize(
    ("url", "plain", "message"),
    [
        ("http://lab:6820", False, "would send the token unencrypted"),
        ("ftp://lab", False, "is not an address of slurmrestd"),
        ("https://a b", False, "is not an address of slurmrestd"),
        ("https://me:secret@lab", False, "is not an address of slurmrestd"),
        ("http://lab:6820", True, ""),
        ("http://127.0.0.1:6820/", False, ""),
        ("http://[::1]:6820", False, ""),
        ("https://lab.example.org/slurm/", False, ""),
    ],
)
def test_addresses(url: str, message: str, *, plain: bool) -> None:
    if not message:
        assert address_of(url, plain=plain) == url.rstrip("/")
        return
    with pytest.raises(CorralError, match=message) as caught:
        address_of(url, plain=plain)
    assert caught.value.hint


def test_what_a_token_states_is_judged_before_anybody_is_asked() -> None:
    now = int(time.time())
    assert claims_of(token(sun="alice", exp=5)).expires == 5
    assert read_token(f"SLURM_JWT={token(sun='alice')}\n") == token(sun="alice")
    assert require_valid(token(sun="alice", exp=now + 60), "alice").user == "alice"
    assert require_valid(token(), "alice").expires is None
    assert require_valid(token(sun="alice", exp=10**15), "alice").expires == 10**15
    for bad, message in (
        (token(sun="alice", exp=now - 60), "the token expired at 20"),
        (token(sun="alice", exp=-(10**30)), "the token expired at a time before the year 1"),
        (token(sun="bob"), "the token is bob's, not alice's"),
    ):
        with pytest.raises(CorralError, match=message) as caught:
            require_valid(bad, "alice")
        assert caught.value.code is Code.LOGIN_REFUSED
        assert "scontrol token" in caught.value.hint
    infinite = token(exp=float("inf"))
    for none in ("", "x", "a.b.c", "a.b", f"{token()}\n{token()}", infinite):
        with pytest.raises(CorralError, match="not a token of Slurm"):
            read_token(none)


def errors(*texts: str) -> bytes:
    return json.dumps({"errors": [{"description": text} for text in texts]}).encode()


REFUSALS = {
    "a token of another cluster": (
        RefusedError(500, "Internal", errors("Protocol authentication error")),
        Code.LOGIN_REFUSED,
        "is another cluster's",
        "corral login --rest again",
    ),
    "a token that is not one": (
        RefusedError(401, "Unauthorized", b"Authentication failure"),
        Code.LOGIN_REFUSED,
        "does not take alice's token",
        "scontrol token",
    ),
    "a login in front of it": (
        RefusedError(401, "Unauthorized", b"<html>log in</html>"),
        Code.LOGIN_REFUSED,
        "does not take alice's token",
        "corral login --rest again",
    ),
    "a proxy that admits others": (
        RefusedError(403, "Forbidden", b"\n<!doctype html>"),
        Code.FORBIDDEN,
        "a web server at http://127.0.0.1:6820 refuses it with status 403",
        "",
    ),
    "nobody answers": (
        NoResponseError("Connection refused"),
        Code.UNREACHABLE,
        "does not answer: Connection refused",
        "correct the address",
    ),
    "a limit": (
        RefusedError(500, "Internal", errors("Job violates accounting/QOS policy")),
        Code.SLURM_REFUSED,
        "Job violates accounting/QOS policy",
        "",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(case: str) -> None:
    raised, code, message, hint = REFUSALS[case]
    with pytest.raises(CorralError) as caught:
        asyncio.run(client(Played(partitions=raised)).partitions())
    assert caught.value.code is code
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert token(sun="alice") not in repr(caught.value) + caught.value.message


EMPTY_RESULT = {"error_number": 9003, "error": "Nothing found with query"}
"""Slurm 22.05 (dbv0.0.38) in its answer of status 200."""


@pytest.mark.parametrize("error", [EMPTY_RESULT, {"description": "Nothing found"}, {"errno": 9003}])
def test_accounting_without_jobs_is_no_error(error: dict[str, Any]) -> None:
    assert asyncio.run(client(Played(jobs={"errors": [error], "jobs": []})).past(7)) == ()
    assert asyncio.run(client(Played(jobs={"errors": [error], "jobs": []})).jobs()) == ()


@pytest.mark.parametrize(
    "answer",
    [
        {"errors": [EMPTY_RESULT]},
        {"errors": [EMPTY_RESULT, {"error_number": 1, "error": "other"}], "jobs": []},
        {"errors": [{"error_number": 1, "error": "other"}], "jobs": []},
    ],
)
def test_another_error_of_accounting_is_one(answer: dict[str, Any]) -> None:
    with pytest.raises(CorralError) as caught:
        asyncio.run(client(Played(jobs=answer)).past(7))
    assert caught.value.code is Code.SLURM_REFUSED


def test_another_web_server_is_not_taken_for_slurm() -> None:
    class Other(Played):
        def send(self, *_: Any, **__: Any) -> Response:
            return Response(b"<html>", {}, 0)

    with pytest.raises(CorralError, match="it is not JSON, or was cut off") as caught:
        asyncio.run(client(Other()).version())
    assert "is it slurmrestd that answers, and not a proxy" in caught.value.hint


class Strange(Played):
    """A slurmrestd behind what gives another answer to all but ping, or to ping too."""

    def __init__(self, answer: Response | RefusedError, *, ping: bool = False) -> None:
        super().__init__()
        self.answer, self.ping = answer, ping

    def send(self, method: str, url: str, *args: Any, **options: Any) -> Response:
        if url.endswith("/ping") and not self.ping:
            return super().send(method, url, *args, **options)
        if isinstance(self.answer, RefusedError):
            raise self.answer
        return self.answer


JOB = submission_of(parse_job({"command": ["true"], "name": "mine"}), None, "/w", API)
CALLS: dict[str, Callable[[RestClient], Coroutine[Any, Any, Any]]] = {
    "version": lambda rest: rest.version(),
    "partitions": lambda rest: rest.partitions(),
    "nodes": lambda rest: rest.nodes(),
    "jobs": lambda rest: rest.jobs(),
    "past": lambda rest: rest.past(7),
    "records": lambda rest: rest.records(12),
    "submit": lambda rest: rest.submit(JOB),
    "cancel": lambda rest: rest.cancel("12", 12),
}
ANSWERS: dict[str, Response | RefusedError] = {
    "cut": Response(b'{"errors": [], "jobs": [', {}, 9),
    "cut where it is JSON": Response(b'{"errors": [], "jobs": []}', {}, 9),
    "html": Response(b"<html>log in</html>", {}, 0),
    "html of a refusal": RefusedError(404, "Not Found", b"\n<!doctype html>"),
    "empty": Response(b"", {}, 0),
    "another JSON": Response(b"[7]", {}, 0),
    "no list": Response(b"{}", {}, 0),
    "a text": Response(
        json.dumps(dict.fromkeys(("jobs", "nodes", "partitions", "pings", "errors"), "x")).encode(),
        *({}, 0),
    ),
    "one bad record": Response(
        json.dumps(
            {key: [{"job_id": "x", "name": 7}] for key in ("jobs", "nodes", "partitions")}
        ).encode(),
        *({}, 0),
    ),
}


def test_each_call_of_the_client_is_tried() -> None:
    calls = {name for name, value in vars(RestClient).items() if iscoroutinefunction(value)}
    assert {name for name in calls if not name.startswith("_")} == CALLS.keys()


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("call", CALLS)
def test_an_answer_that_cannot_be_read_is_never_nothing(call: str, answer: str) -> None:
    rest = client(Strange(ANSWERS[answer], ping=call == "version"))
    with pytest.raises(CorralError) as caught:
        asyncio.run(CALLS[call](rest))
    assert caught.value.code in (Code.PARSE_FAILED, Code.UNREACHABLE)
    assert caught.value.hint
    if call == "submit":
        assert "Slurm may have queued the job all the same" in caught.value.message
        assert "corral jobs (mine)" in caught.value.hint


@pytest.mark.parametrize("sent", [True, False])
def test_whether_a_job_may_be_queued_that_slurm_did_not_answer(*, sent: bool) -> None:
    lost = NoResponseError("timed out", sent=sent)
    with pytest.raises(CorralError) as caught:
        asyncio.run(client(Played(job_submit=lost)).submit(JOB))
    assert caught.value.code is Code.UNREACHABLE
    assert ("may have queued" in caught.value.message) is sent


def test_single_records_that_cannot_be_read_are_counted() -> None:
    good = {"job_id": 7, "job_state": ["RUNNING"]}
    rest = client(Played(jobs={"jobs": [good, {"job_id": "x"}, 3]}, job_7={"jobs": [good, 3]}))
    assert [job.id for job in asyncio.run(rest.jobs())] == [7]
    note = "2 of 3 jobs in Slurm's answer cannot be read and are left out"
    assert rest.notes == [note]
    asyncio.run(rest.jobs())
    assert rest.notes == [note]
    with pytest.raises(CorralError, match="1 of 2 records"):  # it may be the one looked for
        asyncio.run(rest.records(7))


def test_a_job_is_submitted_in_the_newest_version_and_named_by_its_number() -> None:
    played = Played(job_submit={"job_id": 7})
    rest = client(played)
    made = submission_of(
        parse_job({"command": ["hostname", "-f x"], "nodes": 2, "time": "90m"}), None, "/home/a", 42
    )
    assert asyncio.run(rest.submit(made)) == 7
    assert (rest.cluster, rest.release) == ("lab", "24.11.5")
    method, url, body = played.sent[-1]
    assert (method, url) == ("POST", "http://127.0.0.1:6820/slurm/v0.0.42/job/submit")
    job = body["job"]
    assert job["script"] == "#!/bin/sh\nexec srun hostname '-f x'\n"
    assert (job["minimum_nodes"], job["tasks_per_node"]) == (2, 1)
    assert job["time_limit"]["number"] == 90
    assert job["current_working_directory"] == "/home/a"


SCRIPT = """#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=4
#SBATCH --job-name=own --chdir=/own

# why
#SBATCH --time=30
echo $1
#SBATCH --time=5
"""


def submitted(script: str, **fields: Any) -> dict[str, Any]:
    """What slurmrestd gets for a batch script."""
    job = parse_job({"script": "a/job.sh", **fields})
    played = Played(job_submit={"job_id": 7})
    asyncio.run(client(played).submit(submission_of(job, script, "/w", API)))
    return played.sent[-1][2]["job"]


def test_a_scripts_own_lines_count_where_nothing_else_is_given() -> None:
    job = submitted(SCRIPT)
    assert job["script"] == SCRIPT
    assert (job["minimum_nodes"], job["tasks_per_node"]) == (2, 4)
    assert (job["name"], job["current_working_directory"]) == ("own", "/own")
    bare = submitted("#!/bin/sh\nsrun hostname\n")
    assert (bare["name"], bare["current_working_directory"]) == ("job.sh", "/w")
    assert not {"minimum_nodes", "tasks_per_node"} & set(bare)


def test_options_given_win_over_a_scripts_lines() -> None:
    given = {"nodes": 1, "ranks_per_node": 1, "name": "mine", "workdir": "/mine"}
    job = submitted(SCRIPT, **given, env={"LR": "0.1"})
    assert (job["minimum_nodes"], job["tasks_per_node"]) == (1, 1)
    assert (job["name"], job["current_working_directory"]) == ("mine", "/mine")
    assert job["time_limit"]["number"] == 30
    assert "LR=0.1" in job["environment"]


def test_with_arguments_the_scripts_lines_still_count() -> None:
    job = submitted(SCRIPT, args=["a b"])
    head, _, tail = SCRIPT.partition("echo")
    assert job["script"] == f"{head}set -- 'a b'\necho{tail}"
    assert (job["minimum_nodes"], job["time_limit"]["number"]) == (2, 30)
    assert (job["name"], job["tasks_per_node"]) == ("own", 4)
    only = submitted("#!/bin/sh\n#SBATCH --time=30", args=["x"])
    assert only["script"] == "#!/bin/sh\n#SBATCH --time=30\nset -- x"


def test_an_array_needs_no_files_and_a_sweep_does() -> None:
    assert submitted(SCRIPT, array="0-9:3", at_once=2)["array"] == "0-9:3%2"
    assert submitted(SCRIPT, array="1,5")["array"] == "1,5"
    with pytest.raises(CorralError, match="takes no files, which sweep needs"):
        submitted(SCRIPT, sweep={"lr": ("1", "2")})


def test_requeue_is_refused_unless_the_script_has_slurms_own() -> None:
    own = "#!/bin/sh\n#SBATCH --requeue\nsrun hostname\n"
    assert submitted(own, requeue=True)["requeue"] is True
    command = parse_job({"command": ["hostname"], "requeue": True})
    script = parse_job({"script": "job.sh", "requeue": True})
    for job, text in ((command, None), (script, SCRIPT)):
        with pytest.raises(CorralError, match="--requeue signals the ranks") as caught:
            submission_of(job, text, "/w", API)
        assert caught.value.code is Code.USAGE
        assert "without a signal before the time limit" in caught.value.hint


@pytest.mark.parametrize(
    ("fields", "script", "message"),
    [
        ({"script": "train.py"}, "import torch\n", "train.py is not a shell script"),
        ({"script": "x"}, "#!/usr/bin/env python3\n", "x is not a shell script"),
        ({"command": ["a"], "folder": "."}, None, "takes no files, which folder needs"),
        ({"command": ["a"], "container": "/shared/x.sqsh"}, None, "which container needs"),
    ],
)
def test_what_needs_files_is_refused_in_one_sentence(
    fields: dict[str, Any], script: str | None, message: str
) -> None:
    with pytest.raises(CorralError, match=message) as caught:
        submission_of(parse_job(fields), script, "/w", 42)
    assert "corral login USER@HOST" in caught.value.hint
