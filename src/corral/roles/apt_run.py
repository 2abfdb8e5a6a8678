"""All packages of a machine's stage in its first run of apt: each run reads all indexes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from corral.state.base import Impact, Resource, Wanted
from corral.state.packages import Packages


def in_one_run(wanted: Iterable[Wanted]) -> tuple[Wanted, ...]:
    """The same wanted state; the first packages of each machine bring the later ones along.

    The later resources stay as they are: they find their packages there, or install what is
    missing. Packages whose installing has its own impact are left alone.
    """
    wanted = tuple(wanted)
    sets: dict[str, list[Packages]] = {}
    for one in wanted:
        found = [r for r in one.resources if isinstance(r, Packages) and r.impact is Impact.NONE]
        for node in one.nodes if found else ():
            sets.setdefault(node, []).extend(found)
    return tuple(part for one in wanted for part in _parts(one, sets))


def _parts(one: Wanted, sets: Mapping[str, Sequence[Packages]]) -> list[Wanted]:
    """The wanted state, cut at its packages; a resource stays one object for all its nodes."""
    place = next((i for i, r in enumerate(one.resources) if isinstance(r, Packages)), None)
    if place is None:
        return [one]
    packages = one.resources[place]
    alike: dict[tuple[str, ...], list[str]] = {}
    for node in one.nodes:
        first, *later = sets.get(node, (None,))
        along = tuple(name for r in later for name in r.names) if first is packages else ()
        alike.setdefault(along, []).append(node)
    if not any(alike):
        return [one]
    cut = [
        Wanted(one.nodes, one.resources[:place]),
        *(Wanted(tuple(nodes), (_with(packages, along),)) for along, nodes in alike.items()),
        Wanted(one.nodes, one.resources[place + 1 :]),
    ]
    return [part for part in cut if part.resources]


def _with(resource: Resource, along: tuple[str, ...]) -> Resource:
    if along and isinstance(resource, Packages):
        return replace(resource, along=along)
    return resource
