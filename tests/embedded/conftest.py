"""One real embedded cluster for all embedded tests: brought up once, removed at the end.

CORRAL_TEST_CLUSTER=NAME uses the existing cluster of examples/laptop.yaml under that name
and keeps it (for work on the tests themselves).
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from corral import api
from corral.apply.session import Session
from corral.errors import CorralError
from corral.hosts.fleet import Fleet
from corral.hosts.quote import Script, sh
from corral.hosts.transport import Result
from corral.inspect.facts import Facts
from corral.spec.load import load_or_raise
from corral.spec.models import ClusterSpec
from corral.spec.nodes import controller_of
from corral.spec.sections.services import Health

T = TypeVar("T")
EXAMPLES = Path(__file__).parents[2] / "examples"
SHARED = pytest.StashKey["Live"]()
UNHEALTHY = sh(
    "squeue --noheader --format='job %i %j: %T, %r'; "
    "sinfo --noheader --Node --format='%N %T: %E' | sort -u | grep -v ' idle: '; true"
)
# A process of a job whose slurmstepd was killed lives on, and nothing in Slurm's state shows it.
LEFT = sh(
    "n=$(hostname -s); jobs=\" $(squeue -h -t R,S,CG,CF,SI,SO,ST,RS -o %A | tr '\\n' ' ') \";"
    " grep -Hso '/job_[0-9]*' /proc/[0-9]*/cgroup | sort -u |"
    " sed 's#^/proc/\\([0-9]*\\)/cgroup:/job_#\\1 #' | while read -r pid job; do"
    ' case $jobs in *" $job "*) ;; *) echo "$n: process $pid of job $job: '
    '$(tr "\\000" " " </proc/"$pid"/cmdline)" ;; esac; done; true'
)
END_LEFT = sh(
    "for p in $(grep -lso '/job_[0-9]' /proc/[0-9]*/cgroup); do p=${{p#/proc/}};"
    ' kill -KILL "${{p%/cgroup}}"; done; true'
)
# What Slurm's daemons wrote of it, for whoever reads the failure: the cluster is gone by then.
LOGS = sh(
    "for log in /var/log/slurm/slurmd.log /var/log/slurm/slurmctld.log; do"
    ' [ -e "$log" ] || continue; echo "$(hostname -s) $log"; tail -n 60 "$log"; done'
)
CLEAN_UP = sh(
    # Of two --state the last one counts (24.11).
    "scancel --state=PENDING --quiet; scancel --state=RUNNING --quiet; "
    "scontrol update nodename=ALL state=RESUME 2>/dev/null; true"
)


@dataclass(frozen=True)
class Live:
    """A cluster that runs."""

    spec: ClusterSpec
    facts: Mapping[str, Facts]

    @property
    def controller(self) -> str:
        return controller_of(self.spec)

    def with_session(self, work: Callable[[Session], Awaitable[T]]) -> T:
        """Run ``work`` with its own session, in a separate event loop."""

        async def opened() -> T:
            async with await Session.open(self.spec) as session:
                return await work(session)

        return asyncio.run(opened())

    def with_fleet(self, work: Callable[[Fleet], Awaitable[T]]) -> T:
        """Run ``work`` with its own fleet, in a separate event loop."""
        return self.with_session(lambda session: work(session.fleet))

    def run(self, node: str, script: Script, *, stdin: bytes = b"", timeout: float = 60) -> Result:
        """Run a script as root on a node."""
        return self.with_fleet(lambda f: f.run(node, script, stdin=stdin, timeout=timeout))

    def each(self, scripts: Iterable[tuple[str, Script]], *, timeout: float = 60) -> list[Result]:
        """Run scripts as root one after the other, whatever became of those before, in one session.

        A session looks at the machines first, which takes longer than most scripts.
        """

        async def work(fleet: Fleet) -> list[Result]:
            return [await fleet.run(node, script, timeout=timeout) for node, script in scripts]

        return self.with_fleet(work)


def needs() -> str:
    """Why embedded clusters cannot run here, "" when they can."""
    if os.geteuid() != 0:
        return "embedded clusters need root"
    missing = [t for t in ("podman", "mmdebstrap", "ssh", "ssh-keygen") if not shutil.which(t)]
    return f"not installed: {', '.join(missing)}" if missing else ""


def named(name: str, **changes: object) -> ClusterSpec:
    """examples/laptop.yaml under another name, so that nobody's own cluster is touched."""
    spec = load_or_raise(EXAMPLES / "laptop.yaml")
    # Tests break nodes: their own health check may not come by just then. test_health.py calls it.
    return spec.model_copy(update={"name": name, "health": Health(every="18h"), **changes})


async def _facts(spec: ClusterSpec) -> dict[str, Facts]:
    async with await Session.open(spec) as session:
        return await session.facts()


@contextmanager
def bringing_up() -> Iterator[Callable[[ClusterSpec], Live]]:
    """Brings up any cluster; all are removed at the end."""
    reason = needs()
    if reason:
        pytest.skip(reason)
    made: list[ClusterSpec] = []

    def bring_up(spec: ClusterSpec) -> Live:
        made.append(spec)
        asyncio.run(api.up(spec))
        return Live(spec, asyncio.run(_facts(spec)))

    try:
        yield bring_up
    finally:  # also where bring_up failed: a start that broke off left containers and a network
        failed: list[CorralError] = []
        for spec in made:
            try:
                asyncio.run(api.down(spec))
            except CorralError as error:
                failed.append(error)
        assert not failed


@pytest.fixture(scope="module")
def fresh_cluster() -> Iterator[Callable[[ClusterSpec], Live]]:
    """Clusters of a file's own, removed at its end: an idle one still takes memory and time."""
    with bringing_up() as bring_up:
        yield bring_up


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config) -> Iterator[Live]:
    """The one cluster that all embedded tests share; a test that breaks it fixes it."""
    existing = os.environ.get("CORRAL_TEST_CLUSTER", "")
    if existing:
        spec = named(existing)
        pytestconfig.stash[SHARED] = live = Live(spec, asyncio.run(_facts(spec)))
        yield live
        return
    with bringing_up() as bring_up:
        pytestconfig.stash[SHARED] = live = bring_up(named(f"test-{os.getpid()}"))
        yield live


def forget_outages(live: Live) -> None:
    """Tests break nodes in many ways: their doctor would call them lemons (F2241)."""
    forget = sh(
        "! command -v mysql >/dev/null || "
        "printf 'delete from `%s_event_table` where node_name > 0x20' {t} | mysql slurm_acct_db",
        t=live.spec.name,
    )
    live.each([(live.controller, forget)])


@pytest.fixture(scope="module", autouse=True)
def left_healthy(pytestconfig: pytest.Config) -> Iterator[None]:
    """The file that leaves a job or a drained node is the one that fails, not a later one."""
    yield
    live = pytestconfig.stash.get(SHARED, None)
    if live is None:
        return
    forget_outages(live)
    until = time.monotonic() + 180  # slurmctld asks a silent node again after 40 s
    asked = [(live.controller, UNHEALTHY), *((node, LEFT) for node in live.facts)]
    while text := "".join(answer.stdout for answer in live.each(asked)):
        if time.monotonic() > until:
            logs = "".join(a.stdout for a in live.each((node, LOGS) for node in live.facts))
            live.each([(live.controller, CLEAN_UP), *((node, END_LEFT) for node in live.facts)])
            asyncio.run(api.up(live.spec))  # so that later files report only their own faults
            pytest.fail(f"the tests of this file leave the shared cluster unhealthy:\n{text}{logs}")
        time.sleep(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder need root and podman or sshd."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.embedded)
