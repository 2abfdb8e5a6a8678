"""Commands in place of scripts, options by name, terminals in jobs: on a real cluster."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.embedded.conftest import Live, named

from corral import api
from corral.api.cluster import Cluster
from corral.api.workload.queue import JobHandle, JobOutcome, RankLine
from corral.errors import Code, CorralError
from corral.hosts.quote import sh
from corral.slurm.text import fields_of
from corral.slurm.tres import counts
from corral.spec.models import ClusterSpec
from corral.spec.sections.people import Account, Qos, User

USERS = (User(name="corral", uid=2000, account="vision"), User(name="ada", uid=2001))
QOS = (Qos(name="low"), Qos(name="high", priority=100), Qos(name="urgent", priority=200))
ON_A_TERMINAL = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)"


@pytest.fixture(scope="module")
def cluster(fresh_cluster: Callable[[ClusterSpec], Live]) -> Live:
    """One with accounts, which Slurm then enforces."""
    accounts = (Account(name="vision", qos=("low", "high")),)
    name = f"commands-{os.getpid()}"
    return fresh_cluster(named(name, users=USERS, accounts=accounts, qos=QOS))


def corral(cluster: Live, *words: str, terminal: bool = False) -> subprocess.CompletedProcess[str]:
    """``corral run`` and others as a person types them, perhaps on a terminal of Python's own."""
    verb, *rest = words
    argv = [sys.executable, "-m", "corral", verb, "-c", cluster.spec.name, *rest]
    return subprocess.run(
        [sys.executable, "-c", ON_A_TERMINAL, *argv] if terminal else argv,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
    )


def typed(argv: list[str], text: str) -> str:
    """What a shell prints that somebody types into."""
    ended = subprocess.run(
        [sys.executable, "-c", ON_A_TERMINAL, *argv],
        input=text.encode(),
        capture_output=True,
        timeout=120,
    )
    return ended.stdout.decode(errors="replace")


def test_a_command_runs_once_on_each_node(cluster: Live) -> None:
    done = corral(cluster, "run", "-N3", "--", "hostname", "-s")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["0: node0", "1: node1", "2: node2"]


