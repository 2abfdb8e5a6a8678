"""What is sent with a job, sweeps and arrays, the handle in Python: on a real cluster."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from corral import api
from corral.api.cluster import Cluster
from corral.api.workload.queue import ArrayOutcome, JobOutcome, RankLine
from corral.errors import Code, CorralError
from corral.events import Event, Kind
from corral.hosts.quote import sh

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

SHOW = """\
import json, os, sys
from model import NAME
os.makedirs("runs", exist_ok=True)
open("runs/own.txt", "a").write(NAME)
print(json.dumps({"args": sys.argv[1:], "cwd": os.getcwd(), "name": NAME,
      "own": open("runs/own.txt").read(), "files": sorted(os.listdir("."))}))
"""


def project(folder: Path) -> Path:
    """A small project under git's rules, with data that is to stay here."""
    (folder / "sub").mkdir(parents=True)
    (folder / "data").mkdir()
    (folder / "train.py").write_text(SHOW)
    (folder / "model.py").write_text('NAME = "net"\n')
    (folder / "sub" / "it's $(touch canary)").write_bytes(b"\0\xff")
    (folder / "link").symlink_to("sub")
    (folder / "data" / "large.bin").write_bytes(os.urandom(100_000))
    (folder / ".gitignore").write_text("data/\n")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


def printed_json(lines: list[RankLine]) -> dict[str, Any]:
    return json.loads(next(line.text for line in lines if line.text.startswith("{")))


