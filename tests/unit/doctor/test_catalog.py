"""The catalogue itself: whole entries, names and numbers that are used once, what hides what."""

from __future__ import annotations

import re

import pytest

from corral.doctor.catalog import CATALOG
from corral.doctor.model import Failure
from corral.doctor.reading import HIDES


@pytest.mark.parametrize("failure", CATALOG.values(), ids=list(CATALOG))
def test_every_entry_is_whole(failure: Failure) -> None:
    assert re.fullmatch(r"F\d{2,3}", failure.id)
    assert re.fullmatch(r"[a-z0-9-]+", failure.name)
    for text in (failure.title, failure.cause, failure.fix, failure.source):
        assert text
        assert text == text.strip()
        assert not text.endswith(".")
    assert "  " not in failure.cause + failure.fix
    for pattern in (*failure.patterns, *failure.needed, *failure.excluded):
        assert not pattern.search("")


def test_names_are_unique_and_numbers_whole() -> None:
    names = [f.name for f in CATALOG.values()]
    assert len(set(names)) == len(names)
    numbers = [int(i[1:]) for i in CATALOG]
    # F56 and F57 are about renting (elastic), not about a machine that can be asked.
    # From 106 on several were given at once, and a number never moves: gaps are possible.
    assert sorted({*range(1, 106)} - set(numbers)) == [56, 57]


def test_hidden_ones_exist_and_stand_above() -> None:
    for hider, hidden in HIDES.items():
        for one in hidden:
            assert hider in CATALOG
            assert one in CATALOG
            assert hider != one
            assert hider not in HIDES.get(one, ()), f"{hider} and {one} hide each other"
