"""JobSpec: what it takes, what it refuses, the names and times it makes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.errors import Code, CorralError
from corral.jobs.model import JobSpec, parse_job, seconds_of


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"script": ""}, "script"),
        ({"script": "a\0b"}, "NUL"),
        ({"script": "a.py", "args": ["x\0"]}, "NUL"),
        ({"script": "a.py", "nodes": 0}, "nodes"),
        ({"script": "a.py", "gpus_per_node": -1}, "gpus_per_node"),
        ({"script": "a.py", "name": "a b"}, "name"),
        ({"script": "a.py", "name": "-x"}, "name"),
        ({"script": "a.py", "name": "a\n#SBATCH --uid=0"}, "name"),
        ({"script": "a.py", "partition": "main --uid=0"}, "partition"),
        ({"script": "a.py", "time": "90"}, "time"),
        ({"script": "a.py", "time": "10:00"}, "time"),
        ({"script": "a.py", "mem": "lots"}, "mem"),
        ({"script": "a.py", "workdir": "relative"}, "workdir"),
        ({"script": "a.py", "workdir": "/a/../b"}, "workdir"),
        ({"script": "a.py", "user": "root; id"}, "user"),
        ({"script": "a.py", "env": {"A B": "1"}}, "env"),
        ({"script": "a.py", "env": {"WORLD_SIZE": "1"}}, "WORLD_SIZE"),
        ({"script": "a.py", "env": {"SLURM_PROCID": "1"}}, "SLURM_PROCID"),
        ({"script": "a.py", "launcher": "mpirun"}, "launcher"),
        ({"script": "a.py", "colour": "red"}, "colour"),
        ({}, "script"),
        ({"script": "a.py", "command": ["hostname"]}, "a script or a command"),
        ({"command": []}, "a script or a command"),
        ({"command": [""]}, "first word"),
        ({"command": ["-x"]}, "first word"),
        ({"command": ["a\0"]}, "NUL"),
        ({"command": ["hostname"], "args": ["-f"]}, "its own words"),
        ({"command": ["hostname"], "in_place": True}, "its own words"),
        ({"command": ["python3", "a.py"], "profile": "torch"}, "profile torch"),
        ({"script": "a.py", "account": "lab --uid=0"}, "account"),
        ({"script": "a.py", "account": "lab\n#SBATCH --uid=0"}, "account"),
        ({"script": "a.py", "account": "-x"}, "account"),
        ({"script": "a.py", "qos": "high,"}, "qos"),
        ({"script": "a.py", "nodelist": "./hosts"}, "nodelist"),
        ({"script": "a.py", "nodelist": "node[0-"}, "nodelist"),
        ({"script": "a.py", "exclude": "a b"}, "exclude"),
        ({"script": "a.py", "constraint": "a'b"}, "constraint"),
        ({"script": "a.py", "constraint": "a b"}, "constraint"),
        ({"script": "a.py", "after": ["train"]}, "after"),
        ({"script": "a.py", "after": ["12:notok"]}, "after"),
        ({"script": "a.py", "after": ["0"]}, "after"),
        ({"script": "a.py", "begin": "soon"}, "begin"),
        ({"script": "a.py", "begin": "25:00"}, "begin"),
        ({"script": "a.py", "begin": "2027-13-01"}, "begin"),
        ({"script": "a.py", "mail": "a b@x"}, "mail"),
        ({"script": "a.py", "mail": "ada:sometimes"}, "sometimes"),
        ({"script": "a.py", "licenses": "matlab:0"}, "licenses"),
        ({"script": "a.py", "licenses": "matlab|ansys"}, "licenses"),
        ({"script": "a.py", "account": "lab", "sbatch": ["--account=b"]}, "leave out one"),
        ({"script": "a.py", "mail": "ada", "sbatch": ["--mail-type=END"]}, "leave out one"),
        ({"script": "a.py", "after": ["1"], "sbatch": ["--dependency=singleton"]}, "leave out"),
        ({"script": "a.py", "exclusive": True, "sbatch": ["--exclusive=user"]}, "leave out one"),
    ],
)
def test_what_is_refused(fields: dict[str, object], word: str) -> None:
    with pytest.raises(CorralError) as caught:
        parse_job(fields)
    assert caught.value.code is Code.USAGE
    assert word in caught.value.message


def test_all_faults_at_once_each_with_what_to_write() -> None:
    with pytest.raises(CorralError) as caught:
        parse_job({"script": "a.py", "nodes": 0, "time": "90"})
    assert "nodes:" in caught.value.message
    assert "time:" in caught.value.message
    assert "30m" in caught.value.hint


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        ("90s", 90),
        ("30m", 1800),
        ("12h", 43200),
        ("2d", 172800),
        ("1:02:03", 3723),
        ("1-12:00:00", 129600),
        ("1-12", 129600),
    ],
)
def test_times(time: str, seconds: int) -> None:
    assert seconds_of(time) == seconds
    assert JobSpec(script="a.py", time=time).seconds == seconds


@given(st.text(min_size=1).filter(lambda text: "\0" not in text))
def test_every_script_name_gives_a_name_slurm_takes(script: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", JobSpec(script=script).title)


@given(st.text(min_size=1).filter(lambda text: "\0" not in text and text[0] != "-"))
def test_every_command_gives_a_name_slurm_takes(word: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", JobSpec(command=(word,)).title)


@pytest.mark.parametrize(
    "begin",
    ["now", "now+60", "now+1hour", "now+3weeks", "16:00", "9:05:30", "today", "tomorrow", "noon",
     "midnight", "elevenses", "fika", "teatime", "2027-01-31", "2027-01-31T08:00:59"],
)  # fmt: skip
def test_times_that_a_job_may_begin(begin: str) -> None:
    assert JobSpec(script="a", begin=begin).begin == begin


def test_ranks_follow_gpus() -> None:
    assert JobSpec(script="a.py", nodes=3).logs == 3
    assert JobSpec(script="a.py", nodes=3, gpus_per_node=2).logs == 6
    assert JobSpec(script="a.py", nodes=3, gpus_per_node=2, ranks_per_node=1).logs == 3
    assert JobSpec(script="a.py", nodes=3, gpus_per_node=2, launcher="torchrun").logs == 3
