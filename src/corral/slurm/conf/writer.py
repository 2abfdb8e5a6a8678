"""Writes Slurm's ``key=value`` files, and only keys that the table knows."""

from __future__ import annotations

from corral.slurm.conf.keys import keys_by_id
from corral.slurm.version import SlurmVersion

HEADER = (
    "# Written by Corral from the cluster file: edits here are lost at the next apply.\n"
    "# Why each key is set: docs/reference/slurm-keys.md\n"
)


class Writer:
    """One file for one release. A key that the release does not know is left out.

    Attributes:
        file: name of the file, such as slurm.conf.
        version: the release it is for.
    """

    def __init__(self, file: str, version: SlurmVersion) -> None:
        self.file = file
        self.version = version
        self._lines: list[str] = []

    def section(self, title: str) -> None:
        """A blank line and a comment above what follows."""
        self._lines += ["", f"# {title}"]

    def note(self, text: str) -> None:
        """A comment line."""
        self._lines.append(f"# {text}")

    def key(self, name: str, value: str) -> None:
        """A global key on a line of its own.

        Raises:
            KeyError: the table has no such key: write down its reason first.
        """
        if keys_by_id()[self.file, "", name.lower()].known_to(self.version):
            self._lines.append(f"{name}={value}")

    def line(self, pairs: list[tuple[str, str]]) -> None:
        """Several keys on one line, such as a node or a partition; the first one names it.

        Raises:
            KeyError: the table has no such key.
        """
        first = pairs[0][0].lower()
        known = [
            f"{name}={value}"
            for name, value in pairs
            if keys_by_id()[self.file, first, name.lower()].known_to(self.version)
        ]
        self._lines.append(" ".join(known))

    def text(self) -> str:
        """The whole file."""
        return HEADER + "\n".join(self._lines) + "\n"
