"""Names of Blackwell GPUs as people write them, and long words that are none."""

from __future__ import annotations

from functools import partial

import pytest

from corral.slurm.adopt.rules import setup
from tests.growth import AT_MOST, growth


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("rtx_5090", True),
        ("NVIDIA GeForce RTX 5080", True),
        ("geforce-rtx-5070", True),
        ("gb200", True),
        ("B300", True),
        ("RTX PRO 6000 Blackwell", True),
        ("rtx_pro_6000", True),
        ("h100", False),
        ("rtx_4090", False),
        ("b100x", False),
    ],
)
def test_which_names_are_blackwell(name: str, known: bool) -> None:
    assert bool(setup._BLACKWELL.search(name)) == known


@pytest.mark.parametrize("filling", ["_", " ", "rtx_", "rtx ", "geforce_rtx-", "b", "50"])
def test_a_long_word_takes_no_time(filling: str) -> None:
    """100,000 underscores took minutes: three repetitions in a row, tried from each place."""
    small, large = ((filling * n)[:n] for n in (25_000, 100_000))
    search = setup._BLACKWELL.search
    assert growth(partial(search, small), partial(search, large)) < AT_MOST
