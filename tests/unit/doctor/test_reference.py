"""The page of failures is the catalogue's."""

from __future__ import annotations

from pathlib import Path

from corral.doctor.catalog import catalog
from corral.doctor.reference import page

FILE = Path(__file__).parents[3] / "docs/reference/failures.md"


def test_the_page_is_written_from_the_catalogue() -> None:
    assert FILE.read_text() == page(), "python -m corral.doctor.reference > docs/reference/" + (
        FILE.name
    )


def test_every_failure_is_on_it_once() -> None:
    written = page()
    for failure in catalog().values():
        assert written.count(f"### {failure.id} {failure.name}\n") == 1
