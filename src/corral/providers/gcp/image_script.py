"""The script that installs a user's own software into the nodes' image, read from its file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from corral.errors import Code, CorralError
from corral.providers.gcp.toolkit_cluster import section_of
from corral.spec.models import ClusterSpec

AT_MOST: Final = 65536
"""Bytes: it is a part of the blueprint, and what it fetches is not."""


def script_of(spec: ClusterSpec) -> str:
    """Text of the script that the cluster file names, "" where it names none.

    Raises:
        CorralError: NOT_FOUND, it cannot be read; NOT_GOOD, it is not a short text.
    """
    gcp = section_of(spec)
    name = gcp.image_script if gcp else None
    if name is None:
        return ""
    try:
        data = Path(name).read_bytes()
    except OSError as error:
        raise CorralError(
            Code.NOT_FOUND,
            f"gcp.image_script {name} cannot be read: {error.strerror}",
            hint="write the path of a shell script on this machine, or leave image_script out",
        ) from error
    if not data.strip() or len(data) > AT_MOST or b"\0" in data or b"\r" in data:
        raise _not_a_script(name)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise _not_a_script(name) from error


def _not_a_script(name: str) -> CorralError:
    return CorralError(
        Code.NOT_GOOD,
        f"gcp.image_script {name} is not a shell script",
        hint=f"text in UTF-8 with Unix line ends, {AT_MOST} bytes at most; have it fetch what is "
        "larger",
    )
