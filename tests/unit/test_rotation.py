"""Every slow test is in one part of the rotation, and the parts are about equally long."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.rotation import UNKNOWN_S, part, seconds_recorded

PARTS = 5
TESTS = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 60)).map(
        lambda pair: f"tests/x/test_{pair[0]}.py::test_{pair[1]}"
    ),
    unique=True,
    max_size=80,
).map(sorted)


@given(TESTS, st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0, 900)))
def test_each_is_in_one_part(ids: list[str], of_file: dict[str, float]) -> None:
    seconds = {test: of_file[test[13]] for test in ids if test[13] in of_file}
    parts = [part(ids, number, PARTS, seconds) for number in range(1, PARTS + 1)]
    assert sorted(test for chosen in parts for test in chosen) == ids
    lengths = [sum(seconds.get(test, UNKNOWN_S) for test in chosen) for chosen in parts]
    longest = max((seconds.get(test, UNKNOWN_S) for test in ids), default=0)
    mean = sum(lengths) / PARTS
    assert max(lengths) <= 2 * mean + longest


def test_tests_of_a_file_stay_together_unless_they_are_too_long() -> None:
    ids = [f"tests/x/test_{file}.py::test_{n}" for file in "abcde" for n in range(4)]
    together = [part(ids, number, PARTS, {}) for number in range(1, PARTS + 1)]
    assert all(len({test.partition("::")[0] for test in chosen}) == 1 for chosen in together)
    slow = {test: 600.0 for test in ids if "test_a" in test}
    apart = [part(ids, number, PARTS, slow) for number in range(1, PARTS + 1)]
    assert all(sum("test_a" in test for test in chosen) < 2 for chosen in apart)


def test_what_was_recorded_is_of_tests_that_are_there(repo: Path) -> None:
    gone = {test.partition("::")[0] for test in seconds_recorded()}
    assert [file for file in sorted(gone) if not (repo / file).is_file()] == []


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


def test_a_green_run_moves_the_part_on(repo: Path, tmp_path: Path) -> None:
    text = (repo / "test").read_text()
    function = text[text.index("next_part() {") : text.index("\n}\n", text.index("next_part() {"))]
    (tmp_path / ".ci").mkdir()
    part = tmp_path / ".ci" / "part"
    script = f"note() {{ :; }}\n{function}\n}}\nnext_part"

    def after(number: int, slow: str, ci: str = "") -> int:
        part.write_text(f"{number}\n")
        environment = {"CORRAL_TEST_SLOW": slow, "CI": ci, "PATH": os.environ["PATH"]}
        subprocess.run(["bash", "-eu", "-c", script], cwd=tmp_path, env=environment, check=True)
        return int(part.read_text())

    assert [after(n, f"{n}/5") for n in range(1, 6)] == [2, 3, 4, 5, 1]
    assert after(3, "") == 3  # no slow test ran
    assert after(3, "1/5") == 3  # another part
    assert after(3, "3/5", ci="true") == 3
