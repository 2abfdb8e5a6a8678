"""Reading a cluster file: all findings at once, and its digest."""

from __future__ import annotations

import difflib
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from pydantic import ValidationError

from corral.errors import Code, CorralError
from corral.spec import explain, rules, tree
from corral.spec.findings import Finding, Level, dotted, has_errors, one_line
from corral.spec.models import ClusterSpec

BYTES_AT_MOST: Final = 1024 * 1024
SHOWN_ERRORS: Final = 20
ERRORS_AT_MOST: Final = 1000

READ_RULES: Final = {
    "file-missing": "There is no such file.",
    "file-unreadable": "The file is not a regular file or may not be read.",
    "file-too-large": "The file is larger than 1 MiB.",
    "file-not-utf8": "The file is not UTF-8 text.",
    "file-empty": "The file holds nothing but comments.",
    "yaml-syntax": "The text is not YAML.",
    "yaml-tab": "A tab where YAML wants spaces.",
    "yaml-duplicate-key": "A key occurs twice in one mapping; most YAML readers drop one silently.",
    "yaml-tag": "A YAML tag such as !!python/object; nothing is ever made from one.",
    "yaml-key": "A key that is not a plain text, or a << that merges no mapping.",
    "yaml-alias": "An alias for a value that was not named before.",
    "yaml-too-large": "Nesting, or values behind aliases, beyond any real cluster.",
    "yaml-many-documents": "More than one YAML document in one file.",
    "not-a-mapping": "The file is a list or a single text.",
    "unknown-field": "A key that no field has.",
    "missing-field": "A field that must be there is not.",
    "wrong-type": "A value of another type: a number where a text must be, a text where a list.",
    "wrong-value": "A value that is out of range or not allowed.",
}


@dataclass(frozen=True, slots=True)
class Loaded:
    """A cluster file as read.

    Attributes:
        spec: the cluster; None exactly when a finding is an error.
        findings: all findings in the file's order.
    """

    spec: ClusterSpec | None
    findings: tuple[Finding, ...] = ()


@dataclass(slots=True)
class SpecInvalidError(CorralError):
    """A cluster file with errors; ``findings`` holds all of them, warnings too."""

    findings: tuple[Finding, ...] = ()


def load(path: Path) -> Loaded:
    """Read a cluster file. Raises nothing: what is wrong with the file is a finding."""
    file = str(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode) and not stat.S_ISFIFO(path.stat().st_mode):
            return _refused("file-unreadable", "it is not a file", "name a YAML file", file)
        with path.open("rb") as stream:
            data = stream.read(BYTES_AT_MOST + 1)
    except FileNotFoundError:
        hint = _other_files(path) or f"write one with: corral init > {path.name}"
        return _refused("file-missing", "there is no such file", hint, file)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return _refused("file-unreadable", f"it cannot be read: {reason}", "check its mode", file)
    return load_bytes(data, file)


def load_bytes(data: bytes, file: str) -> Loaded:
    """Read a cluster file's bytes; ``file`` is its name in findings. Raises nothing."""
    if len(data) > BYTES_AT_MOST:
        hint = "a cluster file lists groups, not machines: nodes: node[0-999]"
        return _refused("file-too-large", "it is larger than 1 MiB", hint, file)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line, column = before.count(b"\n") + 1, error.start - (before.rfind(b"\n") + 1) + 1
        message = f"the byte 0x{data[error.start]:02x} is not UTF-8"
        hint = "save the file as UTF-8"
        place = (file, line, column)
        return Loaded(None, (Finding("file-not-utf8", Level.ERROR, message, hint, *place),))
    return load_text(text, file)


