"""Clusters on containers of this machine: the rehearsal of a file, and files to start from."""

from __future__ import annotations

from corral.api.rental.clouds import simulate
from corral.providers.containers.gpus import host_gpus
from corral.spec.models import ClusterSpec
from corral.spec.rehearsal import rehearsal_notes, rehearse
from corral.spec.template import init_text


def rehearsal(spec: ClusterSpec) -> tuple[ClusterSpec, tuple[str, ...]]:
    """The same cluster on containers of this machine, and what that cannot show, in words.

    Simulated clouds are started for rented groups.
    """
    mapped = rehearse(spec)
    simulate(mapped)
    return mapped, tuple(rehearsal_notes(spec))


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
