"""Slurm's source archives that Corral knows: address, digest, and who pins it. Pure."""

from __future__ import annotations

from functools import cache

from corral.tables import Row, read_table


class Tarball(Row):
    """One release; ``tarballs.yaml`` has the meanings."""

    version: str
    address: str
    sha256: str
    seen: str


@cache
def tarballs() -> tuple[Tarball, ...]:
    """The table ``tarballs.yaml``."""
    return read_table("corral.spec.slurm", "tarballs.yaml", tuple[Tarball, ...])


def tarball_of(version: str) -> Tarball | None:
    """The archive of a release such as ``25.11.6``; None: not known."""
    return next((row for row in tarballs() if row.version == version), None)
