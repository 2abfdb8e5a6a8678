"""Machines that know of no Slurm read their package index: once, and only where they have none."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from corral.apply import readiness
from corral.apply.readiness import read_missing
from corral.errors import CorralError
from corral.events import Event
from corral.hosts.fleet import Fleet
from corral.hosts.quote import Script
from corral.inspect.facts import QUESTIONS
from corral.inspect.question import shells
from tests.fakes import Answer, Recorded, asked, framed, recorded

READ: Script = readiness._READ
FACTS: Script = asked(shells(QUESTIONS))
KNOWS = (Path(__file__).parents[2] / "recorded/facts/debian-12-host/plain.txt").read_text()
BARE = re.sub(r"(?m)^  Candidate: .*$", "", KNOWS)


def observed(*machines: Recorded) -> tuple[bool, list[Event]]:
    events: list[Event] = []
    fleet = Fleet({m.node: m for m in machines})
    return asyncio.run(read_missing(fleet, events.append)), events


def machine(node: str, facts: str, **read: Answer) -> Recorded:
    answer = Answer(framed(shells(QUESTIONS), recorded(facts)))
    return Recorded.of(node, {FACTS: answer} | ({READ: read["read"]} if read else {}))


def test_only_a_machine_that_is_offered_none_is_asked() -> None:
    bare, knows = machine("node0", BARE, read=Answer("read\n")), machine("node1", KNOWS)
    assert observed(bare, knows)[0]
    assert [script for script, _ in bare.calls] == [FACTS, READ]
    assert [script for script, _ in knows.calls] == [FACTS]


def test_reading_it_is_reported() -> None:
    _, events = observed(machine("node0", BARE, read=Answer("read\n")))
    assert [(e.node, "package index" in e.message) for e in events] == [("node0", True)]


def test_an_index_that_is_there_and_offers_none_is_an_answer() -> None:
    done, events = observed(machine("node0", BARE, read=Answer("")))
    assert not done
    assert events == []


def test_all_know_already() -> None:
    assert observed(machine("node0", KNOWS)) == (False, [])


def test_apt_that_cannot_read_its_sources_is_reported_with_its_words() -> None:
    why = "E: Release file for SOURCE is expired (invalid since 3d)"
    with pytest.raises(CorralError) as caught:
        observed(machine("node0", BARE, read=Answer("", 100, why)))
    assert "expired" in caught.value.tail
