"""The process is killed (SIGKILL) at every call of a cluster's life, before and after its effect.

Real processes over real sockets, besides the exceptions in virtual time of ``test_faults``.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import Counter
from pathlib import Path

import pytest

from corral.providers.cloud.ledger import Ledger
from corral.testing.clouds import SIMS, Faults, Sim
from corral.testing.clouds.server import CloudServer
from corral.testing.rentals import SECRET
from tests.clouds.killed import work

pytestmark = pytest.mark.slow
TRIES = 4
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.clouds.killed"])


class Quiet(CloudServer):
    """Logs nothing about connections whose other end was killed."""

    def handle_error(self, request: object, client_address: object) -> None:
        """A traceback per killed client would hide those of the test."""


class Life:
    """One cloud over HTTP, and the processes that use it one after the other."""

    def __init__(self, name: str, folder: Path, faults: Faults) -> None:
        self.name, self.folder = name, folder
        self.sim: Sim = SIMS[name](key=SECRET, boot_s=0, end_s=0, limits={}, faults=faults)
        self.server = Quiet({name: self.sim})
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.pid = 0
        self.events: Counter[str] = Counter()
        faults.kill = self.kill
        self.faults = faults

    def kill(self) -> None:
        """SIGKILL to whoever calls; before the effect the call is lost as well."""
        self.events["killed"] += 1
        os.kill(self.pid, signal.SIGKILL)
        if self.faults.kill_before >= 0:
            raise ConnectionError

    def until_done(self, verb: str) -> None:
        for _ in range(TRIES):
            url = self.server.url(self.name)
            process = PROCESSES.Process(target=work, args=(self.name, url, self.folder, verb))
            process.start()
            self.pid = process.pid or 0
            process.join(60)
            if process.exitcode == 0:
                return
            self.events[f"{verb} failed"] += process.exitcode != -signal.SIGKILL
        raise AssertionError(f"{verb} does not get done in {TRIES} runs")

    def run(self) -> Counter[str]:
        try:
            self.until_done("up")
            self.until_done("up")  # the next check of `up` ends what is double
            names = Counter(m.name.rsplit("-", 1)[0] for m in self.sim.alive())
            self.events["double"] += sum(n - 1 for n in names.values())
            self.events["missing"] += 2 - len(names)
            self.until_done("down")
        finally:
            self.server.shutdown()
            self.server.server_close()
        self.events["orphans"] += len(self.sim.alive())
        self.events["open"] += sum(r.open for r in Ledger("lab", self.folder).rentals().values())
        return self.events


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", sorted(SIMS))
def test_killed_at_every_call(
    name: str, when: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = Life(name, tmp_path / "first", Faults())
    assert not +first.run()
    sums: Counter[str] = Counter()
    calls = len(first.sim.calls)
    for call in range(calls):
        faults = Faults(**{f"kill_{when}": call})  # type: ignore[arg-type]
        events = Life(name, tmp_path / str(call), faults).run()
        bad = {k: events[k] for k in ("double", "missing", "orphans", "open") if events[k]}
        assert not bad, f"killed {when} call {call}: {bad}"
        sums += events
    with capsys.disabled():
        print(
            f"\n{name:<11}killed {when:<7}{calls:>4} calls, {sums['killed']:>3} processes killed",
            end="",
        )
    assert sums["killed"] == calls
