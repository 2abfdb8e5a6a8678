"""``#SBATCH`` lines through the REST API, which reads none."""

from __future__ import annotations

from typing import Any

import pytest

from corral.errors import Code, CorralError
from corral.slurm.directives import sbatch_options
from corral.slurm.rest.write import Submission, faults_of, options_of, submit_body


def asked(line: str, version: int = 42) -> dict[str, Any]:
    return options_of(f"#!/bin/sh\n#SBATCH {line}\ntrue\n#SBATCH -N9\n", version)


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("-N2", {"minimum_nodes": 2, "maximum_nodes": 2}),
        ("--nodes=2-4", {"minimum_nodes": 2, "maximum_nodes": 4}),
        ("-n4 -c 2 --ntasks-per-node=2", {"tasks": 4, "cpus_per_task": 2, "tasks_per_node": 2}),
        ("--gres=gpu:a100:2,shard:1", {"tres_per_node": "gres/gpu:a100:2,gres/shard:1"}),
        ("--gpus=3", {"tres_per_job": "gres/gpu:3"}),
        ("--gpus-per-task=h100:1",
         {"tres_per_task": "gres/gpu:h100:1", "tres_bind": "gres/gpu:per_task:1"}),
        ("--gpus-per-task=4", {"tres_per_task": "gres/gpu:4", "tres_bind": "gres/gpu:per_task:4"}),
        ("-A lab -q high -J 'a b'", {"account": "lab", "qos": "high", "name": "a b"}),
        ("--exclusive --hold --no-requeue", {"shared": ["none"], "hold": True, "requeue": False}),
        ("-w node[1-2] --mail-type=END,FAIL",
         {"required_nodes": ["node[1-2]"], "mail_type": ["END", "FAIL"]}),
    ],
)  # fmt: skip
def test_fields(line: str, fields: dict[str, Any]) -> None:
    assert asked(line) == fields


def test_numbers_in_each_versions_shape() -> None:
    assert asked("--mem=1500K -t 90:30", 38) == {"memory_per_node": 2, "time_limit": 91}
    assert asked("--mem=16G")["memory_per_node"] == {
        "set": True,
        "infinite": False,
        "number": 16384,
    }


@pytest.mark.parametrize("version", [38, 40, 42, 45])
@pytest.mark.parametrize(
    "value", ["now+1hour", "18:00", "tomorrow", "Noon", "2027-01-31T08:00", "1/31/27"]
)
def test_a_begin_is_left_to_the_controllers_clock(value: str, version: int) -> None:
    assert asked(f"--begin={value}", version) == {"begin_time": value}


@pytest.mark.parametrize(
    ("value", "version"), [("now+1hour", 39), ("010227", 42), ("1e9", 42), ("-5", 42), ("null", 42)]
)
def test_a_begin_that_would_be_read_as_another_time_is_refused(value: str, version: int) -> None:
    with pytest.raises(CorralError, match="line 2: --begin: ") as caught:
        asked(f"--begin={value}", version)
    assert caught.value.code is Code.SPEC_INVALID


def test_all_faults_at_once() -> None:
    with pytest.raises(CorralError) as caught:
        options_of("#!/bin/sh\n#SBATCH --nodez=1\n#SBATCH --deadline=now\n#SBATCH hetjob\n", 42)
    assert caught.value.code is Code.SPEC_INVALID
    assert [line.split(":")[0] for line in caught.value.tail.splitlines()] == [
        "line 2",
        "line 3",
        "line 4",
    ]


@pytest.mark.parametrize("name", sorted(sbatch_options()))
def test_no_option_is_dropped(name: str) -> None:
    try:
        fields = asked(f"--{name}=1" if sbatch_options()[name].value == "required" else f"--{name}")
    except CorralError as error:
        assert f"--{name}" in error.tail
        return
    no_fields = {"parsable", "quiet", "verbose", "wait", "ignore-pbs", "no-bell"}
    assert fields or name in no_fields


def test_what_the_form_gives_wins() -> None:
    script = "#!/bin/sh\n#SBATCH -J mine -N 4 -p long --output=x.log\ntrue\n"
    job = submit_body(Submission(script, "", "/tmp"), 42)["job"]
    assert (job["name"], job["partition"], job["minimum_nodes"]) == ("mine", "long", 4)
    assert (job["standard_output"], job["current_working_directory"]) == ("x.log", "/tmp")
    options = {"minimum_nodes": 1, "maximum_nodes": 1}
    job = submit_body(Submission(script, "other", "/tmp", "main", "/y", options), 42)["job"]
    assert (job["name"], job["partition"], job["minimum_nodes"]) == ("other", "main", 1)
    assert job["standard_output"] == "/y"


def test_gpus_of_a_node_add_up_and_a_later_line_of_one_option_counts() -> None:
    script = "#!/bin/sh\n#SBATCH --gres=shard:1\n#SBATCH --gpus-per-node=2\n#SBATCH --gres=nic:1\n"
    assert options_of(script, 42)["tres_per_node"] == "gres/nic:1,gres/gpu:2"


def test_a_folder_is_not_relative_to_nothing() -> None:
    script = "#!/bin/sh\n#SBATCH --chdir=run\n"
    assert faults_of(script, 42) == [
        (2, "--chdir: a folder from / on: there is none that it could be relative to")
    ]
