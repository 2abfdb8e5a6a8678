"""``corral advise``: its table, its JSON, and offers that were saved."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corral import api
from corral.errors import Code, CorralError
from tests.unit.cli.conftest import Fake, Run, stdout_json

Golden = Callable[[str, str], None]
ROOT = Path(__file__).parents[4]
OFFERS = ROOT / "tests" / "recorded" / "offers"
SINGLY, TOGETHER = (str(OFFERS / f"{name}.json") for name in ("singly", "together"))
GUIDE = (ROOT / "docs" / "guide" / "cost.md").read_text()
EXAMPLE = "steps" + GUIDE.partition("```yaml\nsteps")[2].partition("```")[0]


@pytest.fixture(autouse=True)
def train(home: Path) -> Path:
    """The guide's file."""
    file = home / "train.yaml"
    file.write_text(EXAMPLE)
    return file


def test_the_table(corral: Run, golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "170")
    result = corral("advise", "train.yaml", "--offers", SINGLY, "--offers", TOGETHER)
    assert result.exit_code == 0, result.output
    golden("cli/advise.txt", result.stdout)
    shown = [line for line in GUIDE.splitlines() if line.startswith(("yes  ", "no   lambda"))]
    words = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert len(shown) == 3
    assert all(any(w.startswith(" ".join(s.split())) for w in words) for s in shown), shown


def test_json_has_every_option_and_the_excerpt(corral: Run) -> None:
    printed = stdout_json(
        corral("advise", "train.yaml", "--offers", SINGLY, "--offers", TOGETHER, "--json")
    )
    best = printed["options"][0]
    assert best["meets"] and best["sale"]["together"] and best["nodes"] == 2
    assert len(printed["options"]) > 15 and printed["silent"] == {}
    assert "    nodes: gpu[0-1]\n" in printed["excerpt"] and printed["notes"]
    costs = [option["cost"] for option in printed["options"] if option["meets"]]
    assert costs == sorted(costs) and len(costs) == 2


def test_all_lists_the_rest(corral: Run) -> None:
    short = corral("advise", "train.yaml", "--offers", SINGLY)
    assert "more: --all" in short.stdout
    full = corral("advise", "train.yaml", "--offers", SINGLY, "--all")
    assert "more: --all" not in full.stdout
    assert len(full.stdout.splitlines()) > len(short.stdout.splitlines())


def test_nothing_that_will_do_is_exit_status_1(corral: Run, train: Path) -> None:
    train.write_text(EXAMPLE.replace("budget: 900", "budget: 10"))
    result = corral("advise", "train.yaml", "--offers", SINGLY)
    assert result.exit_code == 1
    assert "nothing on sale is known to train this in time" in result.stdout
    assert "groups:" not in result.stdout


def test_a_bad_file_is_exit_status_2_with_its_place(corral: Run, train: Path) -> None:
    train.write_text(EXAMPLE.replace("steps:", "stpes:"))
    result = corral("advise", "train.yaml", "--offers", SINGLY)
    assert result.exit_code == 2
    assert "train.yaml:1:1: error [unknown-field]" in result.stderr
    assert "did you mean steps?" in result.stderr


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        (None, Code.NOT_FOUND, "does not exist"),
        ("{", Code.PARSE_FAILED, "not an output of corral offers --json"),
        ('{"offers": [{"provider": "lambda"}]}', Code.PARSE_FAILED, "not an output"),
        ("[]", Code.PARSE_FAILED, "not an output"),
    ],
)
def test_saved_offers_that_are_none(
    content: str | None, code: Code, words: str, corral: Run, home: Path
) -> None:
    if content is not None:
        (home / "offers.json").write_text(content)
    result = corral("advise", "train.yaml", "--offers", "offers.json", "--json")
    error = stdout_json(result)["error"]
    assert error["code"] == code.value and words in error["message"]
    assert "corral offers --all --json > FILE" in error["hint"]


def test_saved_offers_of_an_unknown_cloud(corral: Run, home: Path) -> None:
    sale = json.loads(Path(SINGLY).read_text())
    sale["offers"][0]["provider"] = "another"
    (home / "offers.json").write_text(json.dumps(sale))
    result = corral("advise", "train.yaml", "--offers", "offers.json")
    assert result.exit_code != 0 and "no provider another rents machines" in result.stderr


def test_a_hostile_name_of_a_saved_offer_is_text(corral: Run, home: Path) -> None:
    sale = json.loads(Path(SINGLY).read_text())
    for offer in sale["offers"]:
        offer["type"] = "\x1b]0;title\x07 [bold]" + offer["type"]
    (home / "offers.json").write_text(json.dumps(sale))
    result = corral("advise", "train.yaml", "--offers", "offers.json")
    assert "\x1b" not in result.output and "[bold]" in result.stdout


def test_clouds_that_were_not_asked_are_named(corral: Run, fake: Fake) -> None:
    silent = {"lambda": CorralError(Code.NOT_FOUND, "no API key", hint="set LAMBDA_API_KEY")}
    empty: Any = api.Advised(api.Advice((), ("a note",)), silent)
    fake.answer("advise", empty)
    result = corral("advise", "train.yaml", "-c", "lab")
    assert result.exit_code == 1
    assert "lambda: not asked: no API key; set LAMBDA_API_KEY" in result.stderr
    assert fake.calls["advise"] == [((Path("train.yaml"), ()), {"cluster": "lab"})]
