"""Releases of Slurm: order, what Corral does with each, and which begins to do what. Pure.

The figures are data: ``releases.yaml`` and ``features.yaml``. Code asks ``since(Feature.X)``: a
test finds a release that is written in code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

from pydantic import PlainValidator

from corral.tables import Row, read_table

_RELEASE: Final = re.compile(r"(\d\d)\.(\d\d)")


@dataclass(frozen=True, slots=True, order=True)
class Release:
    """A release of Slurm, ordered: ``Release(24, 11)``.

    Attributes:
        year: its first number, such as 24.
        month: its second number, such as 11.
    """

    year: int
    month: int

    def __str__(self) -> str:
        return f"{self.year:02}.{self.month:02}"

    @classmethod
    def parse(cls, text: str) -> Release:
        """Read ``24.11``.

        Raises:
            ValueError: another form.
        """
        match = _RELEASE.fullmatch(text)
        if not match:
            raise ValueError(f"{text!r} is not a release such as 24.11")
        return cls(int(match[1]), int(match[2]))


def _quoted(value: Any) -> Release:
    if isinstance(value, Release):
        return value
    # In YAML a release without quotes is a number: 22.10 would be read as 22.1.
    if not isinstance(value, str) or not _RELEASE.fullmatch(value):
        raise ValueError("not a release in quotes, such as '23.11'")
    return Release.parse(value)


def between(since: Release | None, release: Release, until: Release | None) -> bool:
    """Whether a release is one from ``since`` on and before ``until``; None: no such bound."""
    return (since is None or release >= since) and (until is None or release < until)


QuotedRelease = Annotated[Release, PlainValidator(_quoted)]
"""A release in a table of data."""


class Feature(StrEnum):
    """What only some releases do; ``features.yaml`` has the first one and the source of each."""

    SLURMCTLD_HOST = "slurmctld_host"
    STRICT_ACCOUNTING_ENFORCE = "strict_accounting_enforce"
    DEFAULT_CORE_MEMORY = "default_core_memory"
    CGROUP_V2 = "cgroup_v2"
    READABLE_SLURMRESTD = "readable_slurmrestd"
    NO_CGROUPS = "no_cgroups"
    ONE_TASK_PER_CORE_WITHOUT_CPU = "one_task_per_core_without_cpu"
    STARTS_WITHOUT_PARTITIONS = "starts_without_partitions"
    EXPLICIT_GRES = "explicit_gres"
    AUTH_SLURM = "auth_slurm"
    SACKD = "sackd"
    UNIT_RUNS_AS_SLURM = "unit_runs_as_slurm"
    RECONFIGURE_REEXECS = "reconfigure_reexecs"
    DEFAULT_CONS_TRES = "default_cons_tres"
    NO_CONS_RES = "no_cons_res"
    BLOCK_TOPOLOGY = "block_topology"
    JWKS_ROTATION = "jwks_rotation"
    OPENAPI_WITHOUT_VERSION = "openapi_without_version"
    NO_TOPOLOGY_WITH_LINEAR = "no_topology_with_linear"
    NVIDIA_IMEX = "nvidia_imex"
    AUTODETECT_NVIDIA = "autodetect_nvidia"
    CONMGR = "conmgr"
    NO_DATABASE = "no_database"
    STORAGE_PASSWORD_SCRIPT = "storage_password_script"  # noqa: S105 - a feature's name
    METRICS = "metrics"


class FeatureRow(Row):
    """One feature; ``features.yaml`` has the meanings."""

    feature: Feature
    since: QuotedRelease
    source: str


class ReleaseRow(Row):
    """One release; ``releases.yaml`` has the meanings."""

    release: QuotedRelease
    use: Literal["known", "written", "tested", "announced"]
    understands: tuple[QuotedRelease, ...] = ()


@cache
def features() -> Mapping[Feature, Release]:
    """The first release with each feature."""
    rows = read_table("corral.spec.slurm", "features.yaml", tuple[FeatureRow, ...])
    return MappingProxyType({row.feature: row.since for row in rows})


def since(feature: Feature) -> Release:
    """The first release with a feature; newer ones keep it."""
    return features()[feature]


@cache
def releases() -> tuple[ReleaseRow, ...]:
    """All releases, in order."""
    return read_table("corral.spec.slurm", "releases.yaml", tuple[ReleaseRow, ...])


@cache
def published() -> tuple[Release, ...]:
    """The releases that there are, as far as this Corral knows them."""
    return tuple(row.release for row in releases() if row.use != "announced")


@cache
def written() -> tuple[Release, ...]:
    """The releases whose files Corral writes."""
    return tuple(row.release for row in releases() if row.use in ("written", "tested"))


@cache
def oldest_tested() -> Release:
    """The oldest release that Corral is tested with."""
    return next(row.release for row in releases() if row.use == "tested")


@cache
def compatible() -> Mapping[Release, tuple[Release, ...]]:
    """Older releases that each release understands, the newest first."""
    return MappingProxyType({r.release: r.understands for r in releases() if r.understands})
