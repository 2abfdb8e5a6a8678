"""Each block of code in pages states what it is: run, checked, or of a kind of a closed list.

The same of the built site, as a browser gets it: ``tests/docs/test_site.py``.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator

from tests.guide_blocks import EACH, LANGUAGES, MARK, OUTPUT, PAGES, REPO

FENCE = re.compile(r"^( *)(`{3,}|~{3,})(\w*)[^\n]*\n(.*?)^\1\2$", re.M | re.S)
SHOWN = re.compile(r"<!-- shown: (\w+)(?:; ([^\n]{8,}))? -->\n *\Z")
LISTED = re.compile(r"^ *(?:[*-]|\d+\.) ")
OWN = (*LANGUAGES, "yaml")
"""Languages whose blocks ``test_docs.py`` judges."""


def kinds() -> set[str]:
    """What the site has a caption for."""
    spec = importlib.util.spec_from_file_location("site_hooks", REPO / ".ci/site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return set(module.KINDS)


KINDS = kinds()


def outputs(text: str) -> set[int]:
    """Where a block is the output right below one that is marked."""
    own = [m for m in FENCE.finditer(text) if m[3] in LANGUAGES and MARK.search(text[: m.start()])]
    below = [(m.end(), OUTPUT.search(text[m.end() :])) for m in own]
    return {end + out.start() + len(out[0]) - len(out[0].lstrip()) for end, out in below if out}


def unstated(text: str) -> Iterator[str]:
    """Blocks of a page without a mark, a kind or a place below a block that has one."""
    if EACH.search(text):
        return
    below = outputs(text)
    for match in FENCE.finditer(text):
        line = text[: match.start()].count("\n") + 1
        # The indentation is part of the match, and not of where an output begins.
        if match[3] in OWN or match.start() + len(match[1]) in below:
            continue
        shown = SHOWN.search(text[: match.start()])
        if shown is None or shown[1] not in KINDS or (shown[1] == "output" and not shown[2]):
            yield f"{line}: {match[4].splitlines()[0][:40]}"


def indented(text: str) -> Iterator[str]:
    """Blocks by four blanks, which have no language and no mark; lists are indented too."""
    lines = FENCE.sub(lambda m: "\n" * m[0].count("\n"), text).splitlines()
    listed = False
    for number, line in enumerate(lines, 1):
        if line and not line.startswith(" "):
            listed = bool(LISTED.match(line))
        listed = listed or bool(LISTED.match(line))
        if (
            line.startswith("    ")
            and line.strip()
            and not listed
            and not lines[number - 2].strip()
        ):
            yield f"{number}: {line.strip()[:40]}"


def test_each_block_states_what_it_is() -> None:
    stated = {str(p.relative_to(REPO)): list(unstated(p.read_text())) for p in PAGES}
    assert {page: blocks for page, blocks in stated.items() if blocks} == {}
    assert list(unstated("```\nls\n```\n"))
    assert list(unstated("<!-- shown: picture -->\n```\nls\n```\n"))
    assert list(unstated("<!-- shown: output -->\n```\nls\n```\n"))
    assert not list(unstated("<!-- shown: diagram -->\n```\nls\n```\n"))
    run = "<!-- run by: tests/x.py -->\n```sh\nls\n```\n\n```text\na\n```\n"
    assert not list(unstated(run))
    assert list(unstated(f"{run}\n```\nb\n```\n"))


def test_no_block_is_made_by_indentation() -> None:
    stated = {str(p.relative_to(REPO)): list(indented(p.read_text())) for p in PAGES}
    assert {page: blocks for page, blocks in stated.items() if blocks} == {}
    assert list(indented("Text:\n\n    corral down\n"))
    assert not list(indented("* Text:\n\n    more text\n"))


def test_pages_made_from_the_code_state_what_checks_their_blocks() -> None:
    each = {p.name: EACH.findall(p.read_text()) for p in PAGES if p.parent.name == "reference"}
    made = {name: marks for name, marks in each.items() if marks}
    assert made.keys() == {"cli.md", "rest.md", "metrics.md"}
    for [mark] in made.values():
        for test in re.findall(r"`(tests/[\w/]+\.py)`", mark):
            assert (REPO / test).is_file()
