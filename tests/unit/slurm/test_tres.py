"""Lists of TRES and sizes: read in one place."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.slurm.tres import (
    SUFFIXES,
    counts,
    entries,
    gres_count,
    gres_of,
    gres_option,
    listed,
    memory_option,
    mib,
    scaled,
)

SOURCE = Path(__file__).parents[3] / "src/corral"
READER = SOURCE / "slurm/tres.py"
NAMES = st.sampled_from(["cpu", "mem", "node", "billing", "gres/gpu", "gres/gpu:h200", "license/x"])


def written(size: int) -> str:
    """A size in MiB with the largest suffix that leaves no fraction."""
    power = 0
    while size and size % 1024 == 0 and power < 3:
        size, power = size // 1024, power + 1
    return f"{size}{SUFFIXES[power + 1]}"


@given(st.integers(0, 1 << 40))
def test_a_size_that_is_written_is_read_back(size: int) -> None:
    assert mib(written(size)) == size == mib(str(size))
    assert memory_option(written(size)) == memory_option(written(size).lower() + "b") == size


@given(st.dictionaries(NAMES, st.integers(0, 1 << 40)))
def test_a_list_that_is_written_is_read_back(amounts: dict[str, int]) -> None:
    texts = {n: written(size) if n == "mem" else str(size) for n, size in amounts.items()}
    text = ",".join(f"{name}={value}" for name, value in texts.items())
    assert entries(text) == texts
    assert counts(text) == amounts


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    counts(text)
    counts(f"mem={text}")
    assert memory_option(text) is None or memory_option(text) == mib(text.upper().rstrip("B"))


@pytest.mark.parametrize(
    ("text", "bare", "expected"),
    [
        ("4", "M", 4.0),
        ("4", "", 4 / (1 << 20)),
        ("512K", "M", 0.5),
        ("1.50T", "M", 1536.0 * 1024),
        ("2P", "", 2.0 * (1 << 30)),
        ("1.5.2G", "M", None),
        ("4g", "M", None),
        ("", "M", None),
        ("G", "M", None),
        ("\u0664", "M", None),
    ],
)
def test_a_size(text: str, bare: str, expected: float | None) -> None:
    assert mib(text, bare=bare) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("1.5G", None), ("16gb", 16384.0), ("0", 0.0), ("-1G", None)]
)
def test_a_size_that_a_person_asks_for(text: str, expected: float | None) -> None:
    assert memory_option(text) == expected


def test_a_count_has_suffixes_too() -> None:
    assert counts("cpu=1.50K,mem=1.50G,node=x,energy=0") == {"cpu": 1536, "mem": 1536, "energy": 0}
    assert scaled("2K") == gres_count("2k") == 2048
    assert gres_count("1.5K") is gres_count("gpu") is None


def size_tables(tree: ast.AST) -> Iterator[int]:
    """Lines of tables of suffixes K, M, G and of patterns with them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            keys = {key.value for key in node.keys if isinstance(key, ast.Constant)}
            texts = any(
                isinstance(v, ast.Constant) and isinstance(v.value, str) for v in node.values
            )
            if {"M", "G"} <= keys and not texts:
                yield node.lineno
        elif isinstance(node, ast.Constant) and re.search(r"K[km]?MG|kKmM", str(node.value)):
            yield node.lineno


@pytest.mark.parametrize(
    "text",
    [
        'U = {"K": 1, "M": 1 << 10, "G": 1 << 20}',
        'int(x) << {"M": 0, "G": 10}[x]',
        'S = re.compile(r"([0-9]+)([KMGT]?)")',
        'x.rstrip("KMGTP")',
    ],
)
def test_a_second_reader_of_sizes_is_seen(text: str) -> None:
    assert list(size_tables(ast.parse(text))) == [1]


def test_sizes_are_read_in_one_place() -> None:
    assert list(size_tables(ast.parse(READER.read_text())))
    others = {
        f"{path.relative_to(SOURCE)}:{line}"
        for path in SOURCE.rglob("*.py")
        if path != READER
        for line in size_tables(ast.parse(path.read_text()))
    }
    assert not others, "use corral.slurm.tres: scaled, mib or memory_option"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("gpu:8", 8), ("gpu:h100:8", 8), ("gpu:h100(CNT:8)", 8), ("gpu:h100:no_consume:8", 8),
        ("gpu:h100", 1), ("gpu", 1), ("gpu:h100:2K", 2048), ("gpu:2k", 2048), ("gpu:h100:0", 0),
        ("gpu:h100:2,gpu:a100:1", 3), ("shard:gpu:4", 0), ("gpu:1g.5gb:7", 7),
    ],
)  # fmt: skip
def test_two_questions_about_a_list_have_one_answer(text: str, count: int) -> None:
    assert sum(number for name, _, number in gres_of(text) if name == "gpu") == count
    assert (listed(text) or 0) == count


GPU_COUNT = re.compile(
    r"gpu(?![a-z]).*(\\d|\[[01]-9)|(\\d|\[[01]-9).*gpu(?![a-z])|\bgpu[:=](\W|$)", re.DOTALL
)
"""A pattern or prefix that takes a count or type of GPUs out of a list."""
READS = {"compile", "match", "fullmatch", "search", "finditer", "findall", "split", "partition",
         "rpartition", "removeprefix", "startswith", "sub"}  # fmt: skip
OTHER_GPUS = {
    "web/slurm/quota.py": "keys of limits, already read by ``entries``: which are of one type",
}
"""Who else looks for GPUs in a list, and why."""


def gpu_readers(tree: ast.AST) -> Iterator[int]:
    """Lines that read GPUs out of a text of Slurm's themselves."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            words = [
                part.value
                for argument in node.args
                for part in ast.walk(argument)
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
            ]
            if node.func.attr in READS and any(map(GPU_COUNT.search, words)):
                yield node.lineno


@pytest.mark.parametrize(
    "text",
    [
        r'x = re.findall(r"\bgpu:(?:([A-Za-z][^:,(]*):)?(\d+)", gres)',
        'x = re.compile("gres/gpu=([0-9]+)")',
        'x = text.split("gpu:")[1]',
        'x = text.removeprefix("gres/gpu=")',
    ],
)
def test_a_second_reader_of_gpus_is_seen(text: str) -> None:
    assert list(gpu_readers(ast.parse(text))) == [1]


def test_gpus_are_read_in_one_place() -> None:
    assert list(gpu_readers(ast.parse(READER.read_text())))
    others = {
        str(path.relative_to(SOURCE)): lines
        for path in SOURCE.rglob("*.py")
        if path != READER and (lines := list(gpu_readers(ast.parse(path.read_text()))))
    }
    assert set(others) == set(OTHER_GPUS), others


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("gres/gpu:h200:4", "gpu:h200:4"),
        ("gres:gpu:2, gres/shard:1,", "gpu:2,shard:1"),
        ("gpu:2", "gpu:2"),
        ("", ""),
    ],
)
def test_a_request_of_gres_is_written_as_an_option(text: str, option: str) -> None:
    assert gres_option(text) == option
