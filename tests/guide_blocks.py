"""Commands of the guide, and who runs them: a line before each block of shell states it.

``<!-- run by: FILE -->``: that test runs the block as it is written. ``<!-- run by: FILE; WITH
-->``: but for what follows, such as a stand-in of a program. ``<!-- not run: WHY -->``: none does;
the reason names the tests of the same commands with other names. The site shows all of it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPO = Path(__file__).parents[1]
OF_THEIR_DAY = {"decisions", "measurements", "reference"}
"""Folders whose pages are records, or are made from the help."""
PAGES = [
    REPO / "README.md",
    REPO / "CONTRIBUTING.md",
    *(p for p in sorted((REPO / "docs").rglob("*.md")) if not OF_THEIR_DAY & set(p.parts)),
]
BLOCK = re.compile(r"^( *)```(sh|bash|console)[^\n]*\n(.*?)^\1```$", re.M | re.S)
OUTPUT = re.compile(r"\A\n+ *```text\n(.*?)^ *```$", re.M | re.S)
MARK = re.compile(r"<!-- (run by|not run): ([^\n]+) -->\n *\Z")


@dataclass(frozen=True)
class Block:
    """A block of commands.

    Attributes:
        page: relative to the repository.
        line: of its fence.
        text: its commands.
        shown: what the page shows as their output, "" where it shows none.
        run_by: the file of the test that runs it, "" where none does.
        but: what the test has in place of something of it, "" for nothing.
        why: why none does.
    """

    page: str
    line: int
    text: str
    shown: str
    run_by: str
    why: str
    but: str = ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: str, text: str) -> Iterator[Block]:
    for match in BLOCK.finditer(text):
        mark = MARK.search(text[: match.start()])
        kind, words = (mark[1], mark[2]) if mark else ("", "")
        file, _, but = words.partition("; ")
        output = OUTPUT.search(text[match.end() :])
        yield Block(
            page,
            text[: match.start()].count("\n") + 1,
            textwrap.dedent(match[3]),
            textwrap.dedent(output[1]) if output else "",
            file if kind == "run by" else "",
            words if kind == "not run" else "",
            but if kind == "run by" else "",
        )


def all_blocks() -> list[Block]:
    return [b for p in PAGES for b in blocks_of(str(p.relative_to(REPO)), p.read_text())]


def run_by(test: str) -> list[Block]:
    """The blocks that a test's file runs: ``run_by(__file__)``."""
    name = str(Path(test).relative_to(REPO))
    return [block for block in all_blocks() if block.run_by == name]
