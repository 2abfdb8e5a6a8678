"""Which jobs a query of the page means."""

from __future__ import annotations

import tracemalloc

import pytest

from corral.errors import Code, CorralError
from corral.slurm.records import Job, Node
from corral.slurm.states.nodes import NodeState
from corral.web.clusters.search import results
from corral.web.slurm.search import KEYS, parse
from corral.web.slurm.snapshot import Snapshot

JOBS = (
    Job(id=1, label="1", name="train", user="kim", account="lab", state="RUNNING", nodes="n1"),
    Job(id=2, label="2", name="corral-prove", user="corral-proof", account="corral-proof"),
)


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("", [1]),
        ("train", [1]),
        ("corral-prove", []),
        ("user=corral-proof", [2]),
        ("Account=Corral-Proof", [2]),
        ("user!=corral-proof", [1]),
        ("user=kim,corral-proof", [1, 2]),
        ("id=2", [2]),
        ("id!=1", []),
        ("nodes=n1", [1]),
    ],
)
def test_corrals_own_jobs_are_listed_where_the_query_names_them(
    query: str, numbers: list[int]
) -> None:
    test = parse(query)
    assert [job.id for job in JOBS if test(job)] == numbers


KINDS = (
    Job(id=12, label="12", name="a-b", user="kim", account="lab", partition="main", qos="normal",
        state="RUNNING", nodes="gpu[003-004]"),
    Job(id=120, label="12_3", name="b", user="kimi", account="lab2", partition="main2", qos="high",
        state="COMPLETING", nodes="gpu0031"),
    Job(id=1, label="12_[4-30]", name="c", user="ada", account="other", partition="gpu,main",
        qos="high,low", state="PENDING", reason="ReqNodeNotAvail, UnavailableNodes:gpu[003,7]"),
    Job(id=4, label="4", name="d", user="bo", account="lab", partition="cpu", qos="low",
        state="RUNNING", nodes="node1,Rack[1-2]n[10-11]"),
    Job(id=5, label="5", name="e", user="bo", account="lab", partition="cpu", qos="low",
        state="FAILED", nodes="node[10-19]"),
)  # fmt: skip
"""Records with single, folded and comma'd values."""

CASES = {
    "id=12": [12],
    "id=12_3": [120],
    "id=12_[4-30]": [1],
    "id=12_4": [],  # a part of a record, which a bulk action would take as a unit
    "id=12,5": [12, 5],
    "array=12": [120, 1],
    "array=1": [],
    "state=run": [12, 4],
    "state=RUNNING,pending": [12, 1, 4],
    "user=kim": [12],
    "user=kim,ada": [12, 1],
    "account=lab": [12, 4, 5],
    "partition=main": [12, 1],
    "partition!=main": [120, 4, 5],
    "partition=gpu,cpu": [1, 4, 5],
    "qos=high": [120, 1],
    "qos=low,normal": [12, 1, 4, 5],
    "name=a-b": [12],
    "name=b": [12, 120],
    "name=a,c": [12, 1],
    "reason=reqnodenotavail": [1],
    "reason=UnavailableNodes:gpu[003,7]": [1],
    "nodes=gpu003": [12],
    "nodes=gpu0031": [120],
    "nodes=gpu3": [],
    "nodes=gpu[003,005]": [12],
    "nodes=gpu[003-004]": [12],
    "nodes=gpu004,gpu0031": [12, 120],
    "nodes!=gpu003": [120, 1, 4, 5],
    "nodes=node1": [4],
    "nodes=node10": [5],
    "nodes=node[1-10]": [4, 5],
    "nodes=rack2n10": [4],
    "nodes=gpu": [],
    "nodes=": [],
    "gpu004": [12],
    "gpu00": [12, 120],
    "gpu005": [],
    "gpu[004-009]": [12],
    "RACK1N11": [4],
}  # fmt: skip


@pytest.mark.parametrize(("query", "numbers"), CASES.items())
def test_each_key_takes_folded_single_and_several_values(query: str, numbers: list[int]) -> None:
    """``nodes=gpu003`` missed gpu[003-004]; a cancel of the jobs of node1 had those of node10."""
    test = parse(query)
    assert [job.id for job in KINDS if test(job)] == numbers


def test_no_key_is_without_such_a_case() -> None:
    assert {query.partition("=")[0].rstrip("!") for query in CASES if "=" in query} == {*KEYS}


@pytest.mark.parametrize(
    "query",
    [
        *("nodes=gpu[00", "nodes=n[2-1]", "nodes=n[0-99999999]"),
        "nodes=[0-999999999][0-999999999][0-999999999]",  # more names than len() can return
    ],
)
def test_a_broken_hostlist_is_refused_and_is_not_all_jobs(query: str) -> None:
    with pytest.raises(CorralError) as refused:
        parse(query)
    assert refused.value.code is Code.USAGE


def test_a_hostlist_of_slurms_that_cannot_be_read_is_only_its_own_text() -> None:
    job = Job(id=1, user="kim", nodes="n[3-1]")
    assert not parse("nodes=n2")(job)
    assert parse("n[3-1]")(job)


def test_long_hostlists_are_read_and_not_kept() -> None:
    """32,768 were kept however long each was."""
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(200):
        job = Job(id=1, user="kim", nodes=f"n{number:05}[{','.join('1' * 1000)}]")
        assert parse(f"n{number:05}1")(job)
        assert not parse("n999992")(job)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 200 * 2000


def test_the_search_over_clusters_takes_hostlists_of_nodes_too() -> None:
    nodes = {name: Node(name, NodeState.parse("IDLE")) for name in ("gpu003", "gpu0031", "node1")}
    answer = results(Snapshot(nodes=nodes), "gpu[003-010]", None)
    assert [node["name"] for node in answer["nodes"]] == ["gpu003"]
