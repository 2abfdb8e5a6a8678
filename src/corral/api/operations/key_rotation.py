"""The use case ``keys rotate``: the keys of a live cluster are replaced, and no job is lost."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from corral.apply.journal import Journal, cluster_lock
from corral.apply.observation import read_probes
from corral.apply.run import run_stages
from corral.apply.session import ClusterState, Session
from corral.errors import Code, CorralError
from corral.events import Emit, ignore
from corral.hosts.quote import Script, sh
from corral.hosts.transport import check
from corral.plan.make import make_plan
from corral.plan.model import NodeChange, Plan, Stage
from corral.roles.slurm.auth_key import (
    SLURM_JWKS,
    SLURM_KEY,
    key,
    keys,
)
from corral.roles.slurm.controller import jwt
from corral.slurm.conf.cluster import JWT_KEY
from corral.slurm.version import has
from corral.spec.impacts import Impact
from corral.spec.models import ClusterSpec
from corral.spec.nodes import digest
from corral.spec.slurm.releases import Feature, since
from corral.state import secrets as secret_files
from corral.state.base import Change, Desired, DesiredStage
from corral.state.secrets import Secret
from corral.state.service import Service
from corral.state_dir import cluster_dir

JWT_BYTES = 32
WAITS = "steps that jobs began in these seconds may wait two minutes"
"""A step asked for while slurmctld restarts finds its nodes busy, and srun asks again only after
SlurmctldTimeout (120 s) and up to 10 s more (srun/launch.c; seen with 24.11.5)."""


class Which(StrEnum):
    """Which keys are replaced."""

    AUTH = "auth"
    JWT = "jwt"
    MUNGE = "munge"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Rotated:
    """One key that was replaced.

    Attributes:
        path: its file.
        nodes: the machines that hold it.
        means: what that means for those who use the cluster.
    """

    path: str
    nodes: tuple[str, ...]
    means: str

    def as_dict(self) -> dict[str, Any]:
        """The key's file, its nodes, and what its replacement means."""
        return {"path": self.path, "nodes": list(self.nodes), "means": self.means}


def rotation_of(spec: ClusterSpec, which: Which = Which.AUTH) -> tuple[str, ...]:
    """What ``rotate_keys`` will do, in words, before it is done."""
    sentences: list[str] = []
    if which in (Which.AUTH, Which.ALL, Which.MUNGE):
        sentences.append(
            "munge.key, where munge is used: munged stops for a moment on all nodes at once; jobs "
            "run on, steps and commands of that moment fail"
        )
    if which in (Which.AUTH, Which.ALL):
        sentences.append(
            "slurm.jwks, where auth/slurm is used: both keys are good meanwhile; " + WAITS
        )
    if which in (Which.JWT, Which.ALL) and spec.slurm.rest:
        sentences.append("the JWT key: all tokens that were given out end")
    return tuple(sentences)


async def rotate_keys(
    spec: ClusterSpec, emit: Emit = ignore, *, which: Which = Which.AUTH
) -> tuple[Rotated, ...]:
    """Replace keys on all machines of a running cluster; jobs run on.

    An interrupted rotation resumes when this is called again.

    Args:
        spec: the cluster.
        emit: receives an event for each step.
        which: auth (the key that nodes know each other by), munge (the same, where it is munge's),
            jwt, or all.

    Raises:
        CorralError: NOT_FOUND, the cluster is not up; USAGE, it has no such key; NOT_GOOD, its
            Slurm cannot do it; what a machine could not do.
    """
    with cluster_lock(cluster_dir(spec.name)):
        async with await Session.open(spec) as session:
            session.require_running()
            current = await session.read_state(emit)
            absent = [n for n in current.site.names if n not in session.fleet.nodes]
            if absent or current.plan.machines:
                raise CorralError(
                    Code.NOT_GOOD,
                    f"not all machines run: {', '.join(absent) or 'the file declares others'}",
                    hint="a node that is away would keep the old key: corral up FILE first",
                )
            return await _Rotation(session, current, emit).run(which)


