"""Use cases of the cluster file alone: no machine is touched, so they are plain functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from corral.api.rental.clouds import simulate
from corral.providers.containers import host_gpus
from corral.spec.findings import Finding
from corral.spec.gcp_made import as_made
from corral.spec.load import load as load_file
from corral.spec.load import load_or_raise
from corral.spec.models import ClusterSpec
from corral.spec.rehearse import rehearsal_notes, rehearse
from corral.spec.schema import json_schema
from corral.spec.template import init_text


def lint(path: Path | str) -> tuple[Finding, ...]:
    """All that is wrong with a cluster file; raises nothing."""
    return load_file(Path(path)).findings


def load(path: Path | str) -> ClusterSpec:
    """Read a cluster file that must be good.

    Raises:
        SpecInvalidError: it has errors, all of them in ``findings``, or there is no such file.
    """
    return as_made(load_or_raise(Path(path)))


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
