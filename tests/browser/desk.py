"""A page without a cluster: the server as it is, over recorded answers of slurmrestd.

Tests that need no real Slurm take this one: arrays, bulk actions, tokens and the node page at any
size. Changes that the page asks for are made here, as slurmrestd makes them.
"""

from __future__ import annotations

import copy
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from corral.web.app import create_app
from corral.web.settings import Settings
from tests.browser.conftest import PATIENT_MS, patient
from tests.unit.web.fake import FakeRest


def _set(number: int | None) -> dict[str, Any]:
    return {"set": number is not None, "infinite": False, "number": number or 0}


class DeskRest(FakeRest):
    """Recorded answers, with jobs and nodes of this test; it keeps what it is asked to change."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = set[str]()
        self._job = copy.deepcopy(self.bodies["jobs"]["body"]["jobs"][0])
        self._node = copy.deepcopy(self.bodies["nodes"]["body"]["nodes"][0])
        self.bodies["jobs"]["body"]["jobs"] = []

    def add(self, number: int, **more: Any) -> None:
        """One job; ``array`` and ``task`` or ``tasks`` make it one of an array."""
        array, task, tasks = more.pop("array", 0), more.pop("task", None), more.pop("tasks", "")
        fields = {
            "job_id": number,
            "job_state": ["RUNNING"],
            "array_job_id": _set(array or None),
            "array_task_id": _set(task),
            "array_task_string": tasks,
            "user_name": "kim",
            "start_time": _set(int(time.time()) - 600),
            **more,
        }
        self.bodies["jobs"]["body"]["jobs"].append({**copy.deepcopy(self._job), **fields})

    def nodes(self, count: int, **more: Any) -> None:
        """A number of nodes like the recorded one."""
        self.bodies["nodes"]["body"]["nodes"] = [
            {**copy.deepcopy(self._node), "name": f"gpu{n:03}", "state": ["IDLE"], **more}
            for n in range(count)
        ]

    def _changed(self, method: str, what: str, user: str) -> httpx.Response:
        kind, _, name = what.partition("/")
        if name in self.refused:
            error = {"error": "Job/step already completing or completed", "error_number": 2021}
            return httpx.Response(500, json={"errors": [error]})
        if kind == "job" and method == "DELETE":
            for job in self.bodies["jobs"]["body"]["jobs"]:
                array = str(job["array_job_id"]["number"])
                label = f"{array}_[{job['array_task_string']}]"
                if name in (str(job["job_id"]), array, label):
                    job["job_state"] = ["CANCELLED"]
            self.touch("jobs")
        if kind == "node" and self.roles.get(user) != "None":
            sent = self.sent[-1][2]
            for node in self.bodies["nodes"]["body"]["nodes"]:
                if node["name"] == name:
                    drain = sent["state"] == ["DRAIN"]
                    node["state"] = ["IDLE", "DRAIN"] if drain else ["IDLE"]
                    node["reason"] = sent.get("reason", "") if drain else ""
                    node["reason_set_by_user"] = user if drain else ""
                    node["reason_changed_at"] = _set(int(time.time()) if drain else None)
            self.touch("nodes")
        return super()._changed(method, what, user)


@dataclass
class Desk:
    """A page that is served.

    Attributes:
        url: where.
        rest: what it asks.
        app: the application.
        stop: ends the server.
    """

    url: str
    rest: DeskRest
    app: Any
    stop: Callable[[], None] = lambda: None
    tabs: list[Any] = field(default_factory=list[Any])

    def code(self, user: str = "kim", role: str = "None") -> str:
        """A one-time code for a user."""
        from corral.web.users.sessions import login_of  # noqa: PLC0415  # only where it is used

        return self.app.state.corral.sessions.code(login_of(self.rest.login(user, role)))


@contextmanager
def served(
    rest: DeskRest, listening: socket.socket | None = None, **settings: Any
) -> Iterator[Desk]:
    """A page in a thread of this process, at a free port or where ``listening`` is."""
    fields: dict[str, Any] = {"cluster": "lab", "rest": "http://slurm", "poll_s": 0.2}
    fields |= {"private": False, **settings}
    app = create_app(Settings(**fields), httpx.MockTransport(rest))
    listening = listening or socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{listening.getsockname()[1]}/"

    def stop() -> None:
        server.should_exit = True
        thread.join(10)
        listening.close()

    try:
        yield Desk(address, rest, app, stop)
    finally:
        stop()


@pytest.fixture(scope="module")
def window(chromium: Any) -> Any:
    """The browser; a second Playwright in one thread is refused."""
    return chromium


@contextmanager
def tab(
    window: Any, desk: Desk, user: str = "kim", role: str = "None", **more: Any
) -> Iterator[Any]:
    """A tab of a user; a script error or a blocked resource fails the test."""
    # A browser of the C locale names its language en-US@posix, of which Intl and uPlot end.
    context = patient(window, viewport={"width": 1440, "height": 900}, locale="en-US", **more)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on(
        "console",
        lambda m: errors.append(m.text) if "Content Security Policy" in m.text else None,
    )
    page.goto(f"{desk.url}#code={desk.code(user, role)}")
    page.wait_for_selector("#user:not(:empty)", state="attached")
    yield page
    context.close()
    assert not errors


NODES = "**/api/nodes?layout=columns"
"""What the page asks for its nodes, as a pattern of Playwright's."""
NodeDict = dict[str, Any]


def other_nodes(page: Any, make: Callable[[list[NodeDict]], list[NodeDict]]) -> None:
    """Let the page have the nodes that ``make`` makes of those that there are."""

    def answered(route: Any) -> None:
        # A server ends a connection that nobody used for some seconds; a request on it fails then.
        reply = route.fetch(timeout=PATIENT_MS, max_retries=5)
        table = reply.json()
        columns = table["columns"]
        rows = zip(*table["values"], strict=True)
        nodes = make([dict(zip(columns, row, strict=True)) for row in rows])
        values = [[node[column] for node in nodes] for column in columns]
        route.fulfill(response=reply, body=json.dumps({**table, "values": values}))

    page.route(NODES, answered)


SIZES = {"1440": (1440, 900), "390": (390, 844)}


def pictures(page: Any, name: str) -> None:
    """Screenshots of both widths in both themes, where a folder for them is given."""
    folder = os.environ.get("CORRAL_TEST_PICTURES", "")
    if not folder:
        return
    for size, (width, height) in SIZES.items():
        page.set_viewport_size({"width": width, "height": height})
        for theme in ("light", "dark"):
            page.evaluate(f"document.documentElement.dataset.theme = {json.dumps(theme)}")
            page.evaluate("document.dispatchEvent(new Event('theme'))")
            page.wait_for_timeout(250)
            page.screenshot(path=str(Path(folder) / f"{name}-{size}-{theme}.png"))
    page.set_viewport_size({"width": 1440, "height": 900})
    page.evaluate("document.documentElement.dataset.theme = 'light'")
