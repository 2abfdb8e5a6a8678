"""Machines as a user without root reaches them: by the node of a profile, with plain ssh."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from corral.errors import Code, CorralError
from corral.events import Emit
from corral.hosts.target import SshTarget
from corral.inspect.facts import Facts
from corral.providers.base import Machine, MachineAction, Observed, Traits
from corral.spec.client import ClientSpec, require_root
from corral.spec.nodes import Node, nodes_of


class LoginHost:
    """All nodes of a profile's cluster; no account of another is used on any of them.

    Args:
        spec: the cluster as the profile has it.
    """

    name: ClassVar[str] = "login"
    owned: ClassVar[bool] = True

    def __init__(self, spec: ClientSpec) -> None:
        self._spec = spec
        self._nodes = {node.name: node for node in nodes_of(spec)}

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The declared nodes."""
        return tuple(self._nodes.values())

    async def read_machines(self) -> Observed:
        """All machines are there; whether one lets the user in is the transport's to find out."""
        names = [node.name for node in self.nodes]
        return Observed(
            {n: Machine(n, exists=True, running=True, address=self.address(n)) for n in names}
        )

    def plan(self, observed: Observed) -> tuple[MachineAction, ...]:
        """Nothing: the machines are the administrator's."""
        return ()

    async def prepare(self, emit: Emit) -> None:
        """Nothing to prepare."""

    async def apply(self, actions: Sequence[MachineAction], emit: Emit) -> None:
        """Refuse.

        Raises:
            CorralError: FORBIDDEN.
        """
        require_root(self._spec)

    def address(self, node: str) -> str:
        """The profile's address for its node; names of the others, which that node resolves."""
        profile = self._spec.profile
        return profile.host if node == profile.node else node

    def ssh_target(self, node: str) -> SshTarget:
        """As the profile's user, through the profile's node to the others.

        Raises:
            CorralError: NOT_FOUND, no such node.
        """
        if node not in self._nodes:
            raise CorralError(
                Code.NOT_FOUND,
                f"no node called {node}",
                node=node,
                hint=f"nodes: {', '.join(self._nodes)}",
            )
        entry = entry_target(self._spec)
        if node == self._spec.profile.node:
            return entry
        return SshTarget(
            node,
            user=entry.user,
            key=entry.key,
            known_hosts=entry.known_hosts,
            pin_new=True,
            only_key=False,
            privileged=False,
            via=entry,
        )

    def predict(self, node: str) -> Facts:
        """Refuse: no machine is made.

        Raises:
            CorralError: FORBIDDEN.
        """
        require_root(self._spec)
        raise CorralError(Code.NOT_FOUND, f"nothing is known about {node}", node=node)

    def traits(self, node: str) -> Traits:
        """Nothing beyond the facts."""
        return Traits()

    async def destroy(self, emit: Emit) -> tuple[str, ...]:
        """Refuse.

        Raises:
            CorralError: FORBIDDEN.
        """
        require_root(self._spec)
        return ()

    async def leftovers(self) -> list[str]:
        return []


def require_ssh(spec: ClientSpec) -> None:
    """Check that a profile reaches its cluster by ssh.

    Raises:
        CorralError: FORBIDDEN, it does by slurmrestd alone.
    """
    if spec.profile.rest:
        raise CorralError(
            Code.FORBIDDEN,
            f"this needs ssh, and profile {spec.profile.name} reaches its cluster by slurmrestd, "
            "which runs, lists and cancels jobs and shows nodes",
            hint="corral run, jobs, cancel and status work with it; for the rest log in by ssh: "
            "corral login USER@HOST",
        )


def entry_target(spec: ClientSpec) -> SshTarget:
    """How the profile's own node is reached; the user's ssh config and agent count.

    Raises:
        CorralError: FORBIDDEN, it is reached by slurmrestd alone.
    """
    require_ssh(spec)
    profile = spec.profile
    return user_target(
        profile.host,
        profile.user,
        port=profile.port,
        identity=profile.identity,
        known_hosts=Path(spec.known_hosts),
    )


def user_target(host: str, user: str, *, port: int, identity: str, known_hosts: Path) -> SshTarget:
    """A login as a user without sudo, by a pinned host key.

    Args:
        host: address or name, also one of the user's ssh config.
        user: the account.
        port: TCP port; 22 leaves it to the ssh config.
        identity: private key file; "" leaves the choice to ssh.
        known_hosts: the file with the pinned host keys.

    Raises:
        CorralError: USAGE, ssh would not take host or user for one.
    """
    return SshTarget(
        host,
        port=port,
        user=user,
        key=Path(identity) if identity else None,
        known_hosts=known_hosts,
        user_config=True,
        only_key=False,
        privileged=False,
    )
