"""Jobs on a real cluster: run, follow, fail, cancel, wait in the queue, side by side."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from corral import api
from corral.errors import Code, CorralError
from corral.events import Event, Kind
from corral.hosts.fleet import Fleet
from corral.hosts.quote import sh
from corral.jobs import control
from corral.jobs.follow import Live as Live_
from corral.jobs.follow import Outcome, RankLine
from corral.jobs.handle import JobHandle
from corral.jobs.model import parse_job
from corral.jobs.submit import submit
from corral.slurm.states.jobs import JobState

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

DIGITS = Path(__file__).parents[2] / "examples" / "train_digits.py"
MEET = """\
import json, os, socket, sys
env, job = os.environ, os.environ["SLURM_JOB_ID"]
where = env["MASTER_ADDR"], int(env["MASTER_PORT"])
print(json.dumps({k: env[k] for k in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE",
      "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "GLOO_SOCKET_IFNAME", "SLURMD_NODENAME")}))
if env["RANK"] == "0":
    with socket.create_server(where) as server:
        for _ in range(int(env["WORLD_SIZE"]) - 1):
            other, _ = server.accept()
            with other:
                assert other.makefile().readline().strip() == job, "ranks of another job"
                other.sendall(job.encode())
else:
    for _ in range(600):
        try:
            link = socket.create_connection(where, timeout=60)
            break
        except ConnectionRefusedError:
            import time
            time.sleep(0.1)
    link.sendall(job.encode() + b"\\n")
    assert link.recv(100).decode() == job, "ranks of another job"
print("met")
"""


@dataclass
class Ran:
    """A job that was followed to its end, or as far as a test wanted."""

    job: JobHandle
    outcome: Outcome
    lines: list[RankLine] = field(default_factory=list[RankLine])
    events: list[Event] = field(default_factory=list[Event])

    def texts(self, rank: int | None) -> list[str]:
        return [line.text for line in self.lines if line.rank == rank]


async def follow(fleet: Fleet, live: Live, **fields: object) -> Ran:
    """Submit and follow to the end."""
    job = await submit(fleet, live.controller, live.spec, parse_job(fields))
    lines: list[RankLine] = []
    events: list[Event] = []
    outcome = await control.follow(fleet, job, on_line=lines.append, emit=events.append)
    return Ran(job, outcome, lines, events)


def run(live: Live, **fields: object) -> Ran:
    return live.with_fleet(lambda fleet: follow(fleet, live, **fields))


def script(folder: Path, text: str, name: str = "job.py") -> str:
    file = folder / name
    file.write_text(text)
    return str(file)


def test_digits_are_learned_over_three_nodes(cluster: Live) -> None:
    ran = run(cluster, script=str(DIGITS), nodes=3, gpus_per_node=1, args=["--epochs", "8"])
    assert ran.outcome.good, ran.lines
    for rank in range(3):
        assert ran.texts(rank)[0].startswith(f"rank {rank} of 3 on ")
    result = json.loads(ran.texts(0)[-1].removeprefix("RESULT "))
    assert result["world_size"] == 3
    assert result["accuracy"] >= 0.93
    assert ran.outcome.exit_code is not None
    assert ran.outcome.exit_code.status == 0

    async def again(fleet: Fleet) -> None:
        handle = await control.find(fleet, cluster.controller, cluster.spec, ran.job.id)
        assert handle == ran.job
        lines, outcome = await control.logs(fleet, handle)
        assert sorted(line.text for line in lines) == sorted(line.text for line in ran.lines)
        assert outcome.state is JobState.COMPLETED

    cluster.with_fleet(again)


def test_an_accuracy_that_is_too_low_fails_the_job(cluster: Live) -> None:
    ran = run(cluster, script=str(DIGITS), args=["--epochs", "1", "--min-accuracy", "1.0"])
    assert ran.outcome.state is JobState.FAILED
    assert ran.outcome.failed is not None
    assert "is below 1.0" in ran.outcome.failed.tail


def test_rendezvous_of_two_jobs_on_the_same_nodes(cluster: Live, tmp_path: Path) -> None:
    meet = script(tmp_path, MEET)

    async def both(fleet: Fleet) -> tuple[Ran, ...]:
        fields = {"script": meet, "nodes": 3, "gpus_per_node": 1, "time": "5m"}
        return tuple(await asyncio.gather(*(follow(fleet, cluster, **fields) for _ in range(2))))

    first, second = cluster.with_fleet(both)
    addresses = {facts.address for facts in cluster.facts.values()}
    ports: set[str] = set()
    for ran in (first, second):
        assert ran.outcome.good, ran.lines
        seen = [json.loads(ran.texts(rank)[0]) for rank in range(3)]
        assert [s["RANK"] for s in seen] == ["0", "1", "2"]
        assert len({s["SLURMD_NODENAME"] for s in seen}) == 3
        assert {s["WORLD_SIZE"] for s in seen} == {"3"}
        assert {s["MASTER_ADDR"] for s in seen} == {
            cluster.facts[seen[0]["SLURMD_NODENAME"]].address
        }
        assert seen[0]["MASTER_ADDR"] in addresses
        assert {s["GLOO_SOCKET_IFNAME"] for s in seen} <= {
            nic.name for facts in cluster.facts.values() for nic in facts.nics
        }
        ports |= {s["MASTER_PORT"] for s in seen}
    assert len(ports) == 2


def test_two_ranks_on_a_node(cluster: Live, tmp_path: Path) -> None:
    ran = run(cluster, script=script(tmp_path, MEET), nodes=2, gpus_per_node=2)
    assert ran.outcome.good, ran.lines
    seen = [json.loads(ran.texts(rank)[0]) for rank in range(4)]
    assert [(s["NODE_RANK"], s["LOCAL_RANK"]) for s in seen] == [
        ("0", "0"),
        ("0", "1"),
        ("1", "0"),
        ("1", "1"),
    ]
    assert {s["LOCAL_WORLD_SIZE"] for s in seen} == {"2"}


def test_hostile_names_arguments_and_values(cluster: Live, hostile_tmp_path: Path) -> None:
    args = ["it's", '"', "$(touch /tmp/corral-canary)", "a\nb", "", "-n", "%t", "é", "\\"]
    env = {"NOTE": "a\n'b' $(id) `id`", "EMPTY": ""}
    text = (
        "import json, os, sys\nprint(json.dumps([sys.argv[1:], os.environ['NOTE'], os.getcwd()]))"
    )
    file = script(hostile_tmp_path, text, "-rf $(touch x) 'a\n.py")
    ran = run(cluster, script=file, args=args, env=env)
    assert ran.outcome.good, ran.lines
    assert json.loads(ran.texts(0)[0]) == [args, env["NOTE"], f"{ran.job.folder}/code"]


def test_a_rank_that_dies_ends_the_job_with_its_error_first(cluster: Live, tmp_path: Path) -> None:
    """The others would go on for an hour."""
    text = (
        "import os, sys, time\nprint('begins')\n"
        "if os.environ['RANK'] == '1':\n    print('the real error')\n    sys.exit(7)\n"
        "time.sleep(3600)"
    )
    ran = run(cluster, script=script(tmp_path, text), nodes=3)
    assert ran.outcome.state is JobState.FAILED
    assert ran.outcome.exit_code is not None
    assert ran.outcome.exit_code.status == 7
    failed = ran.outcome.failed
    assert failed is not None
    assert (failed.rank, failed.how) == (1, "Exited with exit code 7")
    assert failed.tail.splitlines()[-1] == "the real error"
    echoes = [n for n, line in enumerate(ran.lines) if line.echo]
    assert [line.text for line in ran.lines].index("the real error") < min(echoes)


def test_a_rank_that_takes_too_much_memory(cluster: Live, tmp_path: Path) -> None:
    text = "x = bytearray(400 << 20)\nprint(len(x))"
    ran = run(cluster, script=script(tmp_path, text), mem="100M")
    assert ran.outcome.state in (JobState.OUT_OF_MEMORY, JobState.FAILED)
    assert ran.outcome.failed is not None
    assert ran.outcome.failed.how == "Out Of Memory"


REDUCE = """\
import os, sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
one = torch.ones(1)
dist.all_reduce(one)
print("of", dist.get_world_size(), "rank", dist.get_rank(), "sum", int(one), flush=True)
if len(sys.argv) > 1 and dist.get_rank() == int(sys.argv[1]):
    raise ValueError("the real error")
if len(sys.argv) > 1:
    time.sleep(3600)
dist.barrier()
os._exit(0)  # gloo's threads may not outlive the store (PyTorch 2.6)
"""


def test_torchrun_starts_the_ranks_where_pytorch_has_no_libuv(
    cluster: Live, tmp_path: Path
) -> None:
    file = script(tmp_path, REDUCE)
    fields = {"script": file, "nodes": 2, "gpus_per_node": 2, "launcher": "torchrun"}
    ran = run(cluster, **fields)
    assert ran.outcome.good, ran.lines
    sums = sorted(line.text for line in ran.lines if line.text.startswith("of "))
    assert sums == [f"of 4 rank {rank} sum 4" for rank in range(4)]


@pytest.mark.slow
def test_a_rank_of_torchrun_that_dies_ends_the_job_with_its_error(
    cluster: Live, tmp_path: Path
) -> None:
    fields = {"nodes": 2, "gpus_per_node": 2, "launcher": "torchrun", "args": ["3"]}
    ran = run(cluster, script=script(tmp_path, REDUCE), **fields)
    assert ran.outcome.state is JobState.FAILED
    assert ran.outcome.failed is not None
    assert ran.outcome.failed.rank == 1, "the log of its node"
    assert "ValueError: the real error" in ran.outcome.failed.tail


def test_waiting_in_words_then_cancelled(cluster: Live, tmp_path: Path) -> None:
    sleeper = script(tmp_path, "import time\nprint('sleeps', flush=True)\ntime.sleep(3600)")

    async def work(fleet: Fleet) -> None:
        fields = {"script": sleeper, "nodes": 3, "gpus_per_node": 2}
        first = await submit(fleet, cluster.controller, cluster.spec, parse_job(fields))
        second = await submit(fleet, cluster.controller, cluster.spec, parse_job(fields))
        waits, sleeps = asyncio.Event(), asyncio.Event()

        def heard(event: Event) -> None:
            if event.kind is Kind.JOB and "until enough nodes" in event.message:
                waits.set()

        watching = [
            asyncio.create_task(control.follow(fleet, first, on_line=lambda _: sleeps.set())),
            asyncio.create_task(control.follow(fleet, second, on_line=lambda _: None, emit=heard)),
        ]
        try:
            async with asyncio.timeout(60):
                await waits.wait()
                await sleeps.wait()
            listed = await control.list_jobs(fleet, cluster.controller)
            states = {job.id: job.state for job in listed}
            assert (states[first.id], states[second.id]) == (JobState.RUNNING, JobState.PENDING)
        finally:
            await control.cancel(fleet, second)
            await control.cancel(fleet, first)
        ended = await asyncio.gather(*watching)
        assert [outcome.state for outcome in ended] == [JobState.CANCELLED] * 2
        assert [outcome.failed for outcome in ended] == [None] * 2

    cluster.with_fleet(work)


@pytest.mark.slow
def test_when_a_waiting_job_is_expected_to_start(cluster: Live, tmp_path: Path) -> None:
    """Slurm's backfill looks every 30 s; it knows an end where jobs have a time limit."""
    sleeper = script(tmp_path, "import time\ntime.sleep(3600)")

    async def work(fleet: Fleet) -> None:
        fields = {"script": sleeper, "nodes": 3, "gpus_per_node": 2, "time": "20m"}
        first = await submit(fleet, cluster.controller, cluster.spec, parse_job(fields))
        second = await submit(fleet, cluster.controller, cluster.spec, parse_job(fields))
        notice: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def heard(event: Event) -> None:
            if "expected to start" in event.message and not notice.done():
                notice.set_result(event.message)

        watching = asyncio.create_task(
            control.follow(fleet, second, on_line=lambda _: None, emit=heard)
        )
        try:
            message = await asyncio.wait_for(notice, 300)
            ask = sh("date -d $(squeue -h -o %S -j {id}) +%s", id=second.id)
            start = float((await fleet.run(cluster.controller, ask)).stdout)
        finally:
            await control.cancel(fleet, second)
            await control.cancel(fleet, first)
            await watching
        assert 0 < start - time.time() <= 21 * 60
        around = (datetime.fromtimestamp(start + s).astimezone() for s in range(-600, 600))
        assert any(f"{when:%H:%M:%S}" in message for when in around), (message, start)

    cluster.with_fleet(work)


def test_a_follower_that_goes_away_leaves_nothing_running(cluster: Live, tmp_path: Path) -> None:
    sleeper = script(tmp_path, "import time\nprint('sleeps')\ntime.sleep(3600)")

    async def work(fleet: Fleet) -> None:
        job = await submit(fleet, cluster.controller, cluster.spec, parse_job({"script": sleeper}))
        try:
            first = asyncio.Event()
            task = asyncio.create_task(control.follow(fleet, job, on_line=lambda _: first.set()))
            async with asyncio.timeout(60):
                await first.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            gone = sh(
                "for i in $(seq 60); do\n"
                "  grep -lsa {mark} /proc/[0-9]*/environ | grep -qv self || exit 0\n"
                "  sleep 0.5\ndone\nexit 1",
                mark=f"folder={job.folder}",
            )
            result = await fleet.run(cluster.controller, gone, timeout=60)
            assert result.ok, "the watching script still runs"
        finally:
            await control.cancel(fleet, job)

    cluster.with_fleet(work)


def test_refused_before_submission(cluster: Live, tmp_path: Path) -> None:
    file = script(tmp_path, "pass")

    async def queue(fleet: Fleet) -> int:
        return max(
            (j.id for j in await control.list_jobs(fleet, cluster.controller, all=True)), default=0
        )

    before = cluster.with_fleet(queue)
    for fields, hint in (
        ({"nodes": 4}, "--nodes 3 works"),
        ({"gpus_per_node": 3}, "--gpus-per-node 2"),
        ({"partition": "mian"}, "did you mean main?"),
        ({"cpus_per_rank": 4096}, "--cpus-per-rank"),
        ({"mem": "900T"}, "--mem"),
        ({"user": "nobody"}, "users are: corral"),
    ):
        with pytest.raises(CorralError) as caught:
            run(cluster, script=file, **fields)
        assert caught.value.code is Code.USAGE
        assert hint in caught.value.hint
    with pytest.raises(CorralError) as caught:
        run(cluster, script="/shared/nothing-here.py")
    assert "no script" in caught.value.message
    assert cluster.with_fleet(queue) == before


BURN = """\
import time
held, end = bytearray(150 << 20), time.monotonic() + 40
held[::4096] = b"x" * len(held[::4096])
while time.monotonic() < end:
    pass
"""


@pytest.mark.slow
def test_what_a_job_used_is_shown_at_its_end(cluster: Live, tmp_path: Path) -> None:
    """One of its two processors, and half of its memory."""
    fields = {"cpus_per_rank": 2, "mem": "300M", "folder": "none"}
    job = parse_job({"script": script(tmp_path, BURN), **fields})
    ended = asyncio.run(api.run(cluster.spec, job))
    assert isinstance(ended, Outcome)
    assert ended.use is not None
    shares = ended.use.shares
    assert shares.cpu is not None
    assert shares.memory is not None
    assert 0.1 < shares.cpu < 0.75, ended.use
    assert 0.45 < shares.memory < 0.8, ended.use
    assert ended.use.words.count(" of ") == 3, ended.use.words
    asked = asyncio.run(api.job_state(cluster.spec, ended.id, use=True))
    assert isinstance(asked, Outcome)
    assert asked.use == ended.use
    assert asyncio.run(api.job_state(cluster.spec, ended.id)).as_dict().get("use") is None


# Its answer has the form of nvidia-smi 580's to csv,noheader,nounits; one GPU idles.
SMI = """\
#!/bin/sh
case "$*" in
"--query-gpu=utilization.gpu,memory.used,memory.total --format=csv,noheader,nounits") ;;
*) exit 97 ;;
esac
echo "97, 20480, 81559"
[ "$(uname -n)" = node0 ] || echo "2, 1024, 81559"
"""


@pytest.mark.slow
def test_gpu_use_is_reported_while_a_job_is_followed(cluster: Live, tmp_path: Path) -> None:
    script = tmp_path / "wait.sh"
    script.write_text("#!/bin/sh\necho begins\ntouch wait\nwhile [ -e wait ]; do sleep 0.2; done\n")
    reports: list[str] = []

    async def work(fleet: Fleet, words: str) -> None:
        fields = {"script": str(script), "folder": "none", "nodes": 2, "gpus_per_node": 1}
        job = await submit(fleet, cluster.controller, cluster.spec, parse_job(fields))
        seen = asyncio.Event()
        reports.clear()

        def live(now: Live_) -> None:
            reports.append(now.text)
            if words in now.text:
                seen.set()

        following = asyncio.create_task(
            control.follow(fleet, job, on_line=lambda _: None, on_live=live)
        )
        await asyncio.wait_for(seen.wait(), 180)
        await control.cancel(fleet, job)
        await following

    cluster.with_fleet(lambda fleet: work(fleet, "GPU use unknown: no nvidia-smi"))
    nodes = ("node0", "node1", "node2")
    try:
        for node in nodes:
            put = sh("cat > {f} && chmod 755 {f}", f="/usr/local/bin/nvidia-smi")
            assert cluster.run(node, put, stdin=SMI.encode()).ok
        cluster.with_fleet(lambda fleet: work(fleet, "GPU 1: 2 %)"))
    finally:
        for node in nodes:
            cluster.run(node, sh("rm -f /usr/local/bin/nvidia-smi"))
    assert (
        "GPUs 65 % busy (least node1 GPU 1: 2 %), GPU memory at most 20.0 of 80 GiB" in reports[-1]
    )
