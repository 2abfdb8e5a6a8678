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
from corral.prove.fabric import program
from corral.prove.fabric.benchmark_log import OWN, read
from corral.prove.fabric.halves import Half, bisected
from corral.prove.fabric.model import Collective
from corral.prove.fabric.pairs import Pair, slow
from corral.prove.fabric.program import (
    MEASURES,
    PROGRAM,
    TYPES,
    progress_of,
    read_halves,
    read_program,
)

RECORDED = Path(__file__).parents[3] / "recorded" / "nccl" / "h200x4-own-benchmark.txt"


def lines() -> list[str]:
    return RECORDED.read_text(encoding="utf-8").splitlines()


def test_the_recorded_run_of_four_h200() -> None:
    found, pairs = read_program(lines())
    assert [t.collective for t in found.tables] == [Collective.ALL_REDUCE, Collective.ALL_GATHER]
    for table in found.tables:
        assert (table.ranks, table.nodes, table.wrong) == (4, 1, 0)
        assert [row.size for row in table.rows] == [8 << 20 << i for i in range(11)]
        assert table.complete and table.checked and table.certain
    assert found.tables[0].rows[-1].best == pytest.approx(364.95, abs=0.005)
    assert found.tables[0].rows[-1].out_of_place is None
    assert found.transport.version == "2.28.9+cuda13.0"
    assert found.transport.network == "Socket"
    assert found.transport.devices == ("eth0",)
    assert dict(found.transport.channels) == {"P2P/CUMEM": 40}
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
    row = next(found for found in map(progress_of, lines()) if found)
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
    told = '@@corral-pair {"nodes": ["node2", "node0"], "bus_bw": 0.5, "size": 8}'
    _, pairs = read_program([*lines(), told])
    assert pairs == (Pair("node0", "node2", 0.5),)
    with pytest.raises(CorralError, match="cannot be read"):
        read_program([*lines(), "@@corral-pair {"])


def test_the_program_says_what_is_read() -> None:
    tree = ast.parse(PROGRAM.read_text(encoding="utf-8"))
    said = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    whole, apart = _program(), _program("halves.py")
    assert [whole["MARK"], whole["ROW"], apart["PAIR"], apart["HALF"]] == [
        *(OWN, program._ROW, program._PAIR, program._HALF)
    ]
    assert isinstance(said["COLLECTIVES"], ast.Dict)
    names = [ast.literal_eval(key) for key in said["COLLECTIVES"].keys if key]
    assert sorted(names) == sorted(MEASURES)
    assert tuple(ast.literal_eval(said["TYPES"])) == TYPES


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
    found: list[list[int]] = []
    total: list[int] = []
    for rank in range(ranks):
        run = _RUN.__new__(_RUN)
        run.rank, run.ranks = rank, ranks
        mine, total = run.reduced()
        found.append(mine)
    return found, total


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
    assert max(max(one) for one in sent) <= 256


