"""The digest of a cluster file's meaning."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from corral.spec.hostlist import expand
from corral.spec.models import ClusterSpec


def digest(spec: ClusterSpec) -> str:
    """Sha256 over the canonical JSON of the entire model, defaults filled in.

    Hostlists count as the names they stand for: ``node[0-1]`` and ``node0,node1`` mean the same.

    Raises:
        CorralError: a hostlist is broken; ``load`` gives no such spec.
    """
    meaning: dict[str, Any] = spec.model_dump(mode="json")
    for group in meaning["groups"]:
        group["nodes"] = expand(group["nodes"])
        group["addresses"] = expand(group["addresses"]) if group["addresses"] else None
    text = json.dumps(meaning, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
