"""Commands and programs of the guide, and who runs them: a line before each block states it.

``<!-- run by: FILE -->``: that test runs the block as it is written. ``<!-- run by: FILE; WITH
-->``: but for what follows, such as a stand-in of a program. ``<!-- not run: WHY -->``: none does;
the reason names the tests of the same commands with other names. The site shows all of it. YAML is
checked by ``corral lint`` (``tests/unit/test_docs.py``), and has a mark only where it is not.

What is neither a command nor a program nor output right below one: ``<!-- shown: KIND; WORDS -->``,
with a kind of .ci/site.py. ``<!-- each block: WORDS -->`` is the mark of all blocks of a page that
is made from the code.

In the output below a block ``...`` is any text of a line: times, versions and sizes that are others
in each run.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPO = Path(__file__).parents[1]
OF_THEIR_DAY = {"decisions", "measurements"}
"""Folders whose pages are records."""
PAGES = [
    REPO / "README.md",
    REPO / "CONTRIBUTING.md",
    REPO / "SECURITY.md",
    REPO / "benchmarks/README.md",
    *(p for p in sorted((REPO / "docs").rglob("*.md")) if not OF_THEIR_DAY & set(p.parts)),
]
SHELLS = ("sh", "bash", "console")
LANGUAGES = (*SHELLS, "python", "ini", "nginx")
BLOCK = re.compile(rf"^( *)```({'|'.join(LANGUAGES)})[^\n]*\n(.*?)^\1```$", re.M | re.S)
OUTPUT = re.compile(r"\A\n+ *```text\n(.*?)^ *```$", re.M | re.S)
PRINTS = re.compile(r"\A\n+ *(It prints [^\n]+)")
EACH = re.compile(r"^<!-- each block: ([^\n]+) -->$", re.M)
MARK = re.compile(r"<!-- (run by|not run): ([^\n]+) -->\n *\Z")


@dataclass(frozen=True)
class Block:
    """A block of commands, or a program or file of settings.

    Attributes:
        page: relative to the repository.
        line: of its fence.
        text: its commands.
        shown: what the page shows as their output, "" where it shows none.
        run_by: the file of the test that runs it, "" where none does.
        why: why none does.
        but: what the test has in place of something of it, "" for nothing.
        language: as its fence names it.
        prints: the sentence after it that describes its output, "" for none.
    """

    page: str
    line: int
    text: str
    shown: str
    run_by: str
    why: str
    but: str = ""
    language: str = "sh"
    prints: str = ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: str, text: str) -> Iterator[Block]:
    each = EACH.search(text)
    for match in BLOCK.finditer(text):
        mark = MARK.search(text[: match.start()])
        kind, words = (mark[1], mark[2]) if mark else ("", "")
        if each and not mark:
            kind, words = "not run", each[1]
        file, _, but = words.partition("; ")
        output = OUTPUT.search(text[match.end() :])
        described = PRINTS.search(text[match.end() :])
        yield Block(
            page,
            text[: match.start()].count("\n") + 1,
            textwrap.dedent(match[3]),
            textwrap.dedent(output[1]) if output else "",
            file if kind == "run by" else "",
            words if kind == "not run" else "",
            but if kind == "run by" else "",
            match[2],
            described[1] if described else "",
        )


def all_blocks() -> list[Block]:
    return [b for p in PAGES for b in blocks_of(str(p.relative_to(REPO)), p.read_text())]


def run_by(test: str, *languages: str) -> list[Block]:
    """The blocks of these languages, else of all, that a test's file runs: ``run_by(__file__)``."""
    name = str(Path(test).relative_to(REPO))
    known = languages or LANGUAGES
    return [block for block in all_blocks() if block.run_by == name and block.language in known]


def not_printed(shown: str, printed: str) -> list[str]:
    """Lines that a page shows and a run did not print: numbers of blanks and ``...`` apart."""
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    return [
        row
        for row in shown.splitlines()
        if not any(re.fullmatch(_row(row), line) for line in lines)
    ]


def _row(row: str) -> str:
    return ".*".join(map(re.escape, " ".join(row.split()).split("...")))
