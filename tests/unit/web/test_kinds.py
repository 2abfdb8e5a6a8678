"""What the page counts and colours comes from the server: no state of Slurm's in JavaScript."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from corral.prove.measure.gpu import board_watts
from corral.roles.machine.people import PROOF
from corral.slurm.diagnostics import cycle_exits
from corral.slurm.records import Job, Node
from corral.slurm.states.jobs import JobState
from corral.slurm.states.nodes import NodeBase, NodeState, node_flags
from corral.web.slurm.snapshot import (
    JOB_COLUMNS,
    JOB_KINDS,
    NODE_COLUMNS,
    NODE_KINDS,
    Snapshot,
    job_kind,
    job_row,
    node_kind,
    node_row,
)
from tests.unit.web.test_static import STATIC

JOBS = [
    Job(number, str(number), "a", "kim", state.value) for number, state in enumerate(JobState, 1)
]


@pytest.mark.parametrize("base", list(NodeBase))
@pytest.mark.parametrize("flag", ["", *node_flags(), "HIBERNATING"])
def test_only_a_usable_node_has_the_colour_of_one_that_takes_jobs(
    base: NodeBase, flag: str
) -> None:
    """The legend's idle, mixed and allocated nodes are those of the tile "nodes take jobs"."""
    state = NodeState(base, frozenset({flag} - {""}))
    kind = node_kind(state)
    assert (kind in {"good", "mix", "busy"}) == state.usable
    if state.usable:
        kinds = {NodeBase.IDLE: "good", NodeBase.MIXED: "mix", NodeBase.ALLOCATED: "busy"}
        assert kind == kinds[base]
    assert (kind == "bad") == state.broken
    if state.drained and not state.broken:
        assert kind == "warn"


def test_each_job_is_in_one_tab_and_in_its_count() -> None:
    proofs = [replace(job, id=job.id + 1000, user=PROOF) for job in JOBS]
    now = Snapshot().with_jobs(JOBS + proofs)
    shown = now.counts()["shown"]
    assert shown["all"] == len(JOBS)
    assert shown["waiting"] == sum(state.waiting for state in JobState)
    assert shown["running"] == sum(not (s.waiting or s.ended) for s in JobState)
    assert sum(now.counts()["jobs"].values()) == len(JOBS + proofs)


def test_a_job_that_failed_is_red_and_one_that_waits_is_not() -> None:
    kinds = {job.state: job_kind(job) for job in JOBS}
    assert kinds["COMPLETED"] == "good"
    assert {kinds[s.value] for s in JobState if s.waiting} == {"warn"}
    assert {kinds[s] for s in ("FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL")} == {"bad"}
    assert dict(zip(JOB_COLUMNS, job_row(JOBS[0]), strict=True))["kind"] == "warn"
    ended = Job(1, "1", "n", "u", "FAILED", exit_status=1, exit_signal=0)
    for job, words in ((ended, "exit status 1"), (replace(ended, state="RUNNING"), "")):
        assert dict(zip(JOB_COLUMNS, job_row(job), strict=True))["exit"] == words


def test_no_state_of_slurms_in_javascript() -> None:
    known = {*JobState.__members__, *NodeBase.__members__, *node_flags()}
    for path in sorted((STATIC / "js").rglob("*.js")):
        assert not set(re.findall(r"\b[A-Z][A-Z_]{2,}\b", path.read_text())) & known, path.name


def test_every_kind_has_its_words() -> None:
    """A state that a word of the legend names is of that kind, and so are its neighbours."""
    flags = [frozenset[str](), *(frozenset({flag}) for flag in node_flags())]
    nodes = {node_kind(NodeState(base, flag)) for base in NodeBase for flag in flags}
    assert nodes == set(NODE_KINDS)
    for flag in ("DRAIN", "MAINT", "REBOOT_REQUESTED"):
        assert NODE_KINDS[node_kind(NodeState(NodeBase.IDLE, frozenset({flag})))] == (
            "drained or in maintenance"
        )
    jobs = {job_kind(job) for job in JOBS}
    assert jobs == set(JOB_KINDS)
    going = {job_kind(job) for job in JOBS if not job.ended and not job.waiting}
    assert going == {"busy", "mix"}


KIND_WORDS = re.compile(r"""\[\s*["'](?:good|busy|mix|warn|bad|off)["'],\s*["'][^"']*["'],?\s*\]""")


def test_no_words_for_kinds_in_javascript() -> None:
    """What a kind holds only the server knows, so it names them; sdiag's words it reads too."""
    assert KIND_WORDS.search('const KINDS = [\n  ["warn", "drained"],\n];')
    exits = re.compile(rf"\b({'|'.join(word for word in cycle_exits() if '_' in word)})\b")
    for path in sorted((STATIC / "js").rglob("*.js")):
        text = path.read_text()
        assert not KIND_WORDS.findall(text), path.name
        assert not exits.findall(text), path.name


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [
        ("gpu:h100:8", 8),
        ("gpu:h100(CNT:8)", 8),
        ("gpu:h100:no_consume:8", 8),
        ("gpu:h100", 1),
        ("gpu:h100:4,shard:gpu:4", 4),
    ],
)
def test_the_most_that_a_nodes_gpus_draw(gres: str, gpus: int) -> None:
    node = Node("node0", NodeState(NodeBase.IDLE), gres=gres)
    assert node_row(node)[NODE_COLUMNS.index("watts_most")] == gpus * board_watts("h100")
