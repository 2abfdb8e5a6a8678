"""The examples on a real cluster: they learn, resume, run side by side, and are profiled."""

from __future__ import annotations

import gzip
import json
import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from corral.api import bench_history
from corral.errors import Code, CorralError
from corral.hosts.fleet import Fleet
from corral.hosts.quote import sh
from corral.jobs import control
from corral.jobs.follow import Outcome, RankLine
from corral.jobs.handle import JobHandle
from corral.jobs.model import parse_job
from corral.jobs.profile.recordings import Recordings, recordings
from corral.jobs.profile.trace import length
from corral.jobs.submit import submit

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
GPT = EXAMPLES / "train_gpt" / "train.py"
SMALL = ("--width", "48", "--layers", "2", "--context", "64", "--batch", "8", "--lr", "4e-3")
NSYS = "/usr/local/cuda/bin/nsys"


def run(live: Live, **fields: Any) -> tuple[JobHandle, Outcome, list[str]]:
    lines: list[RankLine] = []

    async def work(fleet: Fleet) -> tuple[JobHandle, Outcome]:
        job = await submit(fleet, live.controller, live.spec, parse_job(fields))
        return job, await control.follow(fleet, job, on_line=lines.append)

    job, outcome = live.with_fleet(work)
    return job, outcome, [line.text for line in lines]


def result(lines: list[str]) -> dict[str, Any]:
    return json.loads(next(li for li in lines if li.startswith("RESULT ")).removeprefix("RESULT "))


@pytest.mark.parametrize("compress", ["none", pytest.param("powersgd", marks=pytest.mark.slow)])
def test_a_gpt_learns_real_text_over_two_nodes(cluster: Live, compress: str) -> None:
    args = [*SMALL, "--steps", "40", "--compress", compress]
    _, outcome, lines = run(cluster, script=str(GPT), folder=str(GPT.parent), nodes=2, args=args)
    assert outcome.good, lines[-20:]
    figures = result(lines)
    assert figures["world_size"] == 2
    assert figures["test_loss"] < figures["guess_loss"] < figures["first_loss"]
    assert figures["first_loss"] - figures["test_loss"] > 2
    assert figures["tokens_per_second"] > 0


DILOCO = EXAMPLES / "train_diloco.py"
TEXT = "/var/tmp/corral-test-text"


@pytest.mark.slow
def test_diloco_sends_a_fraction_of_ddp_and_learns_as_much(cluster: Live) -> None:
    """Each node has its own copy of the text, as corral data sync leaves it."""
    nodes = ("node0", "node1")
    copy = sh("mkdir -p {t} && cat /usr/lib/python3*/[a-d]*.py >{t}/library.txt", t=TEXT)
    fields = {"script": str(DILOCO), "folder": "none", "nodes": 2, "nodelist": "node[0-1]"}
    args = ["--data", TEXT, "--width", "48", "--steps", "48", "--inner", "12"]
    figures: dict[str, dict[str, Any]] = {}
    try:
        assert all(a.ok for a in cluster.each([(node, copy) for node in nodes]))
        for method in ("ddp", "local-sgd", "diloco"):
            _, outcome, lines = run(cluster, **fields, args=[*args, "--method", method])
            assert outcome.good, lines[-20:]
            figures[method] = result(lines)
        cluster.run("node1", sh("echo more >>{t}/library.txt", t=TEXT))
        _, outcome, lines = run(cluster, **fields, args=args)
    finally:
        cluster.each([(node, sh("rm -rf {t}", t=TEXT)) for node in nodes])
    assert not outcome.good
    assert any(f"the text of {TEXT} differs between ranks" in line for line in lines)
    print(figures)
    ddp, *others = figures.values()
    assert ddp["bytes_per_step"] == 4 * ddp["parameters"]
    for each in figures.values():
        assert (each["world_size"], each["steps"]) == (2, 48)
        assert each["interface_bytes_per_step"] >= each["bytes_per_step"]
        assert each["first_loss"] == ddp["first_loss"]
        assert each["test_loss"] < each["first_loss"] - 1.5
    for each in others:
        assert each["bytes_per_step"] == pytest.approx(ddp["bytes_per_step"] / 12, abs=1)
        assert each["test_loss"] < ddp["test_loss"] + 0.4


