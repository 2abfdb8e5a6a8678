"""Slurm's packages: their names by source, a set of them from a folder, which may be mixed. Data.

Two families of packages exist for Debian and Ubuntu: the distribution's (``slurmd``) and those of
SchedMD's own packaging (``slurm-smd-slurmd``, debian/ of the source tarball since 23.11). They
conflict with each other package by package, so a machine has the one or the other.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote

from corral.errors import Code, CorralError
from corral.slurm.version import SlurmVersion, understands
from corral.spec.slurm.releases import compatible


class Part(StrEnum):
    """What of Slurm a machine may need."""

    CLIENT = "client"
    SLURMD = "slurmd"
    SLURMCTLD = "slurmctld"
    SLURMDBD = "slurmdbd"
    SLURMRESTD = "slurmrestd"
    ADOPT = "adopt"
    """pam_slurm_adopt, for nodes where only those with a job log in."""
    HEADERS = "headers"
    """What plugins of others (Pyxis) are compiled against: of no other release."""


class Family(StrEnum):
    """Who packaged it."""

    DISTRIBUTION = "distribution"
    SCHEDMD = "schedmd"


NAMES: Final[Mapping[Family, Mapping[Part, tuple[str, ...]]]] = MappingProxyType(
    {
        Family.DISTRIBUTION: {
            Part.CLIENT: ("slurm-client",),
            Part.SLURMD: ("slurmd",),
            Part.SLURMCTLD: ("slurmctld",),
            Part.SLURMDBD: ("slurmdbd", "slurm-wlm-mysql-plugin"),
            Part.SLURMRESTD: ("slurmrestd", "slurm-wlm-jwt-plugin"),
            Part.ADOPT: ("libpam-slurm-adopt",),
            Part.HEADERS: ("libslurm-dev",),
        },
        Family.SCHEDMD: {
            Part.CLIENT: ("slurm-smd", "slurm-smd-client"),
            Part.SLURMD: ("slurm-smd-slurmd",),
            Part.SLURMCTLD: ("slurm-smd-slurmctld",),
            Part.SLURMDBD: ("slurm-smd-slurmdbd",),
            Part.SLURMRESTD: ("slurm-smd-slurmrestd",),
            Part.ADOPT: ("slurm-smd-libpam-slurm-adopt",),
            Part.HEADERS: ("slurm-smd-dev",),
        },
    }
)
"""Packages of each part."""

SLURMS: Final = (
    r"slurm-(wlm|smd|client)(-[a-z0-9-]+)?|slurm(ctld|d|dbd|restd)|sackd|sview"
    r"|libslurm[a-z0-9-]*|libpmi(0|2-0)(-[a-z]+)?|libpam-slurm[a-z-]*"
)
"""Names of packages that a change of Slurm may replace or remove, as an extended regular expression
for complete names."""

NOT_SLURM: Final = "slurm"
"""Debian's package of this name is a monitor of network interfaces (F61)."""

NOT_NEEDED: Final = re.compile(r"-(dev|doc|dbgsym|emulator|openlava|torque)$")
"""Packages of a set that do not travel, unless a part of Slurm that is asked for is one of them."""

_FILE: Final = re.compile(r"([a-z0-9][a-z0-9.+-]+)_([A-Za-z0-9.+:~%-]+)_([a-z0-9-]+)\.deb")


@dataclass(frozen=True, slots=True, order=True)
class Deb:
    """One package file.

    Attributes:
        name: the package.
        version: its complete version, such as ``26.05.5-1``.
        architecture: amd64, arm64 or all.
        file: its file name.
        sha256: digest of the file.
    """

    name: str
    version: str
    architecture: str
    file: str
    sha256: str


@dataclass(frozen=True, slots=True)
class DebSet:
    """All packages of one source.

    Attributes:
        debs: the files, sorted.
        folder: where they are on this machine.
        family: who packaged Slurm in it.
        package_version: version of its Slurm packages.
    """

    debs: tuple[Deb, ...]
    folder: str
    family: Family
    package_version: str

    @property
    def version(self) -> SlurmVersion:
        return SlurmVersion.parse(self.package_version)

    @property
    def digest(self) -> str:
        """Digest of all files, 16 hexadecimal digits: the name of the set on the nodes."""
        lines = "".join(f"{deb.sha256}  {deb.file}\n" for deb in self.debs)
        return hashlib.sha256(lines.encode()).hexdigest()[:16]

    def names(self, parts: Iterable[Part]) -> tuple[str, ...]:
        """Packages that these parts need."""
        names = [name for part in parts for name in NAMES[self.family][part]]
        return tuple(dict.fromkeys(names))