def load_text(text: str, file: str) -> Loaded:
    """Read a cluster file's text; ``file`` is its name in findings. Raises nothing."""
    if len(text) > BYTES_AT_MOST:
        return _refused("file-too-large", "it is larger than 1 MiB", "list groups", file)
    top, faults = tree.parse(text)
    broken = [
        Finding(f.rule, Level.ERROR, f.message, f.hint, file, f.line, f.column) for f in faults
    ]
    if top is None or top.empty:
        hint = "write a starting file with: corral init laptop"
        empty = Finding("file-empty", Level.ERROR, "the file is empty", hint, file)
        return Loaded(None, tuple(broken) or (empty,))
    if top.pairs is None:
        hint = "begin with 'corral: v1' and 'name: ...'"
        message = "the file must be a mapping of keys and values"
        place = (file, top.line, top.column)
        return Loaded(None, (*broken, Finding("not-a-mapping", Level.ERROR, message, hint, *place)))
    spec, more = _validated(top, file)
    findings = tuple(sorted((*broken, *more), key=lambda f: (f.line, f.column)))
    return Loaded(None if has_errors(findings) else spec, findings)


def load_or_raise(path: Path) -> ClusterSpec:
    """Read a cluster file that must be valid.

    Raises:
        SpecInvalidError: it has errors (SPEC_INVALID) or there is no such file (NOT_FOUND); all
            findings are in ``findings``, and as text in ``tail``.
    """
    loaded = load(path)
    if loaded.spec is not None:
        return loaded.spec
    raise invalid(loaded.findings, str(path))


def invalid(findings: Sequence[Finding], file: str) -> SpecInvalidError:
    """The error that stands for these findings of one file."""
    errors = [f for f in findings if f.level is Level.ERROR]
    if [f.rule for f in errors] == ["file-missing"]:
        code, message = Code.NOT_FOUND, f"no cluster file {one_line(file)}"
    else:
        count = "1 error" if len(errors) == 1 else f"{len(errors)} errors"
        code, message = Code.SPEC_INVALID, f"{one_line(file)} has {count}"
    hint = errors[0].hint if len(errors) == 1 else "correct them all; nothing was changed"
    lines = [str(finding) for finding in findings]
    if len(lines) > SHOWN_ERRORS:
        lines = [*lines[:SHOWN_ERRORS], f"... and {len(lines) - SHOWN_ERRORS} more"]
    return SpecInvalidError(
        code, message, tail="\n".join(lines), hint=hint, findings=tuple(findings)
    )


def _other_files(path: Path) -> str:
    """Cluster files of the same folder with a similar name."""
    try:
        names = sorted(other.name for other in path.parent.glob("*.y*ml"))
    except (OSError, ValueError):
        return ""
    meant = difflib.get_close_matches(path.name, names, n=1, cutoff=0.7)
    return f"did you mean {path.with_name(meant[0])}?" if meant else ""


def _refused(rule: str, message: str, hint: str, file: str) -> Loaded:
    return Loaded(None, (Finding(rule, Level.ERROR, message, hint, file),))


def _validated(top: tree.YamlNode, file: str) -> tuple[ClusterSpec | None, list[Finding]]:
    """The cluster and what is wrong with it, by the models and by the rules.

    With errors the rules still judge what is not touched by them, on a repaired copy, so that
    a user sees everything in one go.
    """
    raw = top.plain()
    spec, errors = _model(raw)
    findings = explain.explain(errors[:ERRORS_AT_MOST], top, file)
    unknown = tuple(path for error in errors if (path := explain.touched(error)))
    if spec is None:
        explain.repair(raw, errors)
        spec, _ = _model(raw)
    if spec is None:
        return None, findings
    for problem in rules.judge(spec, unknown):
        node = top.find(problem.path)
        where = dotted(problem.path)
        place = (file, node.line, node.column, where)
        findings.append(Finding(problem.rule, problem.level, problem.message, problem.hint, *place))
    return spec, findings


def _model(raw: Any) -> tuple[ClusterSpec | None, list[explain.ErrorDetails]]:
    """Strict: YAML has its own types, so that ``uid: true`` and ``count: "2"`` are errors."""
    try:
        return ClusterSpec.model_validate(_frozen(raw), strict=True), []
    except ValidationError as error:
        details = error.errors(include_url=False)
        return None, explain.without_echoes(
            [cast(explain.ErrorDetails, detail) for detail in details]
        )


def _frozen(value: Any) -> Any:
    """Lists as tuples, which is what the strict models take."""
    if isinstance(value, dict):
        return {key: _frozen(v) for key, v in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return tuple(_frozen(v) for v in cast("list[Any]", value))
    return value
