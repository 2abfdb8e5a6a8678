"""Typical mistakes, and how good the message about each is.

Each entry of tests/corpora/mistakes has a mistake and what its message must have: what is wrong,
where, why, and the command or the text that fixes it. A message with all of them has 3 points, and
each of them is at a separate place: "no script train.py" does not have what and where in one.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from corral.cli.main import VERBS
from corral.cli.terminal.correction import accepted
from corral.spec.load import load_or_raise

from .conftest import Run, remember

FOLDER = Path(__file__).parents[2] / "corpora" / "mistakes"
BASE = (FOLDER / "base.yaml").read_text()
FACTS = ("what", "where", "why", "fix")
FULL = 3.0
MEAN_AT_LEAST = 2.9
MEAN = 3.0
"""The true mean, by the facts of the lists: with a message that loses a fact it is another."""
NO_REASON = re.compile(
    r"no such (command|option)|missing( (command|argument|option)|$)|requires (an|\d+) argument|"
    r"unexpected extra|does not take a value|no such file or directory|errno|invalid value",
    re.IGNORECASE,
)
"""Sentences of the parser and of the system: they repeat that something is wrong."""
NO_PLACE = re.compile(r"--help")
NO_FIX = re.compile(
    r"look at|^ls |^(fields here|for example|see)\b|write for instance infinite|--help"
)
"""Texts that leave the person to find what is right."""


def entries(name: str) -> list[dict[str, Any]]:
    return yaml.safe_load((FOLDER / name).read_text())


def folded(text: str) -> str:
    return " ".join(text.split())


def places(fact: str | None, message: str) -> list[range]:
    """Where a message has a fact; nowhere for one that it is known not to have."""
    words = folded(fact or "")
    starts = [at for at in range(len(message)) if message.startswith(words, at)] if words else []
    return [range(at, at + len(words)) for at in starts]


def lacking(entry: dict[str, Any], message: str) -> list[str]:
    """Facts of an entry for which its message has no place, each a separate place.

    A text that counts as two facts would be rated twice for the same words.
    """
    spots = {fact: places(entry[fact], folded(message)) for fact in FACTS}
    choices = itertools.product(*(taken or [range(0)] for taken in spots.values()))
    best = max(choices, key=lambda choice: len(apart(choice)))
    return [fact for at, fact in enumerate(FACTS) if at not in apart(best)]


def apart(choice: Sequence[range]) -> list[int]:
    """Which of these places are there and have nothing in common with the ones before."""
    kept: list[int] = []
    for at, place in enumerate(choice):
        others = (choice[other] for other in kept)
        if place and all(place.stop <= o.start or o.stop <= place.start for o in others):
            kept.append(at)
    return kept


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
    """All facts that an entry names are there; one that it has as null costs its points."""
    rated: list[float] = []
    below: list[str] = []
    for entry in (*entries("file.yaml"), *entries("command_line.yaml")):
        (place / "lab.yaml").write_bytes(written(entry))
        ended = corral(*shlex.split(entry.get("run", "lint lab.yaml")))
        assert ended.exit_code == entry.get("status", 2), (
            f"{entry['id']}: status {ended.exit_code}\n{ended.output}"
        )
        missing = [fact for fact in lacking(entry, ended.output) if entry[fact] is not None]
        texts = ", ".join(f"{fact} ({entry[fact]!r})" for fact in missing)
        below += [f"{entry['id']} lacks {texts}:\n{ended.output}"] if missing else []
        rated.append(points(entry, ended.output))
    assert len(rated) >= 100
    mean = sum(rated) / len(rated)
    assert not below, f"mean {mean:.3f}\n" + "\n".join(below)
    assert mean >= MEAN_AT_LEAST
    assert round(mean, 3) == MEAN


def test_the_facts_are_what_a_person_needs() -> None:
    """A reason, a place and a fix; not what a parser or a list has in any case."""
    for entry in (*entries("file.yaml"), *entries("command_line.yaml")):
        for fact, weak in (("why", NO_REASON), ("where", NO_PLACE), ("fix", NO_FIX)):
            assert not weak.search(entry[fact] or ""), f"{entry['id']}: {fact}"


@pytest.mark.parametrize(
    "text",
    ["No such command", "Missing argument", "Missing", "requires 2 arguments", "[Errno 2]"],
)
def test_a_reason_that_is_none_is_seen(text: str) -> None:
    assert NO_REASON.search(text)


def test_each_verb_has_a_mistake() -> None:
    runs = [entry.get("run", "lint lab.yaml") for entry in entries("command_line.yaml")]
    assert {*VERBS} - {run.split()[0] for run in runs} == set()


RUNS = [entry for entry in entries("command_line.yaml") if entry["run"].startswith("run ")]


@pytest.mark.parametrize("entry", RUNS, ids=lambda e: e["id"])
def test_what_run_refuses_is_refused_by_a_dry_run(
    entry: dict[str, Any], corral: Run, place: Path
) -> None:
    """``corral run trian.py --dry-run`` printed a batch script, with status 0."""
    words = shlex.split(entry["run"])
    at = words.index("--") if "--" in words else len(words)
    ended = corral(*words[:at], *["--dry-run"] * ("--dry-run" not in words), *words[at:])
    assert ended.exit_code == entry.get("status", 2), ended.output


def known_word(word: str, entry: dict[str, Any], message: str) -> bool:
    """Whether a person who read the message can type this word."""
    typed = {*shlex.split(entry["run"]), *entry.get("own", ())}
    filled = re.compile("|".join(map(placeholder, entry["fix"].split())))
    return word in typed or word in message or filled.fullmatch(word) is not None


def placeholder(word: str) -> str:
    """A word of a hint as a pattern: N, FILE and USER@HOST stand for others."""
    return re.sub(r"(?<![A-Za-z])[A-Z]{1,}(?![a-z])", r"\\S+", re.sub(r"([\[\].+])", r"\\\1", word))


@pytest.mark.parametrize("entry", entries("command_line.yaml"), ids=lambda e: e["id"])
def test_what_a_message_proposes_is_accepted(
    entry: dict[str, Any], corral: Run, place: Path
) -> None:
    """The command line of a person who did what the hint proposes; a job's batch script is shown.

    What this one cluster has too few of is another mistake, with its own hint.
    """
    words = shlex.split(entry["fixed"])
    message = corral(*shlex.split(entry["run"])).output
    assert entry["fixed"] != entry["run"]
    unknown = [word for word in words if not known_word(word, entry, message)]
    assert not unknown, f"no person knows {unknown}: {message}"
    if entry["fix"].startswith("corral "):
        pattern = " ".join(map(placeholder, entry["fix"].removeprefix("corral ").split()))
        pattern = pattern.partition(r" >")[0]
        assert re.fullmatch(pattern, entry["fixed"]), (pattern, entry["fixed"])
    assert accepted(words), f"corral {entry['fixed']} does not parse"
    if words[0] == "run":
        more = ["--dry-run", *([] if "-c" in words else ["-c", "lab"])]
        at = words.index("--") if "--" in words else len(words)
        ended = corral(*words[:at], *more, *words[at:])
        assert ended.exit_code == 0 or "the job cannot run as asked" in ended.output, ended.output


def test_ids_are_given_once_and_facts_are_not_empty() -> None:
    all_of_them = [*entries("file.yaml"), *entries("command_line.yaml")]
    ids = [entry["id"] for entry in all_of_them]
    assert len(ids) == len(set(ids))
    for entry in all_of_them:
        assert all(entry[fact] is None or entry[fact].strip() for fact in FACTS), entry["id"]
        known = {"id", "edit", "text", "encoding", "run", "status", "fixed", "own", *FACTS}
        assert entry.keys() <= known


def test_the_unchanged_file_is_good(corral: Run, place: Path) -> None:
    assert corral("lint", "lab.yaml").exit_code == 0


@pytest.mark.parametrize("fact", FACTS)
def test_a_message_without_a_fact_has_fewer_points(fact: str) -> None:
    entry = {"id": "x", "what": "W1", "where": "W2", "why": "W3", "fix": "W4"}
    message = "W1 W2 W3 W4".replace(entry[fact], "")
    assert lacking(entry, message) == [fact]
    assert points(entry, message) < MEAN_AT_LEAST < points(entry, "W1 W2 W3 W4")


def test_one_text_is_not_two_facts() -> None:
    entry = {"id": "x", "what": "no file a", "where": "a", "why": "gone", "fix": "b"}
    assert lacking(entry, "no file: gone, b") == ["what", "where"]
    assert lacking(entry, "no file a: gone; b") == ["where"]
    assert lacking(entry, "no file a: gone; b; a") == []
    assert lacking({**entry, "where": None}, "no file a: gone; b; a") == ["where"]


@pytest.mark.parametrize("line", ["up lab.yaml --frob", "run train.py -N two", "down a b", "keys"])
def test_a_proposal_that_does_not_parse_is_seen(line: str) -> None:
    assert not accepted(line.split())
