"""What the measurement of training chooses to run in its time, simulated."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.agents.benchmarks import scaling_plan
from corral.agents.benchmarks.scaling_plan import Plan, Speed, chosen, points, reduces, share_of
from corral.prove.measure import cost

COUNTS = [1, 2, 3]
EVERY = points(list(scaling_plan.METHODS), COUNTS)
# GPT-2 on a workstation's GPU over 2.5 GbE: 496 MB of gradients, 50 ms of computing.
HOME = Speed(0.05, 100e-6, 8e-9 / 2.4, 496_000_000, 4_000_000)
# 1 million parameters on three containers of one machine.
LAPTOP = Speed(0.15, 150e-6, 1e-9, 4_000_000, 400_000)


def run(speed: Speed, seconds: float, slower: float = 1.0) -> tuple[list[tuple[str, int]], float]:
    """Measured points and their time: each takes ``slower`` times its first estimate."""
    plan, spent, done = Plan(EVERY, speed, seconds, 32), 5.0, list[tuple[str, int]]()
    while (point := plan.next(spent)) is not None:
        name, ranks, cycles, estimate = point
        took = min(speed.seconds(name, ranks, cycles) * slower, estimate * scaling_plan.LATE)
        # Of a late one the warm-up and the fewest cycles are measured in any case.
        took = max(took, speed.seconds(name, ranks, scaling_plan.LEAST) * slower)
        plan.took(estimate, took)
        spent += took
        done.append((name, ranks))
    return done, spent


def test_the_agents_methods_are_those_of_the_cost_model() -> None:
    assert list(scaling_plan.METHODS) == list(cost.METHODS)
    for name, method in scaling_plan.METHODS.items():
        modelled = cost.METHODS[name]
        numbers = (method.cycle, method.share, method.messages)
        assert (modelled.cycle, modelled.share, modelled.messages) == numbers
        assert "{" not in modelled.words


def test_the_estimate_of_an_exchange_is_the_cost_models() -> None:
    model = cost.Cost(HOME.alpha, HOME.beta)
    assert HOME.reduce(3, HOME.size, 3) == pytest.approx(model.reduce(3, HOME.size, 3))


def test_one_node_and_all_nodes_come_first() -> None:
    assert EVERY[:3] == [("ddp", 1), ("ddp", 3), ("ddp", 2)]
    assert len(EVERY) == len(set(EVERY)) == 3 + 2 * 5
    assert [ranks for _, ranks in EVERY[3:]] == [3] * 5 + [2] * 5
    assert points(["ddp"], [1]) == [("ddp", 1)]


def test_without_a_limit_all_is_measured_as_often_as_asked_for() -> None:
    plan = chosen(EVERY, HOME, 0, 32)
    assert [point[:2] for point in plan] == EVERY
    assert {name: turns for name, _, turns, _ in plan} == {
        name: max(scaling_plan.LEAST, 32 // method.cycle)
        for name, method in scaling_plan.METHODS.items()
    }


@pytest.mark.parametrize(("speed", "least"), [(HOME, 5), (LAPTOP, 13)])
def test_three_machines_have_their_answer_within_three_minutes(speed: Speed, least: int) -> None:
    done, spent = run(speed, 150)
    assert spent <= 150
    assert done == EVERY[: len(done)]
    assert len(done) >= least


@pytest.mark.parametrize("slower", [0.5, 1.3, 2.0])
def test_estimates_that_are_wrong_are_corrected_on_the_way(slower: float) -> None:
    done, spent = run(LAPTOP, 150, slower)
    assert spent <= 180
    assert done[:2] == EVERY[:2]


@given(
    st.floats(1e-3, 2),
    st.floats(1e-6, 1e-2),
    st.floats(1e-11, 1e-7),
    st.floats(20, 600),
    st.integers(1, 64),
)
def test_what_is_chosen_fits_or_is_the_least(
    step: float, alpha: float, beta: float, seconds: float, batches: int
) -> None:
    speed = Speed(step, alpha, beta, 4_000_000, 400_000)
    plan = chosen(EVERY, speed, seconds, batches, 2)
    assert [point[:2] for point in plan] == EVERY[: len(plan)]
    assert scaling_plan.total(plan) <= seconds or (
        len(plan) == 2 and all(point[2] == scaling_plan.LEAST for point in plan)
    )


@given(st.floats(1e-3, 10), st.floats(1e-11, 1e-6), st.floats(20, 600))
def test_a_smaller_model_is_taken_only_where_the_named_one_does_not_fit(
    step: float, beta: float, seconds: float
) -> None:
    speed = Speed(step, 1e-4, beta, 496_000_000, 4_000_000)

    def needed(share: float) -> float:
        return sum(speed.scaled(share).seconds("ddp", n, scaling_plan.LEAST) for n in COUNTS)

    share = share_of(speed, COUNTS, seconds, 124_000_000)
    smallest = 124_000_000 * share / scaling_plan.SHRINK < scaling_plan.SMALLEST
    assert needed(share) <= seconds / 2 or smallest
    assert share == 1 or needed(share * scaling_plan.SHRINK) > seconds / 2
    assert share_of(speed, COUNTS, 0, 124_000_000) == 1


def test_all_reduces_take_their_share_of_the_time_at_most() -> None:
    sizes = [1 << n for n in (16, 18, 20, 22, 24)]
    slow = Speed(0.1, 1e-3, 8e-9 / 0.1, 1, 1)  # 100 Mb/s
    fitting = reduces(sizes, slow, 3, 150, 10)
    assert len(fitting) >= 2
    assert sum((n + scaling_plan.WARM) * slow.reduce(3, size) for size, n in fitting) <= 150 * 0.05
    assert reduces(sizes, HOME, 3, 0, 10) == [(size, 10) for size in sizes]
    assert [size for size, _ in reduces(sizes, HOME, 3, 150, 10)] == sizes


def test_a_plan_ends() -> None:
    draw = random.Random(1)
    plan = Plan(EVERY, HOME, 60, 32)
    for turn in range(100):
        if plan.next(turn * 2 * draw.random()) is None:
            break
        plan.took(1, draw.random() * 3)
    else:
        pytest.fail("it never ends")
