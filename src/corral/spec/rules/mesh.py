"""Rules about the mesh."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from corral.spec.explain import near
from corral.spec.findings import Level
from corral.spec.sections.network import Mesh
from corral.spec.view import Problem, Rule, View, repeated, some


def mesh_unused(view: View) -> Iterator[Problem]:
    """Settings of a mesh that is not used."""
    network = view.spec.network
    if network.mesh is not None and network.control != "tailscale":
        message = f"mesh has no effect with control: {network.control}"
        yield Problem(("network", "mesh"), message, "write control: tailscale, or remove mesh")


def island_groups(view: View) -> Iterator[Problem]:
    """Islands of groups that are not there."""
    known = [g.group.name for g in view.groups]
    for i, island in enumerate(_mesh(view).islands):
        for j, name in enumerate(island.groups):
            if name not in known:
                meant = near(name, known)
                hint = f"did you mean {meant}?" if meant else f"groups: {some(known)}"
                path = ("network", "mesh", "islands", i, "groups", j)
                yield Problem(path, f"no group is called {name}", hint)


def island_twice(view: View) -> Iterator[Problem]:
    """A group on two islands, or two islands of one name."""
    islands = _mesh(view).islands
    groups = [name for island in islands for name in island.groups]
    for name in repeated(groups):
        last = max(i for i, island in enumerate(islands) if name in island.groups)
        message = f"group {name} is on two islands"
        hint = "join the islands, or name it once"
        yield Problem(("network", "mesh", "islands", last, "groups"), message, hint)
    names = [island.name for island in islands]
    for name in repeated(names):
        last = len(names) - 1 - names[::-1].index(name)
        path = ("network", "mesh", "islands", last, "name")
        yield Problem(path, f"two islands are called {name}", "give each its own name")


def mesh_nfs(view: View) -> Iterator[Problem]:
    """NFS over the mesh."""
    if view.spec.network.control != "tailscale":
        return
    for i, storage in enumerate(view.spec.storage):
        if storage.kind == "nfs":
            message = f"{storage.mount} is read over the mesh, at the speed of its slowest link"
            hint = (
                "`corral mesh status` measures the links; `corral data sync` copies a data set to "
                "the nodes; nodes that are reached by TCP only cannot mount it at all"
            )
            yield Problem(("storage", i, "kind"), message, hint)


def mesh_plain(view: View) -> Iterator[Problem]:
    """A control server without TLS."""
    if _mesh(view).url.startswith("http://"):
        message = "the API key goes to the control server unencrypted"
        yield Problem(("network", "mesh", "url"), message, "give headscale a certificate: https")


def _mesh(view: View) -> Mesh:
    return view.spec.network.mesh or Mesh()


_CONTROL: Final = ("network.control", "network.mesh")
RULES: Final = (
    Rule("mesh-unused", Level.WARNING, "Settings of a mesh with another control network.",
         _CONTROL, mesh_unused),
    Rule("mesh-island-group", Level.ERROR, "An island of a group that is not there.",
         ("network.mesh",), island_groups, ("groups.name",)),
    Rule("mesh-island-twice", Level.ERROR, "A group on two islands, or two islands of one name.",
         ("network.mesh",), island_twice),
    Rule("mesh-nfs", Level.WARNING, "An NFS folder over the mesh.",
         ("network.control", "storage.kind"), mesh_nfs),
    Rule("mesh-plain", Level.WARNING, "A control server reached by http.",
         ("network.mesh",), mesh_plain),
)  # fmt: skip
