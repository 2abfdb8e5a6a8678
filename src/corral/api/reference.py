"""Writes docs/reference/python.md from the code: ``python -m corral.api.reference``.

A test compares the committed page with ``page()``.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import textwrap
from collections.abc import Collection, Iterator
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

from pydantic import BaseModel

import corral
import corral.api
from corral.errors import CODES

_INTRODUCTION: Final = """\
# The Python API

<!-- Generated: python -m corral.api.reference > docs/reference/python.md -->

`import corral` has the use cases of the command line as synchronous functions, `corral.api` has
them as async functions. Jobs use `corral.checkpoint`, `corral.track` and `corral.shards`, which
need nothing but the standard library, and `corral.samples`, which needs the package `lmdb`.

<!-- not run: as written: it makes a cluster; `tests/embedded/test_cli.py` opens one -->
```python
import corral

cluster = corral.open("laptop.yaml")
print(cluster.plan().empty)
cluster.up()
assert cluster.prove().good
```

An error is a `corral.CorralError` with one of these codes:
"""
_IN_JOBS: Final = ("checkpoint", "track", "shards", "samples")
"""Modules that programs of jobs import."""
_QUOTES: Final = re.compile(r"(?<!`)``(?!`)")
_EXAMPLE: Final = re.compile(r"(?<=\n\n)(?: {4}\S[^\n]*\n+(?:(?: {4}[^\n]*)?\n)*)")
"""Indented lines after a blank one: a module's example."""
_RUN_BY: Final = (
    "<!-- run by: tests/unit/api/test_reference.py; in other folders, with stand-ins of the model, "
    "its training and PyTorch's loader -->"
)
_SECTION: Final = re.compile(r"^(Args|Raises|Returns|Yields|Attributes):$")
_ENTRY: Final = re.compile(r"^    (\*{0,2}[\w.]+): (.*)$")
_HEADS: Final = MappingProxyType(
    {"Args": "parameter", "Raises": "raises", "Attributes": "attribute"}
)


def page() -> str:
    """The page as Markdown."""
    lines = [_INTRODUCTION, "| code | meaning |", "|---|---|"]
    lines += [f"| `{code}` | {_cell(info.meaning)} |" for code, info in CODES.items()]
    lines += ["", "## corral"]
    for name in dir(corral):
        lines += ["", *_named(f"corral.{name}", getattr(corral, name))]
    for module in _IN_JOBS:
        lines += ["", *_module(f"corral.{module}")]
    lines += ["", *_async()]
    return "\n".join(lines) + "\n"


def _module(name: str) -> Iterator[str]:
    module = import_module(name)
    yield f"## {name}"
    yield ""
    yield from _text(_EXAMPLE.sub(_fenced, inspect.cleandoc(module.__doc__ or "")))
    for own, value in vars(module).items():
        public = not own.startswith("_") and getattr(value, "__module__", "") == name
        if public and callable(value) and own != "main":
            yield ""
            yield from _named(f"{name}.{own}", value)


def _fenced(example: re.Match[str]) -> str:
    """With two blanks before comments: the formatter reads pages too."""
    code = re.sub(r"(?<=\S) {2,}#", "  #", textwrap.dedent(example[0]).strip())
    return f"{_RUN_BY}\n```python\n{code}\n```\n\n"


def _async() -> Iterator[str]:
    yield "## corral.api"
    yield ""
    yield "The use cases as async functions; most take the cluster (`spec`, from `load`) and a"
    yield "receiver of events (`emit`) first. Records that they return are listed after them."
    functions: list[str] = []
    records: list[str] = []
    for name in dir(corral.api):
        value = getattr(corral.api, name)
        first = _sentence(inspect.getdoc(value) or "")
        if inspect.isfunction(value):
            functions.append(
                f"| `{_signature(name, value).replace('|', chr(92) + '|')}` | {_cell(first)} |"
            )
        elif inspect.isclass(value):
            records.append(f"| `{name}` | {_cell(first)} |")
    yield from ("", "| function | |", "|---|---|", *functions)
    yield from ("", "| record | |", "|---|---|", *records)


def _named(name: str, value: Any) -> Iterator[str]:
    yield f"### {name}"
    yield ""
    if inspect.isclass(value) and issubclass(value, BaseModel):
        yield from _text(_own_doc(value))
        yield from ("", "| field | type | default | meaning |", "|---|---|---|---|")
        yield from _fields(value)
        return
    plain = inspect.isclass(value) and not _has_signature(value)
    if not plain:
        yield f"`{_signature(name, value)}`"
        yield ""
    yield from _text(_own_doc(value) if inspect.isclass(value) else inspect.getdoc(value) or "")
    if inspect.isclass(value):
        for method, member in vars(value).items():
            if not method.startswith("_") and (callable(member) or isinstance(member, property)):
                yield ""
                yield from _member(f"{name.rpartition('.')[2]}.{method}", member)


