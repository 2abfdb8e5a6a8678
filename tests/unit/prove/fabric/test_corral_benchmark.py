"""What Corral's own benchmark prints: recorded on four H200, and made up."""

from __future__ import annotations

import ast
import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from corral.errors import Code, CorralError
from corral.prove.fabric import corral_benchmark
from corral.prove.fabric.benchmark_log import OWN, read
from corral.prove.fabric.corral_benchmark import (
    MEASURES,
    PROGRAM,
    TYPES,
    progress_of,
    read_halves,
    read_program,
)
from corral.prove.fabric.model import Collective
from corral.prove.fabric.slow_parts import Half, Pair, bisected, slow

RECORDED = Path(__file__).parents[3] / "recorded" / "nccl" / "h200x4-own-benchmark.txt"


def lines() -> list[str]:
    return RECORDED.read_text(encoding="utf-8").splitlines()


def test_the_recorded_run_of_four_h200() -> None:
    benchmark, pairs = read_program(lines())
    assert [t.collective for t in benchmark.tables] == [
        Collective.ALL_REDUCE,
        Collective.ALL_GATHER,
    ]
    for table in benchmark.tables:
        assert (table.ranks, table.nodes, table.wrong) == (4, 1, 0)
        assert [row.size for row in table.rows] == [8 << 20 << i for i in range(11)]
        assert table.complete and table.checked and table.certain
    assert benchmark.tables[0].rows[-1].best == pytest.approx(364.95, abs=0.005)
    assert benchmark.tables[0].rows[-1].out_of_place is None
    assert benchmark.transport.version == "2.28.9+cuda13.0"
    assert benchmark.transport.network == "Socket"
    assert benchmark.transport.devices == ("eth0",)
    assert dict(benchmark.transport.channels) == {"P2P/CUMEM": 40}
    assert pairs == ()


def test_a_log_with_rank_labels_reads_the_same() -> None:
    labelled = "\n".join(f"0: {line}" for line in lines())
    assert read(labelled).tables == read_program(lines())[0].tables


def test_a_table_that_was_changed_is_refused() -> None:
    text = RECORDED.read_text(encoding="utf-8")
    bus = json.loads(next(x for x in lines() if x.startswith(OWN)).removeprefix(OWN))
    figure = str(bus["results"][3]["in_place"]["bus_bw"])
    with pytest.raises(CorralError) as caught:
        read(text.replace(figure, str(float(figure) * 1.1)))
    assert caught.value.code is Code.PARSE_FAILED


def test_progress() -> None:
    row = next(progress for progress in map(progress_of, lines()) if progress)
    assert (row.collective, row.size, row.wrong) == ("all_reduce", 4 << 30, 0)
    assert row.busbw == pytest.approx(362.46, abs=0.005)
    assert progress_of("node0:1:1 [0] NCCL INFO Using network Socket") is None
    assert progress_of("@@corral-row {cut") is None
    assert progress_of("@@corral-row []") is None


def test_no_table_is_an_error_with_the_last_words() -> None:
    with pytest.raises(CorralError) as caught:
        read_program(["Traceback", "ModuleNotFoundError: No module named 'torch'"])
    assert caught.value.code is Code.PARSE_FAILED
    assert "No module named 'torch'" in caught.value.tail


def test_pairs_are_read() -> None:
    line = '@@corral-pair {"nodes": ["node2", "node0"], "bus_bw": 0.5, "size": 8}'
    _, pairs = read_program([*lines(), line])
    assert pairs == (Pair("node0", "node2", 0.5),)
    with pytest.raises(CorralError, match="cannot be read"):
        read_program([*lines(), "@@corral-pair {"])


def test_the_program_prints_what_is_read() -> None:
    tree = ast.parse(PROGRAM.read_text(encoding="utf-8"))
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    collectives, halves = _program(), _program("halves.py")
    assert [collectives["MARK"], collectives["ROW"], halves["PAIR"], halves["HALF"]] == [
        *(OWN, corral_benchmark._ROW, corral_benchmark._PAIR, corral_benchmark._HALF)
    ]
    assert isinstance(constants["COLLECTIVES"], ast.Dict)
    names = [ast.literal_eval(key) for key in constants["COLLECTIVES"].keys if key]
    assert sorted(names) == sorted(MEASURES)
    assert tuple(ast.literal_eval(constants["TYPES"])) == TYPES


def _program(name: str = "collectives.py") -> dict[str, Any]:
    """What a program defines, without the PyTorch that running it needs."""
    tree = ast.parse(PROGRAM.with_name(name).read_text(encoding="utf-8"))
    tree.body = [
        node
        for node in tree.body
        if not (isinstance(node, ast.Import) and node.names[0].name.startswith("torch"))
        and not isinstance(node, ast.If)
    ]
    space: dict[str, Any] = {"__name__": "collectives"}
    exec(compile(tree, str(PROGRAM), "exec"), space)  # noqa: S102
    return space


def _sent(ranks: int) -> tuple[list[list[int]], list[int]]:
    """What each rank sends to be added up, and the sum that is expected."""
    sent: list[list[int]] = []
    total: list[int] = []
    for rank in range(ranks):
        run = _RUN.__new__(_RUN)
        run.rank, run.ranks = rank, ranks
        mine, total = run.reduced()
        sent.append(mine)
    return sent, total


_RUN: Any = _program()["Run"]


@pytest.mark.parametrize("ranks", [2, 3, 4, 8, 9, 16, 40])
def test_sums_are_exact_in_bf16_and_each_rank_counts(ranks: int) -> None:
    sent, total = _sent(ranks)
    assert [sum(column) for column in zip(*sent, strict=True)] == total
    assert max(total) <= 256  # whole numbers up to here are exact in bfloat16
    assert all(any(mine) for mine in sent)
    assert len({tuple(mine) for mine in sent}) == ranks


