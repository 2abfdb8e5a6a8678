"""The reference page of job files and training files: ``python -m corral.cli.file_reference``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any, Final

from pydantic import BaseModel

from corral.jobs.model import JobSpec
from corral.prove.advice.run_file import TrainingFile

_HEAD: Final = """\
# Job files and training files

<!-- Generated: python -m corral.cli.file_reference > docs/reference/files.md -->

Two files next to the [cluster file](cluster-file.md). Unknown keys are errors, with line and
column.

## Job files

`corral run job.yaml`: the options of [`corral run`](cli.md#corral-run) as a file; options given on
the command line win. `script`, `folder` and `environment` are seen from the file's own folder
([guide](../guide/jobs.md#job-files)).
"""
_TRAINING: Final = """
## Training files

`corral advise train.yaml`: a training run, to find the cheapest cluster on sale for it
([guide](../guide/cost.md#what-would-it-cost-to-train-this)).
"""


def page() -> str:
    """The fields of both files as Markdown."""
    parts = [_HEAD, *_table(JobSpec), _TRAINING, *_table(TrainingFile)]
    return "\n".join(parts) + "\n"


def _table(model: type[BaseModel]) -> Iterator[str]:
    yield from ("| field | type | default | meaning |", "|---|---|---|---|")
    schema = model.model_json_schema()
    yield from _rows("", schema, schema.get("$defs", {}))


def _rows(prefix: str, schema: dict[str, Any], known: dict[str, Any]) -> Iterator[str]:
    """A row for each field, those of a mapping behind it."""
    for name, about in schema["properties"].items():
        kind = _resolved(about, known)
        entry = _resolved(kind.get("items", {}), known)
        many = "properties" in entry
        path = f"{prefix}{name}{'[]' if many else ''}"
        default = about.get("default")
        empty = name not in schema.get("required", ()) and default in (None, [], {}, "")
        value = "*needed*" if name in schema.get("required", ()) else f"`{json.dumps(default)}`"
        meaning = " ".join((about.get("description") or kind.get("description") or "").split())
        cells = (f"`{path}`", _type(kind, known), "none" if empty else value, meaning)
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
        below = entry if many else kind
        if "properties" in below:
            yield from _rows(f"{path}.", below, known)


def _resolved(about: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """What a field is where it is there."""
    for option in about.get("anyOf", ()):
        if option.get("type") != "null":
            return _resolved(option, known)
    return known[about["$ref"].rpartition("/")[2]] if "$ref" in about else about


def _type(about: dict[str, Any], known: dict[str, Any]) -> str:
    if "enum" in about:
        return " or ".join(f"`{value}`" for value in about["enum"])
    if "items" in about or "prefixItems" in about:
        return f"list of {_type(_resolved(about.get('items', {}), known), known)}"
    if about.get("additionalProperties") and "properties" not in about:
        inner = _type(_resolved(about["additionalProperties"], known), known)
        return f"mapping of names to {inner}"
    words = {"object": "mapping", "string": "text", "number": "number", "integer": "integer"}
    word = words.get(about.get("type", ""), "true or false")
    limits = (("minimum", "from"), ("exclusiveMinimum", "above"), ("maximum", "to"))
    return " ".join([word, *(f"{w} {about[key]:g}" for key, w in limits if key in about)])


if __name__ == "__main__":
    sys.stdout.write(page())
