"""Corral: one file in, one proven GPU Slurm cluster out.

    import corral

    cluster = corral.open("laptop.yaml")
    print(cluster.plan().empty)
    cluster.up()
    assert cluster.prove().good

The same use cases as on the command line, synchronous; ``corral.api`` has them as async functions.
Names are loaded at first use: the command line's start must not pay for them.
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from corral.api.cluster import Cluster as Cluster
    from corral.api.cluster import open as open  # read as corral.open
    from corral.api.clusters import known_clusters as known_clusters
    from corral.api.files import lint as lint
    from corral.api.handle import Job as Job
    from corral.errors import CorralError as CorralError
    from corral.events import Event as Event
    from corral.jobs.model import JobSpec as JobSpec

_HOME_OF: Final = MappingProxyType(
    {
        "Cluster": "corral.api.cluster",
        "CorralError": "corral.errors",
        "Event": "corral.events",
        "Job": "corral.api.handle",
        "JobSpec": "corral.jobs.model",
        "known_clusters": "corral.api.clusters",
        "lint": "corral.api.files",
        "open": "corral.api.cluster",
    }
)


def __getattr__(name: str) -> Any:
    """Load a name's module when it is first asked for (PEP 562)."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    """All names, loaded or not."""
    return sorted(_HOME_OF)
