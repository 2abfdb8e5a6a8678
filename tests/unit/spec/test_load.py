"""Every fault of a file is found at its line and column, with a hint; nothing is ever run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from corral.errors import Code, Exit
from corral.spec import load as loading
from corral.spec.findings import Level
from corral.spec.format import deprecations
from corral.spec.load import (
    READ_RULES,
    load,
    load_bytes,
    load_or_raise,
    load_text,
)
from tests.provider_list import unlisted

from .cases import LAB, changed, findings_of, load_dict

GOOD = """\
corral: v1
name: lab
groups:
  - name: cpu
    provider: embedded
    nodes: node[0-2]
"""
LONG = "a" * 1024
DEEP = "x: " + "[" * 40 + "]" * 40
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{this}: &{this} [{', '.join([f'*{last}'] * 9)}]\n"
    for last, this in zip("abcdefgh", "bcdefghi", strict=True)
)
# rule, text, line, column, words of the hint
CASES = [
    ("file-empty", "", 0, 0, "corral init"),
    ("file-empty", "# nothing\n\n", 0, 0, "corral init"),
    ("file-empty", "---\n", 0, 0, "corral init"),
    ("not-a-mapping", "- a\n- b\n", 1, 1, "corral: v1"),
    ("not-a-mapping", "hello", 1, 1, "corral: v1"),
    ("yaml-syntax", GOOD + "users: [a\n", 8, 1, "not closed: write line 7 as: users: [a]"),
    ("yaml-syntax", GOOD + "x: 'a\n", 8, 1, "not closed: write line 7 as: x: 'a'"),
    ("yaml-syntax", GOOD + 'slurm: {version: "1}\nx: "1"\n', 8, 5, 'as: slurm: {version: "1"}'),
    ("yaml-syntax", GOOD + "x: [{a: 1\ny: 2\n", 8, 2, "write line 7 as: x: [{a: 1}]"),
    ("yaml-syntax", GOOD + "x: [[[a\ny: 2\n", 8, 2, "close it in line 7"),
    ("not-a-mapping", "# by hand\nClusterName=lab\nNodeName=n[1-2]\n", 2, 1, "--existing lab.yaml"),
    ("not-a-mapping", "  NodeName=n1 Name=gpu File=/dev/nvidia0\n", 1, 3, "--existing lab.yaml"),
    ("not-a-mapping", "SlurmctldHost=a(10.0.0.1)\nx: y: z\n", 1, 1, "init --existing lab.yaml"),
    ("not-a-mapping", "ConstrainCores=yes\n", 1, 1, "corral lint --existing lab.yaml checks it"),
    ("yaml-syntax", "corral: v1\nNodeName=a\n[", 3, 1, "indentation"),
    ("yaml-syntax", GOOD + "controller: a: b\n", 7, 14, "quotes"),
    ("yaml-syntax", GOOD + "   controller: a\n", 7, 4, "indentation"),
    ("yaml-syntax", GOOD + "x: @a\n", 7, 4, "quotes"),
    ("yaml-syntax", GOOD + "x: a\0b\n", 7, 5, "remove it"),
    ("yaml-syntax", GOOD + 'x: "\\UFFFFFFFF"\n', 1, 1, "escapes"),
    ("yaml-tab", GOOD + "users:\n\t- name: a\n", 8, 1, "spaces"),
    ("yaml-duplicate-key", GOOD + "name: other\n", 7, 1, "line 2"),
    ("yaml-tag", GOOD + "x: !!python/object/apply:os.mkdir [corral-canary]\n", 7, 4, "remove"),
    ("yaml-tag", GOOD + "x: !env HOME\n", 7, 4, "remove"),
    ("yaml-key", GOOD + "? [a, b]\n: c\n", 7, 3, "name"),
    ("yaml-key", GOOD + "<<: 1\n", 7, 5, "mapping"),
    ("yaml-alias", GOOD + "controller: *first\n", 7, 13, "&first"),
    ("yaml-alias", GOOD + "users: &u [*u]\n", 7, 12, "&u"),
    ("yaml-too-large", DEEP, 1, 35, "deep"),
    ("yaml-too-large", BOMB, 6, 42, "aliases"),
    ("yaml-many-documents", GOOD + "---\n" + GOOD, 7, 1, "one cluster"),
    ("unknown-field", GOOD + "controler: node0\n", 7, 1, "did you mean controller?"),
    ("unknown-field", GOOD + "nodes: 3\n", 7, 1, "groups.nodes is such a field"),
    ("unknown-field", GOOD + "zzz: 3\n", 7, 1, "remove it; fields here: corral, name"),
    ("missing-field", GOOD.replace("name: lab\n", ""), 1, 1, "add 'name: lab'"),
    ("missing-field", GOOD.replace("    nodes: node[0-2]\n", ""), 4, 5, 'nodes: "node[0-2]"'),
    ("missing-field", "corral: v1\nname: a\n", 1, 1, "provider: embedded"),
    ("wrong-type", GOOD + "slurm: {version: 24.11}\n", 7, 18, 'quotes: "24.11"'),
    ("wrong-type", GOOD + "slurm: {rest: yes}\n", 7, 15, "write true"),
    ("wrong-type", GOOD + "slurm: {rest: 'false'}\n", 7, 15, "write false"),
    ("wrong-type", GOOD + "slurm: {rest: maybe}\n", 7, 15, "write true or false"),
    ("wrong-type", GOOD + "slurm: 24\n", 7, 8, "such as {"),
    ("wrong-type", GOOD + "users: alice\n", 7, 8, "users: [alice]"),
    ("wrong-type", GOOD + "users:\n", 7, 1, "remove the line"),
    ("wrong-type", GOOD + "users:\n  name: a\n  uid: 2000\n", 8, 3, "- "),
    ("wrong-type", GOOD + "users: [{name: a, uid: true}]\n", 7, 24, "a number such as 1000"),
    ("wrong-type", GOOD + "users: [{name: a, uid: '2000'}]\n", 7, 24, "write 2000, without"),
    ("wrong-type", GOOD + "users: [{name: a, uid: 2000.0}]\n", 7, 24, "write 2000, without"),
    ("wrong-type", GOOD + "users: [{name: 12, uid: 2000}]\n", 7, 16, 'quotes: "12"'),
    ("wrong-type", GOOD + "users: [[a, 2000]]\n", 7, 9, "name: alice"),
    ("wrong-type", GOOD + "controller: [node0]\n", 7, 13, "controller: node0"),
    ("wrong-value", GOOD.replace("v1", "v2"), 1, 9, "write v1"),
    ("wrong-value", GOOD.replace("embedded", "embeded"), 5, 15, "did you mean embedded?"),
    ("wrong-value", GOOD.replace("embedded", "podman"), 5, 15, "did you mean embedded?"),
    ("wrong-value", GOOD.replace("embedded", "aws"), 5, 15, "write ssh, and addresses"),
    ("wrong-value", GOOD.replace(": lab", ": My Lab"), 2, 7, "did you mean mylab?"),
    ("wrong-value", GOOD + "    gpu: {type: RTX 5090, count: 1}\n", 7, 17, "rtx5090"),
    ("wrong-value", GOOD + "    gpu: {type: a100, count: 0}\n", 7, 30, "leave gpu out"),
    ("wrong-value", GOOD + "    memory_mib: 10\n", 7, 17, "minimum 256"),
    ("wrong-value", GOOD + "users: [{name: a, uid: 999}]\n", 7, 24, "minimum 1000"),
    ("wrong-value", GOOD + "network: {data: {gbps: .nan}}\n", 7, 24, "exclusiveMinimum 0"),
    ("wrong-value", GOOD + "partitions: [{name: a, groups: []}]\n", 7, 32, "write [lab]"),
    ("wrong-value", GOOD + "storage: [{mount: /a/, kind: existing}]\n", 7, 19, "/a?"),
    ("wrong-value", GOOD + "storage: [{mount: a, kind: existing}]\n", 7, 19, "/a?"),
    ("wrong-value", GOOD + f"storage: [{{mount: /{LONG}, kind: nfs}}]\n", 7, 19, "short"),
    ("wrong-value", GOOD + "partitions: [{name: a, groups: [cpu], max_time: UNLIMITED}]\n",
     7, 49, "did you mean infinite?"),
    ("wrong-value", GOOD + "partitions: [{name: a, groups: [cpu], max_time: 999 weeks}]\n",
     7, 49, 'write "999-00:00:00" at most, or infinite'),
    ("wrong-value", GOOD + "partitions: [{name: a, groups: [cpu], max_time: 5 months}]\n",
     7, 49, 'write "150-00:00:00"'),
    ("wrong-value", GOOD + 'controller: "\\ud800"\n', 7, 13, "node0"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "text", "line", "column", "hint"), CASES)
def test_a_fault_is_found_at_its_place(
    rule: str, text: str, line: int, column: int, hint: str
) -> None:
    loaded = load_text(text, "lab.yaml")
    hits = [f for f in loaded.findings if (f.rule, f.line, f.column) == (rule, line, column)]
    assert hits, [str(f) for f in loaded.findings]
    assert hint in hits[0].hint
    assert hits[0].level is READ_RULES[rule][0] is Level.ERROR
    assert hits[0].file == "lab.yaml"
    assert loaded.spec is None
    assert not Path("corral-canary").exists()


def test_every_reading_rule_is_reached(tmp_path: Path) -> None:
    of_files = {"file-missing", "file-unreadable", "file-too-large", "file-not-utf8"}
    warned = {deprecations.RULE}  # test_deprecations.py
    assert {rule for rule, *_ in CASES} | of_files | warned == set(READ_RULES)


def test_a_good_file_has_no_findings() -> None:
    loaded = load_text(GOOD, "lab.yaml")
    assert loaded.findings == ()
    assert loaded.spec is not None
    assert loaded.spec.groups[0].nodes == "node[0-2]"


def test_files(tmp_path: Path) -> None:
    missing = load(tmp_path / "no.yaml")
    assert [f.rule for f in missing.findings] == ["file-missing"]
    assert [f.rule for f in load(tmp_path).findings] == ["file-unreadable"]
    assert [f.rule for f in load(Path("/dev/zero")).findings] == ["file-unreadable"]
    assert [f.rule for f in load(Path("a\0b")).findings] == ["file-unreadable"]
    big = tmp_path / "big.yaml"
    big.write_bytes(b"#" * (loading.BYTES_AT_MOST + 1))
    assert [f.rule for f in load(big).findings] == ["file-too-large"]
    big.write_bytes(b"#" * loading.BYTES_AT_MOST)
    assert [f.rule for f in load(big).findings] == ["file-empty"]
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(GOOD.encode() + b"# caf\xe9\n")
    (finding,) = load(latin).findings
    assert (finding.rule, finding.line, finding.column) == ("file-not-utf8", 7, 6)
    mark = tmp_path / "mark.yaml"
    mark.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert load(mark).findings == ()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("lab.yaml", "write one with: corral init > lab.yaml"),
        ("lab", "write one with: corral init > lab"),
        ("slurm.conf", "for files of Slurm, where they are: corral lint --existing /etc/slurm"),
        ("train.py", "a cluster file is YAML; write one with: corral init > train.yaml"),
    ],
)
def test_what_to_do_without_the_file(name: str, hint: str, tmp_path: Path) -> None:
    """The hint was to write a cluster file to slurm.conf."""
    assert [f.hint for f in load(tmp_path / name).findings] == [hint]


def test_a_file_without_permission(tmp_path: Path) -> None:
    locked = tmp_path / "locked.yaml"
    locked.write_text(GOOD)
    locked.chmod(0)
    rules = [f.rule for f in load(locked).findings]
    assert rules == ([] if os.geteuid() == 0 else ["file-unreadable"])


def test_load_or_raise(tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    with pytest.raises(loading.SpecInvalidError) as missing:
        load_or_raise(file)
    assert missing.value.code is Code.NOT_FOUND
    assert missing.value.exit is Exit.USAGE
    file.write_text(GOOD)
    assert load_or_raise(file).name == "lab"
    file.write_text(GOOD.replace("embedded", "embeded") + "controler: node0\n")
    with pytest.raises(loading.SpecInvalidError) as wrong:
        load_or_raise(file)
    assert wrong.value.code is Code.SPEC_INVALID
    assert "has 2 errors" in wrong.value.message
    assert wrong.value.tail == "\n".join(str(f) for f in wrong.value.findings)
    assert f"{file}:5:15: error [wrong-value]: " in wrong.value.tail
    assert "did you mean controller?" in wrong.value.tail


def test_the_tail_does_not_flood() -> None:
    users = [{"name": f"u{i}", "uid": i} for i in range(900)]
    loaded = load_dict(changed(LAB, {"users": users}))
    assert len(loaded.findings) == 900
    error = loading.invalid(loaded.findings, "lab.yaml")
    assert len(error.tail.splitlines()) == loading.SHOWN_ERRORS + 1
    assert error.tail.endswith("... and 880 more")


def test_all_findings_at_once(golden: Callable[[str, str], None]) -> None:
    text = (Path(__file__).parent / "wrong.yaml").read_text()
    lines = "".join(f"{finding}\n" for finding in load_text(text, "wrong.yaml").findings)
    golden("spec/wrong.findings", unlisted(lines))


def test_aliases_and_merges_are_read() -> None:
    text = """\
