"""What pages promise is what the code does: compared with tables of the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.spec.providers import PROVIDERS
from corral.web.schemas import Logins
from tests import oidc_provider
from tests.guide_blocks import PAGES, REPO, Block, all_blocks

PROSE = [page for page in PAGES if "reference" not in page.parts]
FENCE = re.compile(r"^( *)```.*?^\1```$", re.M | re.S)


def text_of(name: str) -> str:
    return (REPO / name).read_text()


def rows_of(text: str, head: str) -> list[list[str]]:
    """Rows of the table whose head begins so, without head and rule."""
    lines = text[text.index(head) :].partition("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def lines_of(page: Path) -> Iterator[str]:
    """Paragraphs, list items and rows of tables as one line each, without code."""
    text = FENCE.sub("", page.read_text())
    for part in re.split(r"\n\n+|\n(?=\s*(?:\||\* |\d+\. ))", text):
        yield " ".join(part.split())


BILLED = sorted(name for name, provider in PROVIDERS.items() if provider.billed)
LIMITS = re.compile(
    r"\bbudget\b.*\b(?:limits?|cap|allows?|refuses?)\b|\bmore than `?budget\b|\bhard cap\b|"
    r"\bspending\b",
    re.I,
)
"""How pages state a limit of money."""
ABSOLUTE = re.compile(r"\bnot more than `?budget\b|\bhard cap\b", re.I)
"""What no link makes true."""


def promises(lines: Iterator[str]) -> list[str]:
    """What states a limit of money and neither links to what it does not limit nor is there."""
    return [
        line
        for line in lines
        if ABSOLUTE.search(line) or (LIMITS.search(line) and "cost.md" not in line)
    ]


def test_what_states_a_limit_of_money_leads_to_what_it_does_not_limit() -> None:
    pages = [page for page in PROSE if page.name != "cost.md"]
    assert {
        str(p.relative_to(REPO)): stated for p in pages if (stated := promises(lines_of(p)))
    } == {}
    assert not ABSOLUTE.search(text_of("docs/guide/cost.md"))
    assert promises(iter(["Not more than `budget:` allows ([cost](cost.md))"]))
    assert promises(iter(["`budget` is a limit"]))


def test_the_page_about_cost_names_each_provider_that_no_budget_counts() -> None:
    assert BILLED
    rows = rows_of(text_of("docs/guide/cost.md"), "| what | why |")
    named = " ".join(row[0] for row in rows)
    assert [name for name in BILLED if f"`{name}`" not in named] == []
    assert "disks" in named


def test_comparisons_claim_price_and_limit_of_what_is_rented_alone() -> None:
    for page, head in (
        ("README.md", "| | Corral | DeepOps"),
        ("docs/guide/what-corral-is.md", "| | Corral | DeepOps"),
    ):
        rows = rows_of(text_of(page), head)
        money = [row for row in rows if re.search(r"price|spending", row[0])]
        assert money
        assert [row[:2] for row in money if "part" not in row[1] or "cost.md" not in row[1]] == []


LOGINS = {"codes": "code", "header": "proxy", "oidc": "OIDC", "password": "password"}
"""By field of what the page offers, which is next to a token of Slurm's: the word of the tables."""


@pytest.mark.parametrize(
    ("page", "head", "row"),
    [
        ("docs/guide/slurm-web.md", "| | Slurm-web 6.0", "signs people in"),
        ("docs/guide/what-corral-is.md", "| | Corral's page", "logs people in by"),
    ],
)
def test_comparisons_of_pages_name_each_login(page: str, head: str, row: str) -> None:
    assert LOGINS.keys() == Logins.__annotations__.keys()
    [cells] = [cells for cells in rows_of(text_of(page), head) if cells[0] == row]
    assert [word for word in (*LOGINS.values(), "token") if word not in " ".join(cells)] == []


def not_passed(lines: Iterator[str]) -> list[list[str]]:
    """Tests that each part of a sentence or cell names that states they have not passed."""
    parts = [part for line in lines for part in re.split(r"[;|]|\. ", line)]
    stated = [part for part in parts if "has not passed" in part]
    return [re.findall(r"`(tests/[\w/]+\.py)`", part) for part in stated]


def test_tests_that_have_not_passed_are_stated_so_on_the_support_page() -> None:
    stated = [tests for page in PROSE for tests in not_passed(lines_of(page))]
    assert [] not in stated, "a test that has not passed has a name"
    support = not_passed(lines_of(REPO / "docs/guide/support.md"))
    assert [tests for tests in stated if tests not in support] == []
    assert not_passed(iter(["a; that test has not passed yet."])) == [[]]


def apart(block: Block) -> list[str]:
    """Tests that a block of a program of this repository names, and that have no part of it.

    A part is the program's name, or a script that it trains with.
    """
    programs = re.findall(r"^\./(\w+)", block.text, re.M)
    own = [REPO / name for name in programs if (REPO / name).is_file()]
    parts = {name for file in own for name in re.findall(r"examples/(\w+)\.py", file.read_text())}
    parts |= {file.name for file in own}
    tests = re.findall(r"`(tests/[\w/]+\.py)`", block.why) if own else []
    return [
        test
        for test in tests
        if not any(re.search(rf"\b{part}\b", (REPO / test).read_text()) for part in parts)
    ]


def test_tests_of_a_programs_parts_have_them() -> None:
    assert {str(block): tests for block in all_blocks() if (tests := apart(block))} == {}
    demo = Block("x.md", 1, "./demo\n", "", "", "`tests/unit/test_words.py`")
    assert apart(demo) == ["tests/unit/test_words.py"]


DEVELOPERS = re.compile(r"^[^#\n]*(?:\./test\b|requirements-dev|pre-commit)", re.M)


def test_commands_of_the_guide_need_no_tools_of_developers() -> None:
    """Commands of the guide; contributors' pages have theirs."""
    own = [b for b in all_blocks() if not b.page.startswith(("CONTRIBUTING", "benchmarks"))]
    assert [str(block) for block in own if DEVELOPERS.search(block.text)] == []
    assert DEVELOPERS.search("git pull && ./test lint")
    assert "need_venv() {" in text_of(".ci/setup.sh")


def test_the_provider_that_logins_are_tested_with_is_stated() -> None:
    """With what was not: others may answer otherwise."""
    for name in ("docs/guide/support.md", "docs/guide/ui.md"):
        line = next(line for line in lines_of(REPO / name) if "test_page_oidc.py" in line)
        assert oidc_provider.MODULE.rpartition("/")[0] in line
        assert "Keycloak" in line
        assert "dex" in line
    assert oidc_provider.VERSION.strip("v") in text_of("docs/guide/support.md")


def test_figures_of_slurm_web_have_their_version_next_to_each_table() -> None:
    near = {
        "docs/guide/slurm-web.md": text_of("docs/guide/slurm-web.md").partition("## Install")[0],
        "benchmarks/README.md": text_of("benchmarks/README.md")
        .partition("| what | Slurm-web |")[2]
        .partition("\n\n`")[0],
    }
    for name, text in near.items():
        assert "gateway" in text, name
        assert "redis" in text, name
        assert re.search(r"\b7\.0\b[^|]*(?:ran|measured)|measured, and neither was 7\.0", text), (
            name
        )
