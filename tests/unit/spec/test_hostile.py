"""No text field of the model lets anything through that a shell or a config file could act on."""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Annotated, Any, get_args, get_origin

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

import corral.spec
from corral.spec import load as loading
from corral.spec import models, values
from corral.spec import schema as fields
from corral.spec.schema import Field
from corral.spec.values import Kind

from .cases import LAB, changed, load_dict

# One file that sets every field; every list has its first entry.
AT_ONCE = 12
TEXTS = [field for field in fields.walk() if field.type in ("text", "choice")]
HOSTILE = [
    "a b", " a", "a ", "a\n", "\na", "a\nb", "a\r", "a\t", "a\0", "a\0b", "$(touch x)", "`touch x`",
    "a;b", "a&b", "a|b", "a>b", "a<b", "'a'", '"a"', "a'b", "a\\b", "$HOME", "${x}", "~root", "*",
    "?", "a#b", "#", "!", "%n", "=", "a=b", "{a,b}", "(a)", "-rf", "--help", "..", "../a", "a/../b",
    "/..", "/a/../b", "/a/..", "/a//b", "//a", "/a/./b", "é", "\uff41", "\u0430", "\u0130",
    "a\u2028b", "a\u200bb", "\u202ea", "\ufeffa", "\ud800", "", "\uff12\uff14.05",
    "\u0662\u0664.05", "a" * 5000, "/a" * 3000, "1-" * 50,
]  # fmt: skip
# What a text may be made of. Brackets and commas are the hostlist's, > = ~ the version's.
SAFE = re.compile(r"[A-Za-z0-9_/][A-Za-z0-9._/:@+-]*")
SAFE_OF = {
    "offer": re.compile(r"[A-Za-z0-9]([A-Za-z0-9._:/@+ -]*[A-Za-z0-9])?"),
    "hostlist": re.compile(r"[A-Za-z0-9][A-Za-z0-9_.,\[\]-]*"),
    "NCCL setting": re.compile(r"NCCL_[A-Z0-9_]+=[A-Za-z0-9=^.,:/_+-]+"),
    "version": re.compile(r"(>=|==|~=)?[0-9.]+"),
    "key file": re.compile(r"~?(/[A-Za-z0-9_.][A-Za-z0-9._@+-]*)+"),
    "distinguished name": re.compile(r"[A-Za-z]+=[A-Za-z0-9]([A-Za-z0-9 .,=_@-]*[A-Za-z0-9])?"),
    "jump hosts": re.compile(r"[A-Za-z0-9_][A-Za-z0-9_@.:,-]*"),
    "ssh key": re.compile(r"[A-Za-z0-9][A-Za-z0-9@.-]* [A-Za-z0-9+/=]+( [A-Za-z0-9@._+-]+)?"),
}


def types() -> Iterator[tuple[str, Any, Kind]]:
    """Each text type of the models, with the kind whose pattern it has."""
    kinds = {kind.pattern: kind for kind in fields.KINDS}
    modules = [m.name for m in pkgutil.walk_packages(corral.spec.__path__, "corral.spec.")]
    sections = [section.__module__ for section in models.SECTIONS.values()]
    for module in (*modules, *sections):
        for name, value in vars(import_module(module)).items():
            for info in get_args(value)[1:] if get_origin(value) is Annotated else ():
                for rule in getattr(info, "metadata", ()):
                    if getattr(rule, "pattern", None) in kinds:
                        yield name, value, kinds[rule.pattern]


TYPES = {name: (value, kind) for name, value, kind in types()}


def concrete(field: Field) -> str:
    """The field's path in LAB, through the first entry of each list."""
    parts: list[str] = []
    for part in field.path.split("."):
        parts.append(part)
        here = fields.at(tuple(p for p in parts if not p.isdigit()))
        if here is not None and here.many:
            parts.append("0")
    return ".".join(parts)


def judge(field: Field, text: str) -> bool:
    """Whether the text is refused in this field; what is not refused is harmless."""
    _, errors = loading._model(changed(LAB, {concrete(field): text}), models.ClusterSpec)
    where = tuple(int(part) if part.isdigit() else part for part in concrete(field).split("."))
    if any(error["loc"] == where for error in errors):
        return True
    safe = SAFE_OF.get(field.kind.name, SAFE) if field.kind else SAFE
    assert field.choices == () or text in field.choices
    assert safe.fullmatch(text), (where, text)
    assert ".." not in text.split("/"), (where, text)
    assert len(text) <= (65536 if field.kind is values.HOST_LIST else 4096)
    return False