class _Rotation:
    def __init__(self, session: Session, current: ClusterState, emit: Emit) -> None:
        name = session.spec.name
        self._session = session
        self._state = current
        self._site = current.site
        self._all = current.site.names
        self._journal = Journal(cluster_dir(name) / "journal.jsonl", secrets.token_hex(4))
        self._emit = self._journal.following(emit)

    async def run(self, which: Which) -> tuple[Rotated, ...]:
        munge = self._site.auth == "munge"
        if which is Which.MUNGE and not munge:
            raise CorralError(
                Code.USAGE,
                "this cluster does not use munge: its nodes know each other by auth/slurm",
                hint="rotate that key with: --which auth",
            )
        if which is Which.JWT and not self._site.spec.slurm.rest:
            raise CorralError(
                Code.USAGE, "this cluster has no JWT key (slurm.rest: false)", hint="--which auth"
            )
        done: list[Rotated] = []
        if which is not Which.JWT:
            done.append(await (self._munge() if munge else self._jwks()))
        if which in (Which.JWT, Which.ALL) and self._site.spec.slurm.rest:
            done.append(await self._jwt())
        return tuple(done)

    async def _jwks(self) -> Rotated:
        if not has(self._site.version, Feature.JWKS_ROTATION):
            raise CorralError(
                Code.NOT_GOOD,
                f"Slurm {self._site.version} cannot hold two keys (slurm.jwks came with "
                f"{since(Feature.JWKS_ROTATION)})",
                hint="upgrade Slurm first: slurm.source in the cluster file",
            )
        for title, script in (
            ("a new key in addition to the old one", secret_files.announce(SLURM_JWKS, SLURM_KEY)),
            ("the new key signs", secret_files.promote(SLURM_JWKS)),
            ("the old key ends", secret_files.retire(SLURM_JWKS, SLURM_KEY)),
        ):
            # A phase that was over when a rotation was killed is gone through again: its script
            # does nothing then, and what some machine may not have received is sent again.
            await self._do([self._on_controller(SLURM_JWKS, title, script)])
            await self._copied(keys(self._site))
            await self._do(self._services(SLURM_JWKS, _reconfigure(SLURM_JWKS)))
        minutes = secret_files.OVERLAP_S // 60
        means = f"jobs run on; {WAITS}; the old key ends in {minutes} minutes"
        return Rotated(SLURM_JWKS, self._all, means)

    async def _munge(self) -> Rotated:
        secret = key(self._site)
        coming = replace(secret, path=f"{secret.path}{secret_files.NEXT}", optional=True)
        made = secret_files.prepare(secret.path, secret.size, secret.owner, secret.mode)
        await self._do([self._on_controller(coming.path, "the next munge key", made)])
        await self._copied((coming,))
        await self._do(
            self._services(secret.path, {"munge": secret_files.swap_munge(secret.path)}),
        )
        means = f"jobs run on; what began while munged was away failed; {WAITS}"
        return Rotated(secret.path, self._all, means)

    async def _jwt(self) -> Rotated:
        script = secret_files.replace(JWT_KEY, JWT_BYTES, "slurm:slurm", "600")
        await self._do([self._on_controller(JWT_KEY, "a new JWT key", script)])
        if self._site.controllers[1:]:
            await self._copied(jwt(self._site), self._site.controllers)
        await self._do(self._services(JWT_KEY, _reconfigure(JWT_KEY)))
        means = "all tokens made before are refused now; make new ones: scontrol token"
        return Rotated(JWT_KEY, self._site.controllers, means)

    def _on_controller(self, path: str, title: str, script: Script) -> Stage:
        change = Change(f"secret:{path}", title, "", "", script, Impact.RELOAD)
        return Stage("keys", title, (NodeChange((self._site.controller,), change),))

    async def _copied(self, key_files: Sequence[Secret], to: Sequence[str] = ()) -> None:
        """Copy what the controller holds to all machines, or these, that hold something else."""
        nodes = [n for n in to or self._all if n != self._site.controller]
        stage = DesiredStage(
            "copies",
            "keys from the controller",
            tuple(Desired((n,), tuple(key_files)) for n in (self._site.controller, *nodes)),
        )
        seen = await read_probes(self._session.fleet, (stage,), self._site.facts)
        await self._do(self._plan_of((stage,), seen).stages)

    def _plan_of(self, stages: Sequence[DesiredStage], seen: Mapping[str, Any]) -> Plan:
        return make_plan(
            cluster=self._site.spec.name,
            spec_digest=digest(self._site.spec),
            stages=stages,
            observed=seen,
        )

    def _services(self, path: str, how: Mapping[str, Script | None]) -> list[Stage]:
        """Services that read a key, notified in their order; each remembers that it read it."""
        stages: list[Stage] = []
        backups = self._site.controllers[1:]
        for stage in self._state.stages:
            changes = [
                NodeChange(
                    part.nodes,
                    Change(
                        r.id,
                        f"{r.unit} takes {path.rpartition('/')[2]}",
                        "",
                        "",
                        # A backup slurmctld takes part in no reconfiguration: it starts again.
                        r.notified(None if part.nodes == backups else how.get(r.unit)),
                        r.impact,
                    ),
                )
                for part in stage.desired
                for r in part.resources
                if isinstance(r, Service) and path in r.inputs
            ]
            if changes:
                stages.append(Stage(stage.name, stage.title, tuple(changes), stage.gates))
        return stages

    async def _do(self, stages: Sequence[Stage]) -> None:
        spec = self._site.spec
        plan = Plan(spec.name, digest(spec), "", stages=tuple(stages))
        self._journal.write("plan", {"plan": plan.as_dict()})
        await run_stages(plan, self._session.fleet, self._emit)


def _reconfigure(path: str) -> dict[str, Script | None]:
    """How each service reads a new key without a restart; None where it cannot."""
    asked = sh("timeout 60 scontrol reconfigure")
    taken = secret_files.reconfigured("slurmctld", path)
    return {
        "slurmdbd": None,  # its SIGHUP does not read keys; slurmctld keeps records meanwhile
        "slurmctld": sh("{a} && {t}", a=asked, t=taken),
        "slurmd": secret_files.reconfigured("slurmd", path),
    }


async def rotation_phase(spec: ClusterSpec) -> str:
    """Where slurm.jwks is: none, announced, promoted, rotated or foreign."""
    async with await Session.open(spec) as session:
        session.require_running()
        answer = await session.fleet.run(session.controller, secret_files.phase(SLURM_JWKS))
        return check(answer, "reading slurm.jwks").stdout.strip()
