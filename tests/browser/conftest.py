"""A real browser (Debian's Chromium) against ``corral ui`` of a real embedded cluster.

The cluster is the one of tests/embedded; CORRAL_TEST_CLUSTER names an existing one. The screenshots
of the README and the guide are re-created with CORRAL_TEST_SCREENSHOTS=docs/img.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pytest

from corral.hosts.quote import Script, sh
from tests.conftest import SHOWN
from tests.embedded.conftest import EXAMPLES, Live, cluster, fresh_cluster
from tests.hung_process import DEBUG, ended

__all__ = ["cluster", "fresh_cluster"]

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run", "--disable-dev-shm-usage"),
)
OTHER = "kim"
UID = 2077
PATIENT_MS = 300_000
"""A call waits so long for its condition: what hangs reaches it, a slow machine does not."""
LIVE = "document.querySelector('#live').textContent === 'live'"
"""An expression: the page's events come."""


def run_root(cluster: Live, node: str, script: Script) -> str:
    """What a script prints on a node. In a thread: Playwright's loop runs in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(cluster.run, node, script).result().stdout


@dataclass
class Served:
    """``corral ui`` as a process: where it listens, its code, and what its terminal shows."""

    url: str
    code: str
    process: subprocess.Popen[str]
    terminal: list[str] = field(default_factory=list)

    def apply_code(self, after: int) -> str:
        """The code of the last plan, once a line behind the ``after`` first ones shows it."""
        end = time.monotonic() + PATIENT_MS / 1000
        while time.monotonic() < end:  # another thread reads what the terminal shows
            prompts = [line for line in self.terminal[after:] if "to apply" in line]
            if prompts:
                return prompts[-1].rpartition(" ")[2].strip()
            time.sleep(0.05)
        pytest.fail(f"no code in {self.terminal[after:]}")


@dataclass
class Terminal:
    """Starts ``corral ui`` and follows its standard error."""

    file: Path
    running: list[Served] = field(default_factory=list)

    def open(self, *args: str) -> Served:
        argv = [sys.executable, "-m", "corral", "ui", str(self.file), "--json", *args]
        process = subprocess.Popen(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, **DEBUG},
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.stderr.read() if process.stderr else ""
        access = json.loads(line)
        served = Served(access["url"], access["code"], process)

        def follow() -> None:
            assert process.stderr is not None
            served.terminal.extend(iter(process.stderr.readline, ""))

        threading.Thread(target=follow, daemon=True).start()
        self.running.append(served)
        return served

    def close(self) -> None:
        for served in self.running:
            served.process.send_signal(signal.SIGINT)
        hung: list[str] = []
        for served in self.running:
            try:
                ended(served.process, lambda served=served: "".join(served.terminal))
            except AssertionError as error:
                hung.append(str(error))
        assert not hung, "\n".join(hung)


@pytest.fixture(scope="session")
def people(cluster: Live) -> Iterator[Callable[[str], str]]:
    """Makes corral an administrator and ``kim`` a user; gives tokens."""
    add = sh("id {u} >/dev/null 2>&1 || useradd -m -u {i} {u}", u=OTHER, i=UID)
    for node in cluster.facts:
        run_root(cluster, node, add)
    grant = sh(
        "sacctmgr -i -Q add user {u} account=corral; "
        "sacctmgr -i -Q modify user corral set adminlevel=administrator; true",
        u=OTHER,
    )
    run_root(cluster, cluster.controller, grant)

    def token(user: str, seconds: int = 900) -> str:
        ask = sh("scontrol token username={u} lifespan={s}", u=user, s=seconds)
        return run_root(cluster, cluster.controller, ask).strip()

    yield token
    revoke = sh(
        "scancel -u {u}; sacctmgr -i -Q delete user {u}; "
        "sacctmgr -i -Q modify user corral set adminlevel=none; true",
        u=OTHER,
    )
    run_root(cluster, cluster.controller, revoke)
    for node in cluster.facts:
        run_root(cluster, node, sh("userdel -r {u} 2>/dev/null; true", u=OTHER))


@pytest.fixture(scope="session")
def terminal(
    cluster: Live, people: object, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Terminal]:
    """Where ``corral ui`` is typed."""
    file = tmp_path_factory.mktemp("ui") / "laptop.yaml"
    text = (EXAMPLES / "laptop.yaml").read_text()
    file.write_text(text.replace("name: laptop", f"name: {cluster.spec.name}", 1))
    shell = Terminal(file)
    yield shell
    shell.close()


@pytest.fixture(scope="session")
def served(terminal: Terminal) -> Served:
    """One page for all tests."""
    return terminal.open()


@pytest.fixture(scope="session")
def chromium(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The browser; after the cluster, as asyncio.run() is refused next to Playwright's loop.

    Tests over recorded answers alone need no cluster.
    """
    if any("cluster" in getattr(item, "fixturenames", ()) for item in request.session.items):
        request.getfixturevalue("cluster")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("chromium is not installed: ./test browser installs it")
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  # only where it is needed

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=list(FLAGS), timeout=180_000
        )
        yield browser
        browser.close()


@dataclass
class Browser:
    """A tab, with all that went wrong in it."""

    page: Any
    errors: list[str]


