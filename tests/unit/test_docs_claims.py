"""What pages promise is what the code does: compared with tables of the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from corral.spec.providers import PROVIDERS
from tests.guide_blocks import PAGES, REPO

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
        str(p.relative_to(REPO)): found for p in pages if (found := promises(lines_of(p)))
    } == {}
    assert promises(iter(["Not more than `budget:` allows: it is a limit"]))


def test_the_page_about_cost_names_each_provider_that_no_budget_counts() -> None:
    assert BILLED
    rows = rows_of(text_of("docs/guide/cost.md"), "| what | why |")
    named = " ".join(row[0] for row in rows)
    assert [name for name in BILLED if f"`{name}`" not in named] == []
    assert "disks" in named


def test_comparisons_claim_price_and_limit_of_what_is_rented_alone() -> None:
    for page, head in (("README.md", "| | Corral | DeepOps"),
                       ("docs/guide/what-corral-is.md", "| | Corral | DeepOps")):  # fmt: skip
        rows = rows_of(text_of(page), head)
        money = [row for row in rows if re.search(r"price|spending", row[0])]
        assert money
        assert [row[:2] for row in money if "part" not in row[1] or "cost.md" not in row[1]] == []
