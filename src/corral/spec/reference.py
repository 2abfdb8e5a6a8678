"""The reference page of the cluster file: ``python -m corral.spec.reference > PAGE``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any, Final

from corral.spec import schema
from corral.spec.load import READ_RULES
from corral.spec.rules import RULES

_IMPACTS: Final = {
    "none": "nothing on the machines is disturbed",
    "reload": "Slurm reads its configuration again; jobs go on",
    "restart": "services are restarted; running jobs go on",
    "drain": "nodes are drained first; running jobs end before it is changed",
    "reboot": "nodes are restarted",
    "recreate": "machines are re-created; what was on them is gone",
    "refused": "Corral does not do it; the hint states what to do instead",
}
_HEAD: Final = """\
# The cluster file

<!-- Generated: python -m corral.spec.reference > docs/reference/cluster-file.md -->

One YAML file declares one cluster. `corral lint FILE` lists everything that is wrong with it, each
with line, column, rule and what to write instead; `corral init laptop` and `corral init lab` write
a file to start from; `corral init --schema` writes the JSON Schema for editors.

Unknown keys are errors. Values keep YAML's own types: `uid: "1000"` and `default: yes` are errors,
`version: 24.11` is a number and needs quotes. Every text has a pattern; none lets quotes, spaces,
`$`, newlines or `..` through.
"""


def page() -> str:
    """The entire page as Markdown."""
    parts = [_HEAD, "## Fields", "", *_fields(), "", "## Impacts", "", *_impacts(), ""]
    parts += ["## Kinds of text", "", *_texts(), "", "## Rules", "", *_rules()]
    return "\n".join(parts) + "\n"


def _fields() -> Iterator[str]:
    yield "A path `groups[].nodes` is the key `nodes` of each entry of the list `groups`."
    yield "Impact states what a change of the field does to a live cluster."
    yield ""
    yield from _row("field", "type", "default", "impact", "meaning")
    yield _rule_line(5)
    for field in schema.walk():
        default = "*needed*" if field.required else _code(field.default)
        yield from _row(f"`{_path(field)}`", _type(field), default, field.impact, field.meaning)


def _path(field: schema.Field) -> str:
    """The path with ``[]`` behind each list."""
    parts = field.path.split(".")
    ends = [schema.at(tuple(parts[: i + 1])) for i in range(len(parts))]
    written = [
        f"{part}[]" if end is not None and end.many and end is not field else part
        for part, end in zip(parts, ends, strict=True)
    ]
    return ".".join(written)


def _type(field: schema.Field) -> str:
    type_name = field.type
    if field.type == "choice":
        type_name = " or ".join(f"`{choice}`" for choice in field.choices)
    elif field.kind is not None:
        type_name = field.kind.name
    elif field.value is not None and field.value.kind is not None:
        type_name = f"mapping of keys to {field.value.kind.name}"
    words = {"minimum": "from", "maximum": "to", "exclusiveMinimum": "above"}
    limits = [f"{words[k]} {v:g}" for k, v in field.limits.items() if k in words]
    order = sorted(limits, key=lambda text: text.startswith("to"))
    return f"{'list of ' if field.many else ''}{' '.join([type_name, *order])}"


def _code(value: Any) -> str:
    if value is None:
        return "none"
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _impacts() -> Iterator[str]:
    yield from _row("impact", "what it means")
    yield _rule_line(2)
    for word, meaning in _IMPACTS.items():
        yield from _row(word, meaning)


def _texts() -> Iterator[str]:
    yield from _row("kind", "allowed", "pattern")
    yield _rule_line(3)
    fields = [each for field in schema.walk() for each in (field, field.value) if each]
    used = {field.kind.name: field.kind for field in fields if field.kind is not None}
    for kind in used.values():
        yield from _row(kind.name, kind.words, f"`{kind.pattern}`")


def _rules() -> Iterator[str]:
    yield "An error stops everything; a warning and an info do not."
    yield ""
    yield from _row("rule", "level", "what it finds")
    yield _rule_line(3)
    for name, (level, meaning) in READ_RULES.items():
        yield from _row(f"`{name}`", level.value, meaning)
    for rule in RULES:
        yield from _row(f"`{rule.id}`", rule.level.value, rule.meaning)


def _row(*cells: str) -> Iterator[str]:
    yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _rule_line(count: int) -> str:
    return f"|{'---|' * count}"


if __name__ == "__main__":
    sys.stdout.write(page())
