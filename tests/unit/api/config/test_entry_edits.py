"""Changes of a cluster file's text: exactly the change, and every comment where it was."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.api.config.entry_edits import SECTIONS, EntryEdit, Section, edited, entry_fields
from corral.errors import Code, CorralError
from corral.spec.tree import parse

EXAMPLES = Path(__file__).parents[4] / "examples"
FILE = """\
# the lab's cluster
corral: v1
name: lab
users:                        # who may use it
  # students first
  - {name: ada, uid: 2001, limits: {gpus: 1}}   # until June
  - name: bob                 # staff
    uid: 2002
    qos: high
    limits:
      gpus: 4                 # two machines

  - {name: "eve", uid: 2003}
accounts: [{name: vision, qos: [low, high]}, {name: audio}]
licenses:
# none yet
groups:
  - {name: gpu, provider: embedded, nodes: "node[0-2]"}
# the end
"""


def change(section: Section, name: str, text: str = FILE, **fields: str) -> list[str]:
    """The lines that leave and come; ``limits__gpus`` is limits.gpus."""
    words = {key.replace("__", "."): value for key, value in fields.items()}
    new = edited(text, EntryEdit(section, name, words))
    return moved(text, new)


def moved(old: str, new: str) -> list[str]:
    lines = difflib.ndiff(old.splitlines(), new.splitlines())
    return [line for line in lines if line[0] in "+-"]


def test_a_value_is_replaced_where_it_is() -> None:
    assert change("users", "ada", limits__gpus="2") == [
        "-   - {name: ada, uid: 2001, limits: {gpus: 1}}   # until June",
        "+   - {name: ada, uid: 2001, limits: {gpus: 2}}   # until June",
    ]
    assert change("users", "bob", limits__gpus="8") == [
        "-       gpus: 4                 # two machines",
        "+       gpus: 8                 # two machines",
    ]
    assert change("accounts", "vision", qos="low") == [
        "- accounts: [{name: vision, qos: [low, high]}, {name: audio}]",
        "+ accounts: [{name: vision, qos: [low]}, {name: audio}]",
    ]


def test_a_value_is_added_as_its_neighbours_are_written() -> None:
    assert change("users", "eve", limits__jobs="3", account="audio") == [
        '-   - {name: "eve", uid: 2003}',
        '+   - {name: "eve", uid: 2003, limits: {jobs: 3}, account: audio}',
    ]
    assert change("users", "bob", limits__jobs="9", account="vision") == [
        "+       jobs: 9",
        "+     account: vision",
    ]
    assert change("licenses", "matlab", count="5") == [
        "- licenses:",
        "+ licenses: [{name: matlab, count: 5}]",
    ]
    assert change("qos", "high", priority="10", preempts="low, idle") == [
        "+ qos:",
        "+   - {name: high, priority: 10, preempts: [low, idle]}",
    ]
    added = change("users", "kim", uid="2004", keys="ssh-ed25519 AAAA kim: laptop # 1")
    assert added == ['+   - {name: kim, uid: 2004, keys: ["ssh-ed25519 AAAA kim: laptop # 1"]}']


def test_what_is_taken_out_leaves_nothing_empty() -> None:
    assert change("users", "bob", limits__gpus="", qos="") == [
        "-     qos: high",
        "-     limits:",
        "-       gpus: 4                 # two machines",
    ]
    assert change("users", "ada", limits__gpus="") == [
        "-   - {name: ada, uid: 2001, limits: {gpus: 1}}   # until June",
        "+   - {name: ada, uid: 2001}   # until June",
    ]
    gone = edited(FILE, EntryEdit("users", "bob", None))
    assert moved(FILE, gone)[0] == "-   - name: bob                 # staff"
    assert "# students first" in gone
    assert "eve" in gone
    only = edited(
        edited(FILE, EntryEdit("accounts", "vision", None)), EntryEdit("accounts", "audio", None)
    )
    assert "accounts" not in only


def test_undoing_a_change_restores_the_text() -> None:
    there = edited(FILE, EntryEdit("users", "ada", {"limits.gpus": "7"}))
    assert edited(there, EntryEdit("users", "ada", {"limits.gpus": "1"})) == FILE
    more = edited(FILE, EntryEdit("users", "kim", {"uid": "2009"}))
    assert edited(more, EntryEdit("users", "kim", None)) == FILE


def test_lines_of_windows_and_a_file_without_a_last_line_end() -> None:
    text = FILE.replace("\n", "\r\n")
    new = edited(text, EntryEdit("users", "kim", {"uid": "2009"}))
    assert "\r\n  - {name: kim, uid: 2009}\r\n" in new
    assert "\n" not in new.replace("\r\n", "")
    end = "name: lab\nlicenses:\n- name: a\n  count: 1"
    assert (
        edited(end, EntryEdit("licenses", "b", {"count": "2"})) == f"{end}\n- name: b\n  count: 2"
    )


@pytest.mark.parametrize(
    "text",
    [
        "x: &a {gpus: 1}\nusers:\n  - {name: ada, limits: *a}\n  - {name: bob, limits: *a}\n",
        "x: &a\n  limits: {gpus: 1}\nusers:\n  - <<: *a\n    name: ada\n",
    ],
)
def test_a_change_that_would_reach_elsewhere_is_refused(text: str) -> None:
    with pytest.raises(CorralError, match="aliases") as raised:
        edited(text, EntryEdit("users", "ada", {"limits.gpus": "2"}))
    assert raised.value.code is Code.USAGE


def test_what_is_not_there_is_named() -> None:
    with pytest.raises(CorralError, match=r"no field limits\.gpu$"):
        edited(FILE, EntryEdit("users", "ada", {"limits.gpu": "2"}))
    with pytest.raises(CorralError, match="has no zoe"):
        edited(FILE, EntryEdit("users", "zoe", None))
    with pytest.raises(CorralError, match="cannot be read"):
        edited("a: [", EntryEdit("users", "zoe", None))


@given(st.text(max_size=60), st.sampled_from(["home", "account", "keys"]))
def test_no_value_breaks_out_of_its_place(value: str, field: str) -> None:
    try:
        new = edited(FILE, EntryEdit("users", "ada", {field: value}))
    except CorralError:
        return
    top, faults = parse(new)
    assert top is not None
    assert not faults
    data = top.plain()
    assert [user["name"] for user in data["users"]] == ["ada", "bob", "eve"]
    assert set(data) == {"corral", "name", "users", "accounts", "licenses", "groups"}
    assert set(data["users"][0]) <= {"name", "uid", "limits", field}


def test_each_list_of_the_examples_takes_a_change() -> None:
    for path in sorted(EXAMPLES.glob("*.yaml")):
        text = path.read_text()
        new = edited(text, EntryEdit("licenses", "corraltest", {"count": "3"}))
        assert [line[0] for line in moved(text, new)] in (["+"], ["+", "+"]), path
        assert edited(new, EntryEdit("licenses", "corraltest", None)) == text, path
        top, faults = parse(new)
        assert top is not None
        assert not faults
        assert top.plain()["licenses"][-1] == {"name": "corraltest", "count": 3}


def test_fields_are_those_of_the_model() -> None:
    names = {section: {field.name for field in entry_fields(section)} for section in SECTIONS}
    assert {"limits.gpus", "uid", "admin"} <= names["users"]
    assert {"per_user.jobs", "max_time"} <= names["qos"]
    assert names["licenses"] == {"count"}
    assert all(field.about for section in SECTIONS for field in entry_fields(section))
