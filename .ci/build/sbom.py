"""The bill of materials of a release: CycloneDX 1.6 from the lock files, without a timestamp.

    sbom.py > FILE

What is installed with Corral is in requirements.lock, what it installs on controllers in the locks
of its roles, what its page and its documentation bring along in package.json, static/vendor and
docs/assets. Two runs over one commit give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tomllib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

REPO: Final = Path(__file__).resolve().parents[2]
VENDOR: Final = "src/corral/web/static/vendor"
ASSETS: Final = "docs/assets"
VENDORED: Final = {
    "preact": (f"{VENDOR}/preact.mjs",),
    "uplot": (f"{VENDOR}/uPlot.iife.min.js", f"{VENDOR}/uPlot.min.css"),
    "iframe-worker": (f"{ASSETS}/iframe-worker.js",),
}
"""Packages of npm whose files are part of the wheel, or of the documentation in the sdist."""
CONTROLLERS: Final = "src/corral/roles/data"
"""Locks of what `corral up` installs on a controller: MLflow, the page."""
_PINNED: Final = re.compile(
    r"^([A-Za-z0-9._-]+)==([^\s;\\]+)(?: *; *(.*?))?(?: \\)?\n"
    r"((?:    --hash=sha256:\S+(?: \\)?\n)*)",
    re.MULTILINE,
)


def bill(root: Path) -> dict[str, Any]:
    """The document.

    Args:
        root: the checkout, or an unpacked sdist.
    """
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name, version = project["name"], project["version"]
    corral = {
        "type": "application",
        "bom-ref": f"pkg:pypi/{name}@{version}",
        "name": name,
        "version": version,
        "description": project["description"],
        "licenses": [{"license": {"id": project["license"]}}],
        "purl": f"pkg:pypi/{name}@{version}",
    }
    python = {component["bom-ref"]: component for component in _python(root)}
    for component in _controllers(root):
        known = python.setdefault(component["bom-ref"], component)
        known["properties"] += [p for p in component["properties"] if p not in known["properties"]]
    components = [*python.values(), *_javascript(root)]
    content = json.dumps([corral, components], sort_keys=True)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, content)}",
        "version": 1,
        "metadata": {"component": corral},
        "components": components,
        "dependencies": [
            {"ref": corral["bom-ref"], "dependsOn": [c["bom-ref"] for c in components]}
        ],
    }


def _python(root: Path) -> Iterator[dict[str, Any]]:
    """Packages of the lock; each has the digests of all its files, of which pip takes one."""
    for match in _PINNED.finditer((root / "requirements.lock").read_text(encoding="utf-8")):
        name, version, marker, hashes = match.groups()
        digests = re.findall(r"sha256:([0-9a-f]{64})", hashes)
        yield _package(name, version, digests, {"corral:marker": marker} if marker else {})


def _controllers(root: Path) -> Iterator[dict[str, Any]]:
    """Wheels of the locks of roles: a line has the file's name and its digest."""
    for lock in sorted((root / CONTROLLERS).glob("*.lock")):
        wheels: dict[tuple[str, str], list[str]] = {}
        for line in lock.read_text(encoding="utf-8").splitlines():
            file, _, digest = line.partition(" ")
            if file.endswith(".whl"):
                name, version = file.split("-")[:2]
                wheels.setdefault((name.replace("_", "-"), version), []).append(digest)
        for (name, version), digests in wheels.items():
            yield _package(name, version, digests, {"corral:controller": lock.stem})


def _package(name: str, version: str, digests: list[str], about: dict[str, str]) -> dict[str, Any]:
    purl = f"pkg:pypi/{name.lower()}@{version}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
        "properties": [
            *({"name": "corral:file-sha256", "value": digest} for digest in digests),
            *({"name": key, "value": value} for key, value in about.items()),
        ],
    }


def _javascript(root: Path) -> Iterator[dict[str, Any]]:
    package = json.loads((root / "package.json").read_text(encoding="utf-8"))
    pinned = package.get("dependencies", {}) | package.get("devDependencies", {})
    for name, files in VENDORED.items():
        purl = f"pkg:npm/{name}@{pinned[name]}"
        yield {
            "type": "library",
            "bom-ref": purl,
            "name": name,
            "version": pinned[name],
            "purl": purl,
            "components": [
                {
                    "type": "file",
                    "name": file,
                    "hashes": [
                        {
                            "alg": "SHA-256",
                            "content": hashlib.sha256((root / file).read_bytes()).hexdigest(),
                        }
                    ],
                }
                for file in files
            ],
        }


def text(root: Path) -> str:
    """The document as it is written."""
    return json.dumps(bill(root), indent=1) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text(REPO))
