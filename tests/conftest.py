"""What all suites share: sockets closed for unit tests, a hostile folder, golden files."""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest
import pytest_socket
from hypothesis import HealthCheck, settings

from corral.errors import CorralError
from tests.rotation import part

TESTS = Path(__file__).parent
REPO = TESTS.parent
CANARY = "corral-canary"

UNTIL = "CORRAL_TEST_UNTIL"
"""Unix time after which ``./test`` starts no slow test, so that it ends within its limit."""
HANGS = {
    "unit": 120,
    "docs": 600,
    "clouds": 600,
    "embedded": 900,
    "browser": 900,
    "mesh": 1800,
    "machines": 3600,
}
"""Seconds that a test and its fixtures may take, by suite: only one that hangs takes so long."""
HANGS_SLOW = 5400

# Fewer than hypothesis's own 100: the unit tests together take under a minute. The rotation of
# slow tests (CORRAL_TEST_SLOW) tries more.
settings.register_profile(
    "corral",
    max_examples=200 if os.environ.get("CORRAL_TEST_SLOW") == "1" else 25,
    # Time limits for examples, and for making them, measure how busy the machine is.
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("corral")


# A script's background jobs (`./test browser &`) ignore SIGINT, and their children inherit that:
# Ctrl-C ended no `corral ui` in a test, and CI's SIGINT did not end pytest.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Give the workers of an interrupted run the time to remove their clusters.

    pytest-xdist kills them after ten seconds.
    """
    if config.pluginmanager.has_plugin("xdist"):
        import_module("xdist.workermanage").NodeManager.EXIT_TIMEOUT = 100


SHOWN = "shown"
"""A failed test's section with what its page showed, in one line: it goes next to the reason."""
MACHINE = ("passwd", "shadow", "group", "hosts", "fstab", "resolv.conf", "ssh/sshd_config")


@pytest.fixture(scope="module", autouse=True)
def machine_kept(request: pytest.FixtureRequest) -> Iterator[None]:
    """CI is root: a unit test that writes through a link writes anywhere (seen: /etc/passwd).

    Nothing is put back: another program may have changed the file meanwhile.
    """
    if TESTS / "unit" not in request.path.parents:
        yield
        return
    files = [file for name in MACHINE if (file := Path("/etc") / name).is_file()]
    before = {file: file.read_bytes() for file in files if os.access(file, os.R_OK)}
    yield
    changed = [str(file) for file, content in before.items() if file.read_bytes() != content]
    assert not changed, f"while this file's tests ran, {', '.join(changed)} of this machine changed"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Record what failed and runs again, for the end of ``./test`` (CONTRIBUTING.md, Tests)."""
    file = os.environ.get("CORRAL_TEST_RERUNS")
    if "PYTEST_XDIST_WORKER" in os.environ:  # the process that started it gets the report too
        return
    if file and report.outcome == "rerun":
        lines = str(report.longrepr).splitlines()
        errors = [line.removeprefix("E") for line in lines if line.startswith("E  ")]
        reason = " ".join(" ".join(errors or lines[-1:]).split())[:300]
        shown = "".join(f"; {text}" for name, text in report.sections if name == SHOWN)[:600]
        with Path(file).open("a") as out:
            out.write(f"{report.nodeid}\t{reason}{shown}\n")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collected objects live to the end: garbage collection of them took a tenth of the time.

    Afterwards only objects that tests make are collected, in larger generations.
    """
    gc.disable()
    try:
        read_ahead(session.config)
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        gc.enable()


def read_ahead(config: pytest.Config) -> None:
    """With two workers the second reads the unit tests from their end.

    Each writes the byte code of one half, and finds the other's; else both compile all of it.
    """
    second = getattr(config, "workerinput", {}).get("workerid") == "gw1"
    if not second or TESTS / "unit" not in [Path(arg).resolve() for arg in config.args]:
        return
    for file in sorted((TESTS / "unit").rglob("test_*.py"), reverse=True):
        # A module that cannot be imported is reported at its turn, with its traceback.
        with suppress(Exception, pytest.skip.Exception):  # a skip is not an Exception
            import_module(".".join(file.relative_to(REPO).with_suffix("").parts))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Print what an error of Corral has besides its sentence: CI keeps nothing else of it."""
    report = yield
    error = call.excinfo.value if call.excinfo else None
    if report.failed and isinstance(error, CorralError):
        fields = {key: value for key, value in error.as_dict().items() if value}
        report.sections.append(
            ("Corral's error", "\n".join(f"{k}: {v}" for k, v in fields.items()))
        )
    return report


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Close sockets for unit tests; asyncio's own wake-up pair is a unix socket and stays open."""
    if item.path.is_relative_to(TESTS / "unit"):
        pytest_socket.disable_socket(allow_unix_socket=True)
    if item.get_closest_marker("slow") and time.time() > float(os.environ.get(UNTIL, "inf")):
        pytest.skip("slow: no time was left for it in this run")


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Enable sockets again: in a run of several suites the others need them."""
    if item.path.is_relative_to(TESTS / "unit"):
        pytest_socket.enable_socket()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out slow tests: CORRAL_TEST_SLOW=1 runs all of them, 2/5 the second of five parts.

    Files with slow tests come last: where the time of a run ends early, only they are left out.
    A test that hangs fails alone, with its traceback, and does not end the suite.
    """
    for item in items:
        seconds = HANGS[item.path.relative_to(TESTS).parts[0]]
        limit = HANGS_SLOW if item.get_closest_marker("slow") else seconds
        item.add_marker(pytest.mark.timeout(limit, method="signal"))
    setting = os.environ.get("CORRAL_TEST_SLOW", "")
    number, _, parts = setting.partition("/")
    slow = {item.nodeid: item for item in items if item.get_closest_marker("slow")}
    chosen = set(slow) if setting and not parts else set[str]()
    reason = "slow: CORRAL_TEST_SLOW=1 runs it"
    if parts:
        chosen = part(sorted(slow), int(number), int(parts))
        reason = f"slow: not in part {setting}, which this run takes"
    for name, item in slow.items():
        if name not in chosen:
            item.add_marker(pytest.mark.skip(reason=reason))
    last = {slow[name].path for name in chosen}
    items.sort(key=lambda item: item.path in last)


@pytest.fixture(scope="session")
def repo() -> Path:
    """The root of the checkout."""
    return REPO


@pytest.fixture
def hostile_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose name is an attack on every kind of missing quoting, and the current one.

    Shell text that lets the name out of its quotes makes a file, which fails the test.
    """
    ground = tmp_path / "ground"
    ground.mkdir()
    monkeypatch.chdir(ground)
    name = f'a\'; touch {CANARY}; "$(touch {CANARY})" `touch {CANARY}`\n* -rf é'
    folder = ground / name
    folder.mkdir()
    yield folder
    made = [Path(base) / CANARY for base, _, files in os.walk(ground) if CANARY in files]
    assert not made, f"a name was run as a command: {made}"


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compare text with ``tests/golden/<name>``; a missing file is recorded, and that run fails.

    CI records nothing: there a failed test runs again, and would pass with what it had recorded.

    ``golden("slurm/lab.conf", text)``: a difference prints the ``rm`` that records it again.
    """

    def compare(name: str, text: str) -> None:
        file = TESTS / "golden" / name
        if not file.exists():
            if os.environ.get("CI"):
                pytest.fail(f"{file.relative_to(REPO)} is missing: run this test without CI=true")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            pytest.fail(f"recorded {file.relative_to(REPO)}: read it, then run again")
        assert text == file.read_text(), (
            f"differs from its golden file; if the change is wanted: rm {file.relative_to(REPO)}"
        )

    return compare
