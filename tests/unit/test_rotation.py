"""Every slow test is in one part of the rotation, and stays there."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

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
