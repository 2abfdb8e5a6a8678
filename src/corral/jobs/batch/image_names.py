"""Images and mounts of jobs in containers, as Enroot and Pyxis take them. Pure."""

from __future__ import annotations

import re
from typing import Final

from corral.spec import values

_PATH: Final = re.compile(values.ABSOLUTE_PATH.pattern)
_NAMED: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@#+-]{0,511}")
_FLAGS: Final = ("ro", "rw")


def image_of(text: str) -> str:
    """An image as Enroot names it: a squashfs file's path, or ``REGISTRY#NAME:TAG``.

    Docker's way to write it (``nvcr.io/nvidia/pytorch:26.04-py3``, ``docker://ubuntu``) is taken
    too: Enroot would look for the registry's name as a folder of Docker Hub.

    Raises:
        ValueError: it is neither.
    """
    if text.startswith("/"):
        if not _PATH.fullmatch(text):
            raise ValueError(f"an image's path is {values.ABSOLUTE_PATH.words}")
        return text
    name = text.removeprefix("docker://")
    if name.startswith(".") or name.endswith((".sqsh", ".squashfs")):
        raise ValueError(
            "an image file is on shared storage, where all nodes see it: "
            "give its absolute path there"
        )
    if not _NAMED.fullmatch(name):
        raise ValueError("an image is a path on shared storage, or [REGISTRY/]NAME[:TAG]")
    first, slash, rest = name.partition("/")
    if "#" not in name and slash and ("." in first or ":" in first or first == "localhost"):
        return f"{first}#{rest}"
    return name


def mount_of(text: str) -> str:
    """A mount as Pyxis takes it, ``SRC:DST`` or ``SRC:DST:ro``; ``SRC`` alone keeps its place.

    Raises:
        ValueError: it is none.
    """
    source, _, rest = text.partition(":")
    target, _, flag = rest.partition(":")
    for path in (source, target or source):
        if not _PATH.fullmatch(path):
            raise ValueError(
                f"{path!r}: a mount is SRC:DST or SRC:DST:ro, both absolute paths of plain names; "
                "SRC is a folder of the nodes, not of this machine"
            )
    if flag and flag not in _FLAGS:
        raise ValueError(f"{flag!r}: a mount's flag is ro or rw")
    return ":".join(part for part in (source, target or source, flag) if part)
