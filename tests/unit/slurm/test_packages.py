"""Sets of packages, what may be mixed, and what an upgrade may do."""

from __future__ import annotations

import re

import pytest

from corral.errors import Code, CorralError
from corral.slurm.packages import (
    NAMES,
    SLURMS,
    Family,
    Part,
    deb,
    deb_set,
    mixed,
    refuse_mixed,
    refuse_upgrade,
)
from corral.slurm.version import SlurmVersion, understands

ALL = tuple(Part)


def files(family: Family, version: str = "26.05.5-1") -> dict[str, str]:
    names = [n for part in NAMES[family].values() for n in part]
    return {f"{n}_{version}_amd64.deb": f"{i:064x}" for i, n in enumerate(names)}


def v(text: str) -> SlurmVersion:
    return SlurmVersion.parse(text)


@pytest.mark.parametrize("family", list(Family))
def test_a_folder_is_one_family_in_one_version(family: Family) -> None:
    packages = deb_set(
        {**files(family), "libllhttp9.4_9.4.3+~cs12-2_amd64.deb": "f" * 64}, "/x", ALL
    )
    assert (packages.family, packages.version) == (family, v("26.05.5"))
    assert packages.names([Part.SLURMD]) == NAMES[family][Part.SLURMD]
    assert "libllhttp9.4" in {d.name for d in packages.debs}


def test_the_digest_follows_the_files() -> None:
    digests = files(Family.SCHEDMD)
    other = {**digests, next(iter(digests)): "e" * 64}
    assert deb_set(digests, "/x", ALL).digest == deb_set(digests, "/y", ALL).digest
    assert deb_set(digests, "/x", ALL).digest != deb_set(other, "/x", ALL).digest


def test_what_no_machine_needs_does_not_travel() -> None:
    more = {f"slurm-smd-{x}_26.05.5-1_all.deb": "a" * 64 for x in ("doc", "torque")}
    given = {**files(Family.SCHEDMD), **more}
    plain = deb_set(given, "/x", [p for p in Part if p is not Part.HEADERS])
    assert not {d.name for d in plain.debs} & {"slurm-smd-doc", "slurm-smd-dev"}
    # Pyxis is compiled against them.
    assert "slurm-smd-dev" in {d.name for d in deb_set(given, "/x", ALL).debs}


def test_the_network_monitor_is_refused_by_its_name() -> None:
    with pytest.raises(CorralError, match="network monitor") as caught:
        deb("slurm_0.4.4-1_amd64.deb", "a" * 64)
    assert caught.value.code is Code.NOT_GOOD


@pytest.mark.parametrize("name", ["slurmd.deb", "a b_1_amd64.deb", "../x_1_amd64.deb", "x_1.deb"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(CorralError, match="not named as a package"):
        deb(name, "a" * 64)


def test_missing_parts_and_mixed_versions_are_named() -> None:
    some = files(Family.DISTRIBUTION)
    del some["slurmdbd_26.05.5-1_amd64.deb"]
    with pytest.raises(CorralError, match="lacks slurmdbd"):
        deb_set(some, "/x", ALL)
    assert deb_set(some, "/x", [Part.CLIENT, Part.SLURMD])
    both = {**files(Family.DISTRIBUTION), "slurmd_24.11.5-4_amd64.deb": "b" * 64}
    with pytest.raises(CorralError, match=r"mixes versions: 24\.11\.5-4, 26\.05\.5-1"):
        deb_set(both, "/x", ALL)


def test_only_slurm_may_be_removed_by_a_change_of_slurm() -> None:
    names = {n for parts in NAMES.values() for part in parts.values() for n in part}
    names |= {"slurm-wlm", "slurm-wlm-basic-plugins", "sackd", "libslurm42t64", "libpmi2-0"}
    assert all(re.fullmatch(SLURMS, n) for n in names)
    others = ("python3-torch", "slurm", "munge", "openmpi-bin", "libpmix2t64", "mariadb-server")
    assert not [n for n in others if re.fullmatch(SLURMS, n)]


def test_who_understands_whom() -> None:
    assert understands(v("26.05.5"), v("24.11.5"))
    assert not understands(v("24.11.5"), v("26.05.5"))
    assert not understands(v("26.05.5"), v("24.05.1"))
    assert understands(v("24.11.1"), v("24.11.5"))


def test_upgrades_that_lose_state_are_refused() -> None:
    refuse_upgrade(v("24.11.5"), v("26.05.5"))
    refuse_upgrade(v("24.11.5"), v("24.11.5"))
    with pytest.raises(CorralError, match="downgrade"):
        refuse_upgrade(v("26.05.5"), v("24.11.5"))
    with pytest.raises(CorralError, match="downgrade"):
        refuse_upgrade(v("24.11.5"), v("24.11.4"))
    with pytest.raises(CorralError, match="does not understand") as caught:
        refuse_upgrade(v("23.02.1"), v("26.05.5"))
    assert "first to 24.11" in caught.value.hint


def test_mixed_versions_within_and_beyond_the_window() -> None:
    refuse_mixed(v("26.05.5"), {"n1": v("24.11.5"), "n2": v("26.05.1")})
    with pytest.raises(CorralError, match="n1 is newer than the controller"):
        refuse_mixed(v("24.11.5"), {"n1": v("26.05.5"), "n2": v("24.11.5")})
    with pytest.raises(CorralError, match="n2 is too old"):
        refuse_mixed(v("26.05.5"), {"n2": v("23.11.4")})
    assert mixed({"a": v("24.11.5"), "b": v("24.11.5")}) == ""
    notice = mixed({"a": v("26.05.5"), "b": v("24.11.5"), "c": v("24.11.5")})
    assert notice == "Slurm is mixed: 24.11.5 on b, c, 26.05.5 on a"
