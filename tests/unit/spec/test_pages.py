"""Schema, reference page, templates, examples, rehearsals and digests agree with the models."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.errors import Code, CorralError
from corral.spec import reference, template
from corral.spec import schema as fields
from corral.spec.findings import Finding, Level
from corral.spec.format import deprecations
from corral.spec.load import (
    READ_RULES,
    SpecInvalidError,
    load,
    load_text,
)
from corral.spec.models import ClusterSpec
from corral.spec.nodes import controller_of, digest, nodes_of, partitions_of
from corral.spec.rehearsal import rehearsal_notes, rehearse
from corral.spec.rules import RULES
from corral.spec.schema import json_schema
from corral.spec.tree import parse

from .cases import GONE, LAB, LAPTOP, changed, load_dict

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))
BASES = {"lab": LAB, "laptop": LAPTOP}


def spec_of(data: dict[str, Any]) -> ClusterSpec:
    loaded = load_dict(data)
    assert loaded.spec is not None, [str(f) for f in loaded.findings]
    return loaded.spec


@cache
def validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json_schema())


def test_there_are_examples() -> None:
    assert {"laptop.yaml", "lab-3x5090.yaml"} <= {file.name for file in EXAMPLES}


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_examples_are_clean(file: Path) -> None:
    loaded = load(file)
    assert [str(finding) for finding in loaded.findings] == []
    top, _ = parse(file.read_text())
    assert top is not None
    validator().validate(top.plain())


def test_the_lab_example_is_the_lab() -> None:
    spec = load(next(file for file in EXAMPLES if file.name == "lab-3x5090.yaml")).spec
    assert spec is not None
    assert [(n.name, n.address) for n in nodes_of(spec)] == [
        (f"node{i}", f"192.168.1.{10 + i}") for i in range(3)
    ]
    assert spec.groups[0].gpu is not None
    assert (spec.groups[0].gpu.type, spec.groups[0].gpu.count) == ("rtx5090", 1)
    assert spec.network.data is not None
    assert spec.network.data.gbps == 2.5


def test_the_schema_is_one_and_names_the_impact() -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"].endswith("2020-12/schema")
    for model in (schema, *schema["$defs"].values()):
        assert model["additionalProperties"] is False
        for name, field in model["properties"].items():
            assert field["x-impact"] in reference._IMPACTS, name
    for field in fields.walk():
        assert field.impact, field.path
        assert field.meaning, field.path


@pytest.mark.parametrize(
    "changes",
    [{"nonsense": 1}, {"name": "A B"}, {"groups.0.gpu.count": 0}, {"users.0.uid": "x"},
     {"groups": []}, {"name": GONE}, {"groups.0.provider": "aws"}],
)  # fmt: skip
def test_the_schema_refuses_what_loading_refuses(changes: dict[str, Any]) -> None:
    data = changed(LAB, changes)
    assert load_dict(data).spec is None
    with pytest.raises(jsonschema.ValidationError):
        validator().validate(data)


def test_the_reference_page_is_current(repo: Path) -> None:
    file = repo / "docs/reference/cluster-file.md"
    assert reference.page() == file.read_text(), (
        f"write it again: python -m corral.spec.reference > {file.relative_to(repo)}"
    )


def test_the_reference_page_has_every_field_and_rule() -> None:
    page = reference.page()
    for field in fields.walk():
        assert re.search(rf"^\| `{re.escape(reference._path(field))}` \|", page, re.M), field.path
    for name in (*READ_RULES, *(rule.id for rule in RULES)):
        assert page.count(f"| `{name}` |") == 1, name


def test_the_reference_page_has_the_level_that_findings_have() -> None:
    assert f"| `{deprecations.RULE}` | warning |" in reference.page()
    assert "| `unknown-field` | error |" in reference.page()


@pytest.mark.parametrize("kind", template.KINDS)
def test_templates_load_clean(kind: str) -> None:
    text = template.init_text(kind)
    assert text.startswith("# ")
    assert [str(f) for f in load_text(text, "x.yaml").findings] == []


@pytest.mark.parametrize("kind", template.KINDS)
def test_the_commented_parts_of_templates_load_too(kind: str) -> None:
    text = re.sub(
        r"^( *)# ((?:  )*[a-z_]+:|  [- ] )", r"\1\2", template.init_text(kind), flags=re.M
    )
    loaded = load_text(text, "x.yaml")
    assert [str(f) for f in loaded.findings if f.level is Level.ERROR] == []
    assert loaded.spec is not None
    assert [user.name for user in loaded.spec.users] == ["alice"]


def test_templates_take_values() -> None:
    text = template.init_text(
        "lab", name="mine", nodes="gpu[01-04]", addresses="10.0.0.[1-4]", gpu_count=8, gbps=400
    )
    spec = load_text(text, "mine.yaml").spec
    assert spec is not None
    assert spec.controller == spec.storage[0].server == "gpu01"
    assert len(nodes_of(spec)) == 4
    assert "corral lint mine.yaml" in text


def test_templates_refuse_wrong_values() -> None:
    with pytest.raises(CorralError) as kind:
        template.init_text("cloud")
    assert kind.value.code is Code.USAGE
    assert "laptop, lab" in kind.value.hint
    with pytest.raises(CorralError) as value:
        template.init_text("lab", nides=3)
    assert value.value.code is Code.USAGE
    assert "nodes" in value.value.hint
    with pytest.raises(SpecInvalidError) as wrong:
        template.init_text("lab", nodes="node[0-", addresses="10.0.0.1")
    assert "nodes-syntax" in wrong.value.tail


@cache
def template_of_the_lab() -> dict[str, Any]:
    top, _ = parse(template.init_text("lab"))
    assert top is not None
    return top.plain()


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(["name", "nodes", "addresses", "gpu_type", "user", "controller"]),
    st.one_of(st.text(max_size=12), st.sampled_from(["a\nusers: []", "a # b", "yes", "1", "{a}"])),
)
def test_no_value_gets_out_of_its_place(name: str, text: str) -> None:
    """A value stays in its field or is refused; it never adds or hides another field."""
    try:
        written = template.init_text("lab", **{name: text})
    except CorralError as error:
        assert error.code in (Code.SPEC_INVALID, Code.USAGE)
        return
    top, faults = parse(written)
    plain = template_of_the_lab()
    assert top is not None
    assert not faults
    places = {"nodes": 0, "addresses": 0, "gpu_type": "gpu", "user": "ssh"}
    group = top.plain()["groups"][0]
    inner = group[places[name]] if places.get(name) else group
    holder = inner if name in places else top.plain()
    assert holder[{"gpu_type": "type"}.get(name, name)] == (text or "node0")
    assert top.plain().keys() == plain.keys()
    assert top.plain()["groups"][0].keys() == plain["groups"][0].keys()


@pytest.mark.parametrize(
    ("base", "changes"),
    [("lab", {}), ("laptop", {}), ("lab", {"name": "a" * 40}), ("lab", {"controller": GONE}),
     ("lab", {"partitions": GONE, "users": GONE, "network": GONE}),
     ("lab", {"groups.0.image": "debian:12", "groups.0.memory_mib": 512})],
)  # fmt: skip
def test_a_rehearsal_is_the_same_cluster_on_embedded_nodes(
    base: str, changes: dict[str, Any]
) -> None:
    spec = spec_of(changed(BASES[base], changes))
    before = spec.model_dump_json()
    other = rehearse(spec)
    assert spec.model_dump_json() == before
    assert [n.name for n in nodes_of(other)] == [n.name for n in nodes_of(spec)]
    assert [g.gpu for g in other.groups] == [g.gpu for g in spec.groups]
    assert [g.features for g in other.groups] == [g.features for g in spec.groups]
    assert partitions_of(other) == partitions_of(spec)
    assert other.users == spec.users
    assert controller_of(other) == controller_of(spec)
    if spec.network.data is not None:
        # A container has no eno1: jobs would be given an interface that is not there.
        assert other.network.data == spec.network.data.model_copy(update={"interface": None})
    assert other.slurm == spec.slurm
    assert [s.mount for s in other.storage] == [s.mount for s in spec.storage]
    assert {s.kind for s in other.storage} == {"provider"}
    assert {g.provider for g in other.groups} == {"embedded"}
    assert all(node.address == "" for node in nodes_of(other))
    assert other.name.endswith("-rehearsal")
    assert len(other.name) <= 40
    # What it makes is a file without errors.
    assert load_dict(json.loads(other.model_dump_json())).spec == other


def test_rehearsals_of_long_names_differ() -> None:
    names = {rehearse(spec_of(changed(LAPTOP, {"name": "a" * 39 + c}))).name for c in "bcd"}
    assert len(names) == 3


def test_rehearsal_notes_name_what_differs() -> None:
    notes = "\n".join(rehearsal_notes(spec_of(LAB)))
    for words in (
        "provider ssh",
        "rtx5090",
        "2.5 Gb/s",
        "eno1",
        "/shared: ",
        "NFS",
        "lab-rehearsal",
        ">=24.05",
    ):
        assert words in notes
    assert rehearsal_notes(spec_of(LAPTOP)) == [
        "the cluster is called laptop-rehearsal; laptop itself is not touched"
    ]
    many = changed(LAPTOP, {"groups.0.nodes": "n[1-17]"})
    assert "17 containers" in "\n".join(rehearsal_notes(spec_of(many)))


def test_the_digest_is_of_the_meaning() -> None:
    text = "corral: v1\nname: a\ngroups: [{name: g, provider: embedded, nodes: 'n[0-1]'}]\n"
    same = """\