def _member(name: str, member: Any) -> Iterator[str]:
    if isinstance(member, property):
        yield from (f"#### {name} (property)", "")
        yield from _text(inspect.getdoc(member) or "")
        return
    yield from (f"#### {name}", "", f"`{_signature(name, member)}`", "")
    yield from _text(inspect.getdoc(member) or "", {p.name for p in _parameters(member)})


def _fields(model: type[BaseModel]) -> Iterator[str]:
    schema = model.model_json_schema()
    for name, about in schema["properties"].items():
        default = (
            "required"
            if model.model_fields[name].is_required()
            else f"`{json.dumps(about.get('default'))}`"
        )
        yield f"| `{name}` | {_type(about)} | {default} | {_cell(about.get('description', ''))} |"


def _type(about: dict[str, Any]) -> str:
    if "anyOf" in about:
        return " or ".join(_type(option) for option in about["anyOf"])
    if "$ref" in about:
        return str(about["$ref"]).rpartition("/")[2]
    if "enum" in about:
        return ", ".join(f"`{value}`" for value in about["enum"])
    return str(about.get("type", "any"))


def _has_signature(value: type) -> bool:
    return "__init__" in vars(value)


def _own_doc(value: type) -> str:
    return inspect.cleandoc(value.__doc__ or "")


def _signature(name: str, value: Any) -> str:
    given = inspect.signature(value)
    shown = list[str]()
    for parameter in _parameters(value):
        kind = parameter.kind
        if kind is parameter.KEYWORD_ONLY and not any(text.startswith("*") for text in shown):
            shown.append("*")
        star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(kind, "")
        shown.append(star + _parameter(parameter))
    result = given.return_annotation
    hidden = result is inspect.Signature.empty or inspect.isclass(value)
    return f"{name}({', '.join(shown)})" + ("" if hidden else f" -> {_annotation(result)}")


def _parameters(value: Any) -> list[inspect.Parameter]:
    return [p for p in inspect.signature(value).parameters.values() if p.name != "self"]


def _parameter(parameter: inspect.Parameter) -> str:
    text = parameter.name
    if parameter.annotation is not parameter.empty:
        text += f": {_annotation(parameter.annotation)}"
    default = parameter.default
    if default is parameter.empty:
        return text
    # A function's own text has its address.
    shown = getattr(default, "__name__", None) or repr(default)
    return f"{text} = {shown.replace('<lambda>', '...')}"


def _annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _text(doc: str, takes: Collection[str] | None = None) -> Iterator[str]:
    """A docstring as Markdown: its sections become tables.

    Args:
        doc: the docstring.
        takes: names of the parameters, where the docstring has some that are given otherwise.
    """
    for number, paragraph in enumerate(re.split(r"\n{2,}", inspect.cleandoc(doc))):
        head, _, body = paragraph.partition("\n")
        section = _SECTION.match(head)
        entries = [*_entries(body)] if section else []
        if section and section[1] == "Args" and takes is not None:
            entries = [entry for entry in entries if entry[0].lstrip("*") in takes]
            if not entries:
                continue
        yield from ("",) if number else ()
        if section and section[1] in {"Returns", "Yields"}:
            yield f"{section[1]}: {_line(body)}"
        elif section:
            yield from (f"| {_HEADS[section[1]]} | |", "|---|---|")
            yield from (f"| `{name}` | {_cell(about)} |" for name, about in entries)
        else:
            yield from (_QUOTES.sub("`", line) for line in paragraph.splitlines())


def _line(text: str) -> str:
    return " ".join(text.split()).replace("``", "`")


def _entries(body: str) -> Iterator[tuple[str, str]]:
    name, about = "", list[str]()
    for line in body.splitlines():
        if (match := _ENTRY.match(line)) is not None:
            if name:
                yield name, " ".join(about)
            name, about = match[1], [match[2]]
        else:
            about.append(line.strip())
    if name:
        yield name, " ".join(about)


def _sentence(doc: str) -> str:
    return " ".join(doc.partition("\n\n")[0].split())


def _cell(text: str) -> str:
    return text.replace("``", "`").replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


if __name__ == "__main__":
    sys.stdout.write(page())
