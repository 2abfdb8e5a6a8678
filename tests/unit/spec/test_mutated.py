"""Broken files: no rule raises, nor does the plan; errors come with line and column."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from corral.errors import Code, CorralError
from corral.inspect.facts import Traits
from corral.plan.make import make_plan
from corral.roles.inventory import Site
from corral.roles.order import desired_stages
from corral.spec import explain, tree
from corral.spec import load as loading
from corral.spec.findings import has_errors
from corral.spec.load import load_text
from corral.spec.models import ClusterSpec
from corral.spec.nodes import declared_of, nodes_of
from corral.spec.rehearsal import rehearsal_notes, rehearse
from corral.spec.rules import RULES, view_of
from corral.spec.template import KINDS, init_text, values_of
from tests.unit.roles.test_cluster import FACTS

from .cases import GONE, LAB, LAPTOP, changed

TOP = Path(__file__).parents[3]
FILES = sorted([*TOP.glob("examples/*.yaml"), *TOP.glob("tests/golden/**/*.yaml")])
# Every optional part at least once: what the examples leave out has rules as well.
FULL: Final = changed(
    LAB,
    {
        "groups.2": {
            "name": "burst",
            "provider": "lambda",
            "nodes": "burst[0-3]",
            "cloud": {"type": "gpu_1x_a10"},
            "elastic": {"min": 0, "cpus": 8, "memory_gib": 64},
        },
        "partitions.0.groups": ["rtx", "cpu", "burst"],
        "groups.0.memory_mib": 4096,
        "budget": {"per_hour": 20, "total": 300},
        "accounts": [{"name": "vision", "limits": {"gpus": 2}}, {"name": "nlp"}],
        "users.0.account": "vision",
        "qos": [{"name": "high", "priority": 100}],
        "access": {"ssh": "jobs_only", "login": "node[0-1]"},
        "software": {"nvidia": {"driver": "570-open"}, "desktop": "gnome"},
        "network.control": "tailscale",
        "network.mesh": {},
        "network.topology": {"switches": [{"name": "s0", "nodes": "node[0-2],cpu0,burst[0-3]"}]},
        "racks": [{"name": "r1", "nodes": "node[0-2]", "unit": 3, "height": 4, "across": 2}],
        "proof": {"every": "1d"},
        "backup": {"every": "1d", "to": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6"]},
        "health": {"every": "5m"},
        "services": {"mlflow": True},
    },
)
WRONG: Final = (
    None, True, False, 0, 1, -1, 10**400, 1.5, float("nan"), float("inf"), "", " ", "a", "A b",
    "node0", "node[0-1]", "node[0-2", "node[3-0]", "a,,b", "[0-2]", "[]", ",", "node[0-99999999]",
    "node[0-65535]", "192.168.1.[10-11]", "10.0.0.9", "127.0.0.1", "999.1.1.1", "-", "null", "~",
    "é", "\u202e", "\x00", "\ud800", "9" * 5000, "x" * 3000, [], {}, [None], [[]], [{}],
    ["a", "a"], {"a": {"b": [1, None]}}, "embedded", "ssh", "gcp", "lambda", "runpod", "provider",
    "nfs", "tailscale", "jobs_only", "infinite", "1d", "a3-megagpu-8g", "rtx5090",
)  # fmt: skip


def _plain(path: Path) -> Any:
    top, faults = tree.parse(path.read_text())
    assert top is not None
    assert not faults
    return top.plain()


BASES: Final = [*(p for path in FILES if isinstance(p := _plain(path), dict)), LAB, LAPTOP, FULL]


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every place of a file."""
    if path:
        yield path
    pairs: Any = ()
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value)
    for key, below in pairs:
        yield from places(below, (*path, key))


