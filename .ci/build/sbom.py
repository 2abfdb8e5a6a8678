"""The bill of materials of a release: CycloneDX 1.6 from the lock files, without a timestamp.

    sbom.py > FILE

What is installed with Corral is in requirements.lock, what its page brings along in package.json
and the folder static/vendor. Two runs over one commit give the same bytes.
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
VENDORED: Final = {"preact": ("preact.mjs",), "uplot": ("uPlot.iife.min.js", "uPlot.min.css")}
"""Packages of npm whose files are part of the wheel."""
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
    components = [*_python(root), *_javascript(root)]
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
        properties = [{"name": "corral:file-sha256", "value": digest} for digest in digests]
        if marker:
            properties.append({"name": "corral:marker", "value": marker})
        purl = f"pkg:pypi/{name.lower()}@{version}"
        yield {
            "type": "library",
            "bom-ref": purl,
            "name": name,
            "version": version,
            "purl": purl,
            "properties": properties,
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
                    "name": f"{VENDOR}/{file}",
                    "hashes": [
                        {
                            "alg": "SHA-256",
                            "content": hashlib.sha256(
                                (root / VENDOR / file).read_bytes()
                            ).hexdigest(),
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
