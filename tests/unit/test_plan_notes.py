"""What a plan contains in addition to its changes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from corral import api
from corral.api.lifecycle import deployment
from corral.apply.journal import Journal
from corral.apply.session import Session
from corral.events import Event, Kind
from corral.spec.load import load_or_raise
from corral.spec.models import ClusterSpec
from corral.spec.nodes import nodes_of

EXAMPLES = Path(__file__).parents[2] / "examples"


def notes(
    spec: ClusterSpec, patch: pytest.MonkeyPatch, *, empty: bool, folder: Path = Path("/none")
) -> list[str]:
    """What ``corral plan`` notes about a cluster that has something to do, or nothing."""
    current = SimpleNamespace(plan=SimpleNamespace(empty=empty), site=None, stages=(), observed={})

    class Opened:
        fleet = SimpleNamespace(nodes=())

        def __init__(self) -> None:
            self.spec = spec
            self.folder = folder

        async def __aenter__(self) -> Any:
            return self

        async def __aexit__(self, *_: object) -> None:
            return None

        def leave_out(self, left_out: object, *, keep_going: bool) -> None:
            assert not keep_going

        async def read_state(self, emit: object) -> Any:
            return current

    async def opened(_: ClusterSpec) -> Any:
        return Opened()

    patch.setattr(Session, "open", opened)
    patch.setattr(deployment.packages, "notice", lambda _: "")
    events: list[Event] = []
    asyncio.run(api.plan(spec, events.append))
    return [e.message for e in events if e.kind is Kind.NOTE]


def test_the_plan_notes_how_jobs_run_where_there_is_no_pyxis(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab = load_or_raise(EXAMPLES / "lab-3x5090.yaml")
    (note,) = notes(lab, monkeypatch, empty=False)
    assert note.startswith("jobs run without containers")
    assert notes(lab, monkeypatch, empty=True) == []
    dgx = load_or_raise(EXAMPLES / "dgx-infiniband.yaml")
    assert notes(dgx, monkeypatch, empty=False) == []


def test_the_plan_notes_what_another_controller_begins_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lab = load_or_raise(EXAMPLES / "lab-3x5090.yaml")
    Journal(tmp_path / "journal.jsonl", "r").write("spec", {"spec": lab.model_dump(mode="json")})
    assert notes(lab, monkeypatch, empty=True, folder=tmp_path) == []
    (first, *_, last) = [n.name for n in nodes_of(lab)]
    moved = lab.model_copy(update={"controller": last})
    (note,) = notes(moved, monkeypatch, empty=True, folder=tmp_path)
    assert f"the controller was {first} and is {last}" in note
    assert "job queue" in note
    # The same machine under another name keeps what is on it.
    groups = (lab.groups[0].model_copy(update={"nodes": "head,other1,other2"}), *lab.groups[1:])
    same = lab.model_copy(update={"groups": groups, "controller": None, "storage": ()})
    assert notes(same, monkeypatch, empty=True, folder=tmp_path) == []
