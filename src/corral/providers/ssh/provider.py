"""Provider ssh: the machines are there already and belong to the user. Corral makes none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from corral.errors import Code, CorralError
from corral.events import Emit
from corral.hosts.keysetup import KEY, KNOWN_HOSTS, jump_hosts, keys_dir, proven
from corral.hosts.target import SshTarget
from corral.inspect.facts import Facts
from corral.providers.base import Machine, MachineAction, Observed, Traits
from corral.spec.models import ClusterSpec
from corral.spec.nodes import Node, nodes_of


class SshProvider:
    """The nodes of groups with ``provider: ssh``.

    Args:
        spec: the cluster file.
    """

    name: ClassVar[str] = "ssh"
    owned: ClassVar[bool] = True

    def __init__(self, spec: ClusterSpec) -> None:
        self._cluster = spec.name
        self._nodes = {n.name: n for n in nodes_of(spec) if n.group.provider == self.name}

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The declared nodes of ssh groups."""
        return tuple(self._nodes.values())

    async def read_machines(self) -> Observed:
        """All machines are there; whether they answer is the transport's to find out."""
        return Observed(
            {
                n.name: Machine(n.name, exists=True, running=True, address=self.address(n.name))
                for n in self.nodes
            }
        )

    def plan(self, observed: Observed) -> tuple[MachineAction, ...]:
        """Nothing: Corral neither makes nor starts these machines."""
        return ()

    async def prepare(self, emit: Emit) -> None:
        """Nothing to prepare."""

    async def apply(self, actions: Sequence[MachineAction], emit: Emit) -> None:
        """Nothing to do.

        Raises:
            CorralError: PROVIDER_FAILED, it was given an action.
        """
        if actions:
            raise CorralError(
                Code.PROVIDER_FAILED,
                f"Corral cannot {actions[0].action} a machine of provider ssh",
                node=actions[0].node,
                hint="make and start the machine yourself; Corral only logs in",
            )

    def address(self, node: str) -> str:
        """The declared address, or the node's name for the user's own ssh config to resolve."""
        return self._node(node).address or node

    def ssh_target(self, node: str) -> SshTarget:
        """As the group declares, in addition to the user's own ssh config and agent.

        Host keys are the cluster's own pins (docs/decisions/0014); the key is the one of the file,
        or the cluster's on nodes where ``corral keys install`` has proven it, or ssh's choice.
        """
        ssh = self._node(node).group.ssh
        folder = keys_dir(self._cluster)
        target = SshTarget(
            self.address(node),
            port=ssh.port,
            user=ssh.user,
            known_hosts=folder / KNOWN_HOSTS,
            user_config=True,
            pin_new=True,
            via=jump_hosts(ssh.jump or "", folder),
        )
        if ssh.key:
            return replace(target, key=Path(ssh.key).expanduser(), only_key=False)
        if node in proven(folder):
            return replace(target, key=folder / KEY)
        return target

    def predict(self, node: str) -> Facts:
        """Raise: a machine that exists is read, not predicted.

        Raises:
            CorralError: UNREACHABLE.
        """
        raise CorralError(
            Code.UNREACHABLE,
            f"nothing is known about {node} before it answers",
            node=self._node(node).name,
            hint="check the machine, its address and that your key logs in",
        )

    def traits(self, node: str) -> Traits:
        """Nothing beyond the facts."""
        self._node(node)
        return Traits()

    async def destroy(self, emit: Emit) -> tuple[str, ...]:
        """Nothing: the machines are the user's."""
        return ()

    async def leftovers(self) -> list[str]:
        return []

    def _node(self, name: str) -> Node:
        node = self._nodes.get(name)
        if node is None:
            raise CorralError(
                Code.NOT_FOUND,
                f"no ssh node called {name}",
                node=name,
                hint=f"ssh nodes: {', '.join(self._nodes) or 'none'}",
            )
        return node
