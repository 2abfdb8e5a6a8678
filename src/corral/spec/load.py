"""Reading a cluster file: all findings at once, and its digest."""

from __future__ import annotations

import re
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from pydantic import ValidationError

from corral.errors import Code, CorralError
from corral.spec import explain, rules, schema, tree
from corral.spec.findings import Finding, Level, dotted, has_errors, near_file, one_line
from corral.spec.format import deprecations
from corral.spec.models import ClusterSpec
from corral.spec.values import Model

BYTES_AT_MOST: Final = 1024 * 1024
SHOWN_ERRORS: Final = 20
ERRORS_AT_MOST: Final = 1000

_SLURM_KEY: Final = re.compile(
    r"^[ \t]*(?P<key>ClusterName|SlurmctldHost|ControlMachine|NodeName|PartitionName|SwitchName|"
    r"DbdHost|CgroupPlugin|Constrain[A-Za-z]+|AutoDetect)[ \t]*=",
    re.MULTILINE | re.IGNORECASE,
)
"""Keys of slurm.conf, slurmdbd.conf, gres.conf, cgroup.conf and topology.conf."""
READ_RULES: Final = {
    "file-missing": (Level.ERROR, "The file does not exist."),
    "file-unreadable": (Level.ERROR, "The file is not a regular file or may not be read."),
    "file-too-large": (Level.ERROR, "The file is larger than 1 MiB."),
    "file-not-utf8": (Level.ERROR, "The file is not UTF-8 text."),
    "file-empty": (Level.ERROR, "The file holds nothing but comments."),
    "yaml-syntax": (Level.ERROR, "The text is not YAML."),
    "yaml-tab": (Level.ERROR, "A tab where YAML wants spaces."),
    "yaml-duplicate-key": (
        Level.ERROR,
        "A key occurs twice in one mapping; most YAML readers drop one silently.",
    ),
    "yaml-tag": (Level.ERROR, "A YAML tag such as !!python/object; nothing is ever made from one."),
    "yaml-key": (Level.ERROR, "A key that is not a plain text, or a << that merges no mapping."),
    "yaml-alias": (Level.ERROR, "An alias for a value that was not named before."),
    "yaml-too-large": (Level.ERROR, "Nesting, or values behind aliases, beyond any real cluster."),
    "yaml-many-documents": (Level.ERROR, "More than one YAML document in one file."),
    "not-a-mapping": (Level.ERROR, "The file is a list, a single text, or a file of Slurm."),
    "unknown-field": (Level.ERROR, "A key that no field has."),
    "missing-field": (Level.ERROR, "A field that must be there is not."),
    "wrong-type": (
        Level.ERROR,
        "A value of another type: a number where a text must be, a text where a list.",
    ),
    "wrong-value": (Level.ERROR, "A value that is out of range or not allowed."),
    "deprecated-field": (Level.WARNING, "A field that goes with the next version of the format."),
}
"""What is found while a file is read: how bad it is, and what it is."""


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


AnyModel = TypeVar("AnyModel", bound=Model)
Rules = Callable[[AnyModel], Iterable[tuple[tree.Path, str, str]]]
"""What spans several fields of a file: place, message and hint of each fault."""


def load(path: Path) -> Loaded:
    """Read a cluster file. Raises nothing: what is wrong with the file is a finding."""
    data = _bytes_of(path, _first_file(path))
    return load_bytes(data, str(path)) if isinstance(data, bytes) else Loaded(None, (data,))


def _first_file(path: Path) -> str:
    """What to do where a cluster file does not exist."""
    match path.suffix.lower():
        case ".conf":
            return "for files of Slurm, where they are: corral lint --existing /etc/slurm"
        case "" | ".yaml" | ".yml":
            return f"write one with: corral init > {path.name}"
        case _:
            return f"a cluster file is YAML; write one with: corral init > {path.stem}.yaml"


def read_model(path: Path, model: type[AnyModel], rules_of: Rules[AnyModel], hint: str) -> AnyModel:
    """Read another file than a cluster file, with its errors in the same words and places.

    Args:
        path: the file, in YAML.
        model: its fields.
        rules_of: what is wrong between fields, once each of them is valid.
        hint: what to do where the file does not exist or is empty.

    Raises:
        SpecInvalidError: it has errors (SPEC_INVALID) or does not exist (NOT_FOUND).
    """
    file, data = str(path), _bytes_of(path, hint)
    text = _decoded(data, file) if isinstance(data, bytes) else data
    if isinstance(text, Finding):
        raise invalid((text,), file, "file")
    top, broken = _top(text, file, hint, hint)
    if top is None:
        raise invalid(broken, file)
    read, errors = _model(top.plain(), model)
    findings = explain.explain(errors[:ERRORS_AT_MOST], top, file, schema.root(model))
    for place, message, what in rules_of(read) if read else ():
        node = top.find(place)
        at = (file, node.line, node.column, dotted(place))
        findings.append(Finding("wrong-value", Level.ERROR, message, what, *at))
    if read is None or findings or broken:
        raise invalid(sorted((*broken, *findings), key=lambda f: (f.line, f.column)), file)
    return read


