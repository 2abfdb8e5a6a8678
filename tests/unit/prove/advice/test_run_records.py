"""The time of a step from MLflow's metrics and from a profile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from corral.errors import CorralError
from corral.prove.advice.choice import advise
from corral.prove.advice.run_file import read_training
from corral.prove.advice.run_records import step_of_history, step_of_profile
from corral.prove.measure.cost import Compute

TRAIN = """\
steps: 100
parameters: 1.0e+6
measured: {{gpu: H100, gpus: 2, {}}}
deadline: 12h
"""


def history(folder: Path, *logged: tuple[float, int]) -> Path:
    """Seconds and steps, in the order in which MLflow has them: none that means anything."""
    path = folder / "steps.json"
    metrics = [
        {"key": "loss", "value": 1.0, "timestamp": int(seconds * 1000), "step": step}
        for seconds, step in reversed(logged)
    ]
    path.write_text(json.dumps({"metrics": metrics}))
    return path


def profile(folder: Path, *ranks: dict[str, Any]) -> Path:
    path = folder / "summary.json"
    plain = {"device": "gpu", "steps": 5, "wall_ms": 1000.0}
    path.write_text(json.dumps({"job": "12", "ranks": [plain | rank for rank in ranks]}))
    return path


def test_the_median_of_the_steps_counts(tmp_path: Path) -> None:
    # The first one loads libraries, step 30 is evaluated, and after 50 the job starts again at 41.
    logged = [(0, 0), (60, 10), (80, 20), (100, 30), (200, 40), (220, 50), (900, 41), (920, 51)]
    assert step_of_history(history(tmp_path, *logged)) == 2.0
    again = [*logged, (940, 61), (940, 61)]
    assert step_of_history(history(tmp_path, *again)) == 2.0
    with pytest.raises(ValueError, match="4 intervals between steps, 5 are needed"):
        step_of_history(history(tmp_path, *logged[:5]))
    with pytest.raises(ValueError, match="0 intervals"):
        step_of_history(history(tmp_path))
    (tmp_path / "steps.json").write_text('{"metrics": [{"step": 3}]}')
    with pytest.raises(KeyError):
        step_of_history(tmp_path / "steps.json")


def test_the_slowest_rank_of_a_profile_counts(tmp_path: Path) -> None:
    assert step_of_profile(profile(tmp_path, {}, {"wall_ms": 1500.0}), 2) == 0.3
    for words, ranks in {
        "it has 1 ranks, and the node 2 GPUs": ({},),
        "it was recorded without GPUs": ({}, {"device": "cpu"}),
        "it has no optimizer steps": ({}, {"steps": 0}),
    }.items():
        with pytest.raises(ValueError, match=words):
            step_of_profile(profile(tmp_path, *ranks), 2)


def test_a_training_file_names_either(tmp_path: Path) -> None:
    train = tmp_path / "train.yaml"
    history(tmp_path, *((20.0 * n, 10 * n) for n in range(9)))
    train.write_text(TRAIN.format("history: steps.json"))
    file, work = read_training(train)
    assert (work.gpus, work.alone, work.size, work.cost) == (2, 2.0, 4e6, None)
    assert work.peers == Compute(0, 0, 0, 2.0, 2.0)
    note = "a step takes 2 s: the median of a run's logged steps"
    assert note in advise(file, work, ()).notes
    profile(tmp_path, {}, {})
    train.write_text(TRAIN.format("profile: summary.json"))
    file, work = read_training(train)
    assert work.alone == 0.2
    assert (
        "a step takes 0.2 s: of a profile, which makes steps longer" in advise(file, work, ()).notes
    )


@pytest.mark.parametrize(
    ("measured", "words"),
    [
        ("history: steps.json, step: 2.0", "history gives the step too"),
        ("history: steps.json, profile: summary.json", "history gives the step too"),
        ("record: r.json, profile: summary.json", "record gives the step too"),
        ("history: elsewhere.json", "it cannot be read: No such file"),
        ("history: steps.json", "not the metrics of a run: 1 intervals between steps"),
        ("profile: steps.json", "not the profile of a job on the node: 'ranks'"),
        ("profile: summary.json", "it has 1 ranks, and the node 2 GPUs"),
    ],
)
def test_what_is_wrong_with_it(measured: str, words: str, tmp_path: Path) -> None:
    history(tmp_path, (0, 0), (2, 1))
    profile(tmp_path, {})
    train = tmp_path / "train.yaml"
    train.write_text(TRAIN.format(measured))
    with pytest.raises(CorralError) as caught:
        read_training(train)
    assert words in f"{caught.value.message}\n{caught.value.tail}"


def test_steps_too_short_for_the_clock(tmp_path: Path) -> None:
    history(tmp_path, *((0.0, n) for n in range(9)))
    (tmp_path / "train.yaml").write_text(TRAIN.format("history: steps.json"))
    with pytest.raises(CorralError) as caught:
        read_training(tmp_path / "train.yaml")
    assert "not the metrics of a run: a step of 0.0 s" in caught.value.tail
