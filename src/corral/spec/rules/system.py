"""What belongs to the system of a machine (``system.yaml``)."""

from __future__ import annotations

from functools import cache
from pathlib import PurePosixPath

from corral.tables import Row, Words, read_table


class System(Row):
    """Names, folders and interfaces that the cluster file may not take for something else.

    Attributes:
        names: users and groups.
        trees: folders that are the system's with all below.
        folders: those that are the system's, and not what is below.
        wireless: beginnings of names of interfaces for Wi-Fi.
        virtual: beginnings of names of interfaces that do not lead to other machines.
    """

    names: Words
    trees: Words
    folders: Words
    wireless: Words
    virtual: Words

    def has(self, folder: PurePosixPath) -> bool:
        """Whether a folder is the system's."""
        return str(folder) in self.folders or any(folder.is_relative_to(t) for t in self.trees)


@cache
def system() -> System:
    """The table."""
    return read_table("corral.spec.rules", "system.yaml", System)
