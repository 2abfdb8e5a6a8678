"""Changes of a cluster file's text: one entry of a list set, added or removed, the rest as it is.

Only the characters of the value that changes are replaced, so comments, order and the writer's own
layout stay. What comes out is read again: where it does not hold exactly the change (aliases,
merged mappings), nothing is changed. Pure.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType, NoneType
from typing import Any, Final, Literal, cast, get_args, get_origin

from corral.errors import Code, CorralError
from corral.spec.models import ClusterSpec
from corral.spec.tree import Path, YamlNode, parse
from corral.spec.values import Model

Section = Literal["accounts", "qos", "users", "reservations", "licenses"]
SECTIONS: Final[tuple[Section, ...]] = get_args(Section)
"""Lists of the cluster file whose entries have a name, and which people change from day to day."""
Plain = str | int | bool | list[str] | dict[str, Any] | None
_WORD: Final = re.compile(r"[A-Za-z/][A-Za-z0-9_./@-]*")
_NUMBER: Final = re.compile(r"[0-9]{1,15}")


@dataclass(frozen=True, slots=True)
class EntryField:
    """A field of an entry, as somebody fills it in.

    Attributes:
        name: with a dot where it is one of a part's: ``limits.gpus``.
        about: what it is.
        kind: number, flag, list (divided by commas), choice or text.
        choices: of a choice.
        required: an entry has it.
    """

    name: str
    about: str
    kind: Literal["number", "flag", "list", "choice", "text"]
    choices: tuple[str, ...] = ()
    required: bool = False


@dataclass(frozen=True, slots=True)
class EntryEdit:
    """A change of one entry.

    Attributes:
        section: the list that it is in.
        name: the entry's name; one that is not there is added.
        fields: what is set, by the field's name, as text; "" takes the field out. None: the entry
            itself is taken out.
    """

    section: Section
    name: str
    fields: Mapping[str, str] | None


def entry_fields(section: Section) -> tuple[EntryField, ...]:
    """The fields of a list's entries, the name left out."""
    return tuple(_fields(_entry_model(section)))


def _entry_model(section: Section) -> type[Model]:
    return cast("type[Model]", get_args(ClusterSpec.model_fields[section].annotation)[0])


def _fields(model: type[Model], above: str = "") -> Iterable[EntryField]:
    for name, field in model.model_fields.items():
        kind = _bare(field.annotation)
        if name == "name" and not above:
            continue
        if isinstance(kind, type) and issubclass(kind, Model):
            yield from _fields(kind, f"{name}.")
            continue
        choices = tuple(str(word) for word in get_args(kind)) if _is(kind, Literal) else ()
        yield EntryField(
            f"{above}{name}",
            field.description or "",
            "choice" if choices else _KINDS.get(kind, "list" if _is(kind, tuple) else "text"),
            choices,
            field.is_required(),
        )


_KINDS: Final[Mapping[Any, Literal["number", "flag"]]] = MappingProxyType(
    {int: "number", bool: "flag"}
)


def _bare(annotation: Any) -> Any:
    """A type without the None that stands for left out."""
    rest = [part for part in get_args(annotation) if part is not NoneType]
    return rest[0] if len(rest) == 1 and NoneType in get_args(annotation) else annotation


def _is(kind: Any, origin: Any) -> bool:
    return get_origin(kind) is origin


def edited(text: str, edit: EntryEdit) -> str:
    """The text of a cluster file with a change.

    Raises:
        CorralError: USAGE, the field or entry is unknown, or the text is written so that the
            change would reach other places; SPEC_INVALID, the text is not YAML.
    """
    data = _read(text)[1]
    expected = copy.deepcopy(data)
    steps = _steps(data, edit)
    try:
        for path, value in steps:
            text = _put(text, path, value) if value is not None else _drop(text, path)
            _expect(expected, path, value)
        exact = _read(text)[1] == expected
    except (CorralError, ValueError, LookupError, TypeError):
        exact = False
    if not exact:
        raise CorralError(
            Code.USAGE,
            f"{edit.section}: {edit.name} is written in a form that cannot be changed here, such "
            "as with aliases",
            hint="edit the file itself",
        )
    return text