def test_each_rank_sends_something_else_to_be_copied() -> None:
    run = _RUN.__new__(_RUN)
    sent = {tuple(run.copied(rank)) for rank in range(251)}
    assert len(sent) == 251
    assert max(max(values) for values in sent) <= 256


@pytest.mark.parametrize(
    ("ranks", "free", "expected"),
    [
        (4, 1 << 40, [1 << 20, 2 << 20, 4 << 20, 8 << 20]),
        (4, 16 << 20, [1 << 20, 2 << 20, 4 << 20]),  # a quarter of what is free
        (4, 0, [1 << 20]),
        (3, 1 << 40, [n // 48 * 48 for n in (1 << 20, 2 << 20, 4 << 20, 8 << 20)]),
    ],
)
def test_sizes_divide_by_all_ranks_and_fit_the_memory(
    ranks: int, free: int, expected: list[int]
) -> None:
    options = SimpleNamespace(smallest=1 << 20, largest=8 << 20, factor=2)
    run = SimpleNamespace(ranks=ranks, width=4, options=options)
    assert _program()["sizes"](run, free) == expected


@pytest.mark.parametrize("count", range(2, 12))
def test_rounds_hold_each_pair_once_and_each_node_once_at_a_time(count: int) -> None:
    names = [f"node{i:02}" for i in range(count)]
    rounds = _program("halves.py")["rounds"](names)
    assert sorted(tuple(sorted(pair)) for turn in rounds for pair in turn) == sorted(
        itertools.combinations(names, 2)
    )
    assert len(rounds) == (count - 1 if count % 2 == 0 else count)
    for turn in rounds:
        busy = [name for pair in turn for name in pair]
        assert len(busy) == len(set(busy))


def _pairs(count: int, *bad: tuple[int, int], node: int = -1) -> list[Pair]:
    return [
        Pair(f"n{a}", f"n{b}", 1.0 if (a, b) in bad or node in (a, b) else 10.0)
        for a, b in itertools.combinations(range(count), 2)
    ]


@pytest.mark.parametrize("count", [3, 4, 5, 8, 16])
def test_a_slow_node_is_named(count: int) -> None:
    suspects = slow(_pairs(count, node=1))
    assert suspects.nodes == ("n1",)
    assert suspects.links == ()
    assert "n1 is slow with every other node" in suspects.sentences[0]


@pytest.mark.parametrize("count", [4, 5, 8, 16])
def test_a_slow_link_blames_no_node(count: int) -> None:
    suspects = slow(_pairs(count, (0, 2)))
    assert suspects.nodes == ()
    assert suspects.links == (Pair("n0", "n2", 1.0),)
    assert "the path between them" in suspects.sentences[0]


def test_no_node_is_suspected_among_equals_or_in_one_pair() -> None:
    assert slow(_pairs(5)).sentences == ()
    assert slow(_pairs(2)).sentences == ()
    assert slow(()).sentences == ()


def _halves(count: int, slow: set[str], trunk: float = 0.0) -> list[Half]:
    """What each part of the nodes would reach: 10 GB/s, 1 with a slow node, over the trunk less."""
    names = tuple(f"n{i}" for i in range(count))
    halves: list[Half] = []
    for level in _program("halves.py")["levels"](names):
        for part in level:
            speed = trunk if trunk and len(part) == count else 10.0
            halves.append(Half(part, 1.0 if slow & set(part) else speed))
    return halves


@pytest.mark.parametrize("count", [4, 5, 7, 8, 64])
def test_halving_comes_down_to_the_part_with_the_slow_node(count: int) -> None:
    parts = _halves(count, {"n1"})
    bisection = bisected(parts[::-1])
    assert "n1" in bisection.nodes
    assert len(bisection.nodes) in (2, 3)
    assert len(bisection.sentences) == len(bisection.path) - 1
    assert "one half is slow" in bisection.sentences[0]


def test_fast_halves_that_are_slow_together_blame_what_joins_them() -> None:
    bisection = bisected(_halves(8, set(), trunk=3.0))
    assert [half.nodes for half in bisection.between] == [
        tuple(f"n{i}" for i in range(4)),
        tuple(f"n{i}" for i in range(4, 8)),
    ]
    assert "what joins them" in bisection.sentences[0]


def test_halves_of_equals_blame_nothing() -> None:
    assert bisected(()).sentences == ()
    assert bisected(_halves(8, set())).sentences == ()
    assert bisected(_halves(8, set())).nodes == ()
    assert bisected(_halves(8, set())[:2]).sentences == ()  # a half is missing


def test_halves_are_read() -> None:
    line = '@@corral-half {"nodes": ["b", "a"], "bus_bw": 2, "size": 8}'
    assert read_halves(["x", line]) == (Half(("b", "a"), 2.0),)
    with pytest.raises(CorralError, match="cannot be read"):
        read_halves(["@@corral-half {}"])
    with pytest.raises(CorralError, match="cannot be read"):
        read_program([*lines(), line.replace("half", "pair").replace('"b", ', "")])


def test_of_many_nodes_members_of_slow_parts_meet_a_good_one() -> None:
    crossed = _program("halves.py")["crossed"]
    least = [
        {"nodes": ["a", "b"], "bus_bw": 10.0},
        {"nodes": ["c", "d"], "bus_bw": 1.0},
        {"nodes": ["e", "f"], "bus_bw": 9.0},
    ]
    assert crossed(least) == [("a", "c"), ("a", "d")]
    assert crossed(least[::2]) == []
