"""Debian's and Ubuntu's releases are in one table; other tables and texts have the same ones."""

from __future__ import annotations

from corral.providers.containers.recipe import recipe_table
from corral.roles.machine.nvidia import keyrings
from corral.spec.rules.drivers import driver_table
from corral.spec.sections.software import Nvidia
from corral.spec.systems import distributions, pythons, release_of, releases_in_words


def test_other_tables_have_these_releases() -> None:
    known = {(os_id, release) for os_id, d in distributions().items() for release in d.releases}
    assert {(row.os, row.release) for row in keyrings()} == known
    assert set(driver_table().debian) == set(distributions()["debian"].releases)
    assert {(os_id, row.release) for os_id, row in recipe_table().images.items()} <= known


def test_the_cluster_files_reference_names_them() -> None:
    text = Nvidia.model_fields["vendor_repo"].description or ""
    debian, ubuntu = (list(distributions()[name].releases) for name in ("debian", "ubuntu"))
    assert f"Debian {' and '.join(debian)} and Ubuntu {ubuntu[0]} to {ubuntu[-1]}" in text


def test_releases_are_read() -> None:
    release = release_of("debian", "13")
    assert release is not None
    assert (release.codename, release.python) == ("trixie", "3.13")
    assert release_of("debian", "11") is None
    assert release_of("fedora", "13") is None
    assert pythons() >= {"3.11", "3.13"}
    assert releases_in_words().startswith("Debian 12, 13; Ubuntu 22.04, ")
