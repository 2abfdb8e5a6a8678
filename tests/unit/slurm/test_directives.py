"""``#SBATCH`` lines read as a real sbatch read them (``tests/recorded/sbatch``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.slurm.directives import directives
from corral.slurm.duration import seconds

RECORDED: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "recorded" / "sbatch" / "24.11.json").read_text()
)


@pytest.mark.parametrize("seen", RECORDED, ids=lambda seen: seen["script"].split("\n")[1][:40])
def test_as_sbatch(seen: dict[str, Any]) -> None:
    found = directives(seen["script"])
    if "#PBS" in seen["script"]:  # sbatch reads them too; they are refused here
        assert [one.line for one in found if one.fault] == [2]
        return
    assert not [one for one in found if one.fault]
    last = {one.name: one.value for one in found}
    due = dict(seen["options"])
    if {"requeue", "no-requeue"} <= due.keys():  # sbatch prints one setting under both names
        assert list(last) == ["requeue", "no-requeue"]
        return
    assert sorted(last) == sorted(due)
    for name, value in last.items():
        real = due[name]
        if name == "time":
            assert seconds(value) == pytest.approx(seconds(real), abs=59)  # in full minutes there
        elif name in ("output", "error") or name == "gres":
            assert real.endswith(value)
        elif name == "signal":
            assert value.startswith(real)
        elif value:
            assert real == value


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("--nodez=2", "sbatch has no such option"),
        ("-Z 3", "sbatch has no such option"),
        ("--n=3", "it stands for"),
        ("--nodes", "its value is missing"),
        ("-N", "its value is missing"),
        ("--requeue=yes", "this option takes no value"),
        ("nodes=3", "this is not an option"),
        ('--comment="x', "is not closed"),
        (":", "cannot begin with a colon"),
        ('-N 2 "" -n 3', "sbatch reads no further"),
        ("hetjob", "a heterogeneous job"),
    ],
)
def test_faults(line: str, fault: str) -> None:
    found = directives(f"#!/bin/sh\n\n#SBATCH {line}\necho\n")
    bad = next(one for one in found if one.fault)
    assert (bad.line, fault in bad.fault) == (3, True)


def test_other_schedulers() -> None:
    found = directives("#!/bin/sh\n#PBS -l nodes=2\n#BSUB -n 4\n# PBS is old\n#PBS\n")
    assert [(one.line, "another scheduler" in one.fault) for one in found] == [(2, True), (3, True)]


@given(st.text("#SBATCH -=\"'\\\n:Nnx2 \t", max_size=80))
def test_no_text_breaks_it(text: str) -> None:
    for one in directives(f"#SBATCH {text}"):
        assert one.name or one.fault
