"""What training over a link of the mesh is predicted to cost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.api.mesh.training_cost import SHARE, predicted
from corral.mesh.link import Link

SLOW = Link("desk", "rent", "direct", "198.51.100.7:41641", 20.0, 20.0, 1280)


def test_a_link_of_20_megabits_costs_what_its_bytes_take() -> None:
    (over,) = predicted([SLOW], 1_000_000, 0.05)
    assert over.size == 4_000_000
    # Two turns of half the bytes each, of 10 ms latency each.
    assert over.exchange_s == pytest.approx(4e6 * 8 / 20e6 + 0.02)
    assert over.ddp_s == pytest.approx(over.exchange_s + 0.05)
    assert over.inner == 324
    assert over.local_s == pytest.approx(0.05 * 1.1, rel=0.01)


def test_links_that_no_job_uses_have_no_figure() -> None:
    pod = Link("desk", "pod", "relayed", "fra", 90.0, 11.0, 0)
    failed = Link("desk", "gone", "unknown", "", 0.0, 0.0, 1280, "no answer")
    assert [each.target for each in predicted([pod, SLOW, failed], 1_000_000, 0.05)] == ["rent"]


@given(
    mbps=st.floats(0.1, 1e5),
    rtt=st.floats(0, 1000),
    parameters=st.integers(1000, 10**12),
    step=st.floats(1e-4, 1e3),
)
def test_from_inner_steps_on_the_exchange_takes_a_tenth(
    mbps: float, rtt: float, parameters: int, step: float
) -> None:
    (over,) = predicted([Link("a", "b", "direct", "", rtt, mbps, 1280)], parameters, step)
    assert over.local_s <= step * (1 + SHARE) * 1.0001
    assert over.local_s <= over.ddp_s * 1.0001
    if over.inner > 1:
        assert step + over.exchange_s / (over.inner - 1) > step * (1 + SHARE) * 0.9999
