"""run, jobs, logs, cancel."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from corral.api.workload.queue import JobHandle, JobInfo, JobOutcome, RankLine
from corral.cli.workload.jobview import end_line, parts_view
from corral.errors import Code, CorralError
from corral.events import Event, Kind
from corral.jobs.arrays import ArrayOutcome, Part
from corral.jobs.follow import RankFailure
from corral.jobs.usage import EndedUse
from corral.slurm.job_use import JobUse
from corral.slurm.records import Job
from corral.slurm.states.jobs import ExitCode, JobState
from corral.spec.models import ClusterSpec
from tests.unit.cli.conftest import Fake, Run, stdout_json

Golden = Callable[[str, str], None]
HANDLE = JobHandle(12, "train", "corral", "/shared/corral/jobs/corral/x", 2, "node0")
GOOD = JobOutcome(12, JobState.COMPLETED, ExitCode(0), "", "node[0-1]", 62)
BAD = JobOutcome(
    12,
    JobState.FAILED,
    ExitCode(5),
    "NonZeroExitCode",
    "node[0-1]",
    3,
    RankFailure(1, "node1", "Exited with exit code 5", "boom"),
)
LINES = (
    RankLine(0, "epoch 1\x1b[31m"),
    RankLine(1, "boom"),
    RankLine(None, "srun: error", echo=True),
)


def running(outcome: JobOutcome) -> Callable[..., JobOutcome]:
    """An ``api.run`` of two ranks."""

    def run(
        spec: ClusterSpec, job: Any, emit: Any, *, on_line: Any, on_submit: Any, on_live: Any
    ) -> JobOutcome:
        on_submit(HANDLE)
        emit(Event(Kind.JOB, "12", "node[0-1]", "running on node[0-1]"))
        for line in LINES:
            on_line(line)
        return outcome

    return run


@pytest.mark.parametrize(
    ("seconds", "shown"), [(None, "node0"), (0, "node0, under 1 s"), (9, "node0, 9 s")]
)
def test_the_last_line_has_the_time_it_ran(seconds: int | None, shown: str) -> None:
    (line,) = end_line(JobOutcome(12, JobState.COMPLETED, ExitCode(0), "", "node0", seconds))
    assert line.plain == f"job 12: completed, on {shown}"


@pytest.mark.parametrize(
    ("nodes", "seconds", "shown"),
    [("", 0, " - "), ("node0", None, " - "), ("node0", 0, "under 1 s"), ("node0", 61, "1 m 01 s")],
)
def test_parts_have_the_time_they_ran(nodes: str, seconds: int | None, shown: str) -> None:
    part = Part(0, JobState.COMPLETED, ExitCode(0), seconds, nodes)
    console = Console(width=100, color_system=None)
    with console.capture() as printed:
        console.print(parts_view(ArrayOutcome(12, (part,))))
    assert shown in printed.get()


def test_run_follows_the_job(corral: Run, fake: Fake, known: Any, golden: Golden) -> None:
    fake.answer("run", running(GOOD))
    result = corral("run", "train.py", "-N", "2", "-G", "1", "--", "--epochs", "2", "--json")
    assert result.exit_code == 0
    assert result.stdout == "0: epoch 1\n1: boom\nbatch: srun: error\n"
    assert result.stderr.splitlines()[-1] == "job 12: completed, on node[0-1], 1 m 02 s"
    job = fake.calls["run"][0][0][1]
    assert (job.script, job.args) == ("train.py", ("--epochs", "2", "--json"))
    assert (job.nodes, job.gpus_per_node) == (2, 1)


def test_run_that_fails_names_the_rank_that_was_first(corral: Run, fake: Fake, known: Any) -> None:
    fake.answer("run", running(BAD))
    result = corral("run", "train.py", "-N", "2")
    assert result.exit_code == 1
    assert "rank 1 on node1 failed first: Exited with exit code 5" in result.stderr


def test_run_as_json_is_one_value_per_line(corral: Run, fake: Fake, known: Any) -> None:
    fake.answer("run", running(BAD))
    result = corral("run", "train.py", "--json")
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert [e["event"] for e in events] == ["submitted", "line", "line", "line", "ended"]
    assert events[1] == {"event": "line", "rank": 0, "text": "epoch 1\x1b[31m", "echo": False}
    assert events[-1]["failed"]["rank"] == 1


def test_run_takes_every_option(corral: Run, fake: Fake, known: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("FROM_HERE", "a b")
    fake.answer("submit", HANDLE)
    result = corral(
        *("run", "x.sh", "--detach", "--gpu-type", "slot", "--ranks-per-node", "2"),
        *("--cpus-per-rank", "1", "--mem", "1G", "--time", "30m", "--partition", "main"),
        *("--name", "mine", "--env", "A=b=c", "--env", "FROM_HERE", "--launcher", "torchrun"),
        *("--workdir", "/shared", "--user", "corral", "--requeue", "--grace", "5m"),
        *("--checkpoints", "/shared/c", "--data", "/shared/d", "--array", "0-9", "--at-once", "2"),
        *("--folder", "none", "--in-place", "--environment", "none", "-G", "0"),
        *("--python", "/opt/conda"),
        *("--account", "lab", "--qos", "high", "--nodelist", "node1", "--exclude", "node0"),
        *("--constraint", "a|b", "--after", "12", "--after", "13:any", "--begin", "18:00"),
        *("--mail", "ada@x.org", "--licenses", "matlab:2", "--exclusive", "--sbatch=--hold"),
    )
    assert result.exit_code == 0, result.stderr
    assert result.stdout == "job 12: submitted\nnext: corral logs 12 --follow\n"
    job = fake.calls["submit"][0][0][1]
    assert job.env == {"A": "b=c", "FROM_HERE": "a b"}
    assert {name: getattr(job, name) for name in job.model_fields_set - {"env", "script"}} == {
        "name": "mine",
        "gpu_type": "slot",
        "ranks_per_node": 2,
        "cpus_per_rank": 1,
        "mem": "1G",
        "time": "30m",
        "partition": "main",
        "launcher": "torchrun",
        "workdir": "/shared",
        "user": "corral",
        "requeue": True,
        "grace": "5m",
        "checkpoints": "/shared/c",
        "data": ("/shared/d",),
        "array": "0-9",
        "at_once": 2,
        "folder": "none",
        "in_place": True,
        "environment": "none",
        "python": "/opt/conda",
        "gpus_per_node": 0,
        "account": "lab",
        "qos": "high",
        "nodelist": "node1",
        "exclude": "node0",
        "constraint": "a|b",
        "after": ("12", "13:any"),
        "begin": "18:00",
        "mail": "ada@x.org",
        "licenses": "matlab:2",
        "exclusive": True,
        "sbatch": ("--hold",),
    }


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["-N2", "--", "hostname"], ("hostname",)),
        (["--", "sh", "-c", "echo $HOME; exit 1"], ("sh", "-c", "echo $HOME; exit 1")),
        (["-N", "2", "--", "ls", "--json", "-N9", ""], ("ls", "--json", "-N9", "")),
        (["-N2", "--", "a", "--", "b"], ("a", "--", "b")),
        (["--", "train.py"], ("train.py",)),
    ],
)
def test_words_behind_the_dashes_are_a_command(
    words: list[str], command: tuple[str, ...], corral: Run, fake: Fake, known: Any
) -> None:
    fake.answer("run", running(GOOD))
    result = corral("run", *words)
    assert result.exit_code == 0, result.stderr
    job = fake.calls["run"][0][0][1]
    assert (job.script, job.args, job.command) == ("", (), command)


def test_a_script_before_the_dashes_is_one(corral: Run, fake: Fake, known: Any) -> None:
    fake.answer("run", running(GOOD))
    for words in (
        ["x.py", "--", "-a"],
        ["-N", "2", "x.py", "--", "-a"],
        ["x.py", "-N2", "--", "-a"],
    ):
        assert corral("run", *words).exit_code == 0
    jobs = [call[0][1] for call in fake.calls["run"]]
    assert {(job.script, job.args, job.command) for job in jobs} == {("x.py", ("-a",), ())}
    assert corral("run", "--name", "--", "x.py").exit_code == 2  # an option's value


def test_a_script_of_this_machine_behind_the_dashes_is_noted(
    corral: Run, fake: Fake, known: Any, home: Path
) -> None:
    fake.answer("run", running(GOOD))
    (home / "train.py").write_text("pass")
    note = "train.py is run as a command of the nodes"
    assert note in corral("run", "--", "train.py").stderr
    assert note not in corral("run", "--folder", ".", "--", "train.py").stderr
    assert note not in corral("run", "--", "hostname").stderr


@pytest.mark.parametrize("words", [["-i", "--", ""], ["--"], ["--in-place", "--", "hostname"]])
def test_commands_that_cannot_be_run(words: list[str], corral: Run, fake: Fake, known: Any) -> None:
    fake.answer("run", GOOD)
    result = corral("run", "--json", *words)
    assert result.exit_code == 2
    assert not fake.calls["run"]


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (GOOD, 0),
        (BAD, 5),
        (replace(BAD, exit_code=ExitCode(0, 9)), 137),
        (replace(BAD, exit_code=None), 1),
        (replace(BAD, state=JobState.TIMEOUT, exit_code=ExitCode(0, 15)), 1),
        (replace(BAD, state=JobState.CANCELLED, exit_code=ExitCode(0, 15)), 1),
    ],
)
def test_a_commands_exit_status_is_corrals(
    outcome: JobOutcome, status: int, corral: Run, fake: Fake, known: Any
) -> None:
    fake.answer("run", running(outcome))
    assert corral("run", "--", "false").exit_code == status
    assert corral("run", "x.py").exit_code == (0 if status == 0 else 1)


def test_a_command_in_this_terminal(corral: Run, fake: Fake, known: Any) -> None:
    fake.answer("shell_argv", ["ssh", "-t", "node0", "x"])
    assert stdout_json(corral("run", "-i", "-G1", "--json", "--", "nvidia-smi"))["argv"][0] == "ssh"
    assert fake.calls["shell_argv"][0][0][1] == {"gpus_per_node": 1, "command": ("nvidia-smi",)}
    assert corral("run", "-i", "x.py", "--json").exit_code == 2


def test_shell(corral: Run, fake: Fake, known: Any) -> None:
    fake.answer("shell_argv", ["ssh", "-t", "node0", "x"])
    words = ("-N2", "-A", "lab", "--exclusive", "-e", "A=1", "--mount", "/a:/b", "-G", "0")
    assert stdout_json(corral("shell", *words, "--json"))["argv"] == ["ssh", "-t", "node0", "x"]
    (args, more) = fake.calls["shell_argv"][0]
    assert args[1] == {
        "nodes": 2,
        "account": "lab",
        "exclusive": True,
        "env": {"A": "1"},
        "mounts": ("/a:/b",),
        "gpus_per_node": 0,
    }
    assert more == {"gpu": True}
    corral("shell", "--json", "--", "nvidia-smi", "-L")
    assert fake.calls["shell_argv"][1][0][1] == {"command": ("nvidia-smi", "-L")}
    assert corral("shell", "--json", "train.py").exit_code == 2


def test_attach(corral: Run, fake: Fake, known: Any) -> None:
    fake.answer("attach_argv", ["ssh", "-t", "node0", "x"])
    assert stdout_json(corral("attach", "12_3", "-n", "node1", "--json"))["argv"][0] == "ssh"
    (args, more) = fake.calls["attach_argv"][0]
    assert (args[1], more) == ("12_3", {"user": "", "node": "node1"})
    assert corral("attach", "--json", "--", "-1").exit_code == 2


@pytest.mark.parametrize("words", [["shell"], ["attach", "12"], ["run", "-i"]])
def test_a_terminal_is_needed(words: list[str], corral: Run, fake: Fake, known: Any) -> None:
    for name in ("shell_argv", "attach_argv"):
        fake.answer(name, ["/nowhere/ssh"])
    result = corral(*words)
    assert result.exit_code == 2
    assert "this is not a terminal" in result.stderr
    assert not fake.calls["shell_argv"] + fake.calls["attach_argv"]


@pytest.mark.parametrize(
    "words",
    [
        ["--nodes", "0"],
        ["--time", "soon"],
        ["--env", "NOT_SET_ANYWHERE"],
        ["--env", "=x"],
        ["--env", "RANK=1"],
        ["--name", "$(id)"],
        ["--launcher", "mpirun"],
        ["--partition", "none", "--dry-run"],
        ["--nodes", "99", "--dry-run"],
    ],
)
def test_run_refuses_what_cannot_be(words: list[str], corral: Run, fake: Fake, known: Any) -> None:
    fake.answer("run", GOOD)
    result = corral("run", "x.py", *words)
    assert result.exit_code == 2
    assert "hint:" in result.stderr
    assert not fake.calls["run"]


def test_dry_run_submits_nothing(corral: Run, home: Path, known: Any) -> None:
    (home / "x.py").write_text("print(1)\n")
    result = corral("run", "x.py", "--dry-run", "-N", "2", "--", "a b")
    assert result.exit_code == 0
    assert result.stdout.startswith("#!/bin/sh\n")
    assert "#SBATCH --nodes=2" in result.stdout
    assert "'a b'" in result.stdout
    assert stdout_json(corral("run", "x.py", "--dry-run", "--json"))["script"]


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("option", ["--dry-run", "--explain"])
@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("trian.py", "script trian.py does not exist"),
        (".", ". is a folder, not a script"),
        ("x.py --in-place", "is not on the cluster's shared storage"),
        ("x.py --environment nothing.lock", "nothing.lock does not exist"),
        ("job.yaml", "script gone.py does not exist"),
    ],
)
def test_what_cannot_be_submitted_is_not_shown(
    words: str, why: str, option: str, corral: Run, home: Path
) -> None:
    """``corral run trian.py --dry-run`` printed a batch script, with status 0."""
    (home / "x.py").write_text("print(1)\n")
    (home / "job.yaml").write_text("script: gone.py\n")
    ended = corral("run", *words.split(), option)
    assert ended.exit_code == 2, ended.output
    assert why in " ".join(ended.stderr.split())
    assert ended.stdout == ""


def test_ctrl_c_leaves_the_job_running_and_never_runs_it_twice(
    corral: Run, fake: Fake, known: Any
) -> None:
    def interrupted(*args: Any, on_submit: Any, **more: Any) -> None:
        on_submit(HANDLE)
        raise KeyboardInterrupt

    fake.answer("run", interrupted)
    result = corral("run", "x.py")
    assert result.exit_code == 130
    assert "job 12 keeps running" in result.stderr
    assert "next: corral logs 12 --follow" in result.stderr
    fake.answer("run", KeyboardInterrupt())
    assert "corral jobs" in corral("run", "x.py").stderr


JOBS = (
    JobInfo(14, "14", "wait\x1b[2J", "corral", "PENDING", "Resources", partition="main",
            node_count=3, cpus=3, gpus=None, gpus_exact=False, gres="gpu:1", elapsed=0, submit_at=1,
            limit=3600),
    JobInfo(13, "12_1", "train", "corral", "FAILED", partition="main", nodes="node[0-1]",
            node_count=2, cpus=2, gpus=None, gpus_exact=False, gres="gpu:1", elapsed=62,
            submit_at=1, start_at=2, end_at=64, exit_status=5),
)  # fmt: skip


USED = EndedUse(
    Job(12, "12", cpus=4, memory=8192, gpus=2, elapsed=600), JobUse(2280.0, 1228.8), 492.0
)
WORDS = "  used 3.8 of 4 CPUs (95 %), 1.2 GiB of 8.0 GiB of memory (15 %), 2 GPUs 41 % busy"


def test_run_shows_what_the_job_used(corral: Run, fake: Fake, known: Any) -> None:
    fake.answer("run", running(replace(GOOD, use=USED)))
    assert corral("run", "train.py").stderr.splitlines()[-2:] == [
        "job 12: completed, on node[0-1], 1 m 02 s",
        WORDS,
    ]
    last = json.loads(corral("run", "train.py", "--json").stdout.splitlines()[-1])
    assert (last["event"], last["use"]["cpu"], last["use"]["gpu"]) == ("ended", 0.95, 0.41)


def test_one_job_and_what_it_used(corral: Run, fake: Fake, known: Any) -> None:
    fake.answer("job_state", replace(GOOD, use=USED))
    result = corral("jobs", "12")
    assert result.exit_code == 0
    assert result.stdout == f"job 12: completed, on node[0-1], 1 m 02 s\n{WORDS}\n"
    assert fake.calls["job_state"][0] == ((fake.calls["job_state"][0][0][0], "12"), {"use": True})
    assert stdout_json(corral("jobs", "12_3", "--json"))["use"]["memory_used"] == 0.15
    fake.answer("job_state", BAD)
    assert corral("jobs", "12").stdout.endswith("  what it used is not known yet\n")
    fake.answer("job_state", replace(GOOD, state=JobState.RUNNING, exit_code=None))
    assert corral("jobs", "12").stdout == "job 12: running, on node[0-1], 1 m 02 s\n"
    assert "is not a job number" in corral("jobs", "twelve").stderr


def test_jobs(corral: Run, fake: Fake, known: Any, golden: Golden) -> None:
    fake.answer("jobs", JOBS)
    result = corral("jobs", "--all")
    assert fake.calls["jobs"][0][1] == {"ended": True, "checks": False}
    golden("cli/jobs.txt", result.stdout)
    data = stdout_json(corral("jobs", "--json"))
    assert [(j["state"], j["exit_code"]) for j in data["jobs"]] == [
        ("PENDING", None),
        ("FAILED", "5:0"),
    ]
    fake.answer("jobs", ())
    assert "--all" in corral("jobs").stdout


@pytest.mark.parametrize(("more", "status"), [([], 0), (["--follow"], 1)])
def test_logs(more: list[str], status: int, corral: Run, fake: Fake, known: Any) -> None:
    def logs(
        spec: Any, job: str, emit: Any, *, on_line: Any, follow: bool, on_live: Any
    ) -> JobOutcome:
        assert (job, follow) == ("12", bool(more))
        on_line(LINES[0])
        return BAD

    fake.answer("logs", logs)
    result = corral("logs", "12", *more)
    assert (result.exit_code, result.stdout) == (status, "0: epoch 1\n")
    lines = corral("logs", "12", "--json", *more).stdout.splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["line", "ended"]


def test_cancel_tries_all_and_ends_with_the_worst(corral: Run, fake: Fake, known: Any) -> None:
    gone = CorralError(Code.NOT_FOUND, "no job 13", hint="corral jobs --all")
    ended = JobOutcome(12, JobState.CANCELLED, ExitCode(0, 15), "", "node0", 3)
    fake.answer("cancel", {12: ended, 13: gone})
    result = corral("cancel", "12", "13")
    assert result.exit_code == 2
    assert result.stdout == "job 12: cancelled, ended by SIGTERM, on node0, 3 s\n"
    assert "no job 13" in result.stderr
    data = stdout_json(corral("cancel", "12", "13", "--json"))
    assert [("error" in job) for job in data["jobs"]] == [False, True]
    fake.answer("cancel", {12: ended})
    assert corral("cancel", "12").exit_code == 0
    assert corral("cancel", "12_3").exit_code == 0
    for bad in ("twelve", "12_", "12_x", "-1", "1 2"):
        assert corral("cancel", "--", bad).exit_code == 2
        assert corral("logs", "--", bad).exit_code == 2


def test_options_of_the_job_after_the_dashes_are_noted(
    corral: Run, home: Path, known: object
) -> None:
    (home / "train.py").write_text("print(1)\n")
    ended = corral("run", "train.py", "--dry-run", "--", "--nodes=2", "--epochs", "5")
    assert ended.exit_code == 0
    assert "for the job: corral run train.py --nodes=2" in " ".join(ended.stderr.split())
    plain = corral("run", "train.py", "--dry-run", "--", "--epochs", "5")
    assert "for the job" not in plain.stderr
