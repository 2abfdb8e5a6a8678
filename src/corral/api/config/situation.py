"""What this machine and the current folder have, so that a first command can be named."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from corral.api.config.known_clusters import known_clusters
from corral.api.config.profiles import profiles
from corral.providers.containers.gpus.host_gpus import driven

READ: Final = 4096
"""Bytes of a file that are read: its first key is ``corral``."""
FILES: Final = 200
_CLUSTER_FILE: Final = re.compile(rb"^corral: +[\"']?v\d", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Situation:
    """Where somebody stands who has typed ``corral``.

    Attributes:
        clusters: that were brought up from this machine.
        profiles: of ``corral login``.
        files: cluster files of the folder.
        gpus: NVIDIA GPUs of this machine with a loaded driver.
        podman: nodes in containers can be made here.
    """

    clusters: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    gpus: int = 0
    podman: bool = False


def situation(folder: Path) -> Situation:
    """What is known without asking any machine.

    Args:
        folder: where cluster files are looked for.
    """
    return Situation(
        clusters=known_clusters(),
        profiles=profiles(),
        files=tuple(_cluster_files(folder)),
        gpus=driven(),
        podman=shutil.which("podman") is not None,
    )


def _cluster_files(folder: Path) -> Iterator[str]:
    names = sorted(path.name for path in folder.glob("*.y*ml") if path.is_file())
    for name in names[:FILES]:
        try:
            with (folder / name).open("rb") as file:
                start = file.read(READ)
        except OSError:
            continue
        if _CLUSTER_FILE.search(start):
            yield name
