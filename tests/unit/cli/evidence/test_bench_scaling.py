"""``corral bench scaling``: its options, its progress, and what Ctrl-C and a failure leave."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corral.api.evidence.scaling import Training
from corral.errors import Code, CorralError
from corral.jobs.handle import JobHandle
from corral.prove.measure.measurement import Measured
from tests.unit.cli.conftest import Fake, Run, stdout_json

RECORDED = Path(__file__).parents[3] / "recorded" / "scaling" / "2.5gbit.txt"
SPEED = '@@corral-speed {"ranks": 3, "step": 0.06, "alone": 0.05, "alpha": 0.0001, "beta": 4e-9}'
PLAN = (
    '@@corral-plan {"done": 0, "seconds": 12.0, "limit": 150, "spent": 4, "points": '
    '[{"way": "ddp", "ranks": 1, "seconds": 9.0}], "left_out": []}'
)
LINES = RECORDED.read_text().splitlines()
SEEN = [next(line for line in LINES if "corral-model" in line), SPEED, PLAN]
TRAINED = [line for line in LINES if "@@corral-reduce" in line or "@@corral-train" in line]


def ends(lines: list[str], error: BaseException | None, *, submitted: bool = True) -> Any:
    """A use case that prints lines and ends so."""

    def use(*_: object, **calls: Callable[[object], None]) -> Measured:
        if submitted:
            calls["on_submit"](JobHandle(7, "x", "corral", "/shared/x", 3, "node0"))
        for line in lines:
            calls["on_line"](line)
        if error is not None:
            raise error
        return Measured("scaling", ())

    return use


def test_options_reach_the_use_case(corral: Run, fake: Fake, known: Any) -> None:
    fake.answer("bench_scaling", ends([], CorralError(Code.USAGE, "no")))
    corral("bench", "scaling", "--within", "60", "--parameters", "2M", "--ways", "ddp,bf16")
    _, training, *_ = fake.calls["bench_scaling"][0][0]
    assert training == Training(parameters=2_000_000, ways=("ddp", "bf16"), seconds=60)
    corral("bench", "scaling")
    assert fake.calls["bench_scaling"][1][0][1] == Training() and Training().seconds == 150


@pytest.mark.parametrize("count", range(len(TRAINED) + 1))
def test_ctrl_c_prints_what_was_measured(count: int, corral: Run, fake: Fake, known: Any) -> None:
    fake.answer("bench_scaling", ends([*SEEN, *TRAINED[:count]], KeyboardInterrupt()))
    result = corral("bench", "scaling")
    assert result.exit_code == 130
    assert "a step takes 60 ms, 0.25 GB/s between nodes" in result.stderr
    assert "1 measurement to go, about 12 s" in result.stderr
    assert "job 7 keeps running" in result.stderr
    assert "training over several nodes " in result.stdout
    rows = sum("@@corral-train" in line for line in TRAINED[:count])
    table = result.stdout.partition("\n\n")[0].splitlines() if rows else []
    assert len(table) == (rows + 1 if rows else 0)


def test_ctrl_c_gives_one_json_value(corral: Run, fake: Fake, known: Any) -> None:
    fake.answer("bench_scaling", ends([*SEEN, *TRAINED], KeyboardInterrupt()))
    result = corral("bench", "scaling", "--json")
    printed = stdout_json(result)
    assert result.exit_code == 130
    assert (printed["partial"], printed["job"], printed["error"]["code"]) == (
        True,
        7,
        "interrupted",
    )
    assert printed["figures"]["trained"] and printed["remarks"] and printed["figures"]["pays_from"]


@pytest.mark.parametrize(("lines", "submitted"), [([], True), (SEEN[:1], True), ([], False)])
def test_ctrl_c_before_anything_was_measured(
    lines: list[str], submitted: bool, corral: Run, fake: Fake, known: Any
) -> None:
    fake.answer("bench_scaling", ends(lines, KeyboardInterrupt(), submitted=submitted))
    result = corral("bench", "scaling", "--json")
    assert result.exit_code == 130
    assert set(stdout_json(result)) == {"error"}
    assert ("job 7 keeps running" in result.stderr) is submitted


def test_a_job_that_fails_leaves_what_it_measured(corral: Run, fake: Fake, known: Any) -> None:
    error = CorralError(Code.COMMAND_FAILED, "the measurement's job 7 ended as TIMEOUT")
    fake.answer("bench_scaling", ends([*SEEN, *TRAINED], error))
    result = corral("bench", "scaling")
    assert result.exit_code == 3
    assert "training over several nodes " in result.stdout
    assert "ended as TIMEOUT" in result.stderr
