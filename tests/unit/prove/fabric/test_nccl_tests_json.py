"""The JSON of nccl-tests -J, as util.cu writes it."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.errors import Code, CorralError
from corral.prove.fabric.model import Collective, Timing
from corral.prove.fabric.nccl_tests_json import read_json


def made(**changes: Any) -> dict[str, Any]:
    """Two sizes on two ranks of two hosts."""
    results = [
        {
            "size": size,
            "count": size // 4,
            "type": "float",
            "redop": "sum",
            "root": "    -1",
            "out_of_place": {
                "time": us,
                "alg_bw": size / us / 1e3,
                "bus_bw": size / us / 1e3,
                "nwrong": 0.0,
            },
            "in_place": {
                "time": us,
                "alg_bw": size / us / 1e3,
                "bus_bw": size / us / 1e3,
                "nwrong": None,
            },
            "actual_iterations": 20,
            "experiment_name": "",
        }
        for size, us in ((1 << 20, 150.0), (1 << 30, 54321.0))
    ]
    bus = sum(r["out_of_place"]["bus_bw"] for r in results) / 2
    devices = [
        {
            "rank": r,
            "group": 0,
            "pid": 1,
            "hostname": f"node{r}",
            "device": 0,
            "device_hex": "0",
            "device_info": "H200",
        }
        for r in range(2)
    ]
    return {
        "version": 1,
        "args": ["./build/all_reduce_perf_mpi", "-b", "1M"],
        "env": ["WANDB_API_KEY=hush"],
        "nccl_version": 22800,
        "config": {"maximum_bytes": 1 << 30, "devices": devices},
        "results": results,
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": {"bandwidth": bus, "okay": "unchecked"},
    } | changes


def test_it_is_read() -> None:
    (table,) = read_json(json.dumps(made()))
    assert (table.collective, table.certain, table.ranks, table.nodes) == (
        Collective.ALL_REDUCE,
        True,
        2,
        2,
    )
    assert table.rows[1].size == 1 << 30
    assert table.rows[1].root == -1
    assert table.rows[1].out_of_place == Timing(
        54321.0, (1 << 30) / 54321.0 / 1e3, (1 << 30) / 54321.0 / 1e3, wrong=0
    )
    assert table.rows[1].in_place is not None
    assert table.rows[1].in_place.wrong is None
    assert table.complete
    assert "hush" not in repr(table)


def test_the_misspelling_of_2_17_7() -> None:
    fields = made()
    average = fields.pop("average_bus_bandwidth")
    fields["average_bus_bandwidith"] = {"bandwidith": average["bandwidth"], "okay": "true"}
    (table,) = read_json(json.dumps(fields))
    assert table.average == average["bandwidth"]


def test_not_a_number_and_nothing() -> None:
    fields = made()
    fields["results"][0]["out_of_place"] = None
    fields["results"][0]["in_place"]["bus_bw"] = "nan"
    (table,) = read_json(json.dumps(fields))
    assert table.rows[0].out_of_place is None
    assert any("not numbers" in note for note in table.notes)


def spoiled(*path: Any, value: Any) -> str:
    fields: Any = copy.deepcopy(made())
    at = fields
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return json.dumps(fields)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not a complete file"),
        ("[]", "valid dictionary|object"),
        ("{}", "config: Field required"),
        (json.dumps(made())[:-40], "EOF"),
        (spoiled("results", 1, "out_of_place", "bus_bw", value=99.0), "bandwidths are"),
        (spoiled("results", 1, "out_of_place", "time", value=5432.1), "and the row has"),
        (
            spoiled("results", 1, "out_of_place", "time", value="fast"),
            "time: Input should be a valid number",
        ),
        (
            spoiled("results", 1, "out_of_place", "time", value=True),
            "time: Input should be a valid number",
        ),
        (spoiled("average_bus_bandwidth", "bandwidth", value=1.0), "rows are missing"),
        (spoiled("results", value=[]), "without any row"),
        (spoiled("results", 0, "size", value=10**400), "size"),
        (spoiled("results", 0, "root", value="first"), "root"),
        (spoiled("average_bus_bandwidth", value={"okay": "true"}), "bandwidth: Field required"),
        ('{"config": ' + "[" * 100_000, "not a complete file"),
    ],
)
def test_what_is_broken_is_refused(text: str, message: str) -> None:
    with pytest.raises(CorralError, match=message) as caught:
        read_json(text)
    assert caught.value.code is Code.PARSE_FAILED


def test_a_file_that_lists_one_gpu_of_several() -> None:
    """2.19.6 does, where one process drives two (recorded)."""
    path = Path(__file__).parents[3] / "recorded/nccl/h200x2/all-reduce.json"
    (table,) = read_json(path.read_text())
    assert (table.collective, table.ranks, len(table.rows)) == (Collective.ALL_REDUCE, 2, 5)
    assert "hush" not in repr(table)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.data())
def test_any_part_may_be_anything(data: st.DataObject) -> None:
    """Every key and item of a file, replaced or left out: read or refused, never another error."""
    fields: Any = made()
    at, last = fields, None
    while isinstance(at, dict | list) and at and (last is None or data.draw(st.booleans())):
        last = (
            at,
            data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at)))),
        )
        at = at[last[1]]
    assert last
    holder, key = last
    if data.draw(st.booleans()):
        del holder[key]
    else:
        holder[key] = data.draw(anything)
    text = json.dumps(fields)
    try:
        read_json(
            text if data.draw(st.booleans()) else text[: data.draw(st.integers(0, len(text)))]
        )
    except CorralError as error:
        assert "hush" not in str(error) + error.hint
        assert error.code is Code.PARSE_FAILED
