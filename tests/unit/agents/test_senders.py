"""The header of each program for nodes names those modules of Corral that send or install it."""

from __future__ import annotations

import ast
import re
from itertools import takewhile

import pytest

from corral.agents import FOLDER, LABELS
from corral.cli.main import VERBS
from corral.jobs.submit import LIBRARY
from tests.unit.agents.senders import kept, modules, sent_by, strings, taken
from tests.unit.agents.test_agents import PROGRAMS, SERVICES, file_of

TEXTS = {
    name: (FOLDER / name).read_text()
    for name in (*PROGRAMS, *(f"../{library}" for library in LIBRARY))
}
GROUP = re.compile(r"\(([a-z_]+(?:/[a-z_]+)+(?:, [a-z_]+(?:/[a-z_]+)+)*)\)")
"""Modules in brackets, by their paths below ``src/corral``."""
VERB = re.compile(rf"\bcorral (?:{'|'.join(VERBS)})\b")


def header_of(text: str) -> str:
    """The comment at the top, from the first label on, as one line."""
    head = takewhile(lambda line: line.startswith(("#", "--")), text.splitlines())
    words = " ".join(line.lstrip("#- ") for line in head)
    return words[words.find(LABELS[0]) :]


def named(header: str) -> set[str]:
    return {module for group in GROUP.findall(header) for module in group.split(", ")}


def senders() -> dict[str, set[str]]:
    """Modules, by each program that they send or install, their own or another module's text."""
    texts = {module: path.read_text() for module, path in modules().items()}
    result: dict[str, set[str]] = {name: set() for name in TEXTS}
    for module, text in texts.items():
        sent = sent_by(text, PROGRAMS)
        tree = ast.parse(text)
        for place, used in taken(tree):
            own = kept().get(place, {}).get(used, set[str]())
            folders = {name.rpartition("/")[0] for name in own if f"{used}.parent" in text}
            sent |= own | {name for name in PROGRAMS if name.rpartition("/")[0] in folders}
        sent |= {f"../{name}" for name in strings(tree) & set(LIBRARY)}
        for name in sent:
            result[name].add(module)
    return result


SENDERS = senders()


def test_each_header_names_the_modules_that_send_it_and_no_others() -> None:
    wrong = {
        path: f"({', '.join(sorted(modules))})"
        for path, modules in SENDERS.items()
        if named(header_of(TEXTS[path])) != modules
    }
    assert not wrong, wrong


def test_what_no_module_sends_is_included_by_a_program() -> None:
    included = set(re.findall(r"^\. (\S+) #include$", "\n".join(TEXTS.values()), re.MULTILINE))
    assert {name for name, modules in SENDERS.items() if not modules} <= included


def test_no_header_names_verbs() -> None:
    """Which verbs reach a module changes without a change of the program."""
    services = {module: file_of(module).read_text() for module in SERVICES}
    headers = {name: header_of(text) for name, text in (TEXTS | services).items()}
    assert not [name for name, header in headers.items() if VERB.search(header)]


def test_top_level_modules_that_jobs_get_are_among_them() -> None:
    assert SENDERS["../shards.py"] == {"jobs/datasets", "jobs/submit"}
    assert {SENDERS[f"../{name}"] >= {"jobs/submit"} for name in LIBRARY} == {True}


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ('call("a.sh", "f")', {"a.sh"}),
        ('_PROGRAM = "b/c.sh"', {"b/c.sh"}),
        ('program(f"b/{name}")', {"b/c.sh", "b/d.sh"}),
        ('NAMES = ("d.sh",)\nprogram(f"b/{name}")', {"b/d.sh"}),
        ('shipped(f"b/{name}.sh")', {"b/c.sh", "b/d.sh"}),
        ('other(f"b/{name}")', set[str]()),
        ('"""As a.sh does."""', set[str]()),
    ],
)
def test_programs_are_found_however_their_names_are_written(text: str, sent: set[str]) -> None:
    assert sent_by(text, ["a.sh", "b/c.sh", "b/d.sh"]) == sent


def test_headers_are_read_over_several_lines() -> None:
    header = header_of(
        "#!/bin/sh\n# (api/a)\n# Installed as: x (api/b,\n# api/c)\n# (no module)\nx"
    )
    assert named(header) == {"api/b", "api/c"}