corral: v1
name: lab
groups:
  - &base
    name: a
    provider: embedded
    nodes: a[0-1]
    gpu: &gpu {type: slot, count: 2}
  - <<: *base
    name: b
    nodes: b0
  - {name: c, provider: embedded, nodes: c0, gpu: *gpu}
"""
    spec = load_text(text, "lab.yaml").spec
    assert spec is not None
    assert [(g.name, g.nodes) for g in spec.groups] == [("a", "a[0-1]"), ("b", "b0"), ("c", "c0")]
    assert all(g.gpu == spec.groups[0].gpu for g in spec.groups)


def test_yaml_types_are_those_of_version_1_2() -> None:
    text = GOOD + "users: [{name: on, uid: 0x7d0}, {name: no, uid: 0o3721}]\n"
    spec = load_text(text, "lab.yaml").spec
    assert spec is not None
    assert [(user.name, user.uid) for user in spec.users] == [("on", 2000), ("no", 2001)]


def test_repairs_hide_no_error() -> None:
    data = changed(LAB, {"groups": [5], "partitions.0": "x", "users.0": {"uid": 1}})
    assert findings_of(data) == {
        ("wrong-type", "groups[0]"),
        ("wrong-type", "partitions[0]"),
        ("missing-field", "users[0].name"),
        ("wrong-value", "users[0].uid"),
    }


PIECES = """
corral:_v1 name:_ groups: __-_ nodes:_ node[0- ] [ { } :_ &a_ *a << ?_ !! !x_ > --- ' " \\ % # -
é true 1e999 0x null provider:_ssh
"""
BLANKS = ["\n", "\n  ", "|\n", "\t", "\0", "\ud800", "\u2028"]
WORDS = st.sampled_from([*(piece.replace("_", " ") for piece in PIECES.split()), *BLANKS])


@settings(max_examples=80, deadline=None)
@given(st.one_of(st.text(), st.lists(WORDS, max_size=40).map("".join)))
@example('a: "\\UFFFFFFFF"')
@example("%YAML 9.9\n---\na")
@example("!<")
@example("\ufeff\ufeff")
def test_no_text_raises(text: str) -> None:
    loaded = load_text(text, "x.yaml")
    assert (loaded.spec is None) == any(f.level is Level.ERROR for f in loaded.findings)
    for finding in loaded.findings:
        assert "\n" not in str(finding)
        assert str(finding).isprintable()


@settings(max_examples=80, deadline=None)
@given(st.one_of(st.binary(), st.binary().map(lambda tail: GOOD.encode() + tail)))
def test_no_bytes_raise(data: bytes) -> None:
    loaded = load_bytes(data, "x.yaml")
    assert (loaded.spec is None) == any(f.level is Level.ERROR for f in loaded.findings)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
PLACES = [
    ("corral",), ("name",), ("slurm",), ("slurm", "version"), ("groups",), ("groups", 0),
    ("groups", 0, "nodes"), ("groups", 0, "gpu"), ("groups", 0, "gpu", "count"),
    ("groups", 0, "features"), ("groups", 0, "features", 0), ("groups", 0, "ssh"), ("controller",),
    ("partitions",), ("partitions", 0), ("partitions", 0, "groups"), ("partitions", 0, "groups", 0),
    ("network",), ("network", "data"), ("storage",), ("storage", 0, "kind"), ("users", 0, "uid"),
    ("extra",), ("groups", 0, "extra"),
]  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(st.sampled_from(PLACES), JSON, min_size=1, max_size=3))
def test_no_value_anywhere_raises(values: dict[tuple[str | int, ...], object]) -> None:
    """Values of any type in any place: found as errors, and the rest is still judged."""
    data = LAB
    for path, value in sorted(values.items(), key=lambda item: -len(item[0])):
        data = changed(data, {".".join(map(str, path)): value})
    loaded = load_dict(data)
    assert (loaded.spec is None) == any(f.level is Level.ERROR for f in loaded.findings)