def deb(file: str, sha256: str) -> Deb:
    """What a package's file name states (Debian's archive and dpkg-buildpackage name them alike).

    Raises:
        CorralError: NOT_GOOD, the name is not of that form, or the package is another program.
    """
    match = _FILE.fullmatch(unquote(file))
    if not match:
        raise CorralError(
            Code.NOT_GOOD,
            f"{file[:80]!r} is not named as a package is",
            hint="restore the name it was made with: PACKAGE_VERSION_ARCHITECTURE.deb",
        )
    name, version, architecture = match.groups()
    if name == NOT_SLURM:
        raise CorralError(
            Code.NOT_GOOD,
            "the package called slurm is a network monitor, not the workload manager",
            hint="take slurm-wlm's packages (Debian, Ubuntu) or slurm-smd's (SchedMD)",
        )
    return Deb(name, version, architecture, file, sha256)


def deb_set(files: Mapping[str, str], folder: str, parts: Iterable[Part]) -> DebSet:
    """The packages of a folder as one source of Slurm.

    Args:
        files: file names with their digests.
        folder: where they are.
        parts: what the cluster needs of Slurm.

    Raises:
        CorralError: NOT_GOOD: one is not Slurm, parts are missing, versions or families are mixed.
    """
    packages = tuple(sorted(deb(file, digest) for file, digest in files.items()))
    family = Family.SCHEDMD if "slurm-smd" in {d.name for d in packages} else Family.DISTRIBUTION
    needed = [name for part in parts for name in NAMES[family][part]]
    debs = tuple(d for d in packages if d.name in needed or not NOT_NEEDED.search(d.name))
    names = {d.name for d in debs}
    missing = sorted(set(needed) - names)
    if missing:
        raise CorralError(
            Code.NOT_GOOD,
            f"{folder} lacks {', '.join(missing)}",
            hint="put all of Slurm's packages of one build into it",
        )
    versions = {d.version for d in debs if d.name in needed}
    twice = sorted(n for n in names if sum(d.name == n for d in debs) > 1)
    if len(versions) > 1 or twice:
        raise CorralError(
            Code.NOT_GOOD,
            f"{folder} mixes versions: {', '.join(sorted(versions) if versions else twice)}",
            hint="keep one version of each package in it",
        )
    return DebSet(debs, folder, family, versions.pop())


NAMED_AT_MOST: Final = 8


def refuse_upgrade(installed: SlurmVersion, target: SlurmVersion) -> None:
    """Check that machines with one version may get another one.

    Raises:
        CorralError: NOT_GOOD, it is older, or too far away.
    """
    if target < installed:
        raise CorralError(
            Code.NOT_GOOD,
            f"Slurm {installed} is installed and the source holds {target}: that is a downgrade",
            hint="Slurm cannot go back: its daemons have rewritten state files and database "
            "(upgrades.html, Reverting an Upgrade); take a source of the installed version",
        )
    if not understands(target, installed):
        known = compatible().get(target.release, ())
        steps = [r for r, before in compatible().items() if installed.release in before]
        path = f"first to {steps[-1]}, then on" if steps else "in steps, each within the window"
        raise CorralError(
            Code.NOT_GOOD,
            f"Slurm {target} does not understand the state of {installed}"
            f" (only of {', '.join(map(str, known)) or 'releases that Corral does not know'})",
            hint=f"running jobs and accounting would be lost: go {path}",
        )


def refuse_mixed(controller: SlurmVersion, others: Mapping[str, SlurmVersion]) -> None:
    """Check that slurmctld supports the version of each slurmd in the cluster.

    Raises:
        CorralError: NOT_GOOD, a node is newer than the controller, or too old for it.
    """
    newer = [n for n, v in others.items() if v.release > controller.release]
    deaf = [n for n, v in others.items() if n not in newer and not understands(controller, v)]
    if newer:
        raise CorralError(
            Code.NOT_GOOD,
            f"Slurm of {_some(newer)} is newer than the controller's {controller}",
            hint="the order is slurmdbd, slurmctld, slurmd: give all nodes one source "
            "(slurm.source), which upgrades the controller first",
        )
    if deaf:
        raise CorralError(
            Code.NOT_GOOD,
            f"Slurm of {_some(deaf)} is too old for the controller's {controller}",
            hint="give all nodes one source: slurm.source in the cluster file",
        )


def mixed(versions: Mapping[str, SlurmVersion]) -> str:
    """One line about nodes with unlike versions that still understand each other, "" if alike."""
    by_version: dict[SlurmVersion, list[str]] = {}
    for node, version in versions.items():
        by_version.setdefault(version, []).append(node)
    if len(by_version) < 2:  # noqa: PLR2004
        return ""
    parts = [f"{version} on {_some(by_version[version])}" for version in sorted(by_version)]
    return f"Slurm is mixed: {', '.join(parts)}"


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAMED_AT_MOST])
    return f"{shown} and {len(names) - NAMED_AT_MOST} more" if len(names) > NAMED_AT_MOST else shown
