"""Use cases of cluster files: check and load them, and record where they were applied from."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from corral.spec.findings import Finding
from corral.spec.load import load as load_file
from corral.spec.load import load_or_raise
from corral.spec.models import ClusterSpec
from corral.spec.schema import json_schema
from corral.spec.sections.provider_setup import completed
from corral.state_dir import cluster_dir


def lint(path: Path | str) -> tuple[Finding, ...]:
    """All findings about a cluster file; raises nothing."""
    return load_file(Path(path)).findings


def load(path: Path | str) -> ClusterSpec:
    """Read a cluster file that must be valid.

    Raises:
        SpecInvalidError: it has errors, all of them in ``findings``, or the file does not exist.
    """
    return completed(load_or_raise(Path(path)))


def schema() -> dict[str, Any]:
    """The JSON Schema of a cluster file, for editors."""
    return json_schema()


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a cluster was last applied from.

    Attributes:
        file: absolute path of its file.
        rehearsal: it was applied as a rehearsal.
    """

    file: str
    rehearsal: bool = False


def origin_of(name: str) -> Origin | None:
    """The file that was last applied under this name, None where that is not known."""
    try:
        fields: Any = json.loads(_origin(name).read_text(encoding="utf-8"))
        return Origin(str(fields["file"]), bool(fields["rehearsal"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep_origin(spec: ClusterSpec, file: Path, *, rehearsal: bool) -> None:
    """Keep which file a cluster is applied from."""
    place = _origin(spec.name, create=True)
    new = place.with_suffix(".new")
    about = asdict(Origin(str(file.resolve()), rehearsal))
    new.write_text(json.dumps(about), encoding="utf-8")
    new.replace(place)


def _origin(name: str, *, create: bool = False) -> Path:
    return cluster_dir(name, create=create) / "origin.json"