def test_a_gpt_that_learns_nothing_fails(cluster: Live) -> None:
    args = [*SMALL, "--steps", "3", "--lr", "0"]
    _, outcome, lines = run(cluster, script=str(GPT), folder=str(GPT.parent), args=args)
    assert not outcome.good
    assert any("needs no model" in line for line in lines)


def test_a_gpt_cut_by_a_signal_ends_as_an_undisturbed_one(cluster: Live) -> None:
    """SIGUSR1 in the middle: a checkpoint, status 75; started again it goes on to the same bits."""
    script = sh(
        """\
cd {place} && export OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1 PYTHONPATH=/shared/test-gpt
start() {{ python3 train.py {args} --steps 32 --report-every 1 --folder "$1"; }}
start {place}/undisturbed > undisturbed.log  # its status is another test's: few steps teach little
start {place}/cut > cut.log 2>&1 &
pid=$!
# The 28 other steps take many times as long as it takes to see the fourth.
i=0; until grep -q '^step 4/' cut.log; do i=$((i + 1)); [ $i -lt 6000 ] || exit 2; sleep 0.02; done
kill -USR1 $(pgrep -P $pid python3 || echo $pid)
wait $pid; echo "status $?"
grep -q '^RESULT' cut.log && exit 3
start {place}/cut > again.log
grep '^resumed' again.log
grep -h '^RESULT' undisturbed.log again.log""",
        place="/shared/test-gpt/code",
        args=SMALL,
    )
    files = {f"code/{p.name}": p.read_bytes() for p in GPT.parent.glob("*.py")}
    package = HERE.parents[1] / "src" / "corral"
    files |= {
        "corral/__init__.py": b"",
        "corral/checkpoint.py": (package / "checkpoint.py").read_bytes(),
    }
    for name, data in files.items():
        put = sh("f=/shared/test-gpt/{name}; mkdir -p $(dirname $f); cat > $f", name=name)
        assert cluster.run("node0", put, stdin=data).ok
    try:
        done = cluster.run("node0", script, timeout=400)
    finally:
        cluster.run("node0", sh("rm -rf /shared/test-gpt"))
    assert done.ok, (done.status, done.tail)
    status, resumed, *results = done.stdout.splitlines()
    assert status == "status 75"
    assert resumed.startswith("resumed at step ")
    undisturbed, again = (json.loads(line.removeprefix("RESULT ")) for line in results)
    assert undisturbed["weights"] == again["weights"]
    assert undisturbed["test_loss"] == again["test_loss"]


# Ranks meet before they train: a job that runs after another has ended waits in vain.
MEET = """\
'Meet, then train.'
import os, pathlib, sys, time
here = pathlib.Path(os.environ["CORRAL_JOB_FOLDER"]).parent / "{token}"
here.mkdir(exist_ok=True)
(here / os.environ["SLURM_JOB_ID"]).touch()
until = time.monotonic() + 120
while len(list(here.iterdir())) < 3:
    if time.monotonic() > until:
        sys.exit(f"alone with {{sorted(p.name for p in here.iterdir())}}")
    time.sleep(0.05)
"""


@pytest.mark.slow
def test_a_sweep_runs_three_single_gpu_jobs_at_once(cluster: Live, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(cluster.spec.model_dump_json(exclude_unset=True))  # is YAML
    token = f"meet-{secrets.token_hex(4)}"
    script = tmp_path / "train_digits.py"
    script.write_text(MEET.format(token=token) + (EXAMPLES / "train_digits.py").read_text())
    command = [sys.executable, str(EXAMPLES / "sweep.py"), "--cluster", str(tmp_path / "c.yaml")]
    command += ["--script", str(script), "--epochs", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    cluster.run("node0", sh("rm -rf /shared/corral/jobs/corral/{token}", token=token))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1].removeprefix("RESULT "))["jobs"] == 3
    ids = [part.split()[0] for part in done.stdout.splitlines()[0].partition(": ")[2].split(", ")]
    ask = sh("sacct -nXP --jobs={ids} --format=Start,End,AllocTRES", ids=",".join(ids))
    rows = [line.split("|") for line in cluster.run("node0", ask).stdout.splitlines()]
    assert len(rows) == 3
    # sacct counts full seconds: all may start and end in one. That they met is the proof.
    assert max(start for start, *_ in rows) <= min(end for _, end, _ in rows), "not at once"
    assert all("gres/gpu=1" in tres.split(",") for *_, tres in rows)