FETCHED = """async (path) => { const sent = {"X-CSRF-Token": localStorage.getItem("session")};
  const reply = await fetch(`api/${path}`, {headers: sent});
  return {status: reply.status, body: await reply.json()}; }"""
"""What a tab's own session is answered."""


LOST: WeakKeyDictionary[Any, deque[str]] = WeakKeyDictionary()
"""The last requests of each context that came to nothing, such as by ERR_NETWORK_CHANGED."""


def patient(browser: Any, **options: Any) -> Any:
    """A new profile of a browser, each of whose calls waits for its condition alone."""
    context = browser.new_context(**options)
    context.set_default_timeout(PATIENT_MS)
    lost = LOST[context] = deque(maxlen=5)
    context.on("requestfailed", lambda request: lost.append(f"{request.url}: {request.failure}"))
    return context


def until(page: Any, value: Callable[[], Any], what: str) -> Any:
    """What a function returns, once that is true; the page goes on meanwhile."""
    end = time.monotonic() + PATIENT_MS / 1000
    while not (answer := value()):
        assert time.monotonic() < end, what
        page.wait_for_timeout(50)
    return answer


def wait_until(page: Any, expression: str, arg: Any = None) -> Any:
    """The value of an expression, or of a function of ``arg``, once it is true.

    Playwright's own wait_for_function polls by ``eval`` in the page, which the page's
    Content-Security-Policy refuses.
    """
    from playwright.sync_api import Error  # noqa: PLC0415  # only where it is needed

    end = time.monotonic() + PATIENT_MS / 1000
    value: Any = None
    while time.monotonic() < end:
        try:
            value = page.evaluate(expression, arg)
        except Error as error:  # an element is missing yet, or the page was left meanwhile
            value = error
        else:
            if value:
                return value
        page.wait_for_timeout(50)
    pytest.fail(f"not within {PATIENT_MS / 1000:g} s: {expression}: {value!r}")


@pytest.fixture
def tab(chromium: Any, served: Served) -> Iterator[Browser]:
    """A fresh tab without a login; a script error or a blocked resource fails the test."""
    context = patient(chromium, viewport={"width": 1280, "height": 800})
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on(
        "console",
        lambda m: errors.append(m.text) if "Content Security Policy" in m.text else None,
    )
    page.on(
        "request",
        lambda r: (
            None
            if r.url.startswith(served.url) or r.url.startswith("data:")
            else errors.append(f"asked for {r.url}")
        ),
    )
    yield Browser(page, errors)
    context.close()
    assert not errors


@pytest.fixture(scope="session")
def state(chromium: Any, served: Served) -> Any:
    """The cookie of who runs ``corral ui``: its code works once."""
    context = patient(chromium)
    page = context.new_page()
    page.goto(f"{served.url}#code={served.code}")
    page.wait_for_selector(".node")
    assert "code" not in page.url
    storage = context.storage_state()
    context.close()
    return storage


@pytest.fixture
def owner(tab: Browser, state: Any, served: Served) -> Browser:
    """A tab of who runs ``corral ui``."""
    tab.page.context.add_cookies(state["cookies"])
    (origin,) = state["origins"]
    secret = {item["name"]: item["value"] for item in origin["localStorage"]}["session"]
    # A report is in a sandboxed frame, which has no storage.
    text = f"if (window === top) localStorage.setItem('session', {json.dumps(secret)})"
    tab.page.add_init_script(text)
    tab.page.goto(served.url)
    tab.page.wait_for_selector(".node")
    return tab


@pytest.fixture
def shoot() -> Callable[[Any, str], None]:
    """Keeps a screenshot where they are wanted."""
    folder = os.environ.get("CORRAL_TEST_SCREENSHOTS", "")

    def take(page: Any, name: str) -> None:
        if folder:
            page.evaluate("document.querySelectorAll('.toast').forEach((t) => t.remove())")
            # Where this test keeps its file is nobody's picture.
            page.evaluate(
                "document.querySelectorAll('code').forEach((c) => { "
                "c.textContent = c.textContent.replace(/^.*\\/pytest-.*\\//, '~/'); })"
            )
            page.screenshot(path=str(Path(folder) / f"{name}.png"))

    return take


def shown(browser: Any) -> Iterator[str]:
    """Each open page: its address, whether events come, and the words on it."""
    from playwright.sync_api import Error  # noqa: PLC0415  # only where it is needed

    for context in browser.contexts:
        if lost := LOST.get(context):
            yield f"requests that came to nothing: {', '.join(lost)}"
    for page in [page for context in browser.contexts for page in context.pages]:
        live = "document.querySelector('#live')?.textContent"
        try:
            page.set_default_timeout(5000)
            words = " ".join(page.inner_text("body").split())
            yield f"{page.url} is {page.evaluate(live)}, shows: {words[:400]}"
        except Error as error:
            yield f"{page.url} answers nothing: {error.message.splitlines()[0]}"
        finally:
            page.set_default_timeout(PATIENT_MS)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, Any]:
    """Keeps what the pages of a failed test showed: CI's log has no picture."""
    report = yield
    browser = getattr(item, "funcargs", {}).get("chromium")
    if report.failed and report.when != "teardown" and browser:
        report.sections += [(SHOWN, line) for line in shown(browser)]
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder need a cluster."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.embedded)
