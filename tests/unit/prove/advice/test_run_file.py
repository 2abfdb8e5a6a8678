"""The file of a training run: its errors with line and column, and the record that it names."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from corral.errors import Code, CorralError
from corral.prove.advice.run_file import TrainingFile, read_training
from corral.prove.measure.cost import Compute
from corral.prove.measure.measurement import Measured
from corral.prove.measure.scaling import figures, read_scaling
from corral.spec import schema

ROOT = Path(__file__).parents[4]
GUIDE = (ROOT / "docs" / "guide" / "cost.md").read_text()
SCALING = ROOT / "tests" / "recorded" / "scaling"
GOOD = """\
steps: 100
parameters: 1.0e+6
measured: {gpu: H100, gpus: 8, step: 2.0}
deadline: 12h
"""
RECORDED = """\
tokens: 1.0e+9
measured: {gpu: H200, record: scaling.json}
deadline: 12h
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "train.yaml"
    file.write_text(text)
    return file


def refused(folder: Path, text: str) -> CorralError:
    with pytest.raises(CorralError) as caught:
        read_training(written(folder, text))
    return caught.value


def recorded(folder: Path, name: str, **changed: Any) -> dict[str, Any]:
    lines = (SCALING / f"{name}.txt").read_text().splitlines()
    printed = Measured("scaling", (), {**figures(read_scaling(lines)), **changed}).as_dict()
    (folder / "scaling.json").write_text(json.dumps(printed))
    return json.loads(json.dumps(printed))


def test_a_step_and_parameters(tmp_path: Path) -> None:
    file, work = read_training(written(tmp_path, GOOD))
    assert (file.steps, work.gpus, work.alone, work.size) == (100, 8, 2.0, 4e6)
    assert work.peers == Compute(0, 0, 0, 2.0, 2.0) and work.cost is None
    half = read_training(written(tmp_path, f"{GOOD}dtype: bfloat16\n"))[1]
    assert half.size == 2e6


@pytest.mark.parametrize(
    ("old", "new", "place", "words"),
    [
        ("steps: 100", "stpes: 100", "1:1", "did you mean steps?"),
        ("steps: 100", "steps: 0", "1:8", "steps is 0; it must be at least 1"),
        ("steps: 100", "steps: many", "1:8", "it must be an integer"),
        ("steps: 100", "steps: 100\ntokens: 5.0", "1:1", "either steps or tokens"),
        ("steps: 100", "tokens: 5.0", "1:9", "add tokens_per_step"),
        ("parameters: 1.0e+6\n", "", "1:1", "without a record parameters must be there"),
        ("parameters: 1.0e+6", "parameters: .inf", "2:13", "parameters"),
        (", step: 2.0", "", "3:11", "without a record step must be there"),
        ("step: 2.0", "step: -2", "3:38", "measured.step is -2; it must be at least 1e-06"),
        ("step: 2.0", "step: 1.0e-320", "3:38", "it must be at least 1e-06"),
        ("steps: 100", "tokens: 1.0e+308\ntokens_per_step: 1.0", "1:9", "it must be at most 1e+24"),
        (
            "steps: 100",
            "tokens: 1.0\ntokens_per_step: 1.0e-300",
            "2:18",
            "it must be at least 1e-06",
        ),
        ("12h", "12 hours", "4:11", "deadline"),
        ("12h", "0h", "4:11", "deadline must be more than 0"),
        ("12h", "12h\nlinks: [{provider: lambda}]", "5:9", "either gbps or hardware"),
        ("12h", "12h\nlinks: [{hardware: dgx-z}]", "5:20", "one of 1gbe, 2.5gbe"),
        ("12h", "12h\nproviders: [aws]", "5:13", "providers[0]"),
        ("12h", "12h\ncheckpoint: {takes: 0s}", "5:21", "takes must be more than 0"),
        ("12h", "12h\ninterruptions: [{every: 0h}]", "5:25", "every must be more than 0"),
    ],
)
def test_errors_have_their_place(
    old: str, new: str, place: str, words: str, tmp_path: Path
) -> None:
    assert old in GOOD
    error = refused(tmp_path, GOOD.replace(old, new))
    assert error.code is Code.SPEC_INVALID
    assert f"train.yaml:{place}: error" in error.tail and words in error.tail, error.tail


