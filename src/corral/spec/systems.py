"""The releases of Debian and Ubuntu that Corral knows (``systems.yaml``)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from corral.tables import Row, Words, read_table


class SystemRelease(Row):
    """A release.

    Attributes:
        codename: its name in the archive, such as trixie.
        python: the version of its python3, such as 3.13.
    """

    codename: str
    python: str


class Distribution(Row):
    """A distribution.

    Attributes:
        components: of its archive, from which images and packages are built.
        desktops: packages of each desktop.
        releases: by VERSION_ID of os-release.
    """

    components: Words
    desktops: Mapping[str, Words]
    releases: Mapping[str, SystemRelease]


@cache
def distributions() -> Mapping[str, Distribution]:
    """The table, by ID of os-release."""
    return read_table("corral.spec", "systems.yaml", dict[str, Distribution])


def release_of(os_id: str, os_version: str) -> SystemRelease | None:
    """A release by ID and VERSION_ID of os-release; None for an unknown one."""
    known = distributions().get(os_id)
    return known.releases.get(os_version) if known else None


def pythons() -> frozenset[str]:
    """The versions of python3 of all known releases."""
    return frozenset(
        r.python for known in distributions().values() for r in known.releases.values()
    )


def releases_in_words() -> str:
    """Each distribution with its releases: ``Debian 12, 13; Ubuntu 22.04, 24.04``."""
    return "; ".join(
        f"{name.capitalize()} {', '.join(distribution.releases)}"
        for name, distribution in distributions().items()
    )
