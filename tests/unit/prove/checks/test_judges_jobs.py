"""The judging half of the checks that run jobs or ask services, good and bad (Slurm 24.11.5)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.errors import Code, CorralError
from corral.hosts.framing import Section, Sections
from corral.hosts.transport import Result
from corral.inspect.jobs import running_on
from corral.inspect.question import MachineState
from corral.prove import launch, probe
from corral.prove.checks import isolation, ranks, rest, slots, storage
from corral.prove.model import Verdict
from corral.slurm.records import Job
from corral.spec.models import ClusterSpec
from tests.unit.prove.surveys import SHOWN, slurm_node, survey_of

# --- launch and accounting


def test_batches_cover_all_nodes_once() -> None:
    nodes = (
        slurm_node("a", partitions=("small",)),
        slurm_node("b", partitions=("small", "all")),
        slurm_node("c", partitions=("all",), gpus=0),
        slurm_node("d", partitions=("all",)),
        slurm_node("e", partitions=()),
    )
    batches = [(b.partition, b.names, b.gpu) for b in launch.batches(nodes)]
    assert batches == [
        ("all", ("b", "d"), True),
        ("all", ("c",), False),
        ("small", ("a",), True),
    ]
    wide = [(b.partition, b.names) for b in launch.batches(nodes, by_gpu=False)]
    assert wide == [("all", ("b", "c", "d")), ("small", ("a",))]


def launched(stdout: str, status: int = 0) -> launch.Launched:
    batch = launch.Batch("main", (slurm_node("node0"), slurm_node("node1")), gpu=True)
    return launch.Launched(batch, "srun hostname", Result("node0", status, stdout, ""))


@pytest.mark.parametrize(
    ("stdout", "problem"),
    [
        ("@ hello 7 node0 node0\n@ hello 7 node1 node1.lab.example\n", ""),
        ("@ hello 7 node0 node0\n", "node1 did not run"),
        ("@ hello 7 node0 node0\n@ hello 7 node1 stranger\n", "node1 calls itself stranger"),
        ("srun: error: Task launch failed\n", "node0 did not run"),
    ],
)
def test_launch(stdout: str, problem: str) -> None:
    judged = launch.judge_launch(survey_of(), (launched(stdout),))
    assert judged.verdict is (Verdict.FAIL if problem else Verdict.PASS), judged.summary
    assert problem in judged.summary


def test_launch_on_a_dead_and_on_a_busy_cluster() -> None:
    down = {name: slurm_node(name, state="DOWN*") for name in ("node0", "node1")}
    assert launch.judge_launch(survey_of(slurm=down), ()).verdict is Verdict.FAIL
    busy = {name: slurm_node(name, cpus_used=1) for name in ("node0", "node1")}
    assert launch.judge_launch(survey_of(slurm=busy), ()).verdict is Verdict.SKIP
    lost = {"node0": slurm_node("node0"), "node1": slurm_node("node1", partitions=())}
    attempt = launch.Launched(
        launch.Batch("main", (lost["node0"],), gpu=True),
        "srun",
        Result("node0", 0, "@ hello 7 node0 node0", ""),
    )
    judged = launch.judge_launch(survey_of(slurm=lost), (attempt,))
    assert "node1 is in no partition" in judged.summary


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ("7|COMPLETED|node[0-1]|billing=2,cpu=2,gres/gpu=2,mem=128M,node=2", ""),
        ("7|COMPLETED|node[0-1]|billing=2,cpu=2,mem=128M,node=2", "without its GPUs"),
        ("7|COMPLETED|node[0-1]|billing=2,cpu=2,gres/gpu=1,node=2", "without its GPUs"),
        ("7|COMPLETED|node0|cpu=2,gres/gpu=2", "recorded on node0"),
        ("7|RUNNING|node[0-1]|cpu=2,gres/gpu=2", "recorded as RUNNING"),
        ("7|COMPLETED|None assigned|cpu=2,gres/gpu=2", "recorded on"),
        ("8|COMPLETED|node[0-1]|cpu=2,gres/gpu=2", "job 7 is not recorded"),
        ("", "job 7 is not recorded"),
    ],
)
def test_accounting(record: str, problem: str) -> None:
    judged = launch.judge_accounting(record, {"7": launched("").batch}, SHOWN)
    assert judged.verdict is (Verdict.FAIL if problem else Verdict.PASS), judged.summary
    assert problem in judged.summary


# --- isolation


def test_cpu_ids() -> None:
    assert probe.cpu_ids("0,2-4,7") == (0, 2, 3, 4, 7)
    assert probe.cpu_ids("") == ()


def probes(**errnos: int) -> probe.Probe:
    devices = {f"/dev/{name}": errno for name, errno in errnos.items()}
    return probe.Probe(1, 1, (0,), devices)


@pytest.mark.parametrize(
    ("own", "without", "problem"),
    [
        (probes(nvidia0=6, nvidia1=1), probes(nvidia0=1, nvidia1=1), ""),
        (probes(nvidia0=0, nvidia1=1), probes(nvidia0=1, nvidia1=1), ""),
        (probes(nvidia0=0), probes(nvidia0=1), ""),
        (
            probes(nvidia0=6, nvidia1=6),
            probes(nvidia0=1, nvidia1=1),
            "nvidia0 reaches /dev/nvidia1",
        ),
        (probes(nvidia0=1, nvidia1=1), probes(nvidia0=1, nvidia1=1), "cannot open its own"),
        (probes(nvidia0=13, nvidia1=1), probes(nvidia0=1, nvidia1=1), "file mode"),
        (probes(nvidia0=6), probes(nvidia0=6), "without GPUs reaches /dev/nvidia0"),
        (probes(nvidia0=6, nvidia1=1), probes(nvidia0=1, nvidia1=0), "without GPUs"),
        (probes(), probes(), "no /dev/nvidia* device"),
        (None, probes(nvidia0=1), "did not run the probe"),
        (probes(nvidia0=6), None, "did not run the probe"),
        (replace(probes(nvidia0=6), gpus=()), probes(nvidia0=1), "gave 0 GPUs"),
        (replace(probes(nvidia0=6, nvidia1=6), gpus=(0, 1)), probes(nvidia0=1), "gave 2 GPUs"),
        # The second GPU is the own one; the first, which opens, is not.
        (replace(probes(nvidia0=6, nvidia1=1), gpus=(1,)), probes(nvidia0=1), "own /dev/nvidia1"),
    ],
)
def test_devices(own: probe.Probe | None, without: probe.Probe | None, problem: str) -> None:
    problems = isolation.judge_devices("node0", own, without)
    assert bool(problems) is bool(problem), problems
    assert problem in "; ".join(problems)


def test_a_proof_states_which_gpus_are_declared() -> None:
    groups = [
        {"name": "a", "provider": "embedded", "nodes": "a[0-1]", "gpu": {"type": "slot"}},
        {"name": "b", "provider": "embedded", "nodes": "b0", "gpu": {"type": "h200"}},
        {"name": "c", "provider": "ssh", "nodes": "c0", "gpu": {"type": "h100"}},
        {"name": "d", "provider": "embedded", "nodes": "d0"},
    ]
    for group in groups[:3]:
        group["gpu"] |= {"count": 1}  # type: ignore[operator]
    groups[1]["gpu"] |= {"source": "host"}  # type: ignore[operator]
    spec = ClusterSpec.model_validate({"corral": "v1", "name": "lab", "groups": groups})
    stand_ins = "; GPUs are declared as stand-ins: nothing computes on them"
    assert isolation.gpu_source(spec, ["a0", "a1"]) == stand_ins
    assert isolation.gpu_source(spec, ["b0", "d0"]) == "; GPUs are declared as this machine's"
    assert isolation.gpu_source(spec, ["c0", "d0"]) == ""
    both = isolation.gpu_source(spec, ["a0", "a1", "b0"])
    assert both == f"{stand_ins} (a[0-1]); GPUs are declared as this machine's (b0)"


def test_devices_whose_numbers_have_a_gap() -> None:
    own = replace(probes(nvidia2=1, nvidia10=0), gpus=(1,))
    assert isolation.judge_devices("node0", own, probes(nvidia2=1, nvidia10=1)) == []


@pytest.mark.parametrize(
    ("allowed", "threads", "good"), [(1, 1, True), (2, 1, False), (2, 2, True), (4, 2, False)]
)
def test_cores(allowed: int, threads: int, good: bool) -> None:
    node = slurm_node("node0", threads=threads, cpus=8)
    seen = probe.Probe(threads, allowed, (), {})
    assert (isolation.judge_cores(node, seen) == []) is good
    assert isolation.judge_cores(node, None) != []


@pytest.mark.parametrize(
    ("text", "neighbour", "problem"),
    [
        ("@ ready node0\n@ hog node0 137\n@ alive node0\n", True, ""),
        ("@ hog node0 137\n", False, ""),
        # cgroup v2 kills the entire group, and the shell with it: only slurmstepd reports it.
        ("slurmstepd-node0: error: Detected 1 oom_kill event in StepId=25.0.\n", False, ""),
        ("slurmstepd-gpu-node0: error: Detected 1 oom_kill event in StepId=25.0.\n", False, ""),
        ("@ hog node0 0\n@ alive node0\n", True, "took 256 MiB though it asked for 64"),
        ("@ hog node0 0\n", False, "took 256 MiB"),
        ("@ hog node0 137\n", True, "next to the greedy one did not survive"),
        ("@ hog node0 12\n", False, "not killed for memory (12)"),
        ("srun: error: Unable to allocate resources\n", False, "no output"),
        ("slurmstepd-node1: error: Detected 1 oom_kill event\n", False, "no output"),
    ],
)
def test_memory(text: str, neighbour: bool, problem: str) -> None:
    node = "gpu-node0" if "gpu-node0" in text else "node0"
    problems = isolation.judge_memory([node], text, neighbour=neighbour)
    assert bool(problems) is bool(problem), problems
    assert problem in "; ".join(problems)


# --- slots


def records(text: str) -> tuple[Job, ...]:
    return slots.SNAPSHOT.parse(text)


SNAPSHOT = "1|RUNNING|None|100|280|node0\n2|RUNNING|None|100|280|node0\n3|PENDING|{}|N/A|N/A|\n"
RECORDS = "1|COMPLETED|None|100|102|node0\n2|COMPLETED|None|100|103|node0\n"
AFTER = "3|COMPLETED|None|102|103|node0\n"


@pytest.mark.parametrize(
    ("snapshot", "done", "problem"),
    [
        (SNAPSHOT.format("Resources"), RECORDS + AFTER, ""),
        (SNAPSHOT.format("Priority"), RECORDS + AFTER, ""),
        (SNAPSHOT.format("AssocGrpCpuLimit"), RECORDS + AFTER, "waits for AssocGrpCpuLimit"),
        (SNAPSHOT.replace("PENDING", "RUNNING"), RECORDS + AFTER, "3 jobs ran at once"),
        (SNAPSHOT.replace("2|RUNNING", "2|PENDING"), RECORDS + AFTER, "1 of 2 jobs ran at once"),
        ("", "", "0 of 2 jobs ran at once"),
        (SNAPSHOT.format("Resources"), AFTER, "records of the jobs are incomplete"),
        (SNAPSHOT.format("Resources"), RECORDS, "did not run after the others"),
        (SNAPSHOT.format("Resources"), RECORDS + AFTER.replace("102", "101"), "did not run after"),
        (
            SNAPSHOT.format("Resources"),
            "1|COMPLETED|None|100|101|node0\n2|COMPLETED|None|102|103|node0\n" + AFTER,
            "did not overlap",
        ),
        (SNAPSHOT.format("Resources").rsplit("\n", 2)[0], RECORDS, "0 jobs waited"),
    ],
)
def test_slots(snapshot: str, done: str, problem: str) -> None:
    planned = slots.Slots(launched("").batch, 2, 1, 2)
    problems = slots.judge_slots(planned, records(snapshot), records(done))
    assert bool(problems) is bool(problem), problems
    assert problem in "; ".join(problems)


def test_slots_fill_a_batch_exactly() -> None:
    gpu = launch.Batch("main", (slurm_node("a"), slurm_node("b", cpus=1)), gpu=True)
    assert slots.slots_of(gpu, {"a": 2, "b": 2}).count == 3
    assert slots.slots_of(gpu, {"a": 2, "b": 2}).gpus == 4


@given(st.lists(st.integers(1, 300), min_size=1, max_size=5))
def test_one_more_job_of_cores_never_fits(cores: list[int]) -> None:
    nodes = tuple(slurm_node(f"n{i}", cpus=c, gpus=0) for i, c in enumerate(cores))
    planned = slots.slots_of(launch.Batch("main", nodes, gpu=False), {})
    assert planned.count >= 1
    assert planned.count == sum(c // planned.cores for c in cores)
    assert all(c // planned.cores <= slots.JOBS_PER_NODE for c in cores)


# --- ranks


@given(st.integers(2, 60))
def test_every_rank_calls_and_is_called(count: int) -> None:
    pairs = ranks.pairs(count)
    assert {a for a, _ in pairs} == {b for _, b in pairs} == set(range(count))
    assert len(pairs) <= max(count * (ranks.ALL_PAIRS - 1), 2 * count)


def test_ranks() -> None:
    names = ("node0", "node1")
    good = ranks.parse_ranks("@ rank 1 node1 2 40001\n@ rank 0 node0 2 40000\n")
    assert ranks.judge_ranks(names, good) == []
    assert ranks.judge_ranks(names, {0: ("node0", 2)}) == [
        "rank 1 did not run",
        "no rank ran on node1",
    ]
    alone = {0: ("node0", 1), 1: ("node1", 1)}
    assert "knows of 1 ranks" in ranks.judge_ranks(names, alone)[0]
    same = {0: ("node0", 2), 1: ("node0", 2)}
    assert ranks.judge_ranks(names, same) == ["no rank ran on node1"]


def test_calls() -> None:
    got = ranks.parse_calls("@ call 0 1 node1 10.1.1.2\n@ nocall 0 1 Connection timed out\n")
    assert got == {(1, 0)}
    problems = ranks.judge_calls({0: "node0", 1: "node1"}, ranks.pairs(2), got)
    assert problems == ["node0 cannot reach node1 over TCP"]
    assert ranks.judge_calls({0: "node0", 1: "node1"}, ranks.pairs(2), {(1, 0), (0, 1)}) == []


# --- rest

GOOD = "@ path /slurm/v0.0.42/node/node0\n@ token 200 1 \n@ none 401 0 \n"
FORGED = "@ wrong 511 0 Protocol authentication error\n"


@pytest.mark.parametrize(
    ("text", "answers", "refuses"),
    [
        (GOOD + FORGED, "", ""),
        (GOOD + "@ wrong 401 0 \n", "", ""),
        (GOOD + "@ wrong 500 0 Unable to connect to database\n", "", ""),
        (
            GOOD.replace("200 1", "200 0") + "@ wrong 500 0 \n",
            "lacks the requested node",
            "got 500",
        ),
        (GOOD + "@ wrong 200 1 \n", "", "with a forged token is answered (200)"),
        (GOOD.replace("none 401 0", "none 200 1") + FORGED, "", "without a token is answered"),
        (GOOD.replace("none 401 0", "none 500 0") + FORGED, "", "got 500"),
        (GOOD.replace("token 200 1", "token 200 0") + FORGED, "lacks the requested node", ""),
        (GOOD.replace("token 200 1", "token 511 0") + FORGED, "answered with 511", ""),
        ("@ token 0 0 \n@ none 0 0 \n@ wrong 0 0 \n", "nothing answers", "got 0"),
        ("@ notoken\n" + GOOD.replace("200 1", "401 0") + FORGED, "returned no token", ""),
        ("", "nothing answers", "no answer"),
    ],
)
def test_rest(text: str, answers: str, refuses: str) -> None:
    for judge, problem in ((rest.judge_answers, answers), (rest.judge_refuses, refuses)):
        judged = judge(text, SHOWN)
        assert judged.verdict is (Verdict.FAIL if problem else Verdict.PASS), judged.summary
        assert problem in judged.summary


SOCKET = "   2: {}:{} {}:0000 {} 00000000:00000000 00:00000000 00000000   999        0 63802 1\n"


@pytest.mark.parametrize(
    ("address", "state", "problem"),
    [
        ("0100007F", "0A", ""),
        ("0A00007F", "0A", ""),
        ("00000000", "0A", "open on 0.0.0.0"),
        ("0A014E0A", "0A", "open on 10.78.1.10"),
        ("00000000000000000000000001000000", "0A", ""),
        ("0000000000000000FFFF00000100007F", "0A", ""),
        ("00000000000000000000000000000000", "0A", "open on ::"),
        ("0000000000000000FFFF00000A014E0A", "0A", "open on ::ffff:"),
        ("0100007F", "01", "nothing listens"),
    ],
)
def test_loopback(address: str, state: str, problem: str) -> None:
    text = SOCKET.format(address, "1AA4", "0" * len(address), state)
    text += SOCKET.format("00000000", "1AA1", "00000000", "0A")
    judged = rest.judge_loopback(MachineState("node0", {"listen": text}))
    assert judged.verdict is (Verdict.FAIL if problem else Verdict.PASS), judged.summary
    assert problem in judged.summary


# --- storage


def test_each_node_reads_what_others_wrote() -> None:
    nodes = tuple(f"node{i}" for i in range(5))
    for name in nodes:
        asked = storage.reading(("/a", "/b"), nodes, name)
        assert {file.mount for file in asked} == {"/a", "/b"}
        assert name not in {file.writer for file in asked}
    alone = storage.reading(("/a",), ("node0",), "node0")
    assert [(file.mount, file.writer) for file in alone] == [("/a", "node0")]


def test_read() -> None:
    files = storage.reading(("/a",), ("node0", "node1", "node2"), "node2")
    paths = [f"/a/.corral-prove-t-{file.writer}" for file in files]
    texts = [storage.content("t", "/a", file.writer) for file in files]
    good = Sections({path: Section(text) for path, text in zip(paths, texts, strict=True)})
    problems = storage.judge_read("t", "node2", files, good)
    assert set(problems.values()) == {""}
    lost = f"cat: {paths[0]}: No such file or directory"
    missing = Sections({paths[0]: Section(lost, 1), paths[1]: Section(texts[1])})
    problems = storage.judge_read("t", "node2", files, missing)
    assert [bool(problem) for problem in problems.values()] == [True, False]
    assert "No such file" in next(iter(problems.values()))
    cut = Sections({paths[0]: Section(texts[0]), paths[1]: Section(texts[1], None)})
    problems = storage.judge_read("t", "node2", files, cut)
    assert [bool(problem) for problem in problems.values()] == [False, True]
    assert "no complete answer" in "".join(problems.values())
    assert all(storage.judge_read("new", "node2", files, good).values())
    gone = CorralError(Code.UNREACHABLE, "gone")
    assert all(storage.judge_read("t", "node2", files, gone).values())


def test_written() -> None:
    assert storage.judge_written("node0", Result("node0", 0, "", "")) == []
    closed = Result("node0", 1, "", "sh: 1: cannot create /a/x: Permission denied")
    assert "Permission denied" in storage.judge_written("node0", closed)[0]
    assert storage.judge_written("node0", CorralError(Code.UNREACHABLE, "gone"))


def test_jobs_of_others_are_named_and_own_ones_left_out() -> None:
    shown = "adamktrain|v2\nbob|forged\nbobmkcorral-1-slots0\ncut off"
    others = running_on("node0", ("%u", "%j"), "mk")
    assert slots.others_of(others.parse(shown), "corral-1-slots") == "train|v2 of ada"