def test_the_walk_reaches_every_text() -> None:
    """As many fields as the schema has strings; groups.gpus has the fields of groups.gpu."""
    schema = json.dumps(models.ClusterSpec.model_json_schema())
    known = [field for field in TEXTS if not field.path.startswith("groups.gpus.")]
    assert schema.count('"type": "string"') == len(known)


def test_every_text_has_a_kind_or_choices() -> None:
    for field in TEXTS:
        assert field.choices or field.kind, field.path
    for kind in fields.KINDS:
        assert re.fullmatch(kind.pattern, kind.example)
        assert kind.pattern.startswith("^")
        assert kind.pattern.endswith("$")
        assert "\\d" not in kind.pattern
        assert "\\w" not in kind.pattern
        assert "\\s" not in kind.pattern


@pytest.mark.parametrize("field", TEXTS, ids=lambda field: field.path)
def test_hostile_texts(field: Field) -> None:
    for text in HOSTILE:
        judge(field, text)


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(TEXTS), st.text(max_size=20))
def test_any_text(field: Field, text: str) -> None:
    """Through all of loading, too: refused with an error at the field."""
    loaded = load_dict(changed(LAB, {concrete(field): text}))
    where = re.sub(r"\.(\d+)", r"[\1]", concrete(field))
    wrong = {f.where for f in loaded.findings if f.rule == "wrong-value"}
    assert judge(field, text) == (where in wrong)
    assert loaded.spec is None or where not in wrong


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(TEXTS),
    st.sampled_from(
        ["\n", " ", "'", '"', "$", "`", "\0", ";", "&", "|", "..", "\\", "é", "٣", "\r"]
    ),
    st.integers(0, 60),
)
def test_a_good_text_with_something_in_it(field: Field, bad: str, at: int) -> None:
    good = field.kind.example if field.kind else field.choices[0]
    at %= len(good) + 1
    judge(field, good[:at] + bad + good[at:])


@pytest.mark.parametrize("name", TYPES)
@given(text=st.text(max_size=8))
@example(text="")
@settings(max_examples=50, deadline=None)
def test_a_newline_at_the_end_is_refused(name: str, text: str) -> None:
    """Python's ``$`` comes before a last newline too; Rust's, which pydantic uses, does not."""
    kind_of, kind = TYPES[name]
    adapter = TypeAdapter[str](kind_of)
    good = kind.example
    assert adapter.validate_python(good) == good
    assert re.match(kind.pattern, good + "\n"), "the trap, as Python's re falls into it"
    for wrong in (good + "\n", good + "\n\n", good + "\n" + text, good + "\r\n"):
        with pytest.raises(ValidationError):
            adapter.validate_python(wrong)


def test_all_kinds_are_types() -> None:
    assert {kind for _, kind in TYPES.values()} == set(fields.KINDS)


def refused(among: Sequence[Field], value: object, *rules: str) -> list[str]:
    """Paths of the fields that do not take the value: a handful of them is set in each file."""
    paths: list[str] = []
    for start in range(0, len(among), AT_ONCE):
        some = among[start : start + AT_ONCE]
        loaded = load_dict(changed(LAB, {concrete(field): value for field in some}))
        wrong = {f.where for f in loaded.findings if f.rule in rules}
        places = {re.sub(r"\.(\d+)", r"[\1]", concrete(field)): field.path for field in some}
        paths += [path for place, path in places.items() if place in wrong]
    return paths


@pytest.mark.parametrize("value", [True, False, 1, 1.5, None, ["a"], {"a": 1}], ids=repr)
def test_texts_take_only_texts(value: object) -> None:
    expected = [field.path for field in TEXTS if value is not None or not field.nullable]
    assert refused(TEXTS, value, "wrong-type", "wrong-value") == expected


@pytest.mark.parametrize("value", ["2", "true", True, None, [1], 1.5, "0x10"], ids=repr)
def test_numbers_and_booleans_keep_yaml_types(value: object) -> None:
    others = [f for f in fields.walk() if f.type in ("integer", "number", "boolean")]
    expected = [
        field.path
        for field in others
        if not (field.type == "boolean" and value is True)
        and not (field.type == "number" and value == 1.5)
        and not (field.nullable and value is None)
    ]
    assert refused(others, value, "wrong-type") == expected
