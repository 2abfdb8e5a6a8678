"""The packages of a machine's stage come in one run of apt, and each resource stays one object."""

from __future__ import annotations

from corral.roles.apt_run import in_one_run
from corral.spec.impacts import Impact
from corral.state.base import Context, Desired, Resource, Seen
from corral.state.files import Directory
from corral.state.packages import Packages

ALL = Packages("client", ("slurm-client",))
FOLDER, OTHER = Directory("/etc/slurm"), Directory("/srv")


def along(entries: tuple[Desired, ...]) -> dict[str, dict[str, tuple[str, ...]]]:
    """Further packages that each resource installs in its apt run, by node."""
    packages: dict[str, dict[str, tuple[str, ...]]] = {}
    for entry in entries:
        for node in entry.nodes:
            for r in entry.resources:
                if isinstance(r, Packages):
                    packages.setdefault(node, {})[r.id] = r.along
    return packages


def order(entries: tuple[Desired, ...], node: str) -> list[str]:
    return [r.id for entry in entries if node in entry.nodes for r in entry.resources]


def test_the_first_brings_the_later_ones_of_its_machine() -> None:
    before = (
        Desired(("a", "b", "c"), (FOLDER, ALL, OTHER)),
        Desired(("a",), (Packages("controller", ("slurmctld", "mariadb-server")),)),
        Desired(("b", "c"), (Packages("slurmd", ("slurmd",)),)),
    )
    after = in_one_run(before)
    assert along(after) == {
        "a": {"packages:client": ("slurmctld", "mariadb-server"), "packages:controller": ()},
        "b": {"packages:client": ("slurmd",), "packages:slurmd": ()},
        "c": {"packages:client": ("slurmd",), "packages:slurmd": ()},
    }
    for node in ("a", "b", "c"):
        assert order(after, node) == order(before, node)


def test_others_are_not_multiplied() -> None:
    """A plan shows one entry for all nodes of one object, in whichever stage it is."""
    after = in_one_run(
        (Desired(("a", "b"), (FOLDER, ALL, OTHER)), Desired(("a",), (Packages("x", ("x",)),)))
    )
    for resource in (FOLDER, OTHER):
        assert [w.nodes for w in after if resource in w.resources] == [("a", "b")]


def test_nothing_to_bring_leaves_all_as_it_was() -> None:
    before = (Desired(("a", "b"), (FOLDER, ALL)), Desired(("a",), (OTHER,)))
    assert in_one_run(before) == before


def test_packages_with_an_impact_come_at_their_own_time() -> None:
    driver: Resource = Packages("nvidia", ("driver",), Impact.DRAIN)
    before = (Desired(("a",), (driver, ALL)), Desired(("a",), (driver,)))
    assert all(not names for names in along(in_one_run(before))["a"].values())


def test_what_comes_along_is_no_reason_to_change() -> None:
    """A package that is there is not named to apt, which would bring it to a newer version."""
    packages = Packages("client", ("slurm-client",), along=("slurmd", "chrony"))
    assert packages.diff(Seen(0, "installed slurm-client"), Context("a")) is None
    change = packages.diff(Seen(1, ""), Context("a"))
    assert change is not None
    assert change.after == "slurm-client"
    assert "\npackages_install slurm-client -- slurmd chrony\n" in change.script
