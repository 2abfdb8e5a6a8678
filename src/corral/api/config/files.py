"""Use cases of cluster files: checked, loaded, rehearsed; the clusters this machine knows."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from corral.api.config import profiles
from corral.api.rental.clouds import simulate
from corral.apply.journal import read_journal
from corral.errors import Code, CorralError
from corral.providers.containers.gpus import host_gpus
from corral.spec.findings import Finding
from corral.spec.load import load as load_file
from corral.spec.load import load_or_raise
from corral.spec.models import ClusterSpec
from corral.spec.rehearsal import rehearsal_notes, rehearse
from corral.spec.schema import json_schema
from corral.spec.sections.provider_setup import completed
from corral.spec.template import init_text
from corral.state_dir import cluster_dir, cluster_names


def lint(path: Path | str) -> tuple[Finding, ...]:
    """All that is wrong with a cluster file; raises nothing."""
    return load_file(Path(path)).findings


def load(path: Path | str) -> ClusterSpec:
    """Read a cluster file that must be good.

    Raises:
        SpecInvalidError: it has errors, all of them in ``findings``, or there is no such file.
    """
    return completed(load_or_raise(Path(path)))


def rehearsal(spec: ClusterSpec) -> tuple[ClusterSpec, tuple[str, ...]]:
    """The same cluster on embedded nodes of this machine, and what that cannot show, in words.

    Simulated clouds are started for rented groups.
    """
    mapped = rehearse(spec)
    simulate(mapped)
    return mapped, tuple(rehearsal_notes(spec))


def schema() -> dict[str, Any]:
    """The JSON Schema of a cluster file, for editors."""
    return json_schema()


def starting_file(kind: str = "laptop", **values: str | int | float) -> str:
    """A complete, commented cluster file to start from.

    On a machine with NVIDIA GPUs the laptop's nodes get one of them each, or ``gpu_count``, unless
    ``values`` names a ``gpu_type`` or ``gpu_source``.

    Args:
        kind: laptop (containers on this machine) or lab (three machines by ssh).
        **values: what to write instead of the template's own: name, nodes, gpu_type, ...

    Raises:
        CorralError: USAGE or SPEC_INVALID, it could not be a good file.
    """
    if kind == "laptop" and not values.keys() & {"gpu_type", "gpu_source"}:
        values = host_gpus.for_template(values.get("gpu_count", 1)) | values
    return init_text(kind, **values)


def known_clusters() -> tuple[str, ...]:
    """Names of the clusters whose file was applied from here, sorted."""
    return tuple(name for name in cluster_names() if _recorded(name) is not None)


def spec_of(name: str) -> ClusterSpec:
    """The cluster file that was last applied under this name, else the cluster of a profile.

    Raises:
        CorralError: NOT_FOUND, none was, and there is no such profile; PARSE_FAILED, another
            Corral's record or profile; USAGE, no name.
    """
    fields = _recorded(name)
    if fields is None:
        client = profiles.profile_spec(name)
        if client is not None:
            return client
        known = ", ".join((*known_clusters(), *profiles.profiles()))
        raise CorralError(
            Code.NOT_FOUND,
            f"no cluster called {name} was brought up from here, and no profile has that name",
            hint=f"known here: {known}"
            if known
            else "bring one up with: corral up FILE; or log in to one: corral login USER@HOST",
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
