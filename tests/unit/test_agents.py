"""Programs for nodes: each names where it is installed, who starts it, and as whom."""

from __future__ import annotations

from itertools import takewhile

import pytest

from corral.agents import FOLDER, LABELS, program
from corral.errors import CorralError

PROGRAMS = sorted(
    str(path.relative_to(FOLDER))
    for path in FOLDER.rglob("*")
    if path.is_file() and path != FOLDER / "__init__.py" and "__pycache__" not in path.parts
)


def test_there_are_some() -> None:
    assert len(PROGRAMS) > 20


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_first_lines_say_where_by_whom_and_as_whom(name: str) -> None:
    head = takewhile(lambda line: line.startswith("#"), program(name).splitlines())
    lines = [line.removeprefix("# ") for line in head]
    for label in LABELS:
        (said,) = [line for line in lines if line.startswith(label)]
        assert said.removeprefix(label).strip()


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name.endswith(".py")])
def test_nothing_of_corral_is_imported(name: str) -> None:
    text = program(name)
    assert "import corral" not in text
    assert "from corral" not in text


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(CorralError, match=r"none\.sh is not in Corral's package"):
        program("none.sh")
