"""Slurm versions: order, ranges, what a version can do, and which versions may meet.

Which release begins to do what is data of ``spec.slurm.releases``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from corral.errors import Code, CorralError
from corral.spec.slurm.releases import Feature, Release, compatible, since, written

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
    def release(self) -> Release:
        """The release without its maintenance number: ``24.11``."""
        return Release(self.year, self.month)

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


def has(version: SlurmVersion, feature: Feature) -> bool:
    """Whether a version has a feature; newer releases keep what older ones had."""
    return version.release >= since(feature)


def supported(version: SlurmVersion) -> bool:
    """Whether Corral knows this release's configuration keys."""
    return version.release in written()


def understands(newer: SlurmVersion, older: SlurmVersion) -> bool:
    """Whether ``newer`` understands what ``older`` sends and wrote; never the other way round."""
    if newer.release == older.release:
        return True
    return older.release in compatible().get(newer.release, ())


def talks_to(first: SlurmVersion, second: SlurmVersion) -> bool:
    """Whether the newer of two versions understands daemons and clients of the older one.

    Releases Corral does not know never talk to others: an upgrade into the unknown is refused
    until its compatibility is written down in ``releases.yaml``.
    """
    older, newer = sorted((first, second))
    known = supported(newer) and supported(older)
    return newer.release == older.release or (known and understands(newer, older))
