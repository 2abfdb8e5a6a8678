"""Which clusters this machine knows: those it brought up and did not take down."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from corral.apply.journal import read_journal
from corral.errors import Code, CorralError
from corral.spec.models import ClusterSpec
from corral.state_dir import cluster_dir, cluster_names


def known_clusters() -> tuple[str, ...]:
    """Names of the clusters whose file was applied from here, sorted."""
    return tuple(name for name in cluster_names() if _recorded(name) is not None)


def spec_of(name: str) -> ClusterSpec:
    """The cluster file that was last applied under this name.

    Raises:
        CorralError: NOT_FOUND, none was; PARSE_FAILED, another Corral's record; USAGE, no name.
    """
    fields = _recorded(name)
    if fields is None:
        known = ", ".join(known_clusters())
        raise CorralError(
            Code.NOT_FOUND,
            f"no cluster called {name} was brought up from here",
            hint=f"known here: {known}" if known else "bring one up with: corral up FILE",
        )
    try:
        return ClusterSpec.model_validate(fields)
    except ValidationError as error:
        raise CorralError(
            Code.PARSE_FAILED,
            f"the recorded file of cluster {name} is not one of this Corral's",
            tail=str(error),
            hint="name the cluster file instead of the cluster's name",
        ) from error


def is_path(text: str) -> bool:
    """True for what can be no cluster's name, or is the name of a file here."""
    return "/" in text or text.endswith((".yaml", ".yml")) or Path(text).is_file()


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


def _recorded(name: str) -> object | None:
    spec = None
    for record in read_journal(cluster_dir(name, create=False) / "journal.jsonl"):
        if record.get("kind") == "spec":
            spec = record.get("spec")
    return spec
