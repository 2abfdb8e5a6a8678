"""Rents what jobs wait for, proves it, sets it up, and ends what is idle. One turn at a time.

All state is Slurm's and the clouds': a driver that is killed at any point and started again, here
or on another machine, goes on where it was.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from corral.apply.session import Session
from corral.elastic.checking import fault_of
from corral.elastic.marks import READ, decide, states
from corral.errors import CorralError
from corral.events import Emit, Event, Kind
from corral.hosts.fleet import Fleet
from corral.hosts.openssh import OpenSSH, control_dir
from corral.hosts.quote import Script, sh
from corral.hosts.transport import check
from corral.providers.base import Action, MachineAction
from corral.providers.cloud.presence import rented_nodes
from corral.providers.cloud.provider import CloudProvider
from corral.spec.models import ClusterSpec
from corral.spec.nodes import elastic_of, expand, fold, with_present

HOLD_S: Final = 120.0
"""A node that could not be had stays down this long, before it is asked for again."""

Converge = Callable[[ClusterSpec], Awaitable[None]]


@dataclass(slots=True)
class Driver:
    """Drives one cluster.

    Args:
        spec: the cluster.
        converge: sets up all machines that are there (``api.up`` without the proof).
        emit: told what happens.
    """

    spec: ClusterSpec
    converge: Converge
    emit: Emit
    joined: set[str] = field(default_factory=set[str])
    failed: dict[str, float] = field(default_factory=dict[str, float])

    async def turn(self) -> bool:
        """Look once and do what is marked; True when anything was done.

        Raises:
            CorralError: the controller or a cloud cannot be asked.
        """
        rented = await rented_nodes(self.spec)
        async with await Session.open(with_present(self.spec, ())) as session:
            session.require_running()
            seen = states(await self._asked(session, READ))
            groups = {
                g.name: (tuple(expand(g.nodes)), g.elastic.min)
                for g in self.spec.groups
                if g.elastic
            }
            self.joined &= {n for n, words in seen.items() if "POWERING_UP" in words}
            marks = decide(seen, rented, self.joined, groups)
            if marks.go:
                await self._go(marks.go)
            await self._give_up(session, marks.failed, rented)
            if marks.wake:
                await self._mark(session, marks.wake, "POWER_UP")
            if marks.come:
                await self._come(session, marks.come, rented)
        return bool(marks.come or marks.go or marks.wake)

    async def _asked(self, session: Session, script: Script) -> str:
        answer = await session.fleet.run(session.controller, script, timeout=60)
        return check(answer, "asking slurmctld").stdout

    async def _mark(
        self, session: Session, nodes: Sequence[str], state: str, why: str = ""
    ) -> None:
        reason = sh(" reason={why}", why=why) if why else sh("")
        script = sh(
            "timeout 20 scontrol update nodename={nodes} state={state}{reason}",
            nodes=fold(list(nodes)),
            state=state,
            reason=reason,
        )
        await self._asked(session, script)

    async def _go(self, nodes: Sequence[str]) -> None:
        self._say(f"{fold(list(nodes))}: idle, ended")
        await self._end(nodes)

    async def _end(self, nodes: Sequence[str]) -> None:
        await CloudProvider(with_present(self.spec, nodes)).release(nodes)

    async def _give_up(self, session: Session, nodes: Sequence[str], rented: Sequence[str]) -> None:
        """End what failed; power it down later, so that Slurm does not ask again at once."""
        now = time.monotonic()
        for node in nodes:
            self.failed.setdefault(node, now)
        costing = [n for n in nodes if n in rented]
        if costing:
            self._say(f"{fold(costing)}: given up, ended")
            await self._end(costing)
        over = [n for n in nodes if now - self.failed[n] > HOLD_S]
        if over:
            await self._mark(session, over, "POWER_DOWN_FORCE")
            for node in over:
                del self.failed[node]

    async def _come(self, session: Session, nodes: Sequence[str], rented: Sequence[str]) -> None:
        """Rent, check and set up nodes; all of them, or none of what a job waits for."""
        self._say(f"{fold(list(nodes))}: a job waits")
        spec = with_present(self.spec, {*rented, *nodes})
        provider = CloudProvider(spec)
        try:
            addresses = await self._proven(provider, nodes)
        except CorralError as error:
            self._say(f"{fold(list(nodes))}: {error}")
            await self._end(nodes)
            await self._mark(session, nodes, "DOWN", f"corral: {error.message}"[:120])
            return
        for node, address in addresses.items():
            script = sh(
                "timeout 20 scontrol update nodename={n} nodeaddr={a} nodehostname={n}",
                n=node,
                a=address,
            )
            await self._asked(session, script)
        await self.converge(spec)
        self.joined |= set(nodes)
        self._say(f"{fold(list(nodes))}: set up")

    async def _proven(self, provider: CloudProvider, nodes: Sequence[str]) -> dict[str, str]:
        """Rent until each node has passed its check, or has failed it too often."""
        left = {n.name: n.group.elastic.replace for n in elastic_of(self.spec) if n.group.elastic}
        while True:
            observed = await provider.observe()
            actions = [a for a in provider.plan(observed) if a.node in nodes]
            await provider.apply(actions, self.emit)
            observed = await provider.observe()
            bad = await self._bad(provider, nodes)
            if not bad:
                return {n: observed.machines[n].address for n in nodes}
            for node, why in bad.items():
                left[node] -= 1
                self._say(f"{node}: failed its check: {why}")
                if left[node] < 0:
                    raise why
            again = [MachineAction(n, Action.RECREATE, "failed its check") for n in bad]
            await provider.apply(again, self.emit)

    async def _bad(self, provider: CloudProvider, nodes: Sequence[str]) -> dict[str, CorralError]:
        fleet = Fleet(
            {n: OpenSSH(n, provider.ssh_target(n), control_dir=control_dir()) for n in nodes}
        )
        gpus = {n.name: n.group.gpu.count if n.group.gpu else 0 for n in elastic_of(self.spec)}
        found = await asyncio.gather(*(fault_of(fleet, n, gpus[n]) for n in nodes))
        return {n: why for n, why in zip(nodes, found, strict=True) if why is not None}

    def _say(self, text: str) -> None:
        self.emit(Event(Kind.NOTE, "elastic", message=text))
