"""Manual pages of the command line, made from its reference page.

    manual.py FOLDER     writes corral.1, corral-run.1 and the others there

The reference (docs/reference/cli.md) is generated from the commands, and a test compares it with
them. So the pages are made where Corral's dependencies are not installed: in the isolated
environment in which pip builds a wheel.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

REPO: Final = Path(__file__).resolve().parents[2]
REFERENCE: Final = REPO / "docs/reference/cli.md"
SECTION: Final = "1"
_COMMAND: Final = re.compile(
    r"^#{2,4} (corral .+?)\n\n```text\n(.*?)\n```$", re.MULTILINE | re.DOTALL
)
_ENTRY: Final = re.compile(r"^  (?! )(.+?)(?:  +(\S.*))?$")
_ESCAPES: Final = str.maketrans(
    {"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti", '"': r"\(dq"}
)


def pages(reference: str, version: str) -> dict[str, str]:
    """All pages by the names of their files.

    Args:
        reference: text of the reference page.
        version: of Corral, for the foot of each page.
    """
    commands = {_name(match[1]): match[2] for match in _COMMAND.finditer(reference)}
    summaries = {name: _summary(text) for name, text in commands.items()}
    head = reference[: reference.index("\n## corral ")]
    made = {"corral": list(_overview(head, summaries))}
    for name, text in commands.items():
        made[name] = list(_page(name, text, summaries))
    title = f'1 "" "corral {version}" "Corral"'
    return {
        f"{name}.{SECTION}": "\n".join([f".TH {_text(name.upper())} {title}", *lines, ""])
        for name, lines in sorted(made.items())
    }


def _name(path: str) -> str:
    """``corral-ui-token`` of ``corral ui [FILE|NAME] token``."""
    return "-".join(word for word in path.split() if not word.startswith("["))


def _summary(text: str) -> str:
    lines = [line.strip() for line in text.splitlines()]
    first = lines.index("") + 1
    return " ".join(lines[first : lines.index("", first)]).removesuffix(".")


def _text(text: str) -> str:
    """Text as roff prints it unchanged, whatever its first character is."""
    escaped = text.translate(_ESCAPES)
    return rf"\&{escaped}" if escaped.startswith(".") else escaped


def _overview(head: str, summaries: dict[str, str]) -> Iterator[str]:
    yield from (".SH NAME", rf"corral \- {_text('one file in, one proven GPU Slurm cluster out')}")
    yield from (".SH SYNOPSIS", ".B corral", ".I COMMAND", _text("[OPTIONS] [ARGUMENTS]..."))
    yield ".SH DESCRIPTION"
    paragraphs = re.sub(r"<!--.*?-->", "", head, flags=re.DOTALL).split("\n\n")
    for paragraph in paragraphs:
        if paragraph.strip() and not paragraph.lstrip().startswith(("#", "|")):
            yield from (".PP", _text(" ".join(paragraph.split()).replace("`", "")))
    for title, first in (("EXIT STATUS", "exit status"), ("ENVIRONMENT", "variable")):
        yield f".SH {title}"
        yield from _entries(_rows(head, first))
    yield ".SH COMMANDS"
    yield from _entries((name, text) for name, text in summaries.items() if name.count("-") == 1)


def _rows(text: str, first: str) -> Iterator[tuple[str, str]]:
    """First and second column of the table whose head begins so and has two columns."""
    table = next(p for p in text.split("\n\n") if re.match(rf"\| {first} \| \w+ \|\n", p.lstrip()))
    for line in table.strip().splitlines()[2:]:
        cells = [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        yield cells[0], cells[1]


def _page(name: str, text: str, summaries: dict[str, str]) -> Iterator[str]:
    usage, _, rest = text.partition("\n\n")
    yield from (".SH NAME", rf"{_text(name)} \- {_text(summaries[name])}")
    yield from (".SH SYNOPSIS", _text(" ".join(usage.removeprefix("Usage:").split())))
    yield ".SH DESCRIPTION"
    title, block = "", list[str]()
    for line in [*rest.splitlines(), "End:"]:
        heading = re.fullmatch(r"(?:  )?([A-Z][A-Za-z ]*):", line)
        if heading is None:
            block.append(line)
            continue
        yield from _block(title, block)
        title, block = heading[1], []
    below = [n for n in summaries if n.startswith(f"{name}-")]
    also = ["corral", *below] if name.count("-") == 1 else ["corral", name.rpartition("-")[0]]
    yield ".SH SEE ALSO"
    yield ",\n".join(rf".BR {_text(other)} (1)" for other in also).replace(",\n", "\n")


def _block(title: str, lines: list[str]) -> Iterator[str]:
    if not title:
        yield from _paragraphs(lines)
        return
    yield f".SH {title.upper()}"
    if title == "Examples":
        yield from (".nf", *(_text(line.strip()) for line in lines if line.strip()), ".fi")
    else:
        yield from _entries(_definitions(lines))


def _paragraphs(lines: list[str]) -> Iterator[str]:
    for paragraph in "\n".join(lines).strip("\n").split("\n\n"):
        words = paragraph.splitlines()
        if any(line.startswith("   ") for line in words):
            yield from (".PP", ".nf", *(_text(line.removeprefix("  ")) for line in words), ".fi")
        elif paragraph.strip():
            yield from (".PP", _text(" ".join(paragraph.split())))


def _definitions(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Terms and their texts: a term begins two blanks in, all else goes on with the text."""
    term, words = "", list[str]()
    for line in [*lines, "  "]:
        entry = _ENTRY.match(line)
        if entry is None and line.strip():
            words.append(line.strip())
            continue
        if term:
            yield term, " ".join(words)
        term, words = (entry[1], [entry[2] or ""]) if entry else ("", [])


def _entries(rows: Iterator[tuple[str, str]]) -> Iterator[str]:
    for term, text in rows:
        yield from (".TP", rf"\fB{_text(term)}\fR", _text(" ".join(text.split())) or r"\&")


def write(folder: Path, version: str) -> list[Path]:
    """Write all pages and return their files."""
    folder.mkdir(parents=True, exist_ok=True)
    made = pages(REFERENCE.read_text(encoding="utf-8"), version)
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in made]


if __name__ == "__main__":
    import tomllib

    project = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for file in write(Path(sys.argv[1]), project["version"]):
        sys.stdout.write(f"{file}\n")
