"""Waiting for a job's JupyterLab: where it is, and why there is none. Scripts run here."""

from __future__ import annotations

import asyncio
import getpass
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corral.api.workload import notebook
from corral.api.workload.queue import JobOutcome, RankLine
from corral.errors import Code, CorralError
from corral.events import Event
from corral.hosts.fleet import Fleet
from corral.hosts.local import Local
from corral.jobs import control
from corral.jobs.handle import JobHandle
from corral.slurm.states.jobs import JobState

TOKEN = "t" * 43
FLEET = Fleet({"node0": Local("node0")})
Waits = Callable[..., tuple[Any, list[str]]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / notebook.PROGRAM.name).touch()
    return tmp_path


@pytest.fixture
def waits(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Waits:
    """Wait for JupyterLab of a job that is in these states, one after the other."""
    monkeypatch.setattr(notebook, "POLL_S", 0.0)
    monkeypatch.setattr(notebook, "PENDING_POLL_S", 0.0)

    def waited(*states: JobOutcome, own: str = str(folder)) -> tuple[Any, list[str]]:
        handle = JobHandle(12, "notebook", getpass.getuser(), own, 1, "node0")
        left = list(states)
        seen: list[str] = []

        async def state(fleet: Fleet, handle: JobHandle) -> JobOutcome:
            return left.pop(0) if len(left) > 1 else left[0]

        async def logs(fleet: Fleet, handle: JobHandle) -> Any:
            return (RankLine(0, "no space left"),), left[0]

        monkeypatch.setattr(control, "state", state)
        monkeypatch.setattr(control, "logs", logs)

        def emit(event: Event) -> None:
            seen.append(event.message)

        return asyncio.run(notebook._listening(FLEET, handle, emit)), seen

    return waited


def job(state: JobState, reason: str = "") -> JobOutcome:
    return JobOutcome(12, state, None, reason, "node0")


def wrote(folder: Path, **fields: object) -> None:
    (folder / "notebook.json").write_text(json.dumps(fields))


@pytest.mark.enable_socket
def test_it_waits_until_jupyterlab_listens(folder: Path, waits: Waits) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        wrote(folder, node="node0", port=port, token=TOKEN)
        pending = job(JobState.PENDING, "Resources")
        (place, far), seen = waits(pending, pending, job(JobState.RUNNING))
    assert (place.node, place.token) == ("node0", TOKEN)
    assert TOKEN not in repr(place)
    assert (far.address, far.port) == ("127.0.0.1", port)
    assert len(seen) == 2
    assert seen[0].startswith("pending: ")
    assert seen[1] == "running on node0"


@pytest.mark.enable_socket
def test_a_port_where_nothing_listens_is_waited_for(
    folder: Path, waits: Waits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebook, "START_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    wrote(folder, node="node0", port=port, token=TOKEN)
    with pytest.raises(CorralError, match="did not start within") as caught:
        waits(job(JobState.RUNNING))
    assert caught.value.code is Code.TIMED_OUT
    assert "corral logs 12" in caught.value.hint


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.FAILED])
def test_a_python_without_jupyterlab(folder: Path, waits: Waits, state: JobState) -> None:
    wrote(folder, missing="/usr/bin/python3")
    with pytest.raises(CorralError) as caught:
        waits(job(state))
    assert caught.value.code is Code.MISSING_TOOL
    assert caught.value.message.endswith("the job's Python, /usr/bin/python3")
    for option in ("--python", "--environment", "--container"):
        assert option in caught.value.hint


def test_a_job_that_has_ended(waits: Waits) -> None:
    with pytest.raises(CorralError, match="job 12 ended as TIMEOUT") as caught:
        waits(job(JobState.TIMEOUT))
    assert caught.value.code is Code.NOT_GOOD
    assert caught.value.tail == "no space left"


@pytest.mark.parametrize("other", ["", "no code"])
def test_a_job_of_another_kind(tmp_path: Path, waits: Waits, other: str) -> None:
    with pytest.raises(CorralError, match="job 12 is not a notebook") as caught:
        waits(job(JobState.RUNNING), own=other and str(tmp_path / "code"))
    assert caught.value.code is Code.NOT_FOUND
    assert "corral forward 12 PORT" in caught.value.hint


@pytest.mark.parametrize(
    "fields",
    [
        {"node": "node0", "port": 80, "token": "short"},
        {"node": "node0", "port": 80, "token": f"{TOKEN}\x1b[31m"},
        {"node": "node0", "port": "x", "token": TOKEN},
    ],
)
def test_what_a_job_writes_is_checked(folder: Path, waits: Waits, fields: dict[str, Any]) -> None:
    wrote(folder, **fields)
    with pytest.raises(CorralError, match=r"notebook\.json is damaged"):
        waits(job(JobState.RUNNING))


def test_a_node_that_was_rented_meanwhile_needs_a_new_session(folder: Path, waits: Waits) -> None:
    wrote(folder, node="rented7", port=80, token=TOKEN)
    (place, listener), _ = waits(job(JobState.RUNNING))
    assert (place.node, listener) == ("rented7", None)
