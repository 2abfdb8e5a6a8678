"""What happened to nodes outlasts the page's server, in a file with limits."""

from __future__ import annotations

import asyncio
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from corral.web.slurm import node_event_file, node_events
from corral.web.slurm.node_event_file import NodeEventFile
from corral.web.slurm.node_events import NodeEvent, NodeEvents
from tests.unit.web.fake import FakeRest, Page


async def written(path: Path) -> None:
    """Wait until the file is there."""
    async with asyncio.timeout(10):
        while not path.exists():  # noqa: ASYNC110, ASYNC240  # a thread writes it
            await asyncio.sleep(0.01)


def test_who_drained_a_node_is_known_after_a_restart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It was in memory alone, and slurmctld forgets the reason when the node is resumed."""
    monkeypatch.setattr(node_event_file, "LATER_S", 0.0)
    path = tmp_path / "lab" / "node-events.json"

    async def drained() -> tuple[list[dict[str, Any]], float]:
        async with Page(FakeRest(), poll_s=0.01, node_events=path) as page:
            await page.login("root2", "Administrator")
            await page.get("nodes/node0")
            assert (await page.post("nodes/node0", {"do": "drain", "reason": "fan"})).is_success
            raw = page.rest.bodies["nodes"]["body"]["nodes"]
            (node,) = [n for n in raw if n["name"] == "node0"]
            node["state"], node["reason"] = [*node["state"], "DRAIN"], "fan"
            page.rest.touch("nodes")
            await page.app.state.corral.pollers.of("root2").poll()
            await written(path)
            detail = (await page.get("nodes/node0")).json()
            return detail["events"], detail["since"]

    async def again() -> tuple[list[dict[str, Any]], float]:
        async with Page(FakeRest(), poll_s=0.01, node_events=path) as page:
            await page.login("root2", "Administrator")
            detail = (await page.get("nodes/node0")).json()
            return detail["events"], detail["since"]

    events, since = asyncio.run(drained())
    kept, kept_since = asyncio.run(again())
    (seen,) = [event for event in events if event["what"] == "drained"]
    assert (seen["by"], seen["why"]) == ("root2", "fan")
    assert seen in kept
    assert kept_since == since
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_waits_is_written_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "node-events.json"

    async def work() -> None:
        events = NodeEvents(lambda: 1000.0)
        file = NodeEventFile(path, events)
        await file.close()
        assert not path.exists(), "nothing is new"
        events.add("n1", NodeEvent(900.0, "resumed", "ola"))
        file.changed()
        await file.close()

    asyncio.run(work())
    read = NodeEvents(lambda: 2000.0)
    NodeEventFile(path, read)
    assert [*read.kept()] == [("n1", NodeEvent(900.0, "resumed", "ola"))]
    assert read.since == 1000.0
    assert [p.name for p in tmp_path.iterdir()] == [path.name], "no file is left half written"


def test_the_file_keeps_the_newest_events_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(node_event_file, "MOST", 3)
    monkeypatch.setattr(node_events, "KEPT", 2)
    path = tmp_path / "node-events.json"

    async def work() -> None:
        events = NodeEvents(lambda: 0.0)
        file = NodeEventFile(path, events)
        for at in range(0, 50, 5):
            events.add(f"n{at % 2}", NodeEvent(at, "down", why="x" * 10_000))
        file.changed()
        await file.close()

    asyncio.run(work())
    kept = json.loads(path.read_text())["events"]
    assert [(row["node"], row["at"]) for row in kept] == [("n1", 45), ("n0", 40), ("n1", 35)]
    assert {len(row["why"]) for row in kept} == {node_event_file.LONGEST}


def test_two_servers_of_a_cluster_keep_the_events_of_both(tmp_path: Path) -> None:
    path = tmp_path / "node-events.json"

    async def work() -> None:
        several = [NodeEvents(lambda: 0.0) for _ in range(2)]
        files = [NodeEventFile(path, events) for events in several]
        for number, (events, file) in enumerate(zip(several, files, strict=True)):
            events.add(f"n{number}", NodeEvent(number, "down"))
            file.changed()
            await file.close()

    asyncio.run(work())
    assert {row["node"] for row in json.loads(path.read_text())["events"]} == {"n0", "n1"}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"since": NaN, "events": []}', "\0" * 99])
def test_a_file_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "node-events.json"
    path.write_text(text)

    async def work() -> None:
        events = NodeEvents(lambda: 7.0)
        file = NodeEventFile(path, events)
        assert [*events.kept()] == []
        assert events.since == 7.0
        events.add("n1", NodeEvent(8.0, "down"))
        file.changed()
        await file.close()

    asyncio.run(work())
    assert len(json.loads(path.read_text())["events"]) == 1


def test_a_full_disk_ends_no_poll(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    blocked = tmp_path / "a file"
    blocked.write_text("")

    async def work() -> None:
        events = NodeEvents(lambda: 0.0)
        file = NodeEventFile(blocked / "node-events.json", events)
        events.add("n1", NodeEvent(1.0, "down"))
        file.changed()
        await file.close()

    asyncio.run(work())
    assert "are not kept" in caplog.text
