"""forward, notebook, ssh --config: what they print, and how they end."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from corral import api
from corral.api.workload.notebook import Notebook
from corral.api.workload.queue import JobHandle, JobOutcome
from corral.api.workload.tunnel import Forwarded
from corral.errors import Code, CorralError
from corral.slurm.states.jobs import JobState
from tests.unit.cli.conftest import Fake, Run

TUNNEL = Forwarded("12", "node1", 8000, 8001)
NOTEBOOK = Notebook(TUNNEL, "secret-of-the-notebook")
HANDLE = JobHandle(12, "notebook", "corral", "/shared/corral/jobs/corral/x", 1, "node0")
Opens = Callable[[str, Any, Any], list[tuple[tuple[Any, ...], dict[str, Any]]]]


@pytest.fixture
def opens(monkeypatch: pytest.MonkeyPatch) -> Opens:
    """``api.NAME`` opens something that ends so, or raises; gives its calls."""

    def replaced(name: str, opened: Any, end: Any) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

        async def ended() -> JobOutcome:
            if isinstance(end, BaseException):
                raise end
            return end

        @asynccontextmanager
        async def use_case(*args: Any, **kwargs: Any) -> AsyncGenerator[Any]:
            calls.append((args, kwargs))
            if isinstance(opened, BaseException):
                raise opened
            yield opened, ended

        monkeypatch.setattr(api, name, use_case)
        return calls

    return replaced


def outcome(state: JobState) -> JobOutcome:
    return JobOutcome(12, state, None, "", "node1", 60)


def test_forward_prints_the_address_and_ends_with_the_job(
    corral: Run, opens: Opens, known: Any
) -> None:
    calls = opens("forward", TUNNEL, outcome(JobState.CANCELLED))
    result = corral("forward", "12", "8000", "-n", "node1", "--port", "8001")
    assert result.exit_code == 0
    assert result.stdout.startswith("http://127.0.0.1:8001/  port 8000 of node1, job 12\n")
    assert "job 12 ended: cancelled; the tunnel is closed" in result.stderr
    ((_, job, port), more) = calls[0]
    assert (job, port) == ("12", 8000)
    assert (more["node"], more["local_port"]) == ("node1", 8001)


def test_forward_as_json(corral: Run, opens: Opens, known: Any) -> None:
    opens("forward", TUNNEL, outcome(JobState.COMPLETED))
    lines = corral("forward", "12", "8000", "--json").stdout.splitlines()
    first, last = map(json.loads, lines)
    assert first == {
        "event": "forwarded",
        "url": "http://127.0.0.1:8001/",
        "job": "12",
        "node": "node1",
        "port": 8000,
        "local_port": 8001,
    }
    assert (last["event"], last["state"]) == ("ended", "COMPLETED")


def test_ctrl_c_closes_the_tunnel_and_leaves_the_job(corral: Run, opens: Opens, known: Any) -> None:
    opens("forward", TUNNEL, KeyboardInterrupt())
    result = corral("forward", "12", "8000")
    assert result.exit_code == 0
    assert "the tunnel is closed; job 12 keeps running" in result.stderr


def test_a_tunnel_that_breaks_is_a_failure(corral: Run, opens: Opens, known: Any) -> None:
    broke = CorralError(Code.UNREACHABLE, "the tunnel to node1 broke", hint="run it again")
    opens("forward", TUNNEL, broke)
    result = corral("forward", "12", "8000")
    assert result.exit_code == 3
    assert "the tunnel to node1 broke" in result.stderr


@pytest.mark.parametrize("words", [("x", "80"), ("12", "0"), ("12", "65536"), ("12",)])
def test_forward_refuses_what_is_no_job_or_port(corral: Run, known: Any, words: Any) -> None:
    assert corral("forward", *words).exit_code == 2


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (JobState.COMPLETED, 0),
        (JobState.CANCELLED, 0),
        (JobState.TIMEOUT, 0),
        (JobState.DEADLINE, 0),
        (JobState.FAILED, 1),
    ],
)
def test_notebook_is_submitted_and_opened(  # noqa: PLR0917
    corral: Run, fake: Fake, opens: Opens, known: Any, state: JobState, status: int
) -> None:
    fake.answer("submit", HANDLE)
    calls = opens("open_notebook", NOTEBOOK, outcome(state))
    result = corral("notebook", "-G", "1", "--time", "4h", "-p", "main", "--python", "/py")
    assert result.exit_code == status
    url = "http://127.0.0.1:8001/lab?token=secret-of-the-notebook"
    assert result.stdout == f"{url}\nJupyterLab on node1, job 12.\n"
    assert "secret" not in result.stderr
    job = fake.calls["submit"][0][0][1]
    assert (job.gpus_per_node, job.time, job.partition) == (1, "4h", "main")
    assert (job.nodes, job.logs, job.name, job.folder) == (1, 1, "notebook", "none")
    assert job.args == ("--home", "--python", "/py")
    assert calls[0][0][1] == "12"


def test_a_detached_notebook_is_opened_later(
    corral: Run, fake: Fake, opens: Opens, known: Any
) -> None:
    fake.answer("submit", HANDLE)
    calls = opens("open_notebook", NOTEBOOK, outcome(JobState.COMPLETED))
    result = corral("notebook", "-d", "--workdir", "/shared/me")
    assert result.stdout == "job 12: submitted\nnext: corral notebook 12\n"
    assert fake.calls["submit"][0][0][1].args == ()
    assert not calls
    again = corral("notebook", "12", "--json")
    opened = json.loads(again.stdout.splitlines()[0])
    assert (opened["event"], opened["token"]) == ("opened", "secret-of-the-notebook")
    assert len(fake.calls["submit"]) == 1


def test_ctrl_c_leaves_the_notebook_and_names_the_way_back(
    corral: Run, opens: Opens, known: Any
) -> None:
    opens("open_notebook", NOTEBOOK, KeyboardInterrupt())
    result = corral("notebook", "12")
    assert result.exit_code == 130
    assert "job 12 keeps running; `corral cancel 12` ends it" in result.stderr
    assert "corral notebook 12" in result.stderr


def test_options_of_a_job_cannot_change_one_that_there_is(corral: Run, known: Any) -> None:
    result = corral("notebook", "12", "-G", "1")
    assert result.exit_code == 2
    assert "job 12 has been submitted" in result.stderr


def test_a_tokens_text_is_in_no_repr() -> None:
    assert "secret" not in repr(NOTEBOOK)


def test_ssh_config_is_printed_written_and_removed(
    corral: Run, fake: Fake, known: Any, home: Path
) -> None:
    fake.answer("ssh_config", "# corral: begin laptop x\nHost laptop\n# corral: end laptop\n")
    assert corral("ssh", "--config").stdout.splitlines()[1] == "Host laptop"
    file = home / "my config"
    result = corral("ssh", "--config", "-o", str(file))
    assert result.stdout == f"{file}: written; try: ssh laptop\n"
    assert f"Include '{file}'" in result.stderr
    assert "unchanged" in corral("ssh", "--config", "-o", str(file)).stdout
    removed = corral("ssh", "--config", "--remove", "-o", str(file), "--json")
    assert json.loads(removed.stdout) == {"file": str(file), "changed": True}
    assert file.read_text() == ""


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "no node given"),
        (("--config", "node1"), "leave out the node"),
        (("--config", "--remove"), "--remove needs the file"),
        (("-o", "x", "node1"), "-o and --remove are for --config"),
    ],
)
def test_ssh_does_one_of_two_things(corral: Run, known: Any, words: Any, why: str) -> None:
    result = corral("ssh", *words)
    assert result.exit_code == 2
    assert why in result.stderr


def test_ssh_as_a_user(corral: Run, fake: Fake, known: Any) -> None:
    fake.answer("ssh_argv", ["ssh"])
    corral("ssh", "node1", "--user", "alice", "--json", "id", "-un")
    args, more = fake.calls["ssh_argv"][0]
    assert (args[1:], more) == (("node1", ["id", "-un"]), {"user": "alice"})