def _read(text: str) -> tuple[YamlNode, dict[str, Any]]:
    top, faults = parse(text)
    if top is None or faults or top.pairs is None:
        why = f": {faults[0].message}" if faults else ""
        raise CorralError(
            Code.SPEC_INVALID,
            f"the cluster file cannot be read{why}",
            hint="corral lint FILE has the line",
        )
    return top, top.plain()


def _steps(data: Mapping[str, Any], edit: EntryEdit) -> list[tuple[Path, Plain]]:
    """What is set (a value) or taken out (None) where; in lists a new entry is behind the last."""
    entries: Any = data.get(edit.section)
    listed = cast("list[Any]", entries) if isinstance(entries, list) else []
    at = next(
        (n for n, entry in enumerate(listed) if isinstance(entry, dict) and _named(entry, edit)),
        None,
    )
    if edit.fields is None:
        if at is None:
            raise CorralError(
                Code.USAGE,
                f"{edit.section}: the file has no {edit.name}",
                hint="what was made by hand is removed by sacctmgr or scontrol",
            )
        return [((edit.section, at), None)]
    known = {field.name: field for field in entry_fields(edit.section)}
    values: dict[tuple[str, ...], Plain] = {}
    for name, text in edit.fields.items():
        if name not in known:
            raise CorralError(
                Code.USAGE,
                f"{edit.section} has no field {name}",
                hint=f"it has {', '.join(known)}",
            )
        values[tuple(name.split("."))] = _value(known[name], text.strip())
    if at is None:
        return [((edit.section, len(listed)), _entry(edit.name, values))]
    there: Any = listed[at]
    return [
        ((edit.section, at, *path), value)
        for path, value in values.items()
        if _at(there, path) != value
    ]


def _named(entry: Any, edit: EntryEdit) -> bool:
    return entry.get("name") == edit.name


