"""``#SBATCH`` lines read as a real sbatch read them (``tests/recorded/sbatch``)."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.durations import seconds
from corral.errors import CorralError
from corral.slurm.directives import LONGEST, MOST, command_options, directives, passed_over
from corral.slurm.rest.write import options_of
from tests.growth import AT_MOST, TIMES, growth

RECORDED: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "recorded" / "sbatch" / "24.11.json").read_text()
)


@pytest.mark.parametrize("seen", RECORDED, ids=lambda seen: seen["script"].split("\n")[1][:40])
def test_as_sbatch(seen: dict[str, Any]) -> None:
    options = directives(seen["script"])
    if "#PBS" in seen["script"]:  # sbatch reads them too; they are refused here
        assert [option.line for option in options if option.fault] == [2]
        return
    assert not [option for option in options if option.fault]
    last = {option.name: option.value for option in options}
    expected = dict(seen["options"])
    if {"requeue", "no-requeue"} <= expected.keys():  # sbatch prints one setting under both names
        assert list(last) == ["requeue", "no-requeue"]
        return
    assert sorted(last) == sorted(expected)
    for name, value in last.items():
        real = expected[name]
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
    options = directives(f"#!/bin/sh\n\n#SBATCH {line}\necho\n")
    bad = next(option for option in options if option.fault)
    assert (bad.line, fault in bad.fault) == (3, True)


@pytest.mark.parametrize("line", ["--tasks-per-node=4", "--tasks-per 4", "--tasks-per-node 4"])
def test_another_name_of_an_option(line: str) -> None:
    """sbatch takes it as --ntasks-per-node; it was called an option that sbatch does not have."""
    (option,) = directives(f"#!/bin/sh\n#SBATCH {line}\n")
    assert (option.name, option.value, option.fault) == ("ntasks-per-node", "4", "")


def test_other_schedulers() -> None:
    options = directives("#!/bin/sh\n#PBS -l nodes=2\n#BSUB -n 4\n# PBS is old\n#PBS\n")
    assert [(option.line, "another scheduler" in option.fault) for option in options] == [
        (2, True),
        (3, True),
    ]


@given(st.text("#SBATCH -=\"'\\\n:Nnx2 \t", max_size=80))
def test_no_text_breaks_it(text: str) -> None:
    for option in directives(f"#SBATCH {text}"):
        assert option.name or option.fault


@pytest.mark.parametrize(
    ("word", "count"),
    [("-H ", 349_000), ("\\a", 524_000), ("--n ", 16_000), ("#SBATCH -H\n", 90_000)],
)
def test_reading_grows_with_the_length_of_the_script(word: str, count: int) -> None:
    """Each word copied the list of words: 262,144 options took 406 s."""
    small, large = (f"#!/bin/sh\n#SBATCH {word * n}\n" for n in (count // TIMES, count))
    assert growth(partial(directives, small), partial(directives, large)) < AT_MOST


def test_what_is_read_of_a_script_of_a_mebibyte() -> None:
    for line in ("-H " * 349_000, "\\a" * 524_000, "--n " * 16_000, "-" + "H" * 60_000):
        options = directives(f"#!/bin/sh\n#SBATCH {line}\n")
        assert len(options) <= MOST + 1
        assert (options[-1].line, bool(options[-1].fault)) == (2, True)
    text = "#!/bin/sh\n" + "#SBATCH -H\n" * 90_000
    many = directives(text)
    assert len(many) == MOST + 1
    assert (many[-1].line, "more than 2000 options" in many[-1].fault) == (MOST + 2, True)
    assert directives(f"#SBATCH -{'H' * (MOST + 1)}")[-1].fault
    (long,) = directives(f"#!/bin/sh\n#SBATCH --comment={'x' * LONGEST}\n")
    assert (long.line, "longer than 65536 characters" in long.fault) == (2, True)
    with pytest.raises(CorralError, match=r"line 2: .*longer than 65536"):
        options_of(f"#!/bin/sh\n#SBATCH --comment={'x' * LONGEST}\n", 42)
    options, rest = command_options(["-H"] * 300_000)
    assert (len(options), rest, bool(options[-1].fault)) == (MOST + 1, (), True)


def test_as_many_options_as_are_read() -> None:
    options = directives("#!/bin/sh\n" + "#SBATCH -H\n" * MOST)
    assert len(options) == MOST
    assert not any(option.fault for option in options)


def test_lines_behind_the_first_command_are_passed_over() -> None:
    script = "#!/bin/sh\n#SBATCH --time=5\n\n# a note\nhostname\n#SBATCH --time=99\n#SLURM -N 2\n"
    assert passed_over(script) == ((6, "#SBATCH --time=99"), (7, "#SLURM -N 2"))
    assert [option.value for option in directives(script)] == ["5"]
    assert not passed_over("#!/bin/sh\n#SBATCH -N 2\n")
