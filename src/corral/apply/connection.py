"""A cluster's machines, connected: which exist, how each is reached, a fleet of those that run.

What only asks (``status``, ``jobs``, ``run``, ``doctor``) needs no more. What compares the machines
with the file is ``apply.session``, which imports the roles and the planner too (0.2 s).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final, Self

from corral.errors import Code, CorralError
from corral.hosts.fleet import Fleet, Mint
from corral.hosts.local import Local
from corral.hosts.openssh import Hops, OpenSSH, control_dir
from corral.hosts.quote import sh
from corral.hosts.target import SshTarget
from corral.hosts.transport import Transport
from corral.inspect.facts import Facts, Traits, facts_inquiry, facts_of
from corral.passwords import person
from corral.providers.base import Action, MachineAction, Provider
from corral.providers.lookup import here, providers_of
from corral.spec.client import ClientSpec, require_root
from corral.spec.models import ClusterSpec
from corral.spec.nodes import controller_of, controllers_of, elastic_of, nodes_of
from corral.state_dir import cluster_dir

_REACHED_S: Final = 10.0
"""Seconds that a controller or a login node has to answer before another one is asked."""
CHOSEN: Final = "asked-controller"
"""File of the cluster's or profile's folder: the node that answered while the first was silent."""
CHOSEN_S: Final = 60.0
"""So long the first one is not asked again: each question would wait for it."""


class Connection:
    """A cluster file with its providers and a fleet of the machines that run now.

    Use ``async with await Connection.open(spec) as connection``. SSH connections stay open for a
    minute for the next command (ControlPersist).

    Attributes:
        takes_over: Slurm is asked on the backup controller where the first one does not answer.
    """

    takes_over: ClassVar[bool] = True

    def __init__(self, spec: ClusterSpec, providers: Sequence[Provider]) -> None:
        self.spec = spec
        self.folder: Path = cluster_dir(spec.name, create=False)
        self.controller = entry_of(spec)
        self._providers = {node.name: p for p in providers for node in p.nodes}
        self._actions: tuple[tuple[Provider, tuple[MachineAction, ...]], ...] = ()
        self._refusals: tuple[CorralError, ...] = ()
        self.fleet = Fleet({})
        self._booting: dict[str, float] = {}

    @classmethod
    async def open(cls, spec: ClusterSpec, *, root: bool = True) -> Self:
        """Ask the providers what exists and make ready to reach what runs.

        Args:
            spec: the cluster.
            root: the work needs root on the machines; False: it is done as a profile's user too.

        Raises:
            CorralError: MISSING_TOOL, PROVIDER_FAILED; FORBIDDEN, a profile has no root.
        """
        if root:
            require_root(spec)
        if elastic_of(spec):
            from corral.providers.cloud.elastic import present  # noqa: PLC0415  # all of clouds

            spec = await present(spec)
        session = cls(spec, providers_of(spec))
        await session.refresh()
        if isinstance(spec, ClientSpec):
            await session._choose_login_node(spec)
        elif cls.takes_over:
            await session._choose_controller()
        return session

    async def _choose_login_node(self, spec: ClientSpec) -> None:
        """Go by another login node of a profile where its own does not answer."""
        profile, folder = spec.profile, Path(spec.known_hosts).parent
        kept = _chosen(folder)
        others = sorted(profile.login_nodes, key=lambda other: other.node != kept)
        if not others or (others[0].node != kept and await self._lets_in(spec)):
            return
        for other in others:
            by_other = spec.entered_by(other)
            if await self._lets_in(by_other):
                self.spec, self.controller = by_other, other.node
                self._providers = {n.name: p for p in providers_of(by_other) for n in p.nodes}
                await self.refresh()
                person().show(profile.node, f"no answer; by {other.node} ({other.host}) instead")
                _keep_choice(folder, other.node)
                return

    async def _lets_in(self, spec: ClientSpec) -> bool:
        """Whether the login node answers; a refusal is an answer, which the work itself reports."""
        node = spec.profile.node
        (provider,) = providers_of(spec)
        try:
            await _transport(provider, node, Hops(control_dir())).run(sh(":"), timeout=_REACHED_S)
        except CorralError as error:
            return error.code not in (Code.UNREACHABLE, Code.TIMED_OUT)
        return True

    async def _choose_controller(self) -> None:
        """Ask on the backup controller where the first one's machine does not answer."""
        if not self.administers or not self.spec.slurm.backup_controller:
            return
        there = [name for name in controllers_of(self.spec) if name in self.fleet.nodes]
        kept = [name for name in there[1:] if name == _chosen(self.folder)]
        answering = await self._answering(kept) or await self._answering(there)
        if not answering:
            return
        self.controller = answering
        if answering in there[1:] and not kept:
            _keep_choice(self.folder, answering)

    async def _answering(self, nodes: Sequence[str]) -> str:
        """The first of the nodes that answers; "" where none does."""
        answers = await self.fleet.all(sh(":"), nodes, timeout=_REACHED_S) if nodes else {}
        replied = {name for name, x in answers.items() if not isinstance(x, CorralError) and x.ok}
        return next((name for name in nodes if name in replied), "")

    async def refresh(self) -> None:
        """Read again which machines exist and run."""
        actions: list[tuple[Provider, tuple[MachineAction, ...]]] = []
        refusals: list[CorralError] = []
        transports: dict[str, Transport] = {}
        self._booting = {}
        hops = Hops(control_dir())
        for provider in dict.fromkeys(self._providers.values()):
            observed = await provider.read_machines()
            planned = provider.plan(observed)
            actions.append((provider, planned))
            refusals += [observed.refusal] if observed.refusal else []
            waiting = {a.node for a in planned}
            for name, machine in observed.machines.items():
                if machine.running and name not in waiting:
                    self._booting[name] = machine.boots_until
                    transports[name] = _transport(provider, name, hops)
        self._actions, self._refusals = tuple(actions), tuple(refusals)
        order = [n.name for n in nodes_of(self.spec) if n.name in transports]
        self.fleet = Fleet(
            {name: transports[name] for name in order},
            cluster=self.spec.name,
            mint=_minter(self.spec),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Nothing to end: the SSH connections stay a minute for the next command."""

    @property
    def administers(self) -> bool:
        """Whether scripts run as root; else as a profile's user, on nodes that let this user in."""
        return not isinstance(self.spec, ClientSpec)

    @property
    def pending(self) -> tuple[MachineAction, ...]:
        """What the providers would do before anything runs on the machines."""
        return tuple(
            a for _, actions in self._actions for a in actions if a.action is not Action.REMOVE
        )

    def require_visible(self) -> None:
        """Check that this machine's user may see the machines of the cluster.

        Raises:
            CorralError: FORBIDDEN.
        """
        for refusal in self._refusals:
            if refusal.code is Code.FORBIDDEN:
                raise refusal

    def require_possible(self) -> None:
        """Check that the providers can make what is missing, such as nodes with GPUs.

        Raises:
            CorralError: the first provider's reason.
        """
        for refusal in self._refusals:
            raise refusal

    def require_running(self) -> None:
        """Check that the controller runs.

        Raises:
            CorralError: NOT_FOUND, the cluster is not up; FORBIDDEN, its machines cannot be seen.
        """
        if self.controller not in self.fleet.nodes:
            self.require_visible()
            raise CorralError(
                Code.NOT_FOUND,
                f"cluster {self.spec.name} is not up: {self.controller} does not run",
                node=self.controller,
                hint="bring it up with: corral up FILE",
            )

    async def known_facts(self) -> dict[str, Facts | None]:
        """Facts of all declared nodes; None of one that does not answer."""
        asked = facts_inquiry()
        answers = await self.fleet.all(asked.script, timeout=60) if self.fleet.nodes else {}
        facts: dict[str, Facts | None] = dict.fromkeys(self._providers)
        for node, answer in answers.items():
            if not isinstance(answer, CorralError) and answer.ok:
                facts[node] = facts_of(node, asked, answer.stdout)
        return facts

    def addresses(self) -> dict[str, str]:
        """The address of each node on the control network, there or not."""
        return {name: p.address(name) for name, p in self._providers.items()}

    def targets(self) -> dict[str, SshTarget]:
        """How each machine that runs is reached by ssh; this machine is not."""
        ssh = {name: p for name, p in self._providers.items() if not here(p)}
        return {name: ssh[name].ssh_target(name) for name in self.fleet.nodes if name in ssh}

    def traits(self) -> dict[str, Traits]:
        """What the providers know beyond facts."""
        return {name: p.traits(name) for name, p in self._providers.items()}

    @property
    def owned(self) -> tuple[str, ...]:
        """Nodes whose machines are the user's and are released, not removed."""
        return tuple(n for n, p in self._providers.items() if p.owned)


def _keep_choice(folder: Path, node: str) -> None:
    with suppress(OSError):  # no folder, a full disk: the next question waits as this one
        (folder / CHOSEN).write_text(node)


def _chosen(folder: Path) -> str:
    """The controller that was chosen in the last minute; "" for none."""
    file = folder / CHOSEN
    try:
        known = 0 <= time.time() - file.stat().st_mtime < CHOSEN_S
        return file.read_text() if known else ""
    except OSError:
        return ""


def _minter(spec: ClusterSpec) -> Mint | None:
    if spec.network.control != "tailscale":
        return None
    from corral.apply.mesh import minter  # noqa: PLC0415  # the roles of the tailnet

    return minter(spec)


def _transport(provider: Provider, node: str, hops: Hops) -> Transport:
    if here(provider):
        return Local(node, root=True)
    return OpenSSH(node, provider.ssh_target(node), control_dir(), hops=hops)


def entry_of(spec: ClusterSpec) -> str:
    """The node that Slurm is asked on: the controller, or the node of a profile."""
    return spec.profile.node if isinstance(spec, ClientSpec) else controller_of(spec)