@pytest.mark.parametrize(
    ("ranks", "free", "due"),
    [
        (4, 1 << 40, [1 << 20, 2 << 20, 4 << 20, 8 << 20]),
        (4, 16 << 20, [1 << 20, 2 << 20, 4 << 20]),  # a quarter of what is free
        (4, 0, [1 << 20]),
        (3, 1 << 40, [n // 48 * 48 for n in (1 << 20, 2 << 20, 4 << 20, 8 << 20)]),
    ],
)
def test_sizes_are_whole_on_all_ranks_and_fit_the_memory(
    ranks: int, free: int, due: list[int]
) -> None:
    wanted = SimpleNamespace(smallest=1 << 20, largest=8 << 20, factor=2)
    run = SimpleNamespace(ranks=ranks, width=4, options=wanted)
    assert _program()["sizes"](run, free) == due


@pytest.mark.parametrize("count", range(2, 12))
def test_rounds_hold_each_pair_once_and_each_node_once_at_a_time(count: int) -> None:
    names = [f"node{i:02}" for i in range(count)]
    found = _program("halves.py")["rounds"](names)
    assert sorted(tuple(sorted(pair)) for turn in found for pair in turn) == sorted(
        itertools.combinations(names, 2)
    )
    assert len(found) == (count - 1 if count % 2 == 0 else count)
    for turn in found:
        busy = [name for pair in turn for name in pair]
        assert len(busy) == len(set(busy))


def _pairs(count: int, *bad: tuple[int, int], node: int = -1) -> list[Pair]:
    return [
        Pair(f"n{a}", f"n{b}", 1.0 if (a, b) in bad or node in (a, b) else 10.0)
        for a, b in itertools.combinations(range(count), 2)
    ]


@pytest.mark.parametrize("count", [3, 4, 5, 8, 16])
def test_a_slow_node_is_named(count: int) -> None:
    found = slow(_pairs(count, node=1))
    assert found.nodes == ("n1",)
    assert found.links == ()
    assert "n1 is slow with every other node" in found.sentences[0]


@pytest.mark.parametrize("count", [4, 5, 8, 16])
def test_a_slow_link_blames_no_node(count: int) -> None:
    found = slow(_pairs(count, (0, 2)))
    assert found.nodes == ()
    assert found.links == (Pair("n0", "n2", 1.0),)
    assert "the path between them" in found.sentences[0]


def test_nothing_stands_out_among_equals_or_in_one_pair() -> None:
    assert slow(_pairs(5)).sentences == ()
    assert slow(_pairs(2)).sentences == ()
    assert slow(()).sentences == ()


def _halves(count: int, slow: set[str], trunk: float = 0.0) -> list[Half]:
    """What each part of the nodes would reach: 10 GB/s, 1 with a slow node, over the trunk less."""
    names = tuple(f"n{i}" for i in range(count))
    found: list[Half] = []
    for level in _program("halves.py")["levels"](names):
        for part in level:
            whole = trunk if trunk and len(part) == count else 10.0
            found.append(Half(part, 1.0 if slow & set(part) else whole))
    return found


@pytest.mark.parametrize("count", [4, 5, 7, 8, 64])
def test_halving_comes_down_to_the_part_with_the_slow_node(count: int) -> None:
    parts = _halves(count, {"n1"})
    found = bisected(parts[::-1])
    assert "n1" in found.nodes
    assert len(found.nodes) in (2, 3)
    assert len(found.sentences) == len(found.path) - 1
    assert "one half is slow" in found.sentences[0]


def test_fast_halves_that_are_slow_together_blame_what_joins_them() -> None:
    found = bisected(_halves(8, set(), trunk=3.0))
    assert [half.nodes for half in found.between] == [
        tuple(f"n{i}" for i in range(4)),
        tuple(f"n{i}" for i in range(4, 8)),
    ]
    assert "what joins them" in found.sentences[0]


def test_halves_of_equals_say_nothing() -> None:
    assert bisected(()).sentences == ()
    assert bisected(_halves(8, set())).sentences == ()
    assert bisected(_halves(8, set())).nodes == ()
    assert bisected(_halves(8, set())[:2]).sentences == ()  # a half is missing


def test_halves_are_read() -> None:
    told = '@@corral-half {"nodes": ["b", "a"], "bus_bw": 2, "size": 8}'
    assert read_halves(["x", told]) == (Half(("b", "a"), 2.0),)
    with pytest.raises(CorralError, match="cannot be read"):
        read_halves(["@@corral-half {}"])
    with pytest.raises(CorralError, match="cannot be read"):
        read_program([*lines(), told.replace("half", "pair").replace('"b", ', "")])


def test_of_many_nodes_members_of_slow_parts_meet_a_good_one() -> None:
    crossed = _program("halves.py")["crossed"]
    least = [
        {"nodes": ["a", "b"], "bus_bw": 10.0},
        {"nodes": ["c", "d"], "bus_bw": 1.0},
        {"nodes": ["e", "f"], "bus_bw": 9.0},
    ]
    assert crossed(least) == [("a", "c"), ("a", "d")]
    assert crossed(least[::2]) == []
