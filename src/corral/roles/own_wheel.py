"""Corral itself as a wheel, for services that run its code on the controller.

Made of the files of the package that runs, so that a checkout, a fork and a release all bring what
they are. Its bytes depend on those files alone: stored, not compressed, and all of one date.
"""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Final

from corral.state.pyenv import Wheel

_DATE: Final = (1980, 1, 1, 0, 0, 0)
_LEFT_OUT: Final = ("__pycache__", ".pyc", ".swp")


@cache
def own_wheel() -> tuple[Wheel, bytes]:
    """The wheel's name with its digest, and its bytes."""
    version = metadata.version("corral")
    info = f"corral-{version}.dist-info"
    files = _files(Path(__file__).parents[1])
    files[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: corral\nVersion: {version}\n".encode()
    )
    files[f"{info}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: corral\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    record = f"{info}/RECORD"
    lines = [f"{name},sha256={_sum(data)},{len(data)}" for name, data in sorted(files.items())]
    files[record] = "\n".join([*lines, f"{record},,", ""]).encode()
    data = _packed(files)
    name = f"corral-{version}-py3-none-any.whl"
    return Wheel(name, hashlib.sha256(data).hexdigest()), data


def _files(root: Path) -> dict[str, bytes]:
    paths = {
        f"corral/{path.relative_to(root).as_posix()}": path
        for path in root.rglob("*")
        if path.is_file() and not any(word in str(path.relative_to(root)) for word in _LEFT_OUT)
    }
    return {name: paths[name].read_bytes() for name in sorted(paths)}


def _packed(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _DATE)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, files[name])
    return packed.getvalue()


def _sum(data: bytes) -> str:
    digest = hashlib.sha256(data).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