# a comment
name: "a"
groups:
  - nodes: n0,n1
    provider: embedded
    name: g
    features: []
corral: v1
users: []
"""
    digests = {digest(spec) for t in (text, same) if (spec := load_text(t, "x").spec) is not None}
    assert len(digests) == 1
    assert re.fullmatch(r"[0-9a-f]{64}", digests.pop())


@pytest.mark.parametrize(
    "changes",
    [{"name": "lab2"}, {"groups.0.gpu.count": 2}, {"groups.0.nodes": "node0,node2,node1"},
     {"users": [{"name": "bob", "uid": 2002}, {"name": "alice", "uid": 2001}]},
     {"slurm.rest": False}, {"groups.0.addresses": "192.168.1.[11-13]"}],
)  # fmt: skip
def test_another_meaning_is_another_digest(changes: dict[str, Any]) -> None:
    assert digest(spec_of(changed(LAB, changes))) != digest(spec_of(LAB))


def test_findings_as_text_and_data() -> None:
    finding = Finding(
        "unknown-field", Level.ERROR, "no field a\nb", "did you mean c?", "lab.yaml", 12, 5
    )
    assert str(finding) == (
        "lab.yaml:12:5: error [unknown-field]: no field a\\nb. hint: did you mean c?"
    )
    assert finding.as_dict() == {
        "rule": "unknown-field",
        "level": "error",
        "message": "no field a\nb",
        "hint": "did you mean c?",
        "file": "lab.yaml",
        "line": 12,
        "column": 5,
        "where": "",
    }
    assert json.loads(json.dumps(finding.as_dict())) == finding.as_dict()
    assert str(Finding("file-empty", Level.ERROR, "it is empty", file="a.yaml")) == (
        "a.yaml: error [file-empty]: it is empty"
    )