def test_the_benchmark_of_an_acceptance_test(cluster: Live) -> None:
    """The script's own sizes need GPUs' links: later options win."""
    bench = [str(EXAMPLES / "nccl" / "bench.sh"), cluster.spec.name, "2", "--largest", "4K"]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        bench, capture_output=True, text=True, timeout=300, env={**os.environ, "PATH": path}
    )
    assert done.returncode == 0, done.stderr
    kept = bench_history(cluster.spec.name)[-1]["tables"]
    names = ["all_reduce", "all_gather", "reduce_scatter", "broadcast"]
    assert [table["collective"] for table in kept] == names
    assert all(name in done.stdout for name in names)
    assert {(table["nodes"], table["wrong"]) for table in kept} == {(2, 0)}
    assert [row["size"] for row in kept[0]["rows"]] == [1024, 2048, 4096]
    nameless = subprocess.run(bench[:1], capture_output=True, text=True, timeout=60)
    assert (nameless.returncode, "name the cluster" in nameless.stderr) == (2, True)


def recorded(live: Live, job: JobHandle) -> Recordings:
    return live.with_fleet(lambda fleet: recordings(fleet, job))


@pytest.mark.slow
def test_an_unchanged_script_is_profiled_by_torch(cluster: Live) -> None:
    """train_digits.py ends by os._exit(), which is the hard case."""
    job, outcome, lines = run(
        cluster,
        script=str(EXAMPLES / "train_digits.py"),
        folder="none",
        nodes=2,
        profile="torch",
        args=["--epochs", "1", "--min-accuracy", "0"],
        env={"CORRAL_PROFILE_STEPS": "2"},
    )
    assert outcome.good, lines[-20:]
    recording = recorded(cluster, job)
    assert [(trace.rank, trace.steps) for trace in recording.traces] == [(0, 2), (1, 2)]
    for trace in recording.traces:
        assert 0 < length(trace.compute) < trace.wall
        assert length(trace.communication) > 0
    merged = json.loads(gzip.decompress(recording.timeline()))
    assert set(merged["otherData"]["clocks"]) == {str(trace.rank) for trace in recording.traces}


@pytest.mark.slow
def test_a_script_without_optimizer_prints_why_there_is_no_profile(
    cluster: Live, tmp_path: Path
) -> None:
    (tmp_path / "none.py").write_text("print('nothing')\n")
    script = str(tmp_path / "none.py")
    job, outcome, lines = run(cluster, script=script, folder="none", profile="torch")
    assert outcome.good
    assert any("0 optimizer steps" in line for line in lines)
    with pytest.raises(CorralError) as caught:
        recorded(cluster, job)
    assert caught.value.code is Code.NOT_FOUND


@pytest.mark.slow
def test_nsys_is_refused_where_it_is_not_and_collected_where_it_is(
    cluster: Live, tmp_path: Path
) -> None:
    (tmp_path / "hello.py").write_text("import os; print('rank', os.environ['RANK'])\n")
    fields = {"script": str(tmp_path / "hello.py"), "folder": "none", "nodes": 2, "profile": "nsys"}
    _, outcome, lines = run(cluster, **fields)
    assert not outcome.good
    assert any("Nsight Systems is not installed on node" in line for line in lines)
    nodes = ("node0", "node1", "node2")
    try:
        for node in nodes:
            put = sh("mkdir -p $(dirname {f}) && cat > {f} && chmod 755 {f}", f=NSYS)
            assert cluster.run(node, put, stdin=(HERE / "fake_nsys.sh").read_bytes()).ok
        ended = [run(cluster, **fields, launcher=launcher) for launcher in ("srun", "torchrun")]
        old, _, _ = run(cluster, **fields, env={"FAKE_NSYS_OLD": "1"})
    finally:
        for node in nodes:
            cluster.run(node, sh("rm -rf /usr/local/cuda"))
    for job, outcome, lines in ended:
        assert outcome.good, lines
        assert {"rank 0", "rank 1"} <= set(lines)
        recording = recorded(cluster, job)
        assert {"rank-0.nsys-rep", "rank-1.nsys-rep"} <= recording.files.keys()
        assert [(rank, rows[0].milliseconds) for rank, rows in recording.kernels.items()] == [
            (0, 5.0),
            (1, 5.0),
        ]
        assert not recording.incomplete
    assert recorded(cluster, old).incomplete