def mutate(draw: st.DataObject, data: Any) -> None:
    """One mistake somewhere in a file."""
    paths = list(places(data))
    if not paths:
        return
    *above, last = draw.draw(st.sampled_from(paths), label="place")
    parent = data
    for part in above:
        parent = parent[part]
    value = parent[last]
    kind = draw.draw(st.sampled_from(["delete", "wrong", "longer", "shorter", "same", "type"]))
    if kind == "delete":
        del parent[last]
    elif kind == "wrong":
        parent[last] = copy.deepcopy(draw.draw(st.sampled_from(WRONG), label="value"))
    elif kind == "longer" and isinstance(value, list) and value:
        value.append(copy.deepcopy(value[0]))  # one name for two
    elif kind == "shorter" and isinstance(value, (list, str)):
        parent[last] = value[: len(value) // 2]
    elif kind == "same":  # a value of the file at another place
        *others, name = draw.draw(st.sampled_from(paths), label="from")
        source = data
        for part in others:
            source = source[part]
        parent[last] = copy.deepcopy(source[name])
    else:
        parent[last] = [value] if draw.draw(st.booleans()) else str(value)


def spec_of(data: Any) -> ClusterSpec | None:
    """The cluster that rules see of a file, with errors taken out as the loader does it."""
    top, _ = tree.parse(json.dumps(data))
    raw = top.plain() if top is not None and top.pairs is not None else None
    spec, errors = loading._model(raw, ClusterSpec)
    if spec is None and isinstance(raw, dict):
        explain.repair(raw, errors)
        spec, _ = loading._model(raw, ClusterSpec)
    return spec


def check(data: Any) -> None:
    """All that reads a file, on this one."""
    loaded = load_text(json.dumps(data), "lab.yaml")
    assert (loaded.spec is None) == has_errors(loaded.findings)
    for finding in loaded.findings:
        assert finding.message
        assert finding.hint
        assert finding.rule == "file-empty" or (finding.line, finding.column) > (0, 0)
    spec = spec_of(data)
    if spec is not None:
        view = view_of(spec)
        for rule in RULES:  # each alone: the loader leaves some out
            list(rule.check(view))
    if loaded.spec is not None:
        planned(loaded.spec)
        rehearsal_notes(loaded.spec)
        rehearse(loaded.spec)


def planned(spec: ClusterSpec) -> None:
    """The pure part of a plan; what is impossible is a CorralError."""
    names = [node.name for node in nodes_of(spec)][:200]
    if len(names) < len(nodes_of(spec)):
        return
    addresses = {name: f"10.0.0.{i + 10}" for i, name in enumerate(names)}
    facts = {n: replace(FACTS, node=n, address=addresses[n]) for n in names}
    site = Site(spec, facts, dict.fromkeys(names, Traits(memory_mib=8000)), addresses)
    try:
        stages = desired_stages(site)
    except CorralError as error:
        assert error.hint
        return
    make_plan(cluster=spec.name, spec_digest="", stages=stages, observed={})


@settings(max_examples=settings().max_examples * 2)
@given(st.sampled_from(BASES), st.integers(1, 4), st.data())
def test_no_mistake_raises(base: dict[str, Any], mistakes: int, draw: st.DataObject) -> None:
    broken(base, mistakes, draw)


@pytest.mark.slow
@settings(max_examples=settings().max_examples * 16)
@given(st.sampled_from(BASES), st.integers(1, 4), st.data())
def test_no_mistake_of_many_raises(
    base: dict[str, Any], mistakes: int, draw: st.DataObject
) -> None:
    broken(base, mistakes, draw)


def broken(base: dict[str, Any], mistakes: int, draw: st.DataObject) -> None:
    """A file with so many mistakes is read, judged and planned."""
    data = json.loads(json.dumps(base))
    for _ in range(mistakes):
        mutate(draw, data)
    check(data)


@given(st.sampled_from(FILES), st.data())
def test_no_broken_text_raises(path: Path, draw: st.DataObject) -> None:
    lines = path.read_text().splitlines(keepends=True)
    for _ in range(draw.draw(st.integers(1, 3))):
        at = draw.draw(st.integers(0, len(lines) - 1))
        kind = draw.draw(st.sampled_from(["drop", "twice", "indent", "cut", "text"]))
        line = lines[at]
        lines[at] = {
            "drop": "",
            "twice": line * 2,
            "indent": f" {line}",
            "cut": line[: len(line) // 2] + "\n",
            "text": draw.draw(st.text(max_size=20)) + line,
        }[kind]
    load_text("".join(lines), "lab.yaml")


TWO = {"groups.0.addresses": "192.168.1.[10-11]", "controller": GONE}
CASES: dict[str, dict[str, Any]] = {
    "fewer addresses than nodes and no controller": TWO,
    "more addresses than nodes": {"groups.0.addresses": "192.168.1.[10-20]", "controller": GONE},
    "broken nodes and no controller": {"groups.0.nodes": "node[0-", "controller": GONE},
    "all hostlists broken": {
        "groups.0.nodes": "n[", "groups.1.nodes": "m[", "groups.0.addresses": "1[",
    },
    "a name for two groups": {"groups.1.name": "rtx"},
    "a name for two nodes": {"groups.0.nodes": "node0,node0,node0"},
    "no groups": {"groups": []},
    "groups of nothing": {"groups": [{}, None, []]},
    "partitions of nothing": {"partitions": [{"name": "a", "groups": ["none"]}]},
    "storage without a server": {"storage": [{"mount": "/a", "kind": "nfs"}]},
}  # fmt: skip


@pytest.mark.parametrize("base", [LAB, LAPTOP, FULL], ids=["lab", "laptop", "full"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_hand_made_mistakes(base: dict[str, Any], case: str) -> None:
    try:
        data = changed(base, {k: v for k, v in CASES[case].items() if v is not GONE or k in base})
    except (IndexError, KeyError):
        pytest.skip("this file has no such place")
    check(data)


def test_addresses_and_memory_are_both_reported() -> None:
    data = changed(LAB, {**TWO, "groups.1.nodes": "cpu[0", "users.1.uid": "2002"})
    rules = {f.rule for f in load_text(json.dumps(data), "lab.yaml").findings}
    assert {"address-count", "nodes-syntax", "wrong-type"} <= rules


def test_a_spec_made_in_python_with_fewer_addresses_is_an_error_of_ours() -> None:
    spec = ClusterSpec.model_validate(spec_of(changed(LAB, TWO)))
    with pytest.raises(CorralError) as raised:
        declared_of(spec)
    assert raised.value.code is Code.SPEC_INVALID
    assert raised.value.hint


@given(st.sampled_from(KINDS), st.data())
@example("lab", None)
def test_init_takes_any_value(kind: str, draw: st.DataObject | None) -> None:
    known = sorted(values_of(kind))
    scalars = [w for w in WRONG if isinstance(w, (str, int, float)) and not isinstance(w, bool)]
    values = (
        {draw.draw(st.sampled_from(known)): draw.draw(st.sampled_from(scalars))}
        if draw is not None
        else {"addresses": "192.168.1.[10-11]"}
    )
    try:
        init_text(kind, **values)
    except CorralError as error:
        assert error.code in (Code.SPEC_INVALID, Code.USAGE)


def test_the_base_with_every_part_is_good() -> None:
    assert not has_errors(load_text(json.dumps(FULL), "lab.yaml").findings)