def test_a_file_that_is_not_there_or_empty(tmp_path: Path) -> None:
    with pytest.raises(CorralError) as caught:
        read_training(tmp_path / "train.yaml")
    assert caught.value.code is Code.NOT_FOUND and "train.yaml" in caught.value.message
    assert "cluster" not in f"{caught.value.message} {caught.value.hint}"
    assert "the file is empty" in refused(tmp_path, "# nothing\n").tail
    assert "must be a mapping" in refused(tmp_path, "- 1\n").tail
    assert "not UTF-8" in refused_bytes(tmp_path, b"steps: \xff\n").tail


def refused_bytes(folder: Path, data: bytes) -> CorralError:
    (folder / "train.yaml").write_bytes(data)
    with pytest.raises(CorralError) as caught:
        read_training(folder / "train.yaml")
    return caught.value


def test_a_record_has_step_gradients_and_network(tmp_path: Path) -> None:
    printed = recorded(tmp_path, "h200x2-sockets")["figures"]
    file, work = read_training(written(tmp_path, RECORDED))
    assert (work.gpus, work.size, work.device) == (1, 502464768, "NVIDIA H200")
    assert work.alone == pytest.approx(0.0278258, rel=1e-4)
    assert work.tokens == 8 * 512
    assert work.cost is not None and work.cost.beta == printed["cost"]["beta"] > 0
    two = next(t for t in printed["trained"] if t["way"] == "ddp" and t["ranks"] == 2)
    assert work.peers == Compute(**two["compute"])
    assert (work.gbps, file.tokens) == (0.0, 1e9)
    rated = RECORDED.replace("scaling.json", "scaling.json, gbps: 25")
    assert read_training(written(tmp_path, rated))[1].gbps == 25


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "it cannot be read"),
        ("[]", "not a record"),
        ("{", "not a record"),
        ('{"figures": {"device": "cpu", "ranks_per_node": 1, "trained": []}}', "without GPUs"),
        ('{"figures": {"device": "x", "ranks_per_node": 1, "trained": []}}', "not measured on one"),
    ],
)
def test_a_bad_record_is_refused_at_its_place(
    content: str | None, words: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "scaling.json").write_text(content)
    error = refused(tmp_path, RECORDED)
    assert "train.yaml:2:31: error" in error.tail and words in error.tail, error.tail


def test_times_that_cannot_be_are_refused(tmp_path: Path) -> None:
    printed = recorded(tmp_path, "h200x2-sockets")
    printed["figures"]["cost"]["beta"] = float("nan")
    (tmp_path / "scaling.json").write_text(json.dumps(printed))
    assert "times that cannot be" in refused(tmp_path, RECORDED).tail


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"ranks_per_node": 0}, "not measured on one node"),
        ({"size": 1e300}, "a size or tokens that cannot be"),
        ({"tokens": 1e-300}, "a size or tokens that cannot be"),
        ({"seconds": 1e-320}, "times that cannot be"),
    ],
)
def test_figures_that_cannot_be_divided_by_are_refused(
    changed: dict[str, float], words: str, tmp_path: Path
) -> None:
    printed = recorded(tmp_path, "h200x2-sockets")["figures"]
    alone = next(t for t in printed["trained"] if t["way"] == "ddp" and t["ranks"] == 1)
    (alone if "seconds" in changed else printed).update(changed)
    if changed.get("ranks_per_node") == 0:
        alone["ranks"] = 0
    (tmp_path / "scaling.json").write_text(json.dumps({"figures": printed}))
    assert words in refused(tmp_path, RECORDED).tail


def test_what_is_in_the_record_is_not_in_the_file(tmp_path: Path) -> None:
    recorded(tmp_path, "h200x2-sockets")
    both = RECORDED.replace("H200,", "H200, step: 1.0, gpus: 1,")
    tail = refused(tmp_path, f"{both}parameters: 5.0\ntokens_per_step: 4.0\n").tail
    assert all(
        f"{n} is in the record too" in tail
        for n in ("step", "gpus", "parameters", "tokens_per_step")
    )


def test_the_guide_has_a_file_that_is_read_and_each_field(tmp_path: Path) -> None:
    example = GUIDE.partition("```yaml\nsteps")[2].partition("```")[0]
    file, _ = read_training(written(tmp_path, f"steps{example}"))
    assert file.budget == 900
    rows = re.findall(r"^\| `([a-z_.\[\]]+)` \| (.+) \|$", GUIDE, re.M)
    documented = {name.replace("[]", ""): meaning for name, meaning in rows}
    fields = {f.path: f.meaning for f in schema.walk(schema.root(TrainingFile)) if not f.fields}
    assert documented == fields
