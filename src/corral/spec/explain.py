"""pydantic's errors as findings with places and words, and what is left to judge after them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from corral.durations import LONGEST, clock, words_seconds
from corral.spec import schema, values
from corral.spec.findings import Finding, Level, dotted, shown
from corral.spec.providers import PROVIDERS
from corral.spec.slurm.hostlist import fold
from corral.spec.tree import Path, YamlNode

_MIB: Final = {"G": 1024, "T": 1024 * 1024}
"""MiB of other units of memory."""
ErrorDetails = Mapping[str, Any]
_SYNONYMS: Final = {
    "unlimited": "infinite",
    "inf": "infinite",
    **{alias: provider.name for provider in PROVIDERS.values() for alias in provider.aliases},
    "ib": "infiniband",
    "eth": "ethernet",
    "hourly": "1h",
    "daily": "1d",
    "weekly": "7d",
}
_YES: Final = {"yes": "true", "on": "true", "y": "true", "1": "true", "true": "true"}
_NO: Final = {"no": "false", "off": "false", "n": "false", "0": "false", "false": "false"}
_BOUNDS: Final = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("more than", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("less than", "lt"),
}


def explain(
    errors: Sequence[ErrorDetails], tree: YamlNode, file: str, top: schema.Field | None = None
) -> list[Finding]:
    """One finding for each error of pydantic.

    Args:
        errors: as pydantic lists them.
        tree: the file as written.
        file: its name.
        top: the file's fields; None: those of the cluster file.
    """
    if not errors:  # the tree of fields takes a tenth of the reading of a file
        return []
    fields = top or schema.root()
    return [_finding(error, cast(Path, error["loc"]), (tree, file), fields) for error in errors]


def without_echoes(errors: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """The errors without echoes: pydantic 2.14 calls a tuple too short when its entry is wrong."""
    places = [cast(Path, error["loc"]) for error in errors]

    def echo(error: ErrorDetails) -> bool:
        path = cast(Path, error["loc"])
        return error["type"] == "too_short" and any(
            len(other) > len(path) and other[: len(path)] == path for other in places
        )

    return [error for error in errors if not echo(error)]


def near(word: str, known: Sequence[str]) -> str:
    """The known word most like this one; "" when none is."""
    text = word.lower().replace("-", "_")
    keys = {name.lower().replace("-", "_"): name for name in known}
    match = difflib.get_close_matches(text, keys, n=1, cutoff=0.6)
    return keys[match[0]] if match else ""


def touched(error: ErrorDetails) -> Path:
    """The place whose value cannot be judged after this error; () when there is none."""
    path = cast(Path, error["loc"])
    if error["type"] != "extra_forbidden":
        return path
    parent = schema.at(path[:-1])
    meant = near(str(path[-1]), [f.name for f in parent.fields]) if parent else ""
    return (*path[:-1], meant) if meant else ()


def repair(raw: dict[str, Any], errors: Sequence[ErrorDetails]) -> None:
    """Put a valid value, or none where none is needed, in each place an error names."""
    for error in sorted(errors, key=lambda e: len(e["loc"]), reverse=True):
        path = cast(Path, error["loc"])
        if error["type"] == "extra_forbidden":
            _parent(raw, path).pop(path[-1], None)
            continue
        field = schema.at(path)
        if field is None or not path:
            continue
        if isinstance(path[-1], int) and field.type == "mapping":
            _parent(raw, path)[path[-1]] = field.entry()
            continue
        while isinstance(path[-1], int):
            path = path[:-1]
        if field.required:
            _parent(raw, path)[path[-1]] = field.placeholder()
        else:
            _parent(raw, path).pop(path[-1], None)


def _parent(raw: Any, path: Path) -> Any:
    for part in path[:-1]:
        raw = raw[part]
    return raw


def _finding(
    error: ErrorDetails, path: Path, written: tuple[YamlNode, str], top: schema.Field
) -> Finding:
    kind, (tree, file) = str(error["type"]), written
    field = schema.at(path, top)
    if kind == "extra_forbidden":
        rule, message, hint = _unknown(path, top)
        node = tree.key(path)
    elif kind == "missing":
        rule, message, hint = _missing(path, field)
        node = tree.find(path)
    else:
        node = tree.find(path)
        rule, message, hint = _wrong(error, path, node, field)
        node = tree.key(path) if node.empty else node
    return Finding(
        rule, Level.ERROR, message, hint, file, node.line, node.column, where=dotted(path)
    )


def _unknown(path: Path, top: schema.Field) -> tuple[str, str, str]:
    parent = schema.at(path[:-1], top)
    names = [f.name for f in parent.fields] if parent else []
    key = str(path[-1])
    meant = near(key, names)
    place = f"in {dotted(path[:-1])}" if len(path) > 1 else "at the top of the file"
    message = f"no field is called {shown(key)} {place}"
    return (
        "unknown-field",
        message,
        f"did you mean {meant}?" if meant else _elsewhere(key, names, top),
    )


def _elsewhere(key: str, names: list[str], top: schema.Field) -> str:
    homes = [f.path for f in schema.walk(top) if f.name == key and f.path != key]
    here = f"fields here: {', '.join(names)}"
    return f"{homes[0]} is such a field; {here}" if homes else f"remove it; {here}"


def _missing(path: Path, field: schema.Field | None) -> tuple[str, str, str]:
    name = str(path[-1]) if path else ""
    place = f"{dotted(path[:-1])} has no {name}" if len(path) > 1 else f"the file has no {name}"
    if field is None:
        return "missing-field", place, f"add {name}"
    return "missing-field", place, f"add '{name}: {_flow(field.placeholder())}'. {field.meaning}"


def _wrong(
    error: ErrorDetails, path: Path, node: YamlNode, field: schema.Field | None
) -> tuple[str, str, str]:
    name = dotted(path)
    if field is None:
        return "wrong-value", f"{name}: {error['msg']}", "see the reference of the cluster file"
    if str(error["type"]).endswith(("_type", "_parsing")):
        return _wrong_type(str(error["type"]), name, node, field)
    value = shown(error["input"]) if isinstance(error["input"], (str, int, float)) else "the list"
    if error["type"] in _BOUNDS:
        words, key = _BOUNDS[error["type"]]
        bound = error["ctx"][key]
        message = f"{name} is {value}; it must be {words} {bound}"
        return "wrong-value", message, _number_hint(field, error["input"])
    if error["type"] == "too_short":
        return (
            "wrong-value",
            f"{name} is an empty list; it needs an entry",
            f"write {_flow(field.placeholder())}",
        )
    if error["type"] == "string_too_long":
        limit = error["ctx"]["max_length"]
        return "wrong-value", f"{name} is longer than {limit} characters", "write a shorter text"
    return _wrong_text(name, value, str(error["input"]), field)


def _number_hint(field: schema.Field, value: object) -> str:
    if field.path in ("groups.gpu.count", "groups.gpus.count") and value == 0:
        return f"leave {field.path.split('.')[1]} out for nodes without GPUs"
    bounds = " and ".join(f"{key} {limit:g}" for key, limit in field.limits.items())
    return f"{field.name} has {bounds}. {field.meaning}"


def _wrong_text(name: str, value: str, text: str, field: schema.Field) -> tuple[str, str, str]:
    if field.type == "choice":
        meant = _SYNONYMS.get(text.lower(), "")
        meant = meant if meant in field.choices else near(text, field.choices)
        known = " or ".join(field.choices)
        hint = f"did you mean {meant}?" if meant and meant != text else f"write {known}"
        if field.path == "groups.provider" and not meant:
            hint = "machines that you have, in whatever cloud: write ssh, and addresses"
        if field.path == "corral":
            hint = "write v1; a file of a later version needs a later Corral: corral --version"
        return "wrong-value", f"{name} is {value}; it must be {known}", hint
    kind = field.kind
    if kind is None:
        return "wrong-value", f"{name} is {value}", field.meaning
    meant = _like(text, kind.pattern)
    hint = f"did you mean {meant}?" if meant else f"write for instance {kind.example}"
    if kind is values.TIME_LIMIT and (total := words_seconds(text)):
        span = _span(total)
        hint = f'write "{span}"' if span else f'write "{LONGEST}" at most, or infinite'
    if kind is values.SSH_KEY and text.endswith(".pub"):
        hint = f"write the line that this prints: cat {text}"
    return "wrong-value", f"{name} is {value}; allowed: {kind.words}", hint


def _like(text: str, pattern: str) -> str:
    """The nearest text that the pattern allows: other case, no spaces, no / at the end."""
    text = text.strip()
    low = text.lower()
    tries = (
        _SYNONYMS.get(low, ""),
        low,
        re.sub(r"[\s;]+", ",", low),  # hostlists
        re.sub(r"\s+", "", low),
        re.sub(r"[^a-z0-9]+", "-", low).strip("-"),
        re.sub(r"[^a-z0-9]+", "", low),
        text.rstrip("/"),
        f"/{text.strip('/')}",
    )
    return next((t for t in tries if t and t != text and re.fullmatch(pattern, t)), "")


def _span(total: int) -> str:
    """Seconds as the cluster file takes them; "" for more."""
    span = clock(total)
    return span if re.fullmatch(values.TIME_LIMIT.pattern, span) else ""


def _wrong_type(kind: str, name: str, node: YamlNode, field: schema.Field) -> tuple[str, str, str]:
    got = _what(node)
    expected, hint = _expected(kind, node, field)
    if node.empty:
        hint = f"nothing follows '{field.name}:'; write a value, or remove the line"
    return "wrong-type", f"{name} is {got}; it must be {expected}", hint


def _what(node: YamlNode) -> str:
    if node.pairs is not None:
        return "a mapping"
    if node.entries is not None:
        return "a list"
    if node.value is None:
        return "empty"
    return f"the text {shown(node.value)}" if isinstance(node.value, str) else shown_raw(node)


def shown_raw(node: YamlNode) -> str:
    """A number or boolean as the user wrote it."""
    word = "boolean" if isinstance(node.value, bool) else "number"
    return f"the {word} {shown(node.text).strip(chr(34))}"


def _expected(kind: str, node: YamlNode, field: schema.Field) -> tuple[str, str]:
    example = _flow(field.placeholder())
    if kind == "tuple_type":
        as_list = f"[{shown_flow(node)}]" if node.text else example
        return "a list", f"write {field.name}: {as_list}, or begin each entry with '- '"
    if kind.startswith(("model", "dict")):
        entry = field.entry() or {f.name: f.placeholder() for f in field.fields[:1]}
        names = f"; its keys: {', '.join(f.name for f in field.fields)}" if field.fields else ""
        return "a mapping", f"write keys and values, such as {_flow(entry)}{names}"
    if kind.startswith("bool"):
        word = {**_YES, **_NO}.get(node.text.lower())
        return "true or false", f"write {word} without quotes" if word else "write true or false"
    if kind.startswith(("int", "float")):
        number_type = "an integer" if field.type == "integer" else "a number"
        return number_type, f"write {_number(node, field, example)}"
    return _expected_text(node, field, example)


def _number(node: YamlNode, field: schema.Field, example: str) -> str:
    if digits := re.fullmatch(r"\s*([0-9]+)(\.0*)?\s*", node.text):
        return f"{digits[1]}, without quotes"
    if sized := re.fullmatch(r"\s*([0-9]{1,9})\s*([A-Za-z]+)(/s)?\s*", node.text):
        unit = sized[2].upper()[:1] if field.name.endswith("_mib") else ""
        return f"{int(sized[1]) * _MIB.get(unit, 1)}: a number without a unit"
    return f"a number such as {example}"


def _expected_text(node: YamlNode, field: schema.Field, example: str) -> tuple[str, str]:
    if node.entries and field.kind is values.HOST_LIST and _names(node):
        return "one text", f"write {field.name}: {_flow(fold(_names(node)))}"
    if node.entries:
        return "one text", f"write one of them: {field.name}: {node.entries[0].text or example}"
    if field.kind is values.HOST_LIST and re.fullmatch(r"[1-9][0-9]{0,4}", node.text):
        return "a text", f"write the names of the nodes: node[0-{int(node.text) - 1}]"
    if node.text and field.type == "text":
        return "a text", f'put it in quotes: "{shown(node.text).strip(chr(34))}"'
    return "a text", f"write {_flow(field.entry())}"


def _names(node: YamlNode) -> list[str]:
    """The entries of a list of names of nodes; none where one cannot be a name."""
    texts = [entry.text for entry in node.entries or ()]
    return texts if all(re.fullmatch(values.HOST_NAME.pattern, text) for text in texts) else []


def shown_flow(node: YamlNode) -> str:
    """A scalar as it would appear in a flow list."""
    return shown(node.text).strip('"')


def _flow(value: Any) -> str:
    """A value as YAML flow text."""
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return "{" + ", ".join(f"{key}: {_flow(v)}" for key, v in pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(v) for v in cast("list[Any]", value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    plain = not isinstance(value, str) or re.fullmatch(r"[A-Za-z/][A-Za-z0-9./_-]*", text)
    return text if plain else f'"{text}"'
