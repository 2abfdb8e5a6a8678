"""The lint of words finds each listed word in each kind of place, and none of what is allowed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

REPO = Path(__file__).parents[2]


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("words_lint", REPO / ".ci/words.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["words_lint"] = module
    spec.loader.exec_module(module)
    return module


lint = loaded()

WRONG = {
    "to be had": "cannot be had",
    "hear of": "hears of",
    "mend": "mended",
    "foretell": "foretold",
    "tell": "told",
    "there is no such": "there is no such file",
    "say": "says",
    "anew": "made anew",
    "well": "once it is well",
    "whole": "the whole file",
    "beside": "beside it",
    "lies in": "it lies in there",
    "stands in": "it stands in there",
    "goes along": "it goes along",
    "gives back": "it gives the node back",
    "fellow": "its fellows",
    "held against": "held against them",
    "way (of a network)": "a slow way between them",
    "nobody can be asked here": "nobody can be asked",
    "is no X": "it is no file",
    "gave no whole answer": "gave no complete answer",
    "of its own (a key of its own, not of its own key)": "a key of its own.",
    "by itself": "by itself",
    "look (a noun)": "at each look",
    "letting go, hand-over (of a machine)": "it lets go",
    "5 run (of services)": "5 run",
    "jobs wait, jobs run": "a job that waits",
    "where it lies": "read where they lie",
    "wanted state": "the wanted state",
    "lead on": "it refuses to lead on",
    "go back to waiting, seen to exist": "it goes back to waiting",
    "nobody knows": "what nobody knows",
    "see that": "see that all is there",
    "shall": "what it shall be",
    "its like": "with its like",
}
RIGHT = [
    "as well as, a well-known one, well below",
    "as a whole, a whole number",
    "there is no file; it is no longer there; it is no faster",
    "there can be no more than two; it may be no longer; there must be no file",
    "a node of its own cluster",
    "stands in for it",
    "a job waits two minutes",
    "jobs run on nodes",
    "`corral mend` prints `told`",
    "it looks like a file; look at it",
]
PLACES = [
    ("a.md", "# {}\n"),
    ("a.py", '"""A. {}"""\n'),
    ("a.py", "x = 1  # so {}\n"),
    ("a.py", 'x = "so {}"\n'),
    ("a.py", 'x = f"so {{x}} {} so"\n'),
    ("a.py", '"""A.\n\nArgs:\n    told: so {}\n"""\n'),
    ("a.yaml", "fix: so {}\n"),
    ("a.toml", 'title = "so {}"\n'),
    ("a.sh", "# so {}\n"),
    ("tool", '#!/bin/sh\necho "so {}"\n'),
    ("a.js", 'const a = "so {}";\n'),
    ("a.js", "const a = 'so {}';\n"),
    ("a.js", "// so {}\n"),
    ("a.js", "/** so {} */\n"),
    ("a.html", "<p>so {}</p>\n"),
    ("a.service", "Description=so {}\n"),
]


def test_every_word_has_an_example() -> None:
    assert {word.word for word in lint.WORDS if word.text} == set(WRONG)


@pytest.mark.parametrize("word", [w for w in lint.WORDS if w.text], ids=lambda w: w.word)
@pytest.mark.parametrize(("file", "place"), PLACES)
def test_words_are_found_in_texts(file: str, place: str, word: object) -> None:
    text = place.format(WRONG[word.word])  # type: ignore[attr-defined]
    found = [hit for hit in lint.hits(file, text) if hit.use == word.use]  # type: ignore[attr-defined]
    assert found
    hit = found[0]
    assert text.splitlines()[hit.line - 1][hit.column - 1 :].startswith(hit.piece)


@pytest.mark.parametrize("text", RIGHT)
@pytest.mark.parametrize(("file", "place"), PLACES)
def test_what_is_right_is_not_found(file: str, place: str, text: str) -> None:
    assert lint.hits(file, place.format(text)) == []


@pytest.mark.parametrize("after", ["(Xid 43)", "per job", "always can", "first", "unless it has"])
def test_of_its_own_is_found_before_other_words_than_a_noun(after: str) -> None:
    assert lint.hits("guide.md", f"A fault of its own {after}.")


@pytest.mark.parametrize(
    "text",
    [
        "It can be no node.",
        "It has been no error.",
        "It stands among them.",
        "It lies between two.",
    ],
)
def test_further_forms_are_found(text: str) -> None:
    assert lint.hits("guide.md", text)


@pytest.mark.parametrize("text", ["# is\n# no file\n", '"""It is\nno file."""\n'])
def test_a_phrase_over_a_line_end_is_found(text: str) -> None:
    assert [hit.line for hit in lint.hits("a.py", text)] == [1]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("a.py", "def told_by(): ...\n"),
        ("a.py", "class WasMended: ...\n"),
        ("a.py", "def a(whole): ...\n"),
        ("a.py", "def a(*, found): ...\n"),
        ("a.py", "for one in a: ...\n"),
        ("a.py", "with a as said: ...\n"),
        ("a.py", "try: ...\nexcept A as told: ...\n"),
        ("a.py", "class A:\n    told: int\n"),
        ("told.py", ""),
        ("a.sh", "tell() { :; }\n"),
        ("a.sh", "told=1\n"),
        ("a.js", "const told = 1;\n"),
        ("a.js", "function sayIt() {}\n"),
        ("a.py", "def give_back(): ...\n"),
        ("a.py", "def _look_at(): ...\n"),
        ("a.py", "LOOK_S = 10\n"),
        ("test_giving_back.py", ""),
        ("let-go.sh", ""),
        ("a.py", "class HandOver: ...\n"),
        ("a.py", "def _one(): ...\n"),
        ("a.py", "class A:\n    def b(self): self._due = 1\n"),
        ("a.py", "class A:\n    def b(self): self.beside: int = 1\n"),
        ("a.js", "function a(b, told) {}\n"),
        ("a.js", "function a({ b, told }) {}\n"),
        ("a.js", "class A {\n  async b(told = 1) {\n  }\n}\n"),
        ("a.js", "const a = (b, one) => one;\n"),
        ("a.js", "const a = ([b, one]) => one;\n"),
        ("a.js", "a.map((/** @type {[string, B]} */ [b, one]) => one);\n"),
        ("a.js", "a.map((one) => one);\n"),
        ("a.js", "a.map(one => one);\n"),
        ("a.pl", "sub told { }\n"),
        ("a.pl", "my $found = 1;\n"),
        ("a.pl", "my ($a, @found) = @_;\n"),
        ("a.pl", "foreach $one (@a) { }\n"),
        ("a.awk", "function look(a) { }\n"),
        ("a.awk", "function a(b,   found) { }\n"),
        ("a.awk", "{ found = 1 }\n"),
        ("a.awk", "{ found[$1]++ }\n"),
        ("a.awk", "END { for (one in a) print a[one] }\n"),
        ("a.py", 'a = {"said": b}\n'),
        ("a.py", 'a["due"] = b\n'),
        ("a.py", "def examine(): ...\n"),
        ("observe.py", ""),
        ("a.py", "def due_back(): ...\n"),
        ("a.py", "def jump_way(): ...\n"),
        ("a.py", "class LogFound: ...\n"),
        ("a.js", "function underWay() {}\n"),
        ("a.sh", "for found in a b; do :; done\n"),
        ("a.sh", "while read -r a due; do :; done\n"),
        ("a.sh", "awk -v found=1 '{ print }' a\n"),
        ("a.sh", "b | awk '{ found = $1 } END { print found }'\n"),
    ],
)
def test_words_are_found_in_names(file: str, text: str) -> None:
    assert lint.hits(file, text)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("a.py", "def one_node(essay): ...\n"),
        ("a.py", "def test_a_node_is_found_on_the_way(): ...\n"),
        ("a.py", "class A:\n    NOT_FOUND = 1\n"),
        ("a.py", 'a = {"way": b, "a said": c, d: e}\nf[0]\n'),
        ("a.py", 'x = "told"\ny = r"told that"\nz = a.told\n'),
        ("a.py", "def back_give(onerous): a.found = b.one\n"),
        ("a.js", "if (found) {\n}\nb(found, one);\n"),
        ("a.pl", "print $found if $one == 1;\n"),
        ("a.awk", "found == 1 { print one }\n"),
        ("a.yaml", "patterns:\n  - 'so told'\nexamples: ['so told']\nfix: good\n"),
    ],
)
def test_other_names_and_quoted_programs_are_not_found(file: str, text: str) -> None:
    assert lint.hits(file, text) == []


def test_after_quoted_programs_texts_are_read() -> None:
    text = "- patterns:\n    - 'so told'\n  fix: so told\n"
    assert [hit.line for hit in lint.hits("a.yaml", text)] == [3]


def test_a_folder_may_hold_what_is_left_and_no_more() -> None:
    found = [lint.Hit(f"a/{n}.py", 1, 1, "told", "report") for n in range(2)]
    assert lint.judged(found, {"a": 2}) == ([], {"a": 2})
    assert lint.judged(found, {"a": 1})[0][-1] == "a: 2 listed words, at most 1"
    assert len(lint.judged(found, {})[0]) == 2
    assert lint.judged([found[0]], {"a": 9, "a/0.py": 0})[0], "the deepest folder counts"


TEMPLATES = [
    "toast(`{}`);",
    "toast(`so {} ${{n}} so`);",
    "toast(`so ${{n}} {} so`);",
    "toast(`so ${{n ? `{}` : ''}} so`);",
    "toast(`so ${{a.map((b) => {{ return {{ b }}; }})}} {}`);",
    "toast(`so \\`name\\` {}`);",
    "a(`b`, `{}`);",
    "const a = /[`]/; toast(`{}`);",
    "const a = b.replace(/`/g, ''); toast(`{}`);",
    "const a = b / c; toast(`{}`); const d = e / f;",
    "const a = '`'; toast(`{}`);",
    'const a = "it\'s `"; toast(`{}`);',
    "// it's a `\ntoast(`{}`);",
    "/* ` */ toast(`{}`);",
]
"""Templates of JavaScript, which are texts and not code spans of a text."""


@pytest.mark.parametrize("place", TEMPLATES)
def test_templates_of_javascript_are_read(place: str) -> None:
    text = place.format("the whole node told it, jobs wait")
    assert sorted(hit.piece for hit in lint.hits("a.js", text)) == ["jobs wait", "told", "whole"]


@pytest.mark.parametrize("place", TEMPLATES)
def test_what_is_right_in_templates_is_not_found(place: str) -> None:
    assert lint.hits("a.js", place.format("it looks like \\`told\\`, as a whole")) == []


@pytest.mark.parametrize(
    "text", ["// so `told` so\n", '"so `told` so"', "/*\n * so `told\n * it`\n */"]
)
def test_code_spans_in_comments_and_strings_of_javascript_are_not_found(text: str) -> None:
    assert lint.hits("a.js", text) == []


def test_a_template_without_an_end_is_read() -> None:
    assert lint.hits("a.js", "a(`so told")


def test_corpora_are_not_ours() -> None:
    assert lint.not_ours("tests/corpora/logs/a.log")
    assert lint.not_ours("src/corral/web/static/vendor/a.js")
    assert not lint.not_ours("src/corral/web/static/js/a.js")
