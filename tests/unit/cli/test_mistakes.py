"""Typical mistakes, and how good the message about each is.

Each entry of tests/corpora/mistakes has a mistake and what its message must have: what is wrong,
where, why, and the command or the text that fixes it. A message with all of them has 3 points.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from corral.spec.load import load_or_raise

from .conftest import Run, remember

FOLDER = Path(__file__).parents[2] / "corpora" / "mistakes"
BASE = (FOLDER / "base.yaml").read_text()
FACTS = ("what", "where", "why", "fix")
FULL = 3.0
MEAN_AT_LEAST = 2.9


def entries(name: str) -> list[dict[str, Any]]:
    return yaml.safe_load((FOLDER / name).read_text())


def lacking(entry: dict[str, Any], message: str) -> list[str]:
    """Facts of an entry that its message does not have."""
    folded = " ".join(message.split())
    return [fact for fact in FACTS if " ".join(entry[fact].split()) not in folded]


def points(entry: dict[str, Any], message: str) -> float:
    return FULL * (1 - len(lacking(entry, message)) / len(FACTS))


def written(entry: dict[str, Any]) -> bytes:
    """The cluster file with the mistake."""
    text = entry.get("text", BASE)
    for good, bad in entry.get("edit", {}).items():
        assert text.count(good) >= 1, f"{entry['id']}: base.yaml has no {good}"
        text = text.replace(good, bad, 1)
    return text.encode(entry.get("encoding", "utf-8"))


@pytest.fixture
def place(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the cluster file and a script; the cluster was brought up from here."""
    monkeypatch.setenv("COLUMNS", "100")
    (home / "laptop.yaml").unlink()
    (home / "lab.yaml").write_text(BASE)
    (home / "train.py").write_text("print(1)\n")
    remember(load_or_raise(home / "lab.yaml"))
    return home


def test_messages_about_typical_mistakes(corral: Run, place: Path) -> None:
    rated: list[tuple[float, str]] = []
    for entry in (*entries("file.yaml"), *entries("command_line.yaml")):
        (place / "lab.yaml").write_bytes(written(entry))
        ended = corral(*shlex.split(entry.get("run", "lint lab.yaml")))
        assert ended.exit_code == entry.get("status", 2), (
            f"{entry['id']}: status {ended.exit_code}\n{ended.output}"
        )
        missing = ", ".join(f"{f} ({entry[f]!r})" for f in lacking(entry, ended.output))
        report = f"{entry['id']} lacks {missing or 'nothing'}:\n{ended.output}"
        rated.append((points(entry, ended.output), report))
    assert len(rated) >= 100
    below = [report for score, report in rated if score < FULL]
    mean = sum(score for score, _ in rated) / len(rated)
    assert mean >= MEAN_AT_LEAST and not below, f"mean {mean:.2f}\n" + "\n".join(below)


def test_ids_are_given_once_and_facts_are_not_empty() -> None:
    all_of_them = [*entries("file.yaml"), *entries("command_line.yaml")]
    ids = [entry["id"] for entry in all_of_them]
    assert len(ids) == len(set(ids))
    for entry in all_of_them:
        assert all(entry[fact].strip() for fact in FACTS), entry["id"]
        assert entry.keys() <= {"id", "edit", "text", "encoding", "run", "status", *FACTS}


def test_the_unchanged_file_is_good(corral: Run, place: Path) -> None:
    assert corral("lint", "lab.yaml").exit_code == 0


@pytest.mark.parametrize("fact", FACTS)
def test_a_message_without_a_fact_has_fewer_points(fact: str) -> None:
    entry = {"id": "x", "what": "W1", "where": "W2", "why": "W3", "fix": "W4"}
    message = "W1 W2 W3 W4".replace(entry[fact], "")
    assert lacking(entry, message) == [fact]
    assert points(entry, message) < MEAN_AT_LEAST < points(entry, "W1 W2 W3 W4")
