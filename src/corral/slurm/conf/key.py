"""What is known about one key of Slurm's files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from corral.slurm.version import SlurmVersion

ImpactWord = Literal["none", "reload", "restart", "drain", "recreate"]

IMPACTS: Final[tuple[ImpactWord, ...]] = ("none", "reload", "restart", "drain", "recreate")
"""Mildest first."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key that Corral writes.

    Attributes:
        file: the file it stands in.
        name: its name as Slurm's manual writes it.
        line: "" for a global key, else the key that begins its line (NodeName, PartitionName).
        value: what Corral writes.
        reason: why.
        source: where the reason comes from: a manual page or F-number (the failure catalogue).
        impact: what changing it does to a live cluster. ``reload`` is ``scontrol reconfigure``;
            ``restart`` restarts daemons, jobs live on; ``drain`` needs a cluster without jobs.
            It is the sternest word over releases 21.08 to 26.05: since 23.11 ``scontrol
            reconfigure`` covers most of what needed a restart.
        since: first release that knows it; None: all of them.
        until: first release that does not know it any more; None: still known.
    """

    file: str
    name: str
    value: str
    reason: str
    source: str
    impact: ImpactWord
    line: str = ""
    since: SlurmVersion | None = None
    until: SlurmVersion | None = None

    def known_to(self, version: SlurmVersion) -> bool:
        """Whether a release understands this key."""
        if self.since is not None and version < self.since:
            return False
        return self.until is None or version < self.until

    @property
    def id(self) -> tuple[str, str, str]:
        """File, first key of the line and name, in lower case: Slurm's keys ignore case."""
        return (self.file, self.line.lower(), self.name.lower())