def test_and_once_per_gpu(cluster: Live) -> None:
    script = 'echo "$LOCAL_RANK of $LOCAL_WORLD_SIZE with $SLURM_GPUS_ON_NODE"'
    done = corral(cluster, "run", "-G2", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["0: 0 of 2 with 2", "1: 1 of 2 with 2"]
    done = corral(cluster, "run", "-G2", "--ranks-per-node", "1", "--", "sh", "-c", script)
    assert "0 of 1 with 2" in done.stdout


def test_its_words_arrive_as_they_are(cluster: Live) -> None:
    words = ["a b", "$HOME", "it's", "*", "", "--json", '"$(id)"', "\\"]
    done = corral(cluster, "run", "--", "printf", "<%s>\\n", *words)
    assert done.stdout.splitlines() == [f"<{word}>" for word in words], done.stderr


@pytest.mark.parametrize(
    ("command", "status"),
    [("exit 7", 7), ("kill -9 $$", 137), ("no-such-program", 127)],
)
def test_its_exit_status_is_corrals(cluster: Live, command: str, status: int) -> None:
    assert corral(cluster, "run", "-N2", "--", "sh", "-c", command).returncode == status


def test_a_folder_goes_along_when_it_is_asked_for(
    cluster: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "show").write_text("#!/bin/sh\ncat words\n")
    (tmp_path / "show").chmod(0o755)
    (tmp_path / "words").write_text("from here\n")
    monkeypatch.chdir(tmp_path)
    lines: list[RankLine] = []
    lab = Cluster(cluster.spec)
    outcome = lab.run(["./show"], folder=".", on_line=lines.append)
    assert outcome.good
    assert [line.text for line in lines] == ["from here"]
    assert not lab.run(["./show"]).good


def test_a_command_in_this_terminal(cluster: Live) -> None:
    words = ("-i", "-G1", "--", "sh", "-c", 'test -t 1 && echo "gpus=$SLURM_GPUS_ON_NODE"; exit 7')
    done = corral(cluster, "run", *words, terminal=True)
    assert (done.returncode, "gpus=1" in done.stdout) == (7, True), done.stdout + done.stderr


def test_a_terminals_variables_are_in_no_argument_list(cluster: Live) -> None:
    """They come as they are, and no process of the controller or the node has them in its words."""
    script = (
        'printf "<%s>\\n" "$HF_TOKEN"; '
        "grep -l se[c]ret-4711 /proc/[0-9]*/cmdline; ls -d /tmp/corral-variables.*"
    )
    words = ("-i", "--env", "HF_TOKEN=secret-4711 it's", "--", "sh", "-c", script)
    done = corral(cluster, "run", *words, terminal=True)
    assert "<secret-4711 it's>" in done.stdout, done.stdout + done.stderr
    assert "/cmdline" not in done.stdout
    there = cluster.run(cluster.controller, sh("ls -d /tmp/corral-variables.* 2>&1"))
    assert "No such file" in there.stdout


def test_a_shell_gets_a_gpu_unasked(cluster: Live) -> None:
    script = 'echo "gpus=$SLURM_GPUS_ON_NODE user=$(id -un)"'
    done = corral(cluster, "shell", "-w", "node2", "--", "sh", "-c", script, terminal=True)
    assert "gpus=1 user=corral" in done.stdout, done.stdout + done.stderr


@contextmanager
def running(cluster: Live, **fields: object) -> Iterator[JobHandle]:
    """A job, cancelled at the end."""
    job = asyncio.run(api.submit(cluster.spec, api.job_spec(fields)))
    try:
        yield job
    finally:
        asyncio.run(api.cancel(cluster.spec, [job.id]))


def test_a_shell_inside_a_job(cluster: Live) -> None:
    command = ("sh", "-c", "sleep 300 & echo $! > $CORRAL_JOB_FOLDER/pid-$RANK; wait")
    with running(cluster, command=command, nodes=2, gpus_per_node=1) as job:
        until = time.monotonic() + 60
        while "RUNNING" not in (state := show(cluster, job.id)) and time.monotonic() < until:
            time.sleep(0.5)
        assert "JobState=RUNNING" in state
        argv = asyncio.run(api.attach_argv(cluster.spec, job.id, node="node1"))
        text = (
            'echo "job=$SLURM_JOB_ID on=$(hostname -s) user=$(id -un) gpus=$SLURM_GPUS_ON_NODE"; '
            f"kill -0 $(cat {job.folder}/pid-1) && echo its rank=seen; exit\n"
        )
        out = typed(argv, text)
        assert f"job={job.id} on=node1 user=corral gpus=1" in out, out
        assert "its rank=seen" in out.replace("echo its rank=seen", ""), out
        assert "JobState=RUNNING" in show(cluster, job.id), "exit leaves it running"
        for more, code in (
            ({"user": "ada"}, Code.USAGE),
            ({"node": "node2"}, Code.NOT_FOUND),
        ):
            with pytest.raises(CorralError) as caught:
                asyncio.run(api.attach_argv(cluster.spec, job.id, **more))
            assert caught.value.code is code, more
    with pytest.raises(CorralError) as caught:
        asyncio.run(api.attach_argv(cluster.spec, job.id))
    assert caught.value.code is Code.NOT_GOOD


def test_no_shell_in_a_job_that_never_was(cluster: Live) -> None:
    with pytest.raises(CorralError) as caught:
        asyncio.run(api.attach_argv(cluster.spec, 999999))
    assert caught.value.code is Code.NOT_FOUND


def show(cluster: Live, job: int) -> str:
    """The job as slurmctld shows it."""
    return cluster.run(cluster.controller, sh("scontrol -o show job {id}", id=job)).stdout


def test_options_by_name_reach_slurm(cluster: Live) -> None:
    fields = {
        "command": ("true",), "nodes": 2, "account": "vision", "qos": "high",
        "nodelist": "node[1-2]", "exclude": "node0", "begin": "now+1hour",
        "mail": "ada@example.org:begin,time_limit_80", "exclusive": True, "time": "10m",
    }  # fmt: skip
    with running(cluster, **fields) as job:
        shown = fields_of(show(cluster, job.id))
    assert shown["Account"] == "vision"
    assert shown["QOS"] == "high"
    assert shown["ReqNodeList"] == "node[1-2]"
    assert shown["ExcNodeList"] == "node0"
    assert shown["Reason"] == "BeginTime"
    assert shown["MailUser"] == "ada@example.org"
    assert set(shown["MailType"].split(",")) == {"BEGIN", "TIME_LIMIT_80"}
    assert shown["OverSubscribe"] == "NO"


def test_an_exclusive_job_has_its_node_with_all_memory(cluster: Live) -> None:
    script = "scontrol -o show job $SLURM_JOB_ID"
    lines: list[RankLine] = []
    outcome = Cluster(cluster.spec).run(
        ["sh", "-c", script], nodelist="node1", exclusive=True, on_line=lines.append
    )
    assert outcome.good, lines
    shown = fields_of(next(line.text for line in lines if line.text.startswith("JobId=")))
    facts = fields_of(cluster.run(cluster.controller, sh("scontrol -o show node node1")).stdout)
    tres = counts(shown["AllocTRES"])
    assert tres["cpu"] == int(facts["CPUTot"])
    assert shown["MinMemoryNode"] == "0"
    assert tres["mem"] == pytest.approx(int(facts["RealMemory"]), rel=0.01)


def test_jobs_that_follow_others(cluster: Live) -> None:
    lab = Cluster(cluster.spec)
    failed = lab.submit(["false"])
    never = lab.submit(["true"], after=[f"{failed.id}:ok"])
    anyway = lab.submit(["true"], after=[f"{failed.id}:any"])
    behind = lab.submit(["true"], after=[str(anyway.id)])
    for job, state in ((behind, "COMPLETED"), (anyway, "COMPLETED"), (never, "CANCELLED")):
        outcome = lab.follow(job.id)
        assert isinstance(outcome, JobOutcome)
        assert outcome.state.value == state, (job.id, outcome)


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        ({"account": "vison"}, "did you mean vision?"),
        ({"account": "physics"}, "corral's accounts are: vision"),
        ({"qos": "hihg"}, "did you mean high?"),
        ({"qos": "urgent"}, "corral may ask for high, low"),
        ({"nodelist": "nod1"}, "did you mean node1?"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(
    cluster: Live, fields: dict[str, str], hint: str
) -> None:
    with pytest.raises(CorralError) as caught:
        asyncio.run(api.submit(cluster.spec, api.job_spec({"command": ("true",), **fields})))
    assert (caught.value.code, caught.value.hint) == (Code.USAGE, hint)


def test_explain_shows_what_is_asked_of_slurm(cluster: Live) -> None:
    job = api.job_spec({"command": ("true",), "account": "vision", "after": ("1:any",)})
    rows = {row.name: row.value for row in asyncio.run(api.explain_job(cluster.spec, job))}
    assert (rows["--account"], rows["--dependency"]) == ("vision", "afterany:1")
