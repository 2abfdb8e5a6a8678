"""The benchmark of a rehearsal, once."""

from __future__ import annotations

import pytest

from tests.embedded.conftest import needs
from tests.embedded.test_benchmarks import printed


@pytest.mark.embedded
def test_it_measures_a_rehearsal() -> None:
    if needs():
        pytest.skip(needs())
    assert "launch call to a job on each" in printed("rehearsal", "--repeat", "1")
