"""Reading the machines: one round trip where facts are as guessed, two where they are not."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from corral.apply import observation
from corral.apply.observation import FACTS_KEY, NAME, guessed, remember, see
from corral.errors import Code, CorralError
from corral.hosts.fleet import Fleet
from corral.hosts.framing import Inquiry
from corral.hosts.quote import sh
from corral.inspect.facts import Facts, parse_facts
from corral.state.base import Desired, DesiredStage
from corral.state.files import Directory
from tests.fakes import recorded
from tests.unit.apply.conftest import Folder

Folders = Callable[..., tuple[Fleet, dict[str, Folder]]]
RECORDED = recorded(
    (Path(__file__).parents[2] / "recorded/facts/debian-13-container/node.txt").read_text()
)


@pytest.fixture(autouse=True)
def recorded_facts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The questions for facts print files, so that all machines are the recorded one."""
    folder = tmp_path / "facts"
    folder.mkdir()
    for name, text in RECORDED.items():
        (folder / name).write_text(text)
    asked = {name: sh("cat {path}", path=str(folder / name)) for name in RECORDED}
    monkeypatch.setattr(observation, "facts_inquiry", lambda: Inquiry(asked))
    return folder


def stages_for(facts: Mapping[str, Facts]) -> tuple[DesiredStage, ...]:
    """A folder whose name depends on the facts, as slurm.conf's text does."""
    entries = (Desired((n,), (Directory(f"/nonexistent/{f.cpus}"),)) for n, f in facts.items())
    return (DesiredStage("one", "one", tuple(entries)),)


def real(node: str) -> Facts:
    return parse_facts(node, RECORDED)


def test_without_a_guess_two_round_trips(folders: Folders) -> None:
    fleet, machines = folders("a", "b")
    view = asyncio.run(see(fleet, stages_for, {}))
    assert [len(m.scripts) for m in machines.values()] == [2, 2]
    assert view.facts == {"a": real("a"), "b": real("b")}


def test_a_right_guess_saves_one_and_gives_the_same(folders: Folders) -> None:
    fleet, machines = folders("a", "b")
    first = asyncio.run(see(fleet, stages_for, {}))
    second = asyncio.run(see(fleet, stages_for, first.facts))
    assert [len(m.scripts) for m in machines.values()] == [3, 3]
    assert second == first
    assert set(second.seen["a"]) == {FACTS_KEY, f"directory:/nonexistent/{real('a').cpus}"}


def test_a_wrong_guess_is_thrown_away(folders: Folders) -> None:
    fleet, machines = folders("a", "b")
    wrong = {"a": real("a"), "b": dataclasses.replace(real("b"), cpus=77)}
    view = asyncio.run(see(fleet, stages_for, wrong))
    assert [len(m.scripts) for m in machines.values()] == [2, 2]
    assert view == asyncio.run(see(fleet, stages_for, {}))
    assert all("77" not in name for seen in view.seen.values() for name in seen)


def test_a_guess_for_some_nodes_or_for_strangers_only_is_none(folders: Folders) -> None:
    fleet, machines = folders("a", "b")
    asyncio.run(see(fleet, stages_for, {"a": real("a"), "stranger": real("stranger")}))
    assert [len(m.scripts) for m in machines.values()] == [2, 2]


def test_strangers_in_the_guess_do_not_matter(folders: Folders) -> None:
    fleet, machines = folders("a")
    view = asyncio.run(see(fleet, stages_for, {"a": real("a"), "gone": real("gone")}))
    assert len(machines["a"].scripts) == 1
    assert set(view.facts) == {"a"}


def test_a_guess_that_no_stages_can_be_made_of_is_none(folders: Folders) -> None:
    fleet, _ = folders("a")
    spoiled = {"a": dataclasses.replace(real("a"), cpus=0)}

    def picky(facts: Mapping[str, Facts]) -> tuple[DesiredStage, ...]:
        if any(f.cpus == 0 for f in facts.values()):
            raise CorralError(Code.NOT_FOUND, "no such machine")
        return stages_for(facts)

    assert asyncio.run(see(fleet, picky, spoiled)).facts == {"a": real("a")}


def test_what_cannot_be_made_of_real_facts_is_raised(folders: Folders) -> None:
    fleet, _ = folders("a")

    def never(_: Mapping[str, Facts]) -> tuple[DesiredStage, ...]:
        raise CorralError(Code.NOT_FOUND, "no Slurm")

    with pytest.raises(CorralError, match="no Slurm"):
        asyncio.run(see(fleet, never, {"a": real("a")}))


def test_broken_machines_are_named(folders: Folders) -> None:
    fleet, machines = folders("a", "b")
    machines["b"].broken = True
    with pytest.raises(CorralError) as caught:
        asyncio.run(see(fleet, stages_for, {"a": real("a"), "b": real("b")}))
    assert caught.value.node == "b"


def test_remembered_facts_come_back(tmp_path: Path) -> None:
    remember(tmp_path, {"a": real("a")})
    assert guessed(tmp_path) == {"a": real("a")}
    assert [p.name for p in tmp_path.iterdir() if p.name != "facts"] == [NAME]


def test_no_folder_is_made(tmp_path: Path) -> None:
    remember(tmp_path / "none", {"a": real("a")})
    assert not (tmp_path / "none").exists()
    assert guessed(tmp_path / "none") == {}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": {}}', '{"a": 1}', "null", '{"a": []}'])
def test_a_spoiled_guess_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_text(text)
    assert guessed(tmp_path) == {}


def test_facts_of_another_version_are_none(tmp_path: Path) -> None:
    fields = real("a").as_dict() | {"kernel": ["no", "string"]}
    (tmp_path / NAME).write_text(json.dumps({"a": fields}))
    assert guessed(tmp_path) == {}