def _at(entry: dict[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = entry
    for part in path:
        value = cast("dict[str, Any]", value).get(part) if isinstance(value, dict) else None
    return value


def _entry(name: str, values: Mapping[tuple[str, ...], Plain]) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name}
    for path, value in values.items():
        if value is None:
            continue
        place = made
        for part in path[:-1]:
            place = place.setdefault(part, {})
        place[path[-1]] = value
    return made


def _value(field: EntryField, text: str) -> Plain:
    """A text as the file has it; what does not fit stays a text, which the file's rules refuse."""
    if not text:
        return None
    if field.kind == "number" and _NUMBER.fullmatch(text):
        return int(text)
    if field.kind == "flag" and text in ("true", "false"):
        return text == "true"
    if field.kind == "list":
        return [part.strip() for part in text.split(",") if part.strip()]
    return text


def _expect(data: Any, path: Path, value: Plain) -> None:
    """Make the same change in the values that were read."""
    trail: list[Any] = [data]
    for number, part in enumerate(path[:-1]):
        inner = trail[-1]
        if isinstance(part, str) and inner.get(part) is None:
            inner[part] = [] if isinstance(path[number + 1], int) else {}
        trail.append(inner[part])
    last: Any = path[-1]
    if value is None:
        del trail[-1][last]
    elif isinstance(last, int) and last == len(trail[-1]):
        trail[-1].append(value)
    else:
        trail[-1][last] = value
    # What has nothing left in it is taken out too.
    for depth in range(len(trail) - 1, 0, -1):
        if not trail[depth]:
            del trail[depth - 1][path[depth - 1]]


def _put(text: str, path: Path, value: Plain) -> str:
    top, _ = _read(text)
    parent, key = _exactly(top, path[:-1]), path[-1]
    if parent is None or parent.empty:
        inner = cast("Plain", [value] if isinstance(key, int) else {key: value})
        return _put(text, path[:-1], inner)
    there = parent.child(key)
    if there is not None:
        name = (parent.pairs or {}).get(str(key))
        return _replaced(text, name[0].end if name else there.begin, there, value)
    if parent.flow:
        body = _flow(value) if isinstance(key, int) else f"{key}: {_flow(value)}"
        last = _children(parent)[-1].end if _children(parent) else 0
        at = last or parent.begin + 1
        return text[:at] + (f", {body}" if last else body) + text[at:]
    return _added(text, parent, key, value)


def _exactly(top: YamlNode, path: Path) -> YamlNode | None:
    node: YamlNode | None = top
    for part in path:
        node = node.child(part) if node else None
    return node


def _children(node: YamlNode) -> list[YamlNode]:
    """Values in the order of the text; merged ones, which are written elsewhere, too."""
    values = (
        node.entries if node.entries is not None else [v for _, v in (node.pairs or {}).values()]
    )
    return sorted(values, key=lambda child: child.begin)


def _replaced(text: str, key_end: int, node: YamlNode, value: Plain) -> str:
    """A value in the place of one that is there, behind the key that ends at ``key_end``."""
    body = _flow(value)
    if node.empty or ((node.entries or node.pairs) and not node.flow):
        colon = text.index(":", key_end) + 1
        # Where nothing is written the value's place is behind the comments that follow.
        return f"{text[:colon]} {body}{text[colon if node.empty else node.end :]}"
    return text[: node.begin] + body + text[node.end :]


def _added(text: str, parent: YamlNode, key: str | int, value: Plain) -> str:
    """A line, or lines, below the last ones of a list or mapping of lines."""
    newline = "\r\n" if "\r\n" in text else "\n"
    inside = _children(parent)
    if isinstance(key, int):
        dash = text.rindex("-", 0, inside[-1].begin)
        indent = " " * (dash - _line_start(text, dash))
        lines = _item(value, flow=inside[-1].flow)
    else:
        keys = sorted((k for k, _ in (parent.pairs or {}).values()), key=lambda k: k.begin)
        indent = " " * (keys[0].column - 1)
        lines = _section(key, value) if not indent else [f"{key}: {_flow(value)}"]
    at = _line_end(text, len(text[: inside[-1].end].rstrip()))
    return text[:at] + "".join(f"{newline}{indent}{line}" for line in lines) + text[at:]


def _section(key: str, value: Plain) -> list[str]:
    """A part of the file that was not there: one entry a line."""
    if not isinstance(value, list) or not value:
        return [f"{key}: {_flow(value)}"]
    return [f"{key}:", *(f"  - {_flow(entry)}" for entry in value)]


def _item(value: Plain, *, flow: bool) -> list[str]:
    """An entry of a list, written as the one before it."""
    if flow or not isinstance(value, dict):
        return [f"- {_flow(value)}"]
    lines = [f"{key}: {_flow(inner)}" for key, inner in value.items()]
    return [f"{'  ' if number else '- '}{line}" for number, line in enumerate(lines)]


def _drop(text: str, path: Path) -> str:
    top, _ = _read(text)
    parent, node = _exactly(top, path[:-1]), _exactly(top, path)
    if parent is None or node is None:
        return text
    inside = _children(parent)
    if len(inside) == 1 and len(path) > 1:
        return _drop(text, path[:-1])
    begins = [top.key((*path[:-1], k)).begin for k in parent.pairs or ()]
    begins = sorted(begins) if parent.pairs is not None else [child.begin for child in inside]
    at = inside.index(node)
    if parent.flow:
        if at:
            return text[: inside[at - 1].end] + text[node.end :]
        return text[: begins[0]] + text[begins[1] :]
    start = _line_start(text, begins[at])
    if parent.pairs is not None and text[start : begins[at]].strip():
        return text[: begins[at]] + text[begins[at + 1] :]  # it follows a dash
    if parent.entries is not None:
        start = _line_start(text, text.rindex("-", 0, begins[at]))
    end = text.find("\n", len(text[: node.end].rstrip()))
    return text[:start] + (text[end + 1 :] if end >= 0 else "")


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _line_end(text: str, at: int) -> int:
    """Where a line ends, before the characters that end it."""
    end = text.find("\n", at)
    end = len(text) if end < 0 else end
    return end - 1 if text[end - 1 : end] == "\r" else end


def _flow(value: Plain) -> str:
    """A value in one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(entry) for entry in cast("list[Any]", value)) + "]"
    if isinstance(value, str):
        plain = _WORD.fullmatch(value) and _read(f"v: {value}")[1]["v"] == value
        return value if plain else json.dumps(value, ensure_ascii=False)
    return json.dumps(value)
