"""The committed reference page is the one the table makes."""

from __future__ import annotations

from pathlib import Path

from corral.slurm.reference import page
from corral.spec.slurm.written_keys import all_keys

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "slurm-keys.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == page(), (
        f"re-record with: python -m corral.slurm.reference > {PAGE.relative_to(PAGE.parents[2])}"
    )


def test_every_key_is_on_it() -> None:
    text = page()
    for key in all_keys():
        assert f"| {key.name}" in text
        assert key.reason.replace("|", "\\|") in text
