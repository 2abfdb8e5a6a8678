"""Every slow test is in one part of the rotation, and stays there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rotation import TOGETHER, part

PARTS = 5
FILES = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 60))


def ids_of(files: dict[str, int]) -> list[str]:
    return [
        f"tests/x/test_{file}.py::test_{n}" for file, count in files.items() for n in range(count)
    ]


@given(FILES)
def test_each_is_in_one_part(files: dict[str, int]) -> None:
    ids = ids_of(files)
    parts = [part(ids, number, PARTS) for number in range(1, PARTS + 1)]
    assert sorted(test for chosen in parts for test in chosen) == sorted(ids)


@given(FILES, FILES)
def test_a_test_stays_in_its_part_when_other_files_come_and_go(
    files: dict[str, int], others: dict[str, int]
) -> None:
    ids = ids_of(files)
    more = [*ids, *ids_of({f"other_{name}": count for name, count in others.items()})]
    for number in range(1, PARTS + 1):
        assert part(ids, number, PARTS) == part(more, number, PARTS) & set(ids)


def test_tests_of_a_file_stay_together_unless_they_are_many() -> None:
    together = [part(ids_of({"a": TOGETHER}), number, PARTS) for number in range(1, PARTS + 1)]
    assert sorted(map(len, together)) == [0, 0, 0, 0, TOGETHER]
    apart = [part(ids_of({"a": 200}), number, PARTS) for number in range(1, PARTS + 1)]
    assert min(map(len, apart)) > 20


def test_ci_takes_the_part_that_is_next(repo: Path, tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(repo / ".ci" / "run", tmp_path / ".ci")
    (tmp_path / "test").write_text('#!/bin/sh\necho "$CORRAL_TEST_SLOW $CI"\n')
    (tmp_path / "test").chmod(0o755)
    environment = {k: v for k, v in os.environ.items() if k != "CORRAL_TEST_SLOW"}
    for number, slow in (("4", "4/5"), ("0", "")):
        (tmp_path / ".ci" / "part").write_text(f"{number}\n")
        done = subprocess.run(
            ["bash", tmp_path / ".ci" / "run"], capture_output=True, text=True, env=environment
        )
        assert (done.stdout, done.returncode) == (f"{slow} true\n", 0), done.stderr
    assert int((repo / ".ci" / "part").read_text()) in range(PARTS + 1)


def functions(test: str, *names: str) -> str:
    """Functions of ``./test`` as they are there."""
    starts = [test.index(f"\n{name}() {{") for name in names]
    return "".join(test[start : test.index("\n}\n", start) + 3] for start in starts)


def test_a_green_run_moves_the_part_on(repo: Path, tmp_path: Path) -> None:
    text = functions((repo / "test").read_text(), "next_part", "taken_part")
    (tmp_path / ".ci").mkdir()
    part = tmp_path / ".ci" / "part"
    script = f"note() {{ :; }}\n{text}\ntaken_part"

    def after(number: int, slow: str, ci: str = "") -> int:
        part.write_text(f"{number}\n")
        environment = {"CORRAL_TEST_SLOW": slow, "CI": ci, "PATH": os.environ["PATH"]}
        subprocess.run(["bash", "-eu", "-c", script], cwd=tmp_path, env=environment, check=True)
        return int(part.read_text())

    assert [after(n, f"{n}/5") for n in range(1, 6)] == [2, 3, 4, 5, 1]
    assert after(3, "") == 3  # no slow test ran
    assert after(3, "1/5") == 3  # another part
    assert after(3, "3/5", ci="true") == 3


def git(folder: Path, *argv: str) -> str:
    settings = ("safe.directory=*", "user.name=test", "user.email=test@localhost")
    given = [word for setting in settings for word in ("-c", setting)]
    return subprocess.run(
        ["git", *given, *argv], cwd=folder, check=True, capture_output=True, text=True
    ).stdout


def test_the_summary_shows_a_part_that_was_not_moved(repo: Path, tmp_path: Path) -> None:
    text = functions((repo / "test").read_text(), "part_age")

    def age(folder: Path) -> str:
        script = f"{text}\npart_age 2/5"
        done = subprocess.run(
            ["bash", "-eu", "-c", script], cwd=folder, check=True, capture_output=True, text=True
        )
        assert done.stderr == ""
        return done.stdout

    assert age(tmp_path) == "2/5\n"  # an archive without history
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "part").write_text("2\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".ci/part")
    git(tmp_path, "commit", "--quiet", "-m", "part")
    for number in range(3):
        git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", f"{number}")
    assert age(tmp_path) == "2/5, .ci/part was moved on 3 commits ago\n"


def skipped_steps(values: list[int]) -> list[tuple[int, int]]:
    """Steps of ``.ci/part`` that leave a part out; 0 stands for a pause."""
    steps = list(pairwise(values))
    return [(a, b) for a, b in steps if a and b and b not in (a, a % PARTS + 1)]


def test_no_part_is_skipped(repo: Path) -> None:
    """CI takes what ``.ci/part`` names, so its history is what five landings took."""
    if not (repo / ".git").exists():
        pytest.skip("no history: not a clone")
    argv = ("log", "--reverse", "--first-parent", "-m", "-p", "--format=", "--", ".ci/part")
    values = [int(n) for n in re.findall(r"^\+(\d)$", git(repo, *argv), re.MULTILINE)]
    assert skipped_steps(values) == []


def test_a_skipped_part_is_seen() -> None:
    assert skipped_steps([1, 0, 3, 4, 5, 1, 2, 2]) == []
    assert skipped_steps([5, 1, 3, 4, 2]) == [(1, 3), (4, 2)]
