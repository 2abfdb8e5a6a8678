"""A node that is slow, not dead: one failure names it; what it lacks is not taken for absent."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from corral import api
from corral.prove.model import Verdict

if TYPE_CHECKING:
    from tests.embedded.conftest import Live


@contextmanager
def slowed(container: str, still: float, awake: float) -> Iterator[None]:
    """All processes of a node stopped most of the time."""
    over = threading.Event()

    def podman(verb: str) -> None:
        subprocess.run(["podman", verb, container], capture_output=True, timeout=60)

    def work() -> None:
        while not over.is_set():
            podman("pause")
            over.wait(still)
            podman("unpause")
            over.wait(awake)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        podman("unpause")


@pytest.mark.slow
@pytest.mark.parametrize("still", [4.0, 100.0], ids=["slow", "hangs"])
def test_one_slow_node_is_one_failure(cluster: Live, still: float) -> None:
    name = f"corral-{cluster.spec.name}-node2"
    with slowed(name, still, 0.1):
        proof = asyncio.run(api.prove(cluster.spec))
    results = {r.check: r for r in proof.results}
    failed = {r.check: r.summary for r in proof.results if r.verdict is Verdict.FAIL}
    assert set(failed) == {"smoke.reached"}, failed
    assert failed["smoke.reached"].startswith("node2 ")
    assert "node2 " in results["smoke.launch"].summary
    assert results["rest.answers"].verdict is Verdict.PASS
    assert not proof.proven
    again = asyncio.run(api.prove(cluster.spec, only=("smoke",)))
    assert again.good, [(r.check, r.summary) for r in again.results]
    assert again.words == "smoke passed; not a complete proof: only smoke was asked for"