def _bytes_of(path: Path, hint: str) -> bytes | Finding:
    file = str(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode) and not stat.S_ISFIFO(path.stat().st_mode):
            return _refused("file-unreadable", "it is not a file", "name a YAML file", file)
        with path.open("rb") as stream:
            return stream.read(BYTES_AT_MOST + 1)
    except FileNotFoundError:
        return _refused(
            "file-missing", "the file does not exist", near_file(path, "*.y*ml") or hint, file
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return _refused("file-unreadable", f"it cannot be read: {reason}", "check its mode", file)


def load_bytes(data: bytes, file: str) -> Loaded:
    """Read a cluster file's bytes; ``file`` is its name in findings. Raises nothing."""
    text = _decoded(data, file)
    return load_text(text, file) if isinstance(text, str) else Loaded(None, (text,))


def _decoded(data: bytes, file: str) -> str | Finding:
    if len(data) > BYTES_AT_MOST:
        hint = "a cluster file lists groups, not machines: nodes: node[0-999]"
        return _refused("file-too-large", "it is larger than 1 MiB", hint, file)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line, column = before.count(b"\n") + 1, error.start - (before.rfind(b"\n") + 1) + 1
        message = f"the byte 0x{data[error.start]:02x} is not UTF-8"
        hint = "save the file as UTF-8"
        place = (file, line, column)
        return Finding("file-not-utf8", Level.ERROR, message, hint, *place)


def load_text(text: str, file: str) -> Loaded:
    """Read a cluster file's text; ``file`` is its name in findings. Raises nothing."""
    hint = "write a starting file with: corral init laptop"
    top, broken = _top(text, file, "begin with 'corral: v1' and 'name: ...'", hint)
    if top is None:
        return Loaded(None, tuple(_slurms_file(text, file)) or broken)
    spec, more = _validated(top, file)
    going = deprecations.findings(top, file)
    findings = tuple(sorted((*broken, *more, *going), key=lambda f: (f.line, f.column)))
    return Loaded(None if has_errors(findings) else spec, findings)


def _slurms_file(text: str, file: str) -> Iterator[Finding]:
    """What is wrong with a file of Slurm's that is taken for a cluster file."""
    key = _SLURM_KEY.search(text[:BYTES_AT_MOST])
    if key is None or re.search(r"^corral *:", text, re.MULTILINE):
        return
    name, line = shlex.quote(one_line(file)), text.count("\n", 0, key.start("key")) + 1
    message = f"a file of Slurm ({key['key']}=), and not a cluster file"
    hint = (
        f"corral lint --existing {name} checks it; corral init --existing {name} writes a "
        "cluster file from it"
    )
    place = (file, line, key.start("key") - text.rfind("\n", 0, key.start("key")))
    yield Finding("not-a-mapping", Level.ERROR, message, hint, *place)


def _top(
    text: str, file: str, begin: str, hint: str
) -> tuple[tree.YamlNode | None, tuple[Finding, ...]]:
    """The file's mapping, None where it holds none, and what is wrong with the YAML itself."""
    if len(text) > BYTES_AT_MOST:
        return None, (_refused("file-too-large", "it is larger than 1 MiB", "list groups", file),)
    top, faults = tree.parse(text)
    broken = tuple(
        Finding(f.rule, Level.ERROR, f.message, f.hint, file, f.line, f.column) for f in faults
    )
    if top is None or top.empty:
        return None, broken or (_refused("file-empty", "the file is empty", hint, file),)
    if top.pairs is None:
        message = "the file must be a mapping of keys and values"
        place = (file, top.line, top.column)
        return None, (*broken, Finding("not-a-mapping", Level.ERROR, message, begin, *place))
    return top, broken


def load_or_raise(path: Path) -> ClusterSpec:
    """Read a cluster file that must be valid.

    Raises:
        SpecInvalidError: it has errors (SPEC_INVALID) or does not exist (NOT_FOUND); all
            findings are in ``findings``, and as text in ``tail``.
    """
    loaded = load(path)
    if loaded.spec is not None:
        return loaded.spec
    raise invalid(loaded.findings, str(path))


def invalid(findings: Sequence[Finding], file: str, kind: str = "cluster file") -> SpecInvalidError:
    """The error that stands for these findings of one file."""
    errors = [f for f in findings if f.level is Level.ERROR]
    if [f.rule for f in errors] == ["file-missing"]:
        code, message = Code.NOT_FOUND, f"{kind} {one_line(file)} does not exist"
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


def _refused(rule: str, message: str, hint: str, file: str) -> Finding:
    return Finding(rule, Level.ERROR, message, hint, file)


def _validated(top: tree.YamlNode, file: str) -> tuple[ClusterSpec | None, list[Finding]]:
    """The cluster and what is wrong with it, by the models and by the rules.

    With errors the rules still judge what is not touched by them, on a repaired copy, so that
    a user sees everything in one go.
    """
    raw = top.plain()
    spec, errors = _model(raw, ClusterSpec)
    findings = explain.explain(errors[:ERRORS_AT_MOST], top, file)
    unknown = tuple(path for error in errors if (path := explain.touched(error)))
    if spec is None:
        explain.repair(raw, errors)
        spec, _ = _model(raw, ClusterSpec)
    if spec is None:
        return None, findings
    for problem in rules.judge(spec, unknown):
        node = top.find(problem.path)
        where = dotted(problem.path)
        place = (file, node.line, node.column, where)
        findings.append(Finding(problem.rule, problem.level, problem.message, problem.hint, *place))
    return spec, findings


def _model(raw: Any, model: type[AnyModel]) -> tuple[AnyModel | None, list[explain.ErrorDetails]]:
    """Strict: YAML has its own types, so that ``uid: true`` and ``count: "2"`` are errors."""
    try:
        return model.model_validate(_frozen(raw), strict=True), []
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
