"""The table of keys that Corral writes to Slurm's files: ``keys.yaml``, and what a row holds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final, Literal, get_args

from pydantic import Field, model_validator

from corral.spec.impacts import ImpactWord
from corral.spec.slurm.releases import QuotedRelease, Release, between
from corral.tables import Row, read_table

Form = Literal[
    "value", "interval", "time limit", "MiB", "sharing", "switch", "enable", "state", "licenses"
]

Section = Literal[
    "",
    "Cluster and controller",
    "Authentication",
    "Files",
    "Isolation and scheduling",
    "Jobs that give way",
    "Before and after each job",
    "Node health",
    "Network and time limits",
    "Accounting",
    "Nodes that come and go",
    "Metrics",
    "Settings of the cluster file",
    "Nodes",
    "Partitions",
]
SECTIONS: Final[tuple[Section, ...]] = get_args(Section)
"""The headings of slurm.conf in the order in which they are written."""

OF_LINE: Final[Mapping[str, str]] = MappingProxyType(
    {"NodeName": "groups", "PartitionName": "partitions"}
)
"""The list of the cluster file whose entries' fields are written on such lines."""

_KEY: Final = r"^[A-Z][A-Za-z0-9]+$"


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
        section: the heading of slurm.conf under which it, or the line that it begins, is written.
        joined: values that several roles and ``slurm.settings`` give are joined by commas.
        replaceable: ``slurm.settings`` may give another value.
        owner: path of the field of the cluster file that decides over it, where the value is not
            that field's own.
        field: path of the field of the cluster file whose value it is (``health.every``;
            ``groups...`` on lines of nodes, ``partitions...`` on those of partitions), "" where a
            role gives the value. Not written where the field is null or off.
        form: how the field's value is written: an interval in seconds, a time limit in Slurm's
            grammar, a number of GiB in MiB, how a partition is shared (unless it is no), a switch
            (YES or nothing), enable or nothing, a partition's state (unless it is up), licences.
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
    section: Section = ""
    joined: bool = False
    replaceable: bool = False
    owner: str = Field(default="", pattern=r"^([a-z_]+(\.[a-z_]+)*)?$")
    field: str = Field(default="", pattern=r"^([a-z_]+(\.[a-z_]+)*)?$")
    form: Form = "value"
    since: QuotedRelease | None = None
    until: QuotedRelease | None = None

    @model_validator(mode="after")
    def _placed(self) -> Key:
        if (self.file == "slurm.conf" and self.line in ("", self.name)) != bool(self.section):
            raise ValueError("exactly what begins a line of slurm.conf needs a section")
        if self.field and (
            self.file != "slurm.conf"
            or (self.field.partition(".")[0] in OF_LINE.values()) != bool(self.line)
            or (self.line and not self.field.startswith(f"{OF_LINE.get(self.line)}."))
        ):
            raise ValueError("a field of groups is for NodeName, of partitions for PartitionName")
        return self

    def known_to(self, release: Release) -> bool:
        """Whether a release understands this key."""
        return between(self.since, release, self.until)

    @property
    def id(self) -> tuple[str, str, str]:
        """File, first key of the line and name, in lower case: Slurm's keys ignore case."""
        return (self.file, self.line.lower(), self.name.lower())


@cache
def all_keys() -> tuple[Key, ...]:
    """Every key Corral writes, in the order of the reference page."""
    return read_table("corral.spec.slurm", "keys.yaml", tuple[Key, ...])


@cache
def keys_by_id() -> Mapping[tuple[str, str, str], Key]:
    """By file, first key of the line ("" for a global key) and name, in lower case."""
    return MappingProxyType({key.id: key for key in all_keys()})
