"""``corral ui`` of a profile of ``corral login --rest``: slurmrestd behind TLS, no cluster file.

What the page has of it is what Slurm's REST API has; each view works, or states what it lacks.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from corral import api
from corral.errors import Exit
from tests.browser.conftest import LIVE, OTHER, Served, Terminal, patient, wait_until
from tests.embedded.conftest import Live
from tests.embedded.test_login_rest import reached_rest

NAME = f"rest-page-{os.getpid()}"
CERTIFICATE = (
    *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
    *("-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
)
ALONE = "this page has Slurm's REST API alone, which reads no files and runs no commands"
SCRIPT = "#!/bin/sh\n#SBATCH --job-name=by-rest --time=5 --mem=64M --hold\nsleep 600\n"


async def _front(
    context: ssl.SSLContext, there: int, ports: list[int], ready: Event, end: asyncio.Event
) -> None:
    """A proxy with TLS, as an administrator puts one in front of slurmrestd."""

    async def copied(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(1 << 16):
                sink.write(data)
                await sink.drain()
        sink.close()

    async def taken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        near, far = await asyncio.open_connection("127.0.0.1", there)
        await asyncio.gather(copied(reader, far), copied(near, writer))

    async with await asyncio.start_server(taken, "127.0.0.1", 0, ssl=context) as server:
        ports.append(server.sockets[0].getsockname()[1])
        ready.set()
        await end.wait()


@contextmanager
def fronted(there: int, folder: Path) -> Iterator[str]:
    """Slurmrestd's address by TLS; its certificate is in SSL_CERT_FILE, not in httpx's list."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    made = (*CERTIFICATE, "-keyout", str(key), "-out", str(certificate))
    subprocess.run(made, check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    loop, end, ready, ports = asyncio.new_event_loop(), asyncio.Event(), Event(), list[int]()
    work = _front(context, there, ports, ready, end)
    thread = Thread(target=lambda: loop.run_until_complete(work), daemon=True)
    thread.start()
    assert ready.wait(30)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SSL_CERT_FILE", str(certificate))
            yield f"https://127.0.0.1:{ports[0]}"
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join(30)


@pytest.fixture(scope="module")
def profile(
    cluster: Live, people: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """The page of kim, who has a token and nothing else."""
    token, shell = people(OTHER), Terminal(Path(NAME))
    with ExitStack() as stack, ThreadPoolExecutor(1) as pool:  # Playwright's loop is in this thread
        tunnel = reached_rest(cluster)
        port = pool.submit(tunnel.__enter__).result()
        stack.callback(tunnel.__exit__, None, None, None)
        url = stack.enter_context(fronted(port, tmp_path_factory.mktemp("tls")))
        pool.submit(lambda: asyncio.run(api.login_rest(OTHER, url, token, name=NAME))).result()
        stack.callback(api.logout, NAME)
        stack.callback(shell.close)
        yield shell.open()


@pytest.fixture(scope="module")
def page(chromium: Any, profile: Served) -> Iterator[Any]:
    context = patient(chromium, viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto(f"{profile.url}#code={profile.code}")
    page.wait_for_selector(".node")
    wait_until(page, LIVE)
    yield page
    context.close()


VIEWS = {
    "cluster": "nodes take jobs",
    "cluster?view=table": "node2",
    "cluster?view=racks": "declares no racks",
    "node/node1": "no metrics of this node",
    "jobs/all": "Submit a job",
    "jobs/ended": "30 days",
    "mine": "no price is known without the cluster file",
    "timeline": "Jobs by node",
    "policy/accounts": f"{OTHER} user",
    "policy/qos": "This page changes nothing here. Slurm's administrators may, on a node: sacctmgr",
    "policy/reservations": "This page changes nothing here.",
    "policy/licenses": "There is nothing to change here.",
    "policy/scheduler": "Main scheduler",
    "api": "operations",
    "tokens": "takes Slurm's own tokens",
    "proof": "this needs Corral itself, which does not run here",
}
"""What each view shows: its content, or in a sentence what it lacks."""


def test_each_view_works_or_states_what_it_lacks(page: Any, profile: Served) -> None:
    for view, words in VIEWS.items():
        page.goto(f"{profile.url}#{view}")
        wait_until(
            page,
            "(words) => document.querySelector('main').innerText.replace(/\\s+/g, ' ')"
            ".includes(words)",
            words,
        )
    shown = page.inner_text("nav")
    assert "My work" in shown
    assert not {"Proof", "Doctor", "Plan & apply", "History"} & set(shown.split("\n"))


def test_a_script_is_submitted_held_and_cancelled(page: Any, profile: Served) -> None:
    page.goto(f"{profile.url}#submit")
    page.locator(f"text=No job by form here: {ALONE}").wait_for()
    page.fill("textarea", SCRIPT)
    page.click("button:text-is('Expected start')")
    page.locator(f"text=When it would start is unknown: {ALONE}").wait_for()
    page.click("button:text-is('Submit')")
    page.locator("h1 >> text=by-rest").wait_for()
    where = f"reads no files: the output is in /home/{OTHER}/slurm-"
    page.locator(f"text={where}").wait_for()
    page.click("button:text-is('Release')")
    page.locator("h1 >> text=running").wait_for()
    assert page.locator("button:text-is('Requeue')").count() == 0
    page.click("button:text-is('Cancel')")
    page.click("dialog button:text-is('Cancel the job')")
    page.locator("h1 >> text=cancelled").wait_for()
    page.locator(f"text=Without its output: {ALONE}").wait_for()
    assert page.locator("text=Edit and submit").count() == 0
    page.goto(f"{profile.url}#jobs/ended")
    page.locator("tr[data-key] >> text=by-rest").first.wait_for()


def test_another_user_than_the_profiles_is_refused(profile: Served) -> None:
    words = [sys.executable, "-m", "corral", "ui", NAME, "--user", "somebody"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == Exit.FAILED, done.stderr
    assert f"has {OTHER}'s token, not somebody's" in done.stderr
