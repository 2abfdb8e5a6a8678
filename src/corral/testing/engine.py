"""Corral's engine without Slurm: bare nodes in containers, and resources that they must hold."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from corral.apply.observation import guessed, remember, see
from corral.apply.run import run_stages
from corral.events import ignore
from corral.hosts.fleet import Fleet
from corral.hosts.openssh import OpenSSH
from corral.hosts.quote import sh
from corral.hosts.target import SshTarget
from corral.hosts.transport import Result
from corral.plan.make import make_plan
from corral.providers.lookup import providers_of
from corral.spec.models import ClusterSpec, NodeGroup
from corral.spec.providers import CONTAINERS
from corral.state.base import Desired, DesiredStage, Resource
from corral.state.files import Directory, File
from corral.state.packages import Packages
from corral.state.service import Service
from corral.state.system.users import UserAccount
from corral.state_dir import cluster_dir

Inventory = dict[str, dict[str, str]]
"""By node: address, key, known_hosts, and a ProxyCommand or ""."""


@dataclass(frozen=True)
class Held:
    """What nodes must hold.

    Attributes:
        directories: paths.
        files: texts by path.
        users: uids by name.
        packages: names.
        services: names.
    """

    directories: tuple[str, ...]
    files: Mapping[str, str]
    users: Mapping[str, int]
    packages: tuple[str, ...]
    services: tuple[str, ...]

    @property
    def resources(self) -> tuple[Resource, ...]:
        """One for each."""
        return (
            *(Directory(path) for path in self.directories),
            *(File(path, text, mode="640") for path, text in self.files.items()),
            *(UserAccount(name, uid, f"/home/{name}") for name, uid in self.users.items()),
            *(Packages(name, (name,)) for name in self.packages),
            *(Service(name) for name in self.services),
        )


def _spec(name: str, nodes: int) -> ClusterSpec:
    group = NodeGroup(name="n", provider=CONTAINERS, nodes=f"b[0-{nodes - 1}]", memory_mib=1024)
    return ClusterSpec(corral="v1", name=name, groups=(group,))


async def bare_nodes(name: str, nodes: int) -> Inventory:
    """Make nodes in containers that hold nothing; gives how each is reached."""
    (provider,) = providers_of(_spec(name, nodes))
    await provider.apply(provider.plan(await provider.read_machines()), ignore)
    inventory: Inventory = {}
    for node in provider.nodes:
        target = provider.ssh_target(node.name)
        inventory[node.name] = {
            "address": target.address,
            "key": str(target.key),
            "known_hosts": str(target.known_hosts),
            "proxy": "",
        }
    return inventory


async def on_all(name: str, inventory: Inventory, script: str) -> list[str]:
    """Run a script on all nodes, without a ProxyCommand; gives what each printed."""
    (provider,) = providers_of(_spec(name, len(inventory)))
    await provider.read_machines()
    with tempfile.TemporaryDirectory() as control:
        fleet = Fleet({n: OpenSSH(n, provider.ssh_target(n), Path(control)) for n in inventory})
        answers = await fleet.all(sh("sh -c {text}", text=script))
        await fleet.close()
    return [a.stdout if isinstance(a, Result) else str(a) for a in answers.values()]


async def remove(name: str, nodes: int) -> None:
    """Remove the nodes."""
    (provider,) = providers_of(_spec(name, nodes))
    await provider.destroy(ignore)


async def apply(name: str, inventory: Inventory, held: Held) -> int:
    """Facts, probes, plan, apply, as ``corral apply`` does it; gives the number of changes."""
    # As the command line does: connections stay for the next command.
    control = Path(tempfile.gettempdir()) / f"corral-ssh-{os.getuid()}"
    transports = {
        node: OpenSSH(
            node,
            SshTarget(
                at["address"],
                key=Path(at["key"]),
                known_hosts=Path(at["known_hosts"]),
                options=("-o", f"ProxyCommand={at['proxy']}") if at["proxy"] else (),
            ),
            control,
        )
        for node, at in inventory.items()
    }
    fleet = Fleet(transports)
    stages = (DesiredStage("work", "work", (Desired(tuple(inventory), held.resources),)),)
    folder = cluster_dir(name)
    observation = await see(fleet, lambda _: stages, guessed(folder))
    remember(folder, observation.facts)
    plan = make_plan(cluster=name, spec_digest="", stages=stages, observed=observation.seen)
    await run_stages(plan, fleet, ignore)
    return sum(len(c.nodes) for s in plan.stages for c in s.changes)
