"""Small cluster files to break: JSON is YAML, so that a dict is a file."""

from __future__ import annotations

import copy
import json
from typing import Any

from corral.spec.load import Loaded, load_text

LAB: dict[str, Any] = {
    "corral": "v1",
    "name": "lab",
    "slurm": {"version": ">=24.05", "auth": "slurm"},
    "groups": [
        {
            "name": "rtx",
            "provider": "ssh",
            "nodes": "node[0-2]",
            "addresses": "192.168.1.[10-12]",
            "gpu": {"type": "rtx5090", "count": 1},
            "features": ["blackwell"],
            "ssh": {"user": "ubuntu", "port": 2222},
        },
        {"name": "cpu", "provider": "ssh", "nodes": "cpu0", "addresses": "10.0.0.9"},
    ],
    "controller": "node0",
    "partitions": [
        {"name": "main", "groups": ["rtx", "cpu"], "default": True, "max_time": "2-00:00:00"},
        {"name": "short", "groups": ["rtx"], "max_time": "1"},
    ],
    "network": {
        "control": "lan",
        "data": {"interface": "eno1", "fabric": "ethernet", "gbps": 2.5},
    },
    "storage": [
        {"mount": "/shared", "kind": "nfs", "server": "node0", "path": "/srv/corral"},
        {"mount": "/data", "kind": "existing"},
    ],
    "users": [{"name": "alice", "uid": 2001}, {"name": "bob", "uid": 2002}],
}
LAPTOP: dict[str, Any] = {
    "corral": "v1",
    "name": "laptop",
    "groups": [
        {
            "name": "cpu",
            "provider": "embedded",
            "nodes": "node[0-2]",
            "gpu": {"type": "slot", "count": 2},
            "image": "localhost/node:1",
            "memory_mib": 2048,
        }
    ],
    "storage": [{"mount": "/shared", "kind": "provider"}],
}
GONE = object()


def changed(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A copy with other values: ``{"groups.0.nodes": "a"}``; GONE removes a key.

    Missing parents of a value are created, empty.
    """
    data = json.loads(json.dumps(base))  # a tenth of deepcopy's time; files hold JSON's types only
    for path, value in changes.items():
        above: list[Any]
        last: Any
        *above, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        parent: Any = data
        for part, below in zip(above, [*above, last][1:], strict=True):
            if isinstance(parent, dict) and parent.get(part) is None:
                parent[part] = [] if isinstance(below, int) else {}
            elif isinstance(parent, list) and part == len(parent):
                parent.append({})
            parent = parent[part]
        if value is GONE:
            del parent[last]
        elif isinstance(parent, list) and last == len(parent):
            parent.append(copy.deepcopy(value))
        else:
            parent[last] = copy.deepcopy(value)
    return data


def load_dict(data: object) -> Loaded:
    """Load a dict as a file."""
    return load_text(json.dumps(data), "lab.yaml")


def findings_of(data: object) -> set[tuple[str, str]]:
    """Rules and places of all findings."""
    return {(finding.rule, finding.where) for finding in load_dict(data).findings}