def test_a_project_is_uploaded_once(
    cluster: Live, hostile_tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project(hostile_tmp_path / "pro ject")
    monkeypatch.chdir(root)
    notes: list[Event] = []
    opened = Cluster(cluster.spec, notes.append)

    def run() -> tuple[dict[str, Any], str]:
        lines: list[RankLine] = []
        notes.clear()
        outcome = opened.run("train.py", on_line=lines.append, args=("--x", "1"))
        assert outcome.good, lines
        return printed_json(lines), next(e.message for e in notes if e.subject == "code")

    first, note = run()
    assert first["args"] == ["--x", "1"]
    assert set(first["files"]) >= {"train.py", "model.py", "sub", "link", ".gitignore", "runs"}
    assert "data" not in first["files"]
    assert "5 files, " in note  # the link has no content
    second, note = run()
    assert "none of them new" in note
    assert second["own"] == "net", "two jobs write into one file"
    (root / "model.py").write_text(f'NAME = "another"  # {time.time_ns()}\n')
    third, note = run()
    assert third["name"] == "another"
    assert "1 new" in note


def test_what_was_sent_is_checked_and_shared(cluster: Live, tmp_path: Path) -> None:
    """A spoiled content never gets into the store; equal contents are one file there."""
    root = project(tmp_path / "p")
    job = Cluster(cluster.spec).submit(str(root / "train.py"))
    job.result(timeout=300)
    links = sh("stat -c %h {file}", file=f"{job.folder}/code/model.py")
    assert int(cluster.run(cluster.controller, links).stdout) >= 2
    mode = sh("stat -c %a:%U {file}", file=f"{job.folder}/code/model.py")
    assert cluster.run(cluster.controller, mode).stdout.strip() == "400:corral"
    left = sh("ls -A {store}", store=f"{Path(job.folder).parent}/.store")
    assert cluster.run(cluster.controller, left).stdout.split() == ["blobs"]


def test_in_place(cluster: Live) -> None:
    place = sh(
        "mkdir -p /shared/mine && cd /shared/mine && printf %s {text} > train.py && "
        "echo 'NAME=\"there\"' > model.py && chown -R corral /shared/mine",
        text=SHOW,
    )
    assert cluster.run(cluster.controller, place).ok
    lines: list[RankLine] = []
    opened = Cluster(cluster.spec)
    outcome = opened.run("/shared/mine/train.py", in_place=True, on_line=lines.append)
    assert outcome.good, lines
    assert printed_json(lines)["cwd"] == "/shared/mine"
    with pytest.raises(CorralError) as caught:
        opened.run(__file__, in_place=True)
    assert "is not on the cluster's shared storage" in caught.value.message


def test_a_sweep_is_one_array_and_each_point_has_its_own_folder(
    cluster: Live, tmp_path: Path
) -> None:
    root = project(tmp_path / "p")
    job = Cluster(cluster.spec).submit(
        str(root / "train.py"),
        args=("--rate", "{lr}"),
        sweep={"lr": ("1e-3", "3e-4"), "note": ("it's $(id)", "")},
        at_once=3,
    )
    outcome = job.result(timeout=300)
    assert isinstance(outcome, ArrayOutcome)
    assert [dict(part.point or {}) for part in outcome.parts] == [
        {"lr": lr, "note": note} for lr in ("1e-3", "3e-4") for note in ("it's $(id)", "")
    ]
    rows = [json.loads(part.last) for part in outcome.parts]
    assert [row["args"] for row in rows] == [
        ["--rate", part.point["lr"], f"--note={part.point['note']}"] for part in outcome.parts
    ]
    assert {row["own"] for row in rows} == {"net"}
    assert len({row["cwd"] for row in rows}) == 4
    asked = cluster.run(cluster.controller, sh("sacct -nXPj {id} -o ReqTRES,JobID", id=job.id))
    assert asked.stdout.count("gres/gpu=1") == 4, "one GPU a point"
    lines = job.part(2).logs()
    assert printed_json(list(lines)) == rows[2]


def test_a_part_that_fails_is_named(cluster: Live, tmp_path: Path) -> None:
    script = tmp_path / "part.sh"
    script.write_text('#!/bin/sh\necho "part $SLURM_ARRAY_TASK_ID"\nexit "$SLURM_ARRAY_TASK_ID"\n')
    job = Cluster(cluster.spec).submit(str(script), array="0,3")
    with pytest.raises(CorralError) as caught:
        job.result(timeout=300)
    assert caught.value.code is Code.NOT_GOOD
    assert f"{job.id}_3: FAILED part 3" in caught.value.tail
    assert job.state == "FAILED"
    with pytest.raises(CorralError):
        job.part(1)


def test_a_handle_waits_and_cancels(cluster: Live, tmp_path: Path) -> None:
    script = tmp_path / "sleep.sh"
    script.write_text("#!/bin/sh\necho begins\nsleep 3600\n")
    events: list[Event] = []
    job = Cluster(cluster.spec, events.append).submit(str(script), nodes=2)
    until = time.monotonic() + 180
    begun = False
    while not begun and time.monotonic() < until:
        with pytest.raises(CorralError) as caught:
            job.wait(timeout=3)
        assert caught.value.code is Code.TIMED_OUT
        begun = [line.text for line in job.logs() if line.rank == 0] == ["begins"]
    assert begun
    assert any(event.kind is Kind.JOB for event in events)
    assert job.state == "RUNNING"
    job.cancel()
    outcome = job.wait(timeout=180)
    assert isinstance(outcome, JobOutcome)
    assert outcome.state.value == "CANCELLED"


def test_explain_matches_the_environment_of_a_rank(cluster: Live, tmp_path: Path) -> None:
    script = tmp_path / "env.sh"
    script.write_text("#!/bin/sh\nenv\n")
    job = api.job_spec({"script": str(script), "nodes": 3, "env": {"OMP_NUM_THREADS": "7"}})
    lines: list[RankLine] = []

    async def both() -> tuple[api.Setting, ...]:
        settings = await api.explain_job(cluster.spec, job)
        await api.run(cluster.spec, job, on_line=lines.append)
        return settings

    settings = asyncio.run(both())
    environment = dict(
        line.text.split("=", 1) for line in lines if line.rank == 1 and "=" in line.text
    )
    for setting in settings:
        if setting.name in environment and setting.name != "MASTER_PORT":
            assert environment[setting.name] == setting.value, setting
    words = {setting.name: setting.reason for setting in settings}
    assert words["OMP_NUM_THREADS"].startswith("yours")
    assert {"MASTER_ADDR", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"} <= words.keys()


def wheel(folder: Path, version: str) -> Path:
    """A real wheel, written by hand."""
    file = folder / f"corraldemo-{version}-py3-none-any.whl"
    about = f"corraldemo-{version}.dist-info"
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("corraldemo.py", f"VERSION = {version!r}\n")
        made.writestr(
            f"{about}/METADATA", f"Metadata-Version: 2.1\nName: corraldemo\nVersion: {version}\n"
        )
        made.writestr(
            f"{about}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        made.writestr(f"{about}/RECORD", "")
    return file


def test_an_environment_for_each_lock(cluster: Live, tmp_path: Path) -> None:
    """Packages come from a folder of wheels, which pip's own options name."""
    for version in ("1.0", "2.0"):
        file = wheel(tmp_path, version)
        put = sh("mkdir -p /shared/wheels && cat > {to}", to=f"/shared/wheels/{file.name}")
        assert cluster.run(cluster.controller, put, stdin=file.read_bytes()).ok
    root = tmp_path / "p"
    root.mkdir()
    (root / "train.py").write_text("import corraldemo, sys; print(corraldemo.VERSION, sys.prefix)")
    notes: list[Event] = []
    opened = Cluster(cluster.spec, notes.append)

    def run(version: str) -> tuple[list[str], bool]:
        text = f"# {tmp_path}\n--no-index\n--find-links /shared/wheels\ncorraldemo=={version}\n"
        (root / "requirements.txt").write_text(text)
        notes.clear()
        lines: list[RankLine] = []
        assert opened.run(str(root / "train.py"), on_line=lines.append, nodes=2).good, lines
        made = any("is made" in event.message for event in notes)
        return [line.text for line in lines if line.rank is not None], made

    first, made = run("1.0")
    assert made
    assert first[0].startswith("1.0 /shared/corral/envs/corral/")
    again, made = run("1.0")
    assert (set(again), made) == (set(first), False)
    second, made = run("2.0")
    assert made
    assert second[0].split()[0] == "2.0"
    assert second[0].split()[1] != first[0].split()[1]
    with pytest.raises(CorralError) as caught:
        run("3.0")
    assert caught.value.code is Code.COMMAND_FAILED
    assert "corraldemo==3.0" in caught.value.tail
    assert "--environment none" in caught.value.hint


def test_a_python_that_nodes_have_runs_the_ranks(cluster: Live, tmp_path: Path) -> None:
    """A venv on shared storage, by its folder; one that node2 alone lacks ends the job there."""
    make = sh("python3 -m venv --without-pip /shared/venvs/mine && chmod -R a+rX /shared/venvs")
    assert cluster.run(cluster.controller, make).ok
    (tmp_path / "train.py").write_text("import sys; print(sys.executable, sys.prefix)")
    opened = Cluster(cluster.spec)
    lines: list[RankLine] = []
    script = str(tmp_path / "train.py")
    assert opened.run(script, on_line=lines.append, nodes=2, python="/shared/venvs/mine").good
    seen = {line.text for line in lines if line.rank is not None}
    assert seen == {"/shared/venvs/mine/bin/python3 /shared/venvs/mine"}
    with pytest.raises(CorralError, match="Python"):
        opened.run(script, python="/shared/venvs/other")
    for node in ("node0", "node1"):
        assert cluster.run(node, sh("cp -a /shared/venvs/mine /opt/mine")).ok
    outcome = opened.run(script, on_line=lines.append, nodes=3, python="/opt/mine/bin/python3")
    assert not outcome.good
    assert any("corral: no Python /opt/mine/bin/python3 on" in line.text for line in lines)


def test_a_uv_lock_becomes_an_environment_that_is_used_again(
    cluster: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """uv for real, over a folder of wheels: no index is asked, here or there."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if shutil.which("uv") is None:
        pytest.skip("uv is not installed")
    wheels, root = tmp_path / "wheels", tmp_path / "p"
    wheels.mkdir()
    root.mkdir()
    for version in ("1.0", "2.0"):
        file = wheel(wheels, version)
        put = sh("mkdir -p /shared/uv && cat > {to}", to=f"/shared/uv/{file.name}")
        assert cluster.run(cluster.controller, put, stdin=file.read_bytes()).ok
    (root / "train.py").write_text("import corraldemo, sys; print(corraldemo.VERSION, sys.prefix)")
    env = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/shared/uv", "NOTE": str(tmp_path)}
    notes: list[Event] = []
    opened = Cluster(cluster.spec, notes.append)

    def run(version: str) -> tuple[set[str], bool]:
        (root / "pyproject.toml").write_text(
            '[project]\nname = "mine"\nversion = "0"\nrequires-python = ">=3.11"\n'
            f'dependencies = ["corraldemo=={version}"]\n'
            f'[tool.uv]\nno-index = true\nfind-links = ["{wheels}"]\n'
        )
        lock = ["uv", "lock", "--offline", "--quiet", "--project", str(root)]
        subprocess.run([*lock, "--python", sys.executable], check=True)
        notes.clear()
        lines: list[RankLine] = []
        outcome = opened.run(str(root / "train.py"), on_line=lines.append, nodes=2, env=env)
        assert outcome.good, lines
        made = any("is made" in event.message for event in notes)
        return {line.text for line in lines if line.rank is not None}, made

    first, _ = run("1.0")
    (line,) = first  # both ranks, one environment
    assert line.startswith("1.0 /shared/corral/envs/corral/")
    assert run("1.0") == (first, False)
    second, _ = run("2.0")
    assert {text.split()[0] for text in second} == {"2.0"}
    assert second != first


def test_a_container_is_refused_where_there_is_no_pyxis(cluster: Live) -> None:
    job = api.job_spec({"script": __file__, "folder": "none", "container": "ubuntu:24.04"})
    has = cluster.run(cluster.controller, sh("srun --help | grep -e --container-image"))
    if has.ok:
        pytest.skip("this cluster has Pyxis")
    with pytest.raises(CorralError) as caught:
        asyncio.run(api.submit(cluster.spec, job))
    assert caught.value.code is Code.USAGE
    assert "needs Pyxis" in caught.value.message
    assert "requirements.txt" in caught.value.hint


def test_the_command_line_of_a_shell(cluster: Live) -> None:
    """The shell runs for real, with a terminal of Python's own in the place of a person's."""
    argv = asyncio.run(api.shell_argv(cluster.spec, {"gpus_per_node": 1, "time": "5m"}))
    typed = b"echo gpus=$SLURM_GPUS_ON_NODE user=$(id -un) rank=$SLURM_PROCID; exit 7\n"
    ended = subprocess.run(
        [sys.executable, "-c", "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)", *argv],
        input=typed,
        capture_output=True,
        timeout=120,
    )
    assert b"gpus=1 user=corral rank=0" in ended.stdout, ended.stdout
