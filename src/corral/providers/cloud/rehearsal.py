"""Where the simulated clouds of a rehearsed cluster are: a file in the cluster's folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from corral.state_dir import cluster_dir

FILE: Final = "simulated.json"


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """Addresses by provider, and the key they all take."""

    urls: dict[str, str]
    key: str


def rehearsal_of(cluster: str) -> Rehearsal | None:
    """The simulated clouds of a cluster, None when its clouds are the real ones."""
    path = cluster_dir(cluster, create=False) / FILE
    try:
        data = json.loads(path.read_text())
        return Rehearsal({str(k): str(v) for k, v in data["urls"].items()}, str(data["key"]))
    except (OSError, ValueError, KeyError, AttributeError):
        return None
