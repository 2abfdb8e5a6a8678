"""Job files: fields as they are written, paths from the file's folder, faults at their places."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corral.errors import Code, CorralError
from corral.jobs.jobfile import is_job_file, read_job_file
from corral.jobs.model import parse_job


def read(folder: Path, text: str) -> dict[str, object]:
    file = folder / "job.yaml"
    file.write_text(text)
    return read_job_file(file)


def test_texts_stay_as_they_are_written(hostile_tmp_path: Path) -> None:
    fields = read(
        hostile_tmp_path,
        "script: src/train.py\nargs: [--lr, 1e-3, 007, true, '']\nnodes: 2\nrequeue: true\n"
        "env: {A: 1, B: no}\nsweep: {lr: [1e-3, 3e-4], seed: 1}\ntime: 1:00:00\n"
        "partition:\n",
    )
    job = parse_job(fields)
    assert job.script == str(hostile_tmp_path / "src/train.py")
    assert job.args == ("--lr", "1e-3", "007", "true", "")
    assert (job.nodes, job.requeue, job.time, job.partition) == (2, True, "1:00:00", None)
    assert job.env == {"A": "1", "B": "no"}
    assert job.sweep == {"lr": ("1e-3", "3e-4"), "seed": ("1",)}


def test_a_command_and_options_of_slurm(tmp_path: Path) -> None:
    text = (
        "command: [sh, -c, 'echo $HOME', 1e-3, '']\nnodes: 2\naccount: lab\nafter: [12, 13:any]\n"
        "exclusive: true\nbegin: 18:00\nmail: ada@x.org\nnodelist: node[0-1]\n"
    )
    job = parse_job(read(tmp_path, text))
    assert (job.script, job.command) == ("", ("sh", "-c", "echo $HOME", "1e-3", ""))
    assert (job.account, job.after, job.exclusive) == ("lab", ("12", "13:any"), True)
    assert (job.begin, job.mail, job.nodelist) == ("18:00", "ada@x.org", "node[0-1]")


def test_absolute_paths_and_none_stay(tmp_path: Path) -> None:
    text = "script: /shared/a.py\nfolder: none\nenvironment: none\n"
    fields = read(tmp_path, text)
    assert fields == {"script": "/shared/a.py", "folder": "none", "environment": "none"}
    assert read(tmp_path, "script: a\nfolder: ..\n")["folder"] == str(tmp_path / "..")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("script: a\nnods: 2\n", "job.yaml:2:1: nods: no such field; did you mean nodes?"),
        ("script: a\nnodes: 0\n", "job.yaml:2:8: nodes: Input should be greater than"),
        ("script: a\nbegin: soon\n", 'job.yaml:2:8: begin: "soon" is not written so. Not before'),
        ("script: a\ncommand: [b]\n", "give a script or a command"),
        ("script: a\ntime: 90\n", 'job.yaml:2:7: time: "90" is not written so. Time limit'),
        ("script: a\nenv: {RANK: 1}\n", "RANK: Corral and Slurm set these"),
        ("nodes: 2\n", "give a script or a command"),
        ("script: a\narray: 0-3\nsweep: {a: 1}\n", "array and sweep exclude"),
        ("- a\n", "a job file is a mapping"),
        ("", "a job file is a mapping"),
        ("script: [\n", "job.yaml:"),
        ("script: a\nscript: b\n", "job.yaml:2:1"),
        ("script: !!python/object:os.system a\n", "job.yaml:1:"),
    ],
)
def test_faults_have_places(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(CorralError) as caught:
        read(tmp_path, text)
    assert caught.value.code is Code.SPEC_INVALID
    assert fault in caught.value.tail


def test_all_faults_at_once(tmp_path: Path) -> None:
    with pytest.raises(CorralError) as caught:
        read(tmp_path, "script: a\nnods: 1\nnodes: 0\nmem: lots\n")
    assert len(caught.value.tail.splitlines()) == 3


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CorralError) as caught:
        read_job_file(tmp_path / "none.yaml")
    assert caught.value.code is Code.NOT_FOUND
    assert [is_job_file(n) for n in ("a.yaml", "b.yml", "a.py", "yaml")] == [
        True,
        True,
        False,
        False,
    ]


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "job.yaml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        read_job_file(file)
    except CorralError as error:
        assert error.code is Code.SPEC_INVALID
