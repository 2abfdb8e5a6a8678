"""The page over recorded answers, and a double of the controller's helper that reads real files.

The helper (``web/as_user.py``) needs root and users; the double speaks its protocol on a socket,
and carries out the page's own programs on a folder of the test.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingUnixStreamServer
from typing import Any

from corral import api
from corral.api import LogQuestion
from corral.api.page.job_logs import log_script
from corral.slurm.records import Job
from tests.browser.conftest import patient, wait_until
from tests.embedded.test_page_limits import EXAMPLE, serving, slurmrestd
from tests.unit.web.fake import FakeRest

FIRST_EVENT = "import('/js/lib/event_stream.js').then(({ now }) => now.head !== null)"
NUMBER = {"set": True, "infinite": False}


@dataclass
class Helper:
    """What the helper knows: each job's folder and script; what it refuses, what it was asked."""

    folders: dict[int, Path] = field(default_factory=dict[int, Path])
    scripts: dict[int, str] = field(default_factory=dict[int, str])
    recorded: dict[int, api.Recorded] = field(default_factory=dict[int, api.Recorded])
    templates: api.TemplateFolder = field(default_factory=lambda: api.TemplateFolder(""))
    environments: api.Environments = field(default_factory=api.Environments)
    expected: dict[str, Any] = field(default_factory=lambda: {"start_at": None, "nodes": ""})
    refused: dict[str, Any] = field(default_factory=dict[str, Any])
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def answers(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        self.asked.append(request)
        if self.refused and request["do"] == "script-expected":
            yield {"error": self.refused}
        elif request["do"] == "log":
            yield from self._log(request["job"], LogQuestion.model_validate(request["fields"]))
        elif request["do"] == "script" and request["job"] in self.scripts:
            yield {"text": self.scripts[request["job"]]}
        elif request["do"] == "script":
            yield {"error": {"code": "not-found", "message": "Slurm has no script of the job"}}
        elif request["do"] == "recorded":
            yield asdict(self.recorded.get(request["job"], api.Recorded()))
        elif request["do"] == "templates":
            for file in self.templates.as_dict()["files"]:
                yield {"file": file}
            yield {"path": self.templates.path, "trouble": self.templates.trouble}
        elif request["do"] in (always := self._always()):
            yield always[request["do"]]

    def _always(self) -> dict[str, dict[str, Any]]:
        """Answers that are the same whatever is asked about."""
        return {
            "extras": {"environment": [], "run": "", "tracking": "", "recordings": []},
            "environments": self.environments.as_dict(),
            "known": {"ok": True},
            "submit": {"id": 1},
            "submit-script": {"id": 1},
            "expected": self.expected,
            "script-expected": self.expected,
        }

    def _log(self, job: int, question: LogQuestion) -> Iterator[dict[str, Any]]:
        folder = self.folders.get(job, Path("/nonexistent"))
        record = replace(Job(id=job), stdout=str(folder / "batch.log"))
        argv = ["sh", "-c", str(log_script(record, question))]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as reader:
            assert reader.stdout is not None
            try:
                for line in reader.stdout:
                    yield {"line": line.rstrip("\n")}
            finally:
                reader.kill()
        if reader.returncode == 4:
            yield {"error": {"code": "not-found", "message": "no output"}}


@contextmanager
def helping(path: Path) -> Iterator[Helper]:
    """The double on a socket."""
    helper = Helper()

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            answers = helper.answers(json.loads(self.rfile.readline()))
            try:
                for reply in answers:
                    self.wfile.write(json.dumps(reply).encode() + b"\n")
            except OSError:  # nobody listens any more
                answers.close()  # type: ignore[attr-defined]

    server = ThreadingUnixStreamServer(str(path), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield helper
    finally:
        server.shutdown()
        server.server_close()


@dataclass
class Desk:
    """A tab of such a page, logged in as kim, and what is behind it; server: its process."""

    page: Any
    url: str
    rest: FakeRest
    helper: Helper
    server: int

    def job(self, number: int) -> dict[str, Any]:
        """A job as slurmctld reports it, to be changed."""
        listed = self.rest.bodies["jobs"]["body"]["jobs"]
        (known,) = [job for job in listed if job["job_id"] == number]
        return known

    def open(self, address: str) -> None:
        self.page.goto(f"{self.url}#{address}")


def spec() -> dict[str, Any]:
    """The cluster of examples/laptop.yaml, with kim."""
    made, _ = api.lint_text(
        EXAMPLE.read_text() + "users:\n  - {name: kim, uid: 2077}\n", "laptop.yaml"
    )
    assert made is not None
    return made.model_dump(mode="json")


@contextmanager
def desk(chromium: Any, folder: Path, cluster: dict[str, Any] | None = None) -> Iterator[Desk]:
    """A page of 1280 by 800; a script error or a blocked resource fails the test."""
    socket = folder / "helper.sock"
    with (
        helping(socket) as helper,
        slurmrestd() as (rest, fake),
        serving(rest=rest, as_user=str(socket), service=True, spec=cluster or spec()) as served,
    ):
        context = patient(chromium, viewport={"width": 1280, "height": 800})
        page = context.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on(
            "console",
            lambda m: errors.append(m.text) if "Content Security Policy" in m.text else None,
        )
        page.goto(f"{served.url}/")
        page.fill("input[name=token]", fake.login())
        page.click("text=Log in with the token")
        page.wait_for_selector(".node")
        wait_until(page, FIRST_EVENT)
        yield Desk(page, f"{served.url}/", fake, helper, served.pid)
        context.close()
        assert not errors
