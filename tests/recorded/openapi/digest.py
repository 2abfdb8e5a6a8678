"""Makes the digests beside this file from the providers' whole documents.

A digest holds the calls Corral makes with their schemas, unchanged, and no prose: what is needed to
check the simulated clouds and Corral's own requests. Run: ``python digest.py FOLDER`` with a folder
that has lambda.json, runpod-v2.json and paperspace.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PATHS = {
    "lambda": (
        "/api/v1/instance-types", "/api/v1/regions", "/api/v1/instances", "/api/v1/instances/{id}",
        "/api/v1/instance-operations/launch", "/api/v1/instance-operations/terminate",
        "/api/v1/ssh-keys", "/api/v1/ssh-keys/{id}", "/api/v1/file-systems",
        "/api/v1/filesystems", "/api/v1/firewall-rules",
    ),
    "runpod-v2": (
        "/v2/account/ssh-keys", "/v2/catalog/gpus", "/v2/pods", "/v2/pods/{id}",
        "/v2/pods/{id}/action", "/v2/clusters", "/v2/clusters/{id}", "/v2/network-volumes",
    ),
    "paperspace": (
        "/billing/account-standing", "/os-templates", "/startup-scripts", "/startup-scripts/{id}",
        "/machines", "/machines/{id}", "/machines/{id}/stop", "/shared-drives",
    ),
}  # fmt: skip
PROSE = {"description", "title", "summary", "example", "examples", "externalDocs", "tags"}
# Below these the keys are names of the API, not words of OpenAPI.
NAMES = {"properties", "schemas", "paths", "responses", "headers", "parameters"}


def plain(node: Any, *, names: bool = False) -> Any:
    if isinstance(node, dict):
        return {
            k: plain(v, names=k in NAMES and not names)
            for k, v in node.items()
            if names or (k not in PROSE and not k.startswith("x-"))
        }
    return [plain(one) for one in node] if isinstance(node, list) else node


def references(node: Any) -> set[str]:
    if isinstance(node, dict):
        found = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
        return found.union(*map(references, node.values()))
    return set().union(*map(references, node)) if isinstance(node, list) else set()


def digest(document: dict[str, Any], paths: tuple[str, ...]) -> dict[str, Any]:
    kept = {path: document["paths"][path] for path in paths}
    components: dict[str, dict[str, Any]] = {}
    todo = references(kept)
    while todo:
        _, _, kind, name = todo.pop().split("/")
        if name not in components.setdefault(kind, {}):
            components[kind][name] = document["components"][kind][name]
            todo |= references(components[kind][name])
    info = {"title": "digest", "version": document["info"]["version"]}
    ordered = {kind: dict(sorted(named.items())) for kind, named in sorted(components.items())}
    return {
        "openapi": document["openapi"],
        "info": info,
        "paths": {path: plain(item) for path, item in kept.items()},
        "components": {k: {n: plain(c) for n, c in named.items()} for k, named in ordered.items()},
    }


if __name__ == "__main__":
    for name, paths in PATHS.items():
        whole = json.loads((Path(sys.argv[1]) / f"{name}.json").read_text())
        text = json.dumps(digest(whole, paths), separators=(",", ":"), sort_keys=True)
        (HERE / f"{name}.json").write_text(text + "\n")
