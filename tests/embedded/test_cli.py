"""The command line as a user types it, on the real cluster; and the same from Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.embedded.conftest import EXAMPLES, Live
from tests.embedded.test_prove import NOT_HERE

import corral
from corral.hosts.quote import sh

CORRAL = Path(sys.executable).with_name("corral")


@pytest.fixture
def file(cluster: Live, tmp_path: Path) -> str:
    """The cluster's own file."""
    path = tmp_path / "cluster.yaml"
    text = (EXAMPLES / "laptop.yaml").read_text()
    text = text.replace("name: laptop", f"name: {cluster.spec.name}")
    path.write_text(f"{text}\nhealth: {{every: {cluster.spec.health.every}}}\n")
    return str(path)


def typed(*args: str, status: int = 0) -> str:
    """What a command prints on stdout; its exit status is checked."""
    done = subprocess.run(
        [CORRAL, *args], capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL
    )
    assert done.returncode == status, f"{args}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def answer(*args: str, status: int = 0) -> Any:
    """The JSON value of a command with ``--json``, and nothing else on stdout."""
    return json.loads(typed(*args, "--json", status=status))


def test_plan_status_and_prove(file: str) -> None:
    assert answer("plan", file)["empty"] is True
    report = answer("status", file)
    assert sorted(n["node"] for n in report["nodes"]) == ["node0", "node1", "node2"]
    proof = answer("prove", file)
    verdicts = {r["check"]: r["verdict"] for r in proof["results"]}
    assert verdicts == {c: "skip" if c in NOT_HERE else "pass" for c in verdicts}


def test_up_with_nothing_to_do_asks_nothing(file: str) -> None:
    results = answer("prove", file)["results"]
    passed = sum(r["verdict"] == "pass" for r in results)
    assert passed >= 19
    assert f"{passed} passed" in typed("up", file)


def test_a_plan_is_written_and_applied(file: str, cluster: Live, tmp_path: Path) -> None:
    cluster.run("node1", sh("chmod 700 /var/spool/slurmd"))
    out = str(tmp_path / "plan.json")
    assert "/var/spool/slurmd" in typed("plan", file, "--out", out)
    typed("apply", file, out, status=2)  # no terminal to ask on, and no --yes
    typed("apply", file, out, "--yes")
    assert cluster.run("node1", sh("stat -c %a /var/spool/slurmd")).stdout.strip() == "755"
    typed("apply", file, out, "--yes", status=1)  # the same plan again is stale


def test_exec_and_ssh(file: str) -> None:
    out = typed("exec", "-c", file, "-n", "node[1-2]", "--", "uname", "-n")
    assert "node1" in out
    assert "node2" in out
    assert "node0" not in out
    typed("exec", "-c", file, "--", "false", status=1)
    typed("exec", "-c", file, "-n", "node9", "--", "true", status=2)
    assert typed("ssh", "-c", file, "node1", "uname", "-n") == "node1\n"


def test_drain_and_resume(file: str) -> None:
    typed("drain", "node2", "-r", "new memory; $(reboot)", "-c", file)
    report = answer("status", file, status=1)
    node = next(n for n in report["nodes"] if n["node"] == "node2")
    assert "new memory; $(reboot)" in json.dumps(node)
    typed("resume", "node2", "-c", file)
    assert answer("resume", "node[0-2]", "-c", file)["nodes"].keys() == {"node0", "node1", "node2"}
    answer("status", file)


def test_run_jobs_logs_cancel(file: str, tmp_path: Path) -> None:
    script = tmp_path / "hello.sh"
    script.write_text('#!/bin/sh\necho "hello $1 from $(uname -n)"\n')
    out = typed("run", str(script), "-c", file, "-N", "3", "-G", "1", "--", "a b")
    for node in ("node0", "node1", "node2"):
        assert f"hello a b from {node}" in out
    script.write_text("#!/bin/sh\necho it breaks; exit 7\n")
    typed("run", str(script), "-c", file, status=1)
    script.write_text("#!/bin/sh\necho sleeping; sleep 300\n")
    job = str(answer("run", str(script), "-c", file, "--detach")["id"])
    assert job in typed("jobs", "-c", file)
    typed("cancel", job, "-c", file)
    states = {str(j["id"]): j["state"] for j in answer("jobs", "--all", "-c", file)["jobs"]}
    assert states[job] in ("CANCELLED", "COMPLETING")
    typed("logs", job, "-c", file)
    typed("logs", "999999", "-c", file, status=2)
    typed("run", str(tmp_path / "missing.py"), "-c", file, status=2)
    typed("run", str(script), "-c", file, "-N", "9", status=2)


def test_images_are_listed(file: str, cluster: Live) -> None:
    assert any("corral-node" in i["reference"] for i in answer("image", "list")["images"])


def test_the_same_from_python(file: str) -> None:
    opened = corral.open(file)
    assert opened.plan().empty
    assert opened.status().good
    assert corral.lint(file) == ()
    with pytest.raises(corral.CorralError):
        corral.open("/nowhere.yaml")


def test_bad_files_and_usage(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("corral: v1\nname: x\ngrops: []\n")
    out = typed("lint", str(bad), status=2)
    assert "bad.yaml:3:1" in out
    assert "groups" in out
    typed("plan", str(bad), status=2)
    typed("up", str(tmp_path / "none.yaml"), "--yes", status=2)
    typed("nonsense", status=2)


@pytest.mark.parametrize("verb", ["plan", "status"])
def test_no_file_and_no_known_cluster(verb: str, tmp_path: Path) -> None:
    """Where one is known, as on the machine of these tests, both verbs take it."""
    own = ("CORRAL_STATE_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")
    env = {**os.environ, **{name: str(tmp_path / name) for name in own}}
    env.pop("CORRAL_CLUSTER", None)
    argv = [CORRAL, verb]
    done = subprocess.run(argv, capture_output=True, text=True, env=env, cwd=tmp_path, timeout=120)
    assert done.returncode == 2, done.stderr
    assert "no cluster was brought up from here" in done.stderr
    assert not list(tmp_path.iterdir())
