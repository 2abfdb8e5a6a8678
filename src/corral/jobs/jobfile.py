"""A job as a YAML file: the fields of ``JobSpec``, each fault at its line and column."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from corral.errors import Code, CorralError, cannot_read
from corral.jobs.model import JobSpec, readable
from corral.spec import tree
from corral.spec.findings import dotted, shown

SUFFIXES: Final = (".yaml", ".yml")
BYTES_AT_MOST: Final = 1 << 20
_NUMBERS: Final = ("nodes", "gpus_per_node", "ranks_per_node", "cpus_per_rank", "at_once")
_SWITCHES: Final = ("requeue", "in_place", "exclusive")
_HERE: Final = ("script", "folder", "environment")


def is_job_file(name: str) -> bool:
    """True when a name is that of a job file and not of a script."""
    return name.endswith(SUFFIXES)


def read_job_file(path: Path) -> dict[str, Any]:
    """The fields a job file gives; paths in it are relative to its own folder.

    Texts stay as they are written: ``lr: [1e-3]`` gives the script 1e-3, and not 0.001.

    Raises:
        CorralError: NOT_FOUND, the file does not exist; SPEC_INVALID, with every fault in it.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CorralError(
            Code.NOT_FOUND, cannot_read(path, error), hint="name a job file"
        ) from error
    if len(data) > BYTES_AT_MOST:
        raise CorralError(Code.SPEC_INVALID, f"{path} is larger than 1 MiB", hint="a job file?")
    return parse_job_file(data.decode("utf-8-sig", errors="replace"), path)


def parse_job_file(text: str, path: Path) -> dict[str, Any]:
    """The fields of the text of a job file that is at ``path``, which is not read.

    Raises:
        CorralError: SPEC_INVALID, with every fault in it.
    """
    top, faults = tree.parse(text)
    lines = [f"{path}:{f.line}:{f.column}: {f.message}. {f.hint}" for f in faults]
    if top is None or top.pairs is None or faults:
        _refuse(path, lines or [f"{path}: a job file is a mapping: script: train.py"])
        return {}
    fields = {key: _value(key, node) for key, (_, node) in top.pairs.items()}
    fields = {key: value for key, value in fields.items() if value is not None}
    lines = _faults(path, top, fields)
    _refuse(path, lines)
    return {key: _placed(key, value, path.parent) for key, value in fields.items()}


def _value(key: str, node: tree.YamlNode) -> Any:
    if key in _NUMBERS or key in _SWITCHES:
        return node.value if node.entries is None and node.pairs is None else node.plain()
    if node.empty or (node.value is None and node.entries is None and node.pairs is None):
        return None
    if key == "sweep" and node.pairs is not None:
        return {name: _texts(values) for name, (_, values) in node.pairs.items()}
    return _text(node)


def _texts(node: tree.YamlNode) -> Any:
    """A list; one value is a list of it."""
    return _text(node) if node.entries is not None else (_text(node),)


def _text(node: tree.YamlNode) -> Any:
    if node.entries is not None:
        return tuple(_text(entry) for entry in node.entries)
    if node.pairs is not None:
        return {key: _text(value) for key, (_, value) in node.pairs.items()}
    return node.text


def _faults(path: Path, top: tree.YamlNode, fields: dict[str, Any]) -> list[str]:
    try:
        JobSpec.model_validate(fields)
    except ValidationError as error:
        return [
            _fault(path, top, fault["loc"], fault["type"], fault["msg"])
            for fault in error.errors(include_url=False)
        ]
    return []


def _fault(path: Path, top: tree.YamlNode, loc: tree.Path, kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        node = top.key(loc)
        close = difflib.get_close_matches(str(loc[-1]), list(JobSpec.model_fields), 1)
        message = f"no such field{f'; did you mean {close[0]}?' if close else ''}"
    else:
        node = top.find(loc)
        value = f", not {shown(node.text)}" if node.text and kind != "missing" else ""
        field = JobSpec.model_fields.get(str(loc[0])) if loc else None
        if kind == "string_pattern_mismatch" and field is not None:
            message = f"{shown(node.text)} is not written so. {field.description}"
        else:
            message = f"{readable(message)}{value}"
    return f"{path}:{node.line}:{node.column}: {dotted(loc)}: {message}".replace(": : ", ": ")


def _refuse(path: Path, lines: list[str]) -> None:
    if lines:
        count = "1 error" if len(lines) == 1 else f"{len(lines)} errors"
        raise CorralError(
            Code.SPEC_INVALID,
            f"{path} has {count}",
            tail="\n".join(lines),
            hint="the fields are those of `corral run --help`, with _ for -",
        )


def _placed(key: str, value: Any, folder: Path) -> Any:
    """A path of the file, seen from the current folder."""
    if key not in _HERE or not isinstance(value, str) or value == "none" or value.startswith("/"):
        return value
    return str(folder / value)
