"""One cluster opened for work: its providers, reachable machines, desired and observed state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from corral.apply.connection import Connection
from corral.apply.directory_files import directory_files
from corral.apply.journal import declared_before
from corral.apply.left_out import HINT, LeftOut, note_left_out
from corral.apply.mesh import gone_from_file, programs_of, take_out, udp_of
from corral.apply.observation import Observation, guessed, read_facts, remember, see
from corral.apply.own_secrets import notify_secrets
from corral.apply.readiness import (
    BOOT_S,
    BOOTED,
    read_missing,
    rebooting,
    until_booted,
)
from corral.apply.restoration import require_all, restore_machines
from corral.errors import Code, CorralError
from corral.events import Emit, ignore
from corral.hosts.fleet import Fleet
from corral.hosts.openssh import Hops, OpenSSH, control_dir
from corral.hosts.quote import sh
from corral.hosts.transport import check
from corral.inspect.facts import Facts
from corral.plan.make import make_plan
from corral.plan.model import OWED, MachineChange, Plan
from corral.providers.base import Action, MachineAction, Provider
from corral.providers.cloud.client.accounts import watched
from corral.providers.lookup import here
from corral.roles.data_loss import lost_with
from corral.roles.inventory import Site
from corral.roles.machine import mesh
from corral.roles.order import desired_stages
from corral.slurm.packages import DebSet
from corral.spec.models import ClusterSpec
from corral.spec.nodes import digest, nodes_of
from corral.state.base import DesiredStage, Seen
from corral.state.slurm.members import (
    READ_ROSTER,
    ROSTER,
    Member,
    forget,
    parse_members,
)

REMOVE = Action.REMOVE


@dataclass(frozen=True, slots=True)
class ClusterState:
    """All that one observation of a cluster gave.

    Attributes:
        actions: what each provider would do first.
        site: the cluster as it is, or as predicted for machines that do not exist.
        stages: what every machine is to hold.
        observed: what the machines that exist hold.
        plan: the plan from all of it.
    """

    actions: tuple[tuple[Provider, tuple[MachineAction, ...]], ...]
    site: Site
    stages: tuple[DesiredStage, ...]
    observed: Mapping[str, Mapping[str, Seen]]
    plan: Plan


class Session(Connection):
    """A connection that also compares the machines with the file, makes and removes them.

    Use ``async with await Session.open(spec) as session``; ``destroy`` ends the SSH connections.
    What is changed is changed on the controller that the file names.
    """

    takes_over = False

    def __init__(self, spec: ClusterSpec, providers: Sequence[Provider]) -> None:
        super().__init__(spec, providers)
        self._debs: DebSet | None = None
        self._udp: dict[str, str] = {}
        self._left_out = LeftOut(spec)
        self._keep_going = False
        self._guess: Mapping[str, Facts] = {}

    def leave_out(self, left_out: LeftOut, *, keep_going: bool) -> None:
        """Go on without these nodes, and with ``keep_going`` without those that do not answer."""
        self._left_out, self._keep_going = left_out, keep_going
        self.fleet = self.fleet.without(left_out.errors)

    async def refresh(self) -> None:
        """Read again which machines exist and run."""
        await super().refresh()
        self.fleet = self.fleet.without(self._left_out.errors)

    async def facts(self) -> dict[str, Facts]:
        """Facts of all nodes: read where they run, predicted where they do not exist yet."""
        read = await read_facts(self.fleet)
        known = {**self._left_out.facts(guessed(self.folder), read), **read}
        return {n: known.get(n) or p.predict(n) for n, p in self._providers.items()}

    async def read_state(self, emit: Emit = ignore) -> ClusterState:
        """Read facts, compute the desired state, probe, and compare.

        One round trip per machine when its facts are those of the last observation, else two.

        Raises:
            CorralError: a machine cannot be read, and is not to be left out; a provider cannot make
                what is missing.
        """
        while True:
            try:
                return await self._read_state(emit)
            except CorralError as error:
                if not self._keep_going:
                    if LeftOut(self.spec).takes(error):
                        error.hint = f"{error.hint}; {HINT}" if error.hint else HINT
                    raise
                if not self._left_out.takes(error):
                    raise
                note_left_out(error, emit)
                self.fleet = self.fleet.without(self._left_out.errors)

    async def _read_state(self, emit: Emit) -> ClusterState:
        self.require_possible()
        again = rebooting(self.folder / "journal.jsonl")
        await until_booted(self.fleet, {**self._booting, **again}, emit)
        guess = guessed(self.folder)
        source = self.spec.slurm.source
        if self._debs is None and (source.debs or source.tarball or source.release):
            known = guess if set(guess) >= set(self._providers) else await self.facts()
            from corral.apply.slurm_source import slurm_debs  # noqa: PLC0415  # builds packages

            self._debs = await slurm_debs(self.spec, known, emit)
        self._udp = await udp_of(self.spec, self.fleet, guess)
        self._guess = guess
        observation = await self._see(guess, emit)
        kept = {n: guess[n] for n in self._left_out.errors if n in guess}
        remember(self.folder, {**kept, **observation.facts})
        site, stages, seen = self._site(observation.facts), observation.stages, observation.seen
        leaving = await self._leaving(seen)
        plan = make_plan(
            cluster=self.spec.name,
            spec_digest=digest(self.spec),
            stages=stages,
            observed=seen,
            machines=[self._change(a) for a in self.pending],
            absent=self._absent(),
            unreachable=self._left_out.reasons,
            owed=self._left_out.owed,
            leaving=leaving,
        )
        return ClusterState(self._actions, site, stages, seen, plan)

    def _absent(self) -> list[str]:
        there = {*self.fleet.nodes, *self._left_out.errors}
        return [node for node in self._providers if node not in there]

    async def _see(self, guess: Mapping[str, Facts], emit: Emit) -> Observation:
        try:
            return await see(self.fleet, self._stages_of, guess)
        except CorralError as error:
            # A machine that has never read its package index seems to be offered no Slurm.
            if error.code is not Code.NOT_FOUND or not await read_missing(self.fleet, emit):
                raise
        return await see(self.fleet, self._stages_of, {})

    def _site(self, read: Mapping[str, Facts]) -> Site:
        read = {**self._left_out.facts(self._guess, read), **read}
        facts = {n: read.get(n) or p.predict(n) for n, p in self._providers.items()}
        addresses = mesh.addresses(self.spec, facts, self.addresses())
        traits = {n: mesh.contained(t, facts[n]) for n, t in self.traits().items()}
        clouds = watched(self.spec, addresses.get(self.controller, ""))
        programs = programs_of(self.spec)
        return Site(
            self.spec,
            facts,
            traits,
            addresses,
            self._debs,
            programs,
            clouds,
            self._udp,
            directory_files(self.spec),
            notify_secrets(self.spec),
            frozenset(self._left_out.errors),
        )

    def desired_stages(self, facts: Mapping[str, Facts]) -> tuple[DesiredStage, ...]:
        """What machines with these facts are to hold; asks no machine.

        Raises:
            CorralError: the machines cannot hold what the file declares.
        """
        return desired_stages(self._site(facts))

    def _stages_of(self, read: Mapping[str, Facts]) -> tuple[DesiredStage, ...]:
        return self._desired(self._site(read))

    def _desired(self, site: Site) -> tuple[DesiredStage, ...]:
        try:
            return desired_stages(site)
        except CorralError:
            # A machine that does not exist yet may not be known precisely enough (which Slurm its
            # image holds, for example): what it gets is planned once it exists.
            if self.pending:
                return ()
            raise

    async def make_machines(self, emit: Emit) -> None:
        """Let the providers do what they planned, then read the machines again."""
        started = [a.node for a in self.pending]
        for provider, actions in self._actions:
            await provider.apply([a for a in actions if a.action is not REMOVE], emit)
        await self.refresh()
        # A machine that still starts its services changes without a plan: no plan of it would stay
        # fresh. Exit status 1 is "degraded": some unit failed, which the plan will show if it
        # matters.
        await self.fleet.all(BOOTED, started, timeout=BOOT_S)

    def strays(self, roster: str) -> dict[str, Member]:
        """Machines on the controller's list (``Roster``) that the file names no longer.

        One that is declared under another name is not released: it is the same machine.
        """
        owned = [n for n in nodes_of(self.spec) if n.group.capabilities.owned]
        ours = {(n.address or n.name, n.group.ssh.port) for n in owned}
        return {
            m.node: m
            for m in parse_members(roster)
            if m.node not in self._providers and (m.address, m.port) not in ours
        }

    def fleet_of(self, strays: Mapping[str, Member]) -> Fleet:
        """The strays as a fleet: reached as when they joined, by the keys of a declared machine."""
        known = [n for n, p in self._providers.items() if p.owned and not here(p)]
        transports: dict[str, OpenSSH] = {}
        hops = Hops(control_dir())
        for name, member in strays.items() if known else ():
            like = self._providers[known[0]].ssh_target(known[0])
            target = replace(like, address=member.address, port=member.port, user=member.user)
            transports[name] = OpenSSH(name, target, control_dir(), hops=hops)
        return Fleet(transports, cluster=self.spec.name)

    def _change(self, action: MachineAction) -> MachineChange:
        """The action with what only that machine holds, which nothing brings back."""
        ends = action.action in (Action.RECREATE, Action.REMOVE)
        specs = [self.spec, *declared_before(self.folder / "journal.jsonl")] if ends else []
        lost = lost_with(specs, action.node) if ends else ""
        text = f"{action.summary}; LOST with it: {lost}" if lost else action.summary
        return MachineChange(action.node, action.action.value, text)

    async def _leaving(self, seen: Mapping[str, Mapping[str, Seen]]) -> list[MachineChange]:
        """What becomes of machines that the file names no longer."""
        changes = [
            self._change(a) for _, actions in self._actions for a in actions if a.action is REMOVE
        ]
        roster = seen.get(self.controller, {}).get("members")
        strays = self.strays(roster.text) if roster else {}
        answers = await self.fleet_of(strays).all(sh(":"), timeout=20) if strays else {}
        for name, member in strays.items():
            if isinstance(answers[name], CorralError):
                text = (
                    f"{name} ({member.address}) left and does not answer: what Corral put there is "
                    f"still on it; when it answers, this releases it; if it is gone for good, "
                    f"take its line out of {ROSTER} on {self.controller}"
                )
                changes.append(MachineChange(name, OWED, text))
            else:
                text = f"{name} ({member.address}) is restored as it was before Corral"
                changes.append(MachineChange(name, "release", text))
        return changes

    async def release(self, leaving: Sequence[MachineChange], emit: Emit) -> None:
        """Remove, or release, the machines that the file names no longer.

        Raises:
            CorralError: PROVIDER_FAILED, or why a machine could not be released; those that
                were are off the list, so the same again goes on from there.
        """
        for provider, actions in self._actions:
            gone = [a for a in actions if a.action is REMOVE]
            if gone:
                await provider.apply(gone, emit)
        names = [m.node for m in leaving if m.action not in (OWED, REMOVE.value)]
        if not names:
            return
        roster = check(await self.fleet.run(self.controller, READ_ROSTER), "reading the list")
        strays = {n: m for n, m in self.strays(roster.stdout).items() if n in names}
        returns = await restore_machines(self.fleet_of(strays), list(strays), emit)
        done = {r.node for r in returns if r.clean}
        left = tuple(m for m in parse_members(roster.stdout) if m.node not in done)
        check(await self.fleet.run(self.controller, forget(left)), "writing the list")
        await gone_from_file(self.spec, emit)
        require_all(returns)

    async def destroy(self, emit: Emit) -> tuple[str, ...]:
        """Let the providers remove all they made.

        Returns:
            what was removed.
        """
        await self.fleet.close()
        gone: list[str] = []
        for provider in dict.fromkeys(self._providers.values()):
            gone += await provider.destroy(emit)
        return (*gone, *await take_out(self.spec, (), emit))

    async def end_rented(self, emit: Emit) -> tuple[str, ...]:
        """End what costs money by the hour, and leave all else as it is.

        Returns:
            what was ended.
        """
        rented = [n.name for n in nodes_of(self.spec) if n.group.capabilities.rents]
        providers = dict.fromkeys(self._providers[name] for name in rented)
        return tuple([line for provider in providers for line in await provider.destroy(emit)])

    async def leftovers(self) -> list[str]:
        """What still carries the cluster's label."""
        return [
            left
            for provider in dict.fromkeys(self._providers.values())
            for left in await provider.leftovers()
        ]
