"""The mesh client's programs on this machine, where the cluster file names a folder with them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from corral.errors import Code, CorralError, cannot_read

NAMES: Final = ("tailscale", "tailscaled")


@dataclass(frozen=True, slots=True)
class Program:
    """One program file of this machine: its name, its place and its digest."""

    name: str
    path: str
    sha256: str


def read_programs(folder: str) -> tuple[Program, ...]:
    """The programs in a folder.

    Raises:
        CorralError: NOT_FOUND, one of them is not there.
    """
    programs: list[Program] = []
    for name in NAMES:
        path = Path(folder) / name
        try:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise CorralError(
                Code.NOT_FOUND,
                cannot_read(path, error),
                hint="network.mesh.programs names a folder of this machine with tailscale and "
                "tailscaled, static ones for the nodes' processors",
            ) from error
        programs.append(Program(name, str(path), digest))
    return tuple(programs)
