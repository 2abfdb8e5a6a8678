"""Slurm versions: order, ranges, what a release can do, and which releases may meet.

Every figure here comes from Slurm's own source tree: the options tables of ``read_config.c`` and
``cgroup.c``, the plugin directories and ``RELEASE_NOTES`` of the tags slurm-21-08-5-1 to
slurm-26-05-3-1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from corral.errors import Code, CorralError

_FULL: Final = re.compile(r"(?<!\d)(\d\d)[.-](\d\d)[.-](\d{1,2})(?!\d)")
_SHORT: Final = re.compile(r"(?<!\d)(\d\d)\.(\d\d)(?![.\d])")
_RANGE: Final = re.compile(r"(>=|==|~=)?(\d\d)\.(\d\d)(?:\.(\d{1,2}))?")


@dataclass(frozen=True, slots=True, order=True)
class SlurmVersion:
    """A Slurm version, ordered: ``SlurmVersion(24, 11, 5)``.

    Attributes:
        year: first number of the release, such as 24.
        month: second number of the release, such as 11.
        micro: maintenance number.
    """

    year: int
    month: int
    micro: int = 0

    def __str__(self) -> str:
        return f"{self.year:02}.{self.month:02}.{self.micro}"

    @property
    def release(self) -> str:
        """The release without its maintenance number: ``24.11``."""
        return f"{self.year:02}.{self.month:02}"

    @classmethod
    def parse(cls, text: str) -> SlurmVersion:
        """Read a version out of any of the spellings found in the field.

        Understands ``slurmctld -V`` ("slurm-wlm 24.11.5"), Debian and Ubuntu package versions
        ("24.11.5-4", "1:23.11.4-1.2ubuntu5"), tags ("slurm-26-05-2-1") and a bare "24.11".

        Raises:
            CorralError: no version in the text.
        """
        match = _FULL.search(text) or _SHORT.search(text)
        if not match:
            raise CorralError(
                Code.PARSE_FAILED,
                f"no Slurm version in {text[:80]!r}",
                hint='expected something like "slurm-wlm 24.11.5"; does slurmctld -V run here?',
            )
        numbers = [int(part) for part in match.groups()]
        return cls(numbers[0], numbers[1], numbers[2] if len(numbers) > 2 else 0)  # noqa: PLR2004


def matches(version_range: str, version: SlurmVersion) -> bool:
    """Whether ``version`` is in the ``version_range`` of a cluster file.

    ``>=24.11`` is that or newer, ``==24.11.5`` (or bare ``24.11.5``) exactly that one, ``==24.11``
    any maintenance release of 24.11, ``~=24.11.5`` 24.11.5 or newer within 24.11.

    Raises:
        CorralError: the range has another form.
    """
    parsed = _RANGE.fullmatch(version_range.strip())
    if not parsed:
        raise CorralError(
            Code.SPEC_INVALID,
            f"{version_range!r} is not a range of Slurm versions",
            hint="write >=24.11, ~=24.11.5, ==24.11.5 or 24.11",
        )
    operator, year, month, micro = parsed.groups()
    low = SlurmVersion(int(year), int(month), int(micro or 0))
    if operator == ">=":
        return version >= low
    same = version.release == low.release
    if operator == "~=":
        return same and version >= low
    return same and (micro is None or version == low)


class Feature(StrEnum):
    """Something only some releases can do."""

    CONFIGLESS = "configless"
    AUTH_SLURM = "auth_slurm"
    JWKS_ROTATION = "jwks_rotation"
    CGROUP_V2 = "cgroup_v2"
    IGNORE_SYSTEMD = "ignore_systemd"
    AUTODETECT_NVIDIA = "autodetect_nvidia"
    RECONFIGURE_REEXECS = "reconfigure_reexecs"
    SRUN_CPUS_PER_TASK = "srun_cpus_per_task"
    SACKD = "sackd"
    UNIT_RUNS_AS_SLURM = "unit_runs_as_slurm"
    METRICS = "metrics"
    NO_DATABASE = "no_database"


FEATURES: Final = MappingProxyType(
    {
        Feature.CONFIGLESS: SlurmVersion(20, 2),
        Feature.AUTH_SLURM: SlurmVersion(23, 11),
        Feature.SACKD: SlurmVersion(23, 11),
        Feature.UNIT_RUNS_AS_SLURM: SlurmVersion(23, 11),  # etc/slurmctld.service.in
        Feature.RECONFIGURE_REEXECS: SlurmVersion(23, 11),
        Feature.SRUN_CPUS_PER_TASK: SlurmVersion(23, 11),
        Feature.JWKS_ROTATION: SlurmVersion(24, 5),
        Feature.CGROUP_V2: SlurmVersion(22, 5),
        Feature.IGNORE_SYSTEMD: SlurmVersion(22, 5),
        Feature.AUTODETECT_NVIDIA: SlurmVersion(24, 11),
        Feature.METRICS: SlurmVersion(25, 11),
        # Before, a stale errno at slurmctld's start counted as a lost slurmdbd (fix: 4790a7ac53).
        Feature.NO_DATABASE: SlurmVersion(24, 11),
    }
)
"""The first release with each feature."""


def has(version: SlurmVersion, feature: Feature) -> bool:
    """Whether a release has a feature; newer releases keep what older ones had."""
    return version >= FEATURES[feature]


OLDEST: Final = SlurmVersion(21, 8)
NEWEST: Final = SlurmVersion(26, 5)

RELEASES: Final = (
    "21.08", "22.05", "23.02", "23.11", "24.05", "24.11", "25.05", "25.11", "26.05",
)  # fmt: skip
"""Releases Corral writes for, in order."""

_TALKS_BACK: Final = MappingProxyType(
    # How many releases back each one still talks to (doc/html/upgrades.shtml: two until 24.05,
    # three from 24.11 on).
    {r: 3 if r >= "24.11" else 2 for r in RELEASES}
)


def supported(version: SlurmVersion) -> bool:
    """Whether Corral knows this release's configuration keys."""
    return version.release in RELEASES


def talks_to(newer: SlurmVersion, older: SlurmVersion) -> bool:
    """Whether daemons of ``newer`` still understand daemons and clients of ``older``.

    Releases Corral does not know never talk to others: an upgrade into the unknown is refused
    until its compatibility is written down here.
    """
    if older > newer:
        newer, older = older, newer
    if newer.release == older.release:
        return True
    if not (supported(newer) and supported(older)):
        return False
    gap = RELEASES.index(newer.release) - RELEASES.index(older.release)
    return gap <= _TALKS_BACK[newer.release]
