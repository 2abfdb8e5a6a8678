"""What is known about one key of Slurm's files: a row of ``keys.yaml``."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

from pydantic import Field, PlainValidator

from corral.slurm.version import SlurmVersion
from corral.tables import Row

ImpactWord = Literal["none", "reload", "restart", "drain", "recreate"]

IMPACTS: Final[tuple[ImpactWord, ...]] = ("none", "reload", "restart", "drain", "recreate")
"""Mildest first."""

_RELEASE: Final = re.compile(r"\d\d\.\d\d")
_KEY: Final = r"^[A-Z][A-Za-z]+$"


def _release(text: Any) -> SlurmVersion:
    # In YAML a release without quotes is a number: 22.10 would be read as 22.1.
    if not isinstance(text, str) or not _RELEASE.fullmatch(text):
        raise ValueError("not a release in quotes, such as '23.11'")
    return SlurmVersion.parse(text)


class Key(Row):
    """One key that Corral writes.

    Attributes:
        file: the file it is written to.
        name: its name as Slurm's manual writes it.
        line: "" for a global key, else the key that begins its line (NodeName, PartitionName).
        value: what Corral writes.
        reason: why, in sentences.
        source: where the reason comes from: a manual page or F-number (the failure catalogue).
        impact: what changing it does to a live cluster. ``reload`` is ``scontrol reconfigure``;
            ``restart`` restarts daemons, jobs live on; ``drain`` needs a cluster without jobs.
        since: first release that knows it; None: all of them.
        until: first release that does not know it any more; None: still known.
    """

    file: Literal["slurm.conf", "gres.conf", "cgroup.conf", "slurmdbd.conf", "topology.conf"]
    name: str = Field(pattern=_KEY)
    line: Literal["", "NodeName", "PartitionName", "SwitchName"] = ""
    value: str = Field(min_length=1)
    reason: str = Field(pattern=r"^\S.*\.$")
    source: str = Field(pattern=r"\.conf\(5\)|\.html|F\d\d")
    impact: ImpactWord
    since: Annotated[SlurmVersion | None, PlainValidator(_release)] = None
    until: Annotated[SlurmVersion | None, PlainValidator(_release)] = None

    def known_to(self, version: SlurmVersion) -> bool:
        """Whether a release understands this key."""
        if self.since is not None and version < self.since:
            return False
        return self.until is None or version < self.until

    @property
    def id(self) -> tuple[str, str, str]:
        """File, first key of the line and name, in lower case: Slurm's keys ignore case."""
        return (self.file, self.line.lower(), self.name.lower())
