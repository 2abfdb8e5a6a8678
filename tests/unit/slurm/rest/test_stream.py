from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.errors import CorralError
from corral.slurm.rest.json_values import integer, number
from corral.slurm.rest.stream import Memory, RecordStream

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
RECORDS = st.lists(st.dictionaries(st.text(max_size=5), VALUES, max_size=3), max_size=5)


def taken(data: bytes, size: int) -> tuple[list[Any], dict[str, Any]]:
    stream, records = RecordStream("jobs", dict), list[Any]()
    for at in range(0, len(data), size):
        records += stream.feed(data[at : at + size])
    return records, stream.rest()


@given(RECORDS, st.integers(1, 40), st.sampled_from([None, 1]), st.booleans())
def test_any_cut_gives_the_same(
    records: list[Any], size: int, indent: int | None, plain: bool
) -> None:
    body = {"head": {"x": 1}, "jobs": records, "errors": [{"error": "no"}]}
    data = json.dumps(body, indent=indent, ensure_ascii=plain).encode("utf-8", "replace")
    again = json.loads(data.decode())
    streamed, rest = taken(data, size)
    assert streamed == again["jobs"]
    assert rest == {**again, "jobs": []}


@given(st.lists(RECORDS, min_size=2, max_size=4), st.integers(1, 40))
def test_memory_changes_nothing_but_what_is_read(answers: list[list[Any]], size: int) -> None:
    memory = Memory[Any]()
    for records in [*answers, answers[-1]]:
        read: list[Any] = []

        def reading(record: Any, read: list[Any] = read) -> Any:
            read.append(record)
            return dict(record)

        data = json.dumps({"jobs": records, "errors": []}).encode()
        stream, streamed = RecordStream("jobs", reading, memory), list[Any]()
        for at in range(0, len(data), size):
            streamed += stream.feed(data[at : at + size])
        stream.rest()
        assert streamed == records
    assert not read  # the last answer was as the one before it


def test_what_is_behind_a_record_that_came_or_went_is_not_read_again() -> None:
    """Else each of 50,000 jobs would be read again where one of the first was purged."""
    memory, read = Memory[Any](), list[Any]()

    def reading(record: Any) -> Any:
        read.append(record["n"])
        return record["n"]

    def answered(numbers: list[int]) -> list[int]:
        read.clear()
        stream = RecordStream("jobs", reading, memory)
        data = json.dumps({"jobs": [{"n": number} for number in numbers]}).encode()
        listed = [*stream.feed(data)]
        stream.rest()
        assert listed == numbers
        return read

    assert len(answered([*range(100)])) == 100
    assert answered([*range(3, 100)]) == []
    assert answered([*range(3, 50), 500, *range(50, 100)]) == [500]
    assert answered([*range(3, 40), *range(41, 50), 500, *range(50, 100), 501]) == [501]


def test_cut_answer_is_not_remembered() -> None:
    memory = Memory[Any]()
    data = json.dumps({"jobs": [{"a": 1}, {"b": 2}]}).encode()
    stream = RecordStream("jobs", dict, memory)
    list(stream.feed(data[:-8]))
    with pytest.raises(CorralError):
        stream.rest()
    assert not memory.last


def test_cut_answer_is_refused() -> None:
    data = json.dumps({"jobs": [{"a": 1}, {"b": 2}]}).encode()
    stream = RecordStream("jobs", dict)
    assert list(stream.feed(data[:-8])) == [{"a": 1}]
    with pytest.raises(CorralError):
        stream.rest()


def test_other_document_is_refused() -> None:
    stream = RecordStream("jobs", dict)
    with pytest.raises(CorralError):
        list(stream.feed(b"x" * (2 << 20)))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (7, 7), ({"set": True, "infinite": False, "number": 7}, 7), (True, None), ("7", None),
        ({"set": False, "infinite": False, "number": 7}, None), (4294967294, None),
        ({"set": True, "infinite": True, "number": 0}, None), (-9223372036854772880, None),
    ],
)  # fmt: skip
def test_numbers(value: object, expected: int | None) -> None:
    assert number(value) == expected
    assert integer(value, 5) == (5 if expected is None else expected)
