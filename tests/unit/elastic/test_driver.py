"""What the driver does with machines whose end their cloud announced."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from corral.elastic import driver as driver_module
from corral.elastic.budget_end import Ending, EndingFile
from corral.elastic.driver import Driver
from corral.events import Event
from corral.providers.cloud.budget import Spend
from corral.spec.models import ClusterSpec

Calls = list[tuple[Any, ...]]


class Recorded(Driver):
    """Records what it would have the clouds and Slurm do."""

    __slots__ = ("calls",)
    calls: Calls

    async def _end(self, nodes: Sequence[str]) -> None:
        self.calls.append(("end", *nodes))

    async def _still_runs(self, session: Any, nodes: Sequence[str], left: int) -> bool:
        self.calls.append(("jobs", *nodes))
        return True

    async def _mark(self, session: Any, nodes: Sequence[str], state: str, why: str = "") -> None:
        self.calls.append((state, *nodes))


@pytest.mark.parametrize(
    ("nodes", "rented", "calls"),
    [
        ((), ("gpu0",), []),
        (("gpu0",), ("gpu0", "gpu1"), [("end", "gpu0"), ("POWER_DOWN_FORCE", "gpu0")]),
        # The cloud was faster: nothing is left to end.
        (("gpu0",), ("gpu1",), [("POWER_DOWN_FORCE", "gpu0")]),
        (
            ("gpu0", "gpu1"),
            ("gpu1",),
            [("end", "gpu1"), ("POWER_DOWN_FORCE", "gpu0", "gpu1")],
        ),
    ],
)
def test_a_machine_that_is_taken_back_is_ended_and_powered_down(
    nodes: tuple[str, ...], rented: tuple[str, ...], calls: Calls
) -> None:
    spec: Any = None
    session: Any = None
    notes: list[Event] = []
    driver = Recorded(spec, spec, notes.append)
    driver.calls = []
    asyncio.run(driver._taken(session, nodes, rented))  # pyright: ignore[reportPrivateUsage]
    assert driver.calls == calls
    assert bool(notes) is bool(nodes)


SPEC = ClusterSpec.model_validate(
    {
        "corral": "v1",
        "name": "lab",
        "controller": "desk",
        "groups": [
            {"name": "desk", "provider": "ssh", "nodes": "desk"},
            {
                "name": "gpus",
                "provider": "lambda",
                "nodes": "gpu[0-1]",
                "elastic": {"cpus": 8, "memory_gib": 32},
                "cloud": {"type": "gpu_1x_a10"},
            },
        ],
        "partitions": [{"name": "gpus", "groups": ["gpus"], "default": True}],
        "budget": {"total": 10, "grace": "10m"},
    }
)


def test_all_is_ended_so_early_that_the_budget_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path))
    spent, clock = [Spend(6.0, 8.7)], [1000.0]

    class Counted:
        def __init__(self, spec: ClusterSpec) -> None:
            assert spec is SPEC

        def spend(self) -> Spend:
            return spent[0]

    monkeypatch.setattr(driver_module, "CloudProvider", Counted)
    set_up: Any = None
    session: Any = None
    notes: list[Event] = []
    calls: Calls = []

    def started(spec: ClusterSpec = SPEC) -> Recorded:
        driver = Recorded(spec, set_up, notes.append, now=lambda: clock[0])
        driver.calls = calls
        return driver

    driver = started()

    def over(now: Spend, *rented: str) -> bool:
        spent[0] = now
        return asyncio.run(driver._spent(session, rented))  # pyright: ignore[reportPrivateUsage]

    assert not over(Spend(6.0, 8.7), "gpu0", "gpu1")
    assert calls == []
    # Ten minutes of both cost 1 $; two polls and the end of the machines take two more.
    assert over(Spend(6.0, 8.8), "gpu0", "gpu1")
    assert calls == [("jobs", "gpu0", "gpu1")]
    assert [note.message for note in notes] == [
        "8.80 $ of 10.00 $ are spent: gpu[0-1] ends in 10m, sooner without jobs"
    ]
    # One has ended, and no other begins in its place; a new driver continues the grace.
    driver = started()
    clock[0] += 599
    assert over(Spend(3.0, 8.9), "gpu1")
    assert calls[1:] == [("jobs", "gpu1")]
    driver = started()
    clock[0] += 1
    assert over(Spend(3.0, 8.9), "gpu1")
    assert calls[2:] == [("end", "gpu1")]
    assert len(notes) == 2
    # Then both; one that comes in spite of it has the grace again.
    assert over(Spend(0.0, 9.2))
    driver = started()
    assert over(Spend(3.0, 9.3), "gpu1")
    assert calls[3:] == [("jobs", "gpu1")]


@pytest.mark.parametrize("kept", [b"", b"[1]", b'{"total": 10, "rate": 6}', b"\xff"])
def test_an_end_that_cannot_be_read_has_not_begun(
    kept: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path))
    file = EndingFile("lab")
    assert file.read(10) is None
    file.write(Ending(10.0, 6.0, 1000.0))
    assert file.read(10) == Ending(10.0, 6.0, 1000.0)
    assert file.read(20) is None  # the limit was raised meanwhile
    (written,) = (tmp_path / "clouds").iterdir()
    written.write_bytes(kept)
    assert file.read(10) is None
    file.remove()
    file.remove()
    assert not written.exists()
