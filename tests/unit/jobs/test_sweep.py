"""Arrays and sweeps: numbers, points, arguments of a point as a shell sees them."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.errors import Code, CorralError
from corral.hosts.quote import sh
from corral.jobs.model import parse_job
from corral.jobs.sweep import indices, parse_sweep, point_arguments, point_lines, points


def test_all_combinations_the_last_name_fastest() -> None:
    sweep = parse_sweep(["lr=1e-3,3e-4", "seed=0..2", "way=3..1"])
    assert [tuple(p.values()) for p in points(sweep)][:4] == [
        ("1e-3", "0", "3"),
        ("1e-3", "0", "2"),
        ("1e-3", "0", "1"),
        ("1e-3", "1", "3"),
    ]
    assert len(points(sweep)) == 18


@pytest.mark.parametrize("text", ["lr", "lr=", "=1"])
def test_a_sweep_names_its_values(text: str) -> None:
    with pytest.raises(CorralError) as caught:
        parse_job({"script": "a", "sweep": parse_sweep([text])})
    assert caught.value.code is Code.USAGE


def test_a_name_is_given_once() -> None:
    with pytest.raises(CorralError, match="twice"):
        parse_sweep(["a=1", "a=2"])


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("0-3", (0, 1, 2, 3)), ("7,1,5", (1, 5, 7)), ("0-8:4", (0, 4, 8)), ("2,0-2", (0, 1, 2))],
)
def test_numbers_of_an_array(text: str, numbers: tuple[int, ...]) -> None:
    assert indices(text) == numbers
    assert tuple(parse_job({"script": "a", "array": text}).tasks) == numbers


@pytest.mark.parametrize("text", ["", "a", "3-1", "1-", "1;2", "1%4", "0-9999999"])
def test_what_is_no_array(text: str) -> None:
    with pytest.raises(CorralError):
        parse_job({"script": "a", "array": text})


def test_array_and_sweep_exclude_each_other() -> None:
    with pytest.raises(CorralError, match="exclude each other"):
        parse_job({"script": "a", "array": "0-1", "sweep": {"a": ["1"]}})
    with pytest.raises(CorralError, match="at_once"):
        parse_job({"script": "a", "at_once": 2})


VALUE = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12) | st.sampled_from(
    ["'", '"', "$(touch x)", "`id`", "\\", "-n", "", " ", "${1}"]
)


@given(a=VALUE, b=VALUE, c=VALUE)
def test_a_point_arrives_as_it_is(a: str, b: str, c: str) -> None:
    """The file of points, read as the batch script reads it, then the arguments."""
    sweep = {"x": (a,), "y.z": (b,)}
    args = ("--k={x}{y.z}", c, "{nobody}")
    text = sh(
        'point={line}\neval "set -- $point"\nprintf "%s\\0" {words}',
        line=point_lines(sweep).decode().rstrip("\n"),
        words=point_arguments(args, tuple(sweep)),
    )
    ran = subprocess.run(["/bin/sh", "-c", text], capture_output=True, check=True)
    assert ran.stdout.decode().split("\0")[:-1] == [f"--k={a}{b}", c, "{nobody}"]


def test_names_without_a_place_are_added() -> None:
    assert point_arguments(("-v",), ("lr", "seed")) == '-v --lr="${1}" --seed="${2}"'
