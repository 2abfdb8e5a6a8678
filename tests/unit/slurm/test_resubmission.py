"""A job that ended as a script with all of its options."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.slurm.directives import Directive, command_options, directives, line_of
from corral.slurm.records import Job
from corral.slurm.resubmission import Resubmission, resubmission

SCRIPT = "#!/bin/sh\n#SBATCH -N3\n# a comment\nsrun train\n"


def again(submit_line: str, script: str = SCRIPT, **fields: object) -> Resubmission:
    job = Job(id=28, label="28", name="train", workdir="/work", state="FAILED")
    return resubmission(replace(job, **fields), script, submit_line)


def options(made: Resubmission) -> dict[str, str]:
    return {option.name: option.value for option in directives(made.script)}


def test_options_of_the_command_line_win_over_the_scripts() -> None:
    made = again("sbatch --parsable -N2 --mem=10 -o /tmp/six-%j.log train.sh")
    assert options(made) == {"nodes": "2", "mem": "10", "output": "/tmp/six-%j.log"}
    assert made.script.endswith("\n# a comment\nsrun train\n")
    assert (made.name, made.workdir) == ("train", "/work")
    assert set(made.notes) == {"env"}


def test_what_is_not_carried_over_is_reported() -> None:
    made = again("/usr/bin/sbatch --export=ALL,A=1 -d afterok:3 --nonsense -p main a.sh 1 2")
    assert options(made)["partition"] == "main"
    assert made.notes["options"] == (
        "not carried over from the command line: --export=ALL,A=1 --dependency=afterok:3 --nonsense"
    )
    assert "a.sh 1 2" in made.notes["script"]


def test_a_name_with_a_blank_is_the_records() -> None:
    """Slurm joins the words of the line without quotes."""
    made = again("sbatch -J my job -N2 a.sh", name="my job")
    assert options(made)["job-name"] == "my job"
    assert "-N2 a.sh" in made.notes["script"]


def test_a_wrapped_command_is_in_its_script() -> None:
    made = again("sbatch -n1 --wrap srun sleep 600", "#!/bin/sh\n# wrapped\n\nsrun sleep 600\n")
    assert options(made) == {"ntasks": "1"}
    assert set(made.notes) == {"env"}


def test_without_a_script_it_is_written_from_the_command_or_left_to_its_user() -> None:
    made = again("srun -n2 hostname -f", "")
    assert made.script == "#!/bin/bash\n#SBATCH --ntasks=2\n\nsrun hostname -f\n"
    assert "srun" in made.notes["script"]
    assert "job_script" in again("sbatch -n2 a.sh", "").notes["script"]


def test_without_a_submit_line_the_record_is_what_there_is() -> None:
    made = again(
        "",
        partition="main",
        account="lab",
        qos="high",
        node_count=2,
        limit=5400,
        gres="gres/gpu:h200:4",
    )
    assert options(made) == {
        "account": "lab",
        "partition": "main",
        "qos": "high",
        "nodes": "2",
        "gres": "gpu:h200:4",
        "time": "01:30:00",
    }
    assert "no submit line" in made.notes["options"]


@pytest.mark.parametrize(("label", "array"), [("7_3", "3"), ("7_[4-9%2]", "4-9%2")])
def test_of_an_array_what_this_job_was(label: str, array: str) -> None:
    made = again("sbatch --array=0-9%2 a.sh", label=label)
    assert options(made)["array"] == array
    assert "array 7" in made.notes["array"]


@given(st.text(st.characters(exclude_characters="\n\0", codec="utf-8"), min_size=1, max_size=20))
def test_a_value_is_read_from_its_line_as_it_was(value: str) -> None:
    line = line_of(Directive(0, "comment", value))
    assert [o.value for o in directives(f"#!/bin/sh\n{line}\n")] == [value]


def test_options_end_before_the_script() -> None:
    read, rest = command_options(["-N2", "--mem", "1G", "-Q", "a.sh", "-N3"])
    assert [(o.name, o.value) for o in read] == [("nodes", "2"), ("mem", "1G"), ("quiet", "")]
    assert rest == ("a.sh", "-N3")


@pytest.mark.parametrize(
    ("option", "value"), [("--array=1-6", "1-6"), ("-a 0-9%2", "0-9%2"), ("", "")]
)
@pytest.mark.parametrize("within", [False, True])
def test_failed_tasks_alone_take_the_place_of_the_array(
    option: str, value: str, within: bool
) -> None:
    """All of it ran again: its own ``--array`` counted."""
    job = Job(id=28, label="28_3", name="train", workdir="/work", state="FAILED")
    script = f"#!/bin/sh\n#SBATCH {option}\nsrun train\n" if within and option else SCRIPT
    line = "sbatch train.sh" if within else f"sbatch {option} train.sh"
    made = resubmission(job, script, line, "1,3", alone=True)
    assert options(made)["array"] == ("1,3%2" if "%" in value else "1,3")
    entire = resubmission(job, script, line, "1-5")
    assert options(entire)["array"] == (value or "1-5")
