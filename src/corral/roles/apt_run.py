"""The packages of a stage installed by one run of apt on each machine. Pure.

No role can do it alone: each names its own packages, and ``Stage.one_apt_run`` is of all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from corral.spec.impacts import Impact
from corral.state.base import Desired, Resource
from corral.state.packages import Packages


def in_one_run(desired: Iterable[Desired]) -> tuple[Desired, ...]:
    """The same desired state; the first packages of each machine bring the later ones along.

    The later resources stay as they are: they find their packages there, or install what is
    missing. Packages whose installing has its own impact are left alone.
    """
    desired = tuple(desired)
    sets: dict[str, list[Packages]] = {}
    for entry in desired:
        packages = [
            r for r in entry.resources if isinstance(r, Packages) and r.impact is Impact.NONE
        ]
        for node in entry.nodes if packages else ():
            sets.setdefault(node, []).extend(packages)
    return tuple(part for entry in desired for part in _parts(entry, sets))


def _parts(entry: Desired, sets: Mapping[str, Sequence[Packages]]) -> list[Desired]:
    """The desired state, cut at its packages; a resource stays one object for all its nodes."""
    place = next((i for i, r in enumerate(entry.resources) if isinstance(r, Packages)), None)
    if place is None:
        return [entry]
    packages = entry.resources[place]
    alike: dict[tuple[str, ...], list[str]] = {}
    for node in entry.nodes:
        first, *later = sets.get(node, (None,))
        along = tuple(name for r in later for name in r.names) if first is packages else ()
        alike.setdefault(along, []).append(node)
    if not any(alike):
        return [entry]
    cut = [
        Desired(entry.nodes, entry.resources[:place]),
        *(Desired(tuple(nodes), (_with(packages, along),)) for along, nodes in alike.items()),
        Desired(entry.nodes, entry.resources[place + 1 :]),
    ]
    return [part for part in cut if part.resources]


def _with(resource: Resource, along: tuple[str, ...]) -> Resource:
    if along and isinstance(resource, Packages):
        return replace(resource, along=along)
    return resource
