"""The parser loses nothing and reads as Slurm does."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.errors import CorralError
from corral.slurm.conf.parse import parse, switch
from tests.unit.slurm.clusters import CLUSTERS, render

PIECES = st.sampled_from(
    ["NodeName=n[0-2]", "nodeaddr = 10.0.0.1", "#", " # note", "\\", "\\\n", "\\  \n", "\n", "\r\n",
     "\t", " ", '"', '"a b"', "A=", "B+=2", "C=x", "Include ", "include x.conf", "=", "\\#", "\\\\",
     "é", "\x0b", "\x85", "\u2028", "x"]
)  # fmt: skip
TEXTS = st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=40).map("".join))
VALUES = st.text(st.characters(blacklist_characters='"#\\\n\0', blacklist_categories=("Cs",)))


@given(TEXTS)
def test_lossless(text: str) -> None:
    document = parse(text)
    assert document.text() == text
    number = 1
    for line in document.lines():
        assert line.number == number
        number += line.raw.count("\n")
        for pair in line.pairs:
            raw = line.raw[pair.start : pair.stop]
            if "\\" not in line.raw:
                assert raw in (pair.value, f'"{pair.value}"')


@given(TEXTS, VALUES)
def test_set_then_get(text: str, value: str) -> None:
    document = parse(text)
    document.set("ClusterName", value)
    assert document.get("clustername") == value
    again = parse(document.text())
    assert again.get("CLUSTERNAME") == value
    document.set("clusterName", "z")
    assert parse(document.text()).get("ClusterName") == "z"


@given(TEXTS)
def test_adding_changes_no_other_line(text: str) -> None:
    document = parse(text)
    before = [(p.key, p.value) for line in document.lines() for p in line.pairs]
    document.set("Corral_new", "1")
    after = [(p.key, p.value) for line in parse(document.text()).lines() for p in line.pairs]
    assert after == [*before, ("Corral_new", "1")]
    assert document.text().startswith(text)


def test_setting_keeps_everything_around() -> None:
    text = (
        '# top\n  slurmUSER =  "root"   # who\nNodeName=a CPUs=2 \\\n  RealMemory=7\n\nInclude x\n'
    )
    document = parse(text)
    document.set("SlurmUser", "slurm")
    assert document.text() == text.replace('"root"', "slurm")
    document.set("SlurmUser", "a b")
    assert document.text() == text.replace('"root"', '"a b"')


def test_as_slurm_reads_it() -> None:
    document = parse(
        "A=1 # B=2\n"
        "C=3 \\  \n D=4\n"  # blanks after the backslash: still a continuation
        "E=5 \\ # the comment goes first, then the continuation\nF=6\n"
        "# a comment ends here \\\nG=7\n"
        "H=a\\#b\n"
        "I=\\\\\nJ=8\n"
        "Params+=x=1,y=2\n"
        "A=9\n"
        "include /etc/slurm/nodes.conf\n"
        " include indented is not a directive\n"
        "broken\n"
    )
    pairs = [[(p.key, p.value) for p in line.pairs] for line in document.lines() if line.pairs]
    assert pairs == [
        [("A", "1")],
        [("C", "3"), ("D", "4")],
        [("E", "5"), ("F", "6")],
        [("G", "7")],
        [("H", "a#b")],
        [("I", "\\")],
        [("J", "8")],
        [("Params", "x=1,y=2")],
        [("A", "9")],
    ]
    assert document.get("a") == "9"
    assert document.values("a") == ("1", "9")
    assert [line.rest for line in document.lines() if line.rest] == [
        "include indented is not a directive",
        "broken",
    ]
    assert document.lines("params")[0].pairs[0].operator == "+"
    assert document.get("nothing") is None


def test_old_files_are_read() -> None:
    seed = "ControlMachine=node0\nNodeName=node[0-2] Procs=64 State=UNKNOWN\nTaskPlugin=task/none\n"
    (line,) = parse(seed).lines("nodename")
    assert line.values() == {"nodename": "node[0-2]", "procs": "64", "state": "UNKNOWN"}
    assert line.get("PROCS") == "64"
    assert line.get("RealMemory") is None


@pytest.mark.parametrize("value", ['a"b', "a#b", "a\nb", "a\\", "\0"])
def test_refused_values(value: str) -> None:
    document = parse("A=1\n")
    with pytest.raises(CorralError, match="cannot be a value"):
        document.set("A", value)
    assert document.text() == "A=1\n"


def test_refused_key() -> None:
    with pytest.raises(CorralError, match="cannot be a key"):
        parse("").set("A B", "1")


def test_rendered_files_have_no_rest() -> None:
    for conf in CLUSTERS.values():
        for text in render(conf).values():
            assert parse(text).text() == text
            assert all(line.rest == "" for line in parse(text).lines())


@pytest.mark.parametrize(
    ("text", "on"),
    [("YES", True), ("up", True), ("1", True), ("no", False), ("Down", False), ("0", False),
     ("on", None), ("", None), (None, None)],
)  # fmt: skip
def test_yes_and_no_as_slurm_reads_them(text: str | None, on: bool | None) -> None:
    assert switch(text) is on


def test_yes_and_no_of_slurm_are_listed_once(repo: Path) -> None:
    """Six lists were there, and one left out "up"."""
    lists: set[str] = set()
    for file in (repo / "src/corral").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Set | ast.Tuple | ast.List):
                words = {e.value for e in node.elts if isinstance(e, ast.Constant)}
                if "yes" in words and words & {"up", "true"}:
                    lists.add(str(file.relative_to(repo / "src/corral")))
    others = {"providers/ssh/deepops/adoption.py", "slurm/adopt/conversion.py"}  # Ansible's, YAML's
    assert lists == {"slurm/conf/parse.py", *others}
