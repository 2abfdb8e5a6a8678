"""The use case ``restore``: an archive of ``backup`` onto a cluster that is up, on any machines."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from corral.agents import program
from corral.api.lifecycle import deployment
from corral.api.operations.backup import LIMIT_S, on_controller, succeeded
from corral.api.operations.backup_archive import About, Archive, read_archive
from corral.api.operations.encryption import read_encrypted, require_archive
from corral.apply.connection import Connection
from corral.apply.journal import cluster_lock
from corral.errors import BAD_JSON, Code, CorralError
from corral.events import Emit, Event, Kind, ignore
from corral.extras import own_version
from corral.hosts.quote import call
from corral.hosts.transport import check
from corral.plan.model import Plan
from corral.plurals import plural
from corral.roles.services.backup import FORMAT, places_of
from corral.roles.services.mlflow import uri
from corral.roles.slurm.auth_key import MUNGE_KEY, SLURM_JWKS, SLURM_KEY
from corral.runtime.threads import abandonable
from corral.slurm.version import SlurmVersion, supported, talks_to
from corral.spec.models import ClusterSpec
from corral.state.databases import FOLDER
from corral.state_dir import cluster_dir

_PIECE: Final = 16 * 1024 * 1024
_PROGRAM: Final = "backup/restore.py"
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "munge": (MUNGE_KEY,),
    "slurm": (SLURM_KEY, SLURM_JWKS),
}
_STEPS: Final = (
    ("stop", "stopping slurmctld and slurmdbd"),
    ("database", "loading the accounting database"),
    ("state", "replacing Slurm's state"),
    ("keys", "writing keys"),
    ("services", "restoring MLflow and the page"),
    ("start", "starting slurmdbd and slurmctld"),
)


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """What a restore will do.

    Attributes:
        archive: what was read of the archive.
        slurm: the controller's Slurm.
        jobs: jobs that are there now and will be gone: id, user, state.
        keys: files of keys that are written.
        notes: what is not restored.
        changes: what ``corral up`` would do now, and is done too.
        in_place: an interrupted restore has put this archive in place; nodes may have other keys.
    """

    archive: Archive
    slurm: str
    jobs: tuple[str, ...]
    keys: tuple[str, ...]
    notes: tuple[str, ...]
    changes: tuple[str, ...]
    in_place: bool = False

    @property
    def lines(self) -> Iterator[str]:
        """What is done, in words, one after the other."""
        about, counts = self.archive.about, self.archive.manifest.counts
        date = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(about.made))
        yield f"archive of cluster {about.cluster}, made {date} with {about.slurm}"
        if self.in_place:
            yield "it is in place; an interrupted restore goes on: copy keys to all nodes, verify"
            yield from (f"as corral up does: {change}" for change in self.changes)
            return
        yield f"copy what is there now to {FOLDER} on the controller; stop slurmctld and slurmdbd"
        if self.archive.has_accounting:
            most = sum(n for t, (_, n) in counts.items() if t.endswith("_job_table"))
            yield f"replace the accounting database: {plural(most, 'job record')}"
        files = sum(name.startswith("state/") for name in self.archive.manifest.members)
        yield f"replace Slurm's state: {plural(files, 'file')}; jobs that are there now are lost"
        if self.keys:
            yield f"write {', '.join(self.keys)}"
        if about.mlflow:
            yield "replace MLflow's runs"
        yield "start Slurm, copy keys to all nodes as corral up does, and verify"
        yield from (f"as corral up does, also: {change}" for change in self.changes)
        yield from self.notes

    def as_dict(self) -> dict[str, Any]:
        """The archive's own statements, what is done, and the jobs that would be lost."""
        return {
            "archive": self.archive.about.model_dump(),
            "highest_job": self.archive.manifest.highest_job,
            "slurm": self.slurm,
            "jobs": list(self.jobs),
            "steps": list(self.lines),
        }


@dataclass(frozen=True, slots=True)
class Restored:
    """A cluster after a restore.

    Attributes:
        next_job: number of the next job.
        highest_job: highest number of a restored job.
    """

    next_job: int
    highest_job: int

    def as_dict(self) -> dict[str, int]:
        """Number of the next job, and the highest restored one."""
        return {"next_job": self.next_job, "highest_job": self.highest_job}


async def plan_restore(
    spec: ClusterSpec, path: Path, emit: Emit = ignore, *, identities: Sequence[Path] = ()
) -> RestorePlan:
    """Read an archive completely and compare it with the cluster; changes nothing.

    Args:
        spec: the cluster, which is up.
        path: the archive.
        emit: receives the events.
        identities: private keys for an archive that is encrypted by age.

    Raises:
        CorralError: NOT_FOUND, the cluster is not up or the file does not exist; USAGE, it
            cannot be decrypted, is damaged or of another cluster; NOT_GOOD, its Slurm or Corral is
            too new or too old.
    """
    if spec.slurm.backup_controller:
        raise CorralError(
            Code.NOT_GOOD,
            "Corral restores no cluster with a backup controller: it would take over meanwhile",
            hint="take slurm.backup_controller out of the file; corral up; corral restore; put it "
            "back; corral up",
        )
    await asyncio.to_thread(require_archive, path)
    begin = time.monotonic()
    emit(Event(Kind.PHASE_STARTED, "check", message=f"checking {path}"))
    async with await Connection.open(spec) as connection:
        connection.require_running()
        survey = await _survey(connection)

    def accept(about: About) -> None:
        require_fit(path, about, spec, survey["slurm"])

    archive = await abandonable(
        read_encrypted, path, identities, lambda plain: read_archive(path, plain, accept)
    )
    if archive.size * 2 > survey["free"]:
        raise CorralError(
            Code.NOT_GOOD,
            f"the controller has {survey['free'] // 1024**2} MB free in /var/lib, and the restore "
            f"needs {archive.size * 2 // 1024**2} MB",
            hint="make room there",
        )
    current = await deployment.plan(spec, emit)
    if not _same_machines(current):
        raise CorralError(
            Code.NOT_GOOD,
            "the cluster file declares other machines than there are",
            hint="bring the cluster up first: corral up FILE",
        )
    emit(Event(Kind.PHASE_DONE, "check", seconds=time.monotonic() - begin))
    keys, notes = _keys(archive, spec, survey["auth"])
    changes = tuple(c.change.summary for stage in current.stages for c in stage.changes)
    in_place = survey["started"] == archive.sha256
    jobs = () if in_place else tuple(survey["jobs"])
    return RestorePlan(archive, survey["slurm"], jobs, keys, notes, changes, in_place)


def _same_machines(plan: Plan) -> bool:
    """Whether ``corral up`` would neither make nor remove or release a machine."""
    return not (plan.machines or plan.leaving)


async def _survey(connection: Connection) -> dict[str, Any]:
    answer = await connection.fleet.run(connection.controller, on_controller(_PROGRAM, "survey"))
    try:
        fields = json.loads(succeeded(answer, "asking the controller").stdout)
        return {
            "slurm": str(fields["slurm"]),
            "auth": str(fields["auth"]),
            "jobs": [str(job) for job in fields["jobs"]],
            "free": int(fields["free"]),
            "started": str(fields["started"]),
        }
    except BAD_JSON as error:
        raise CorralError(Code.PARSE_FAILED, "the controller's answer cannot be read") from error


def _keys(
    archive: Archive, spec: ClusterSpec, auth: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Files of keys to write, and what is left as it is."""
    about, held = archive.about, archive.manifest.members
    notes: list[str] = []
    keys = tuple(k for k in _KEYS.get(auth, ()) if k.lstrip("/") in held)
    if about.auth != auth:
        notes.append(f"the nodes' keys stay: the archive's are for auth/{about.auth}, not {auth}")
        keys = ()
    if spec.slurm.accounting and not archive.has_accounting:
        notes.append("the accounting database stays: the archive has none")
    if about.mlflow and about.mlflow != places_of(spec)["mlflow"]:
        notes.append(f"MLflow's runs are left out: they are stored in {about.mlflow}")
    return keys, tuple(notes)


def require_fit(path: Path, about: About, spec: ClusterSpec, slurm: str) -> None:
    """Check that the archive is of this cluster, and that its releases can be read.

    Raises:
        CorralError: USAGE, it is of another cluster; NOT_GOOD, a release does not fit.
    """
    if about.cluster != spec.name:
        raise CorralError(
            Code.USAGE,
            f"{path} is of cluster {about.cluster}, not {spec.name}",
            hint="name its cluster file, or take another archive",
        )
    if about.format > FORMAT or _release(about.corral) > _release(own_version()):
        raise CorralError(
            Code.NOT_GOOD,
            f"{path} was made by Corral {about.corral}, and this one is {own_version()}",
            hint="upgrade Corral first",
        )
    then, now = SlurmVersion.parse(about.slurm), SlurmVersion.parse(slurm)
    if then.release > now.release:
        raise CorralError(
            Code.NOT_GOOD,
            f"{path} is of Slurm {then}, and Slurm {now} on the controller cannot read newer state",
            hint="upgrade Slurm on the cluster first: slurm.source in the cluster file",
        )
    if then.release != now.release and not (supported(then) and talks_to(now, then)):
        raise CorralError(
            Code.NOT_GOOD,
            f"{path} is of Slurm {then}, and Slurm {now} on the controller cannot read state that "
            "old",
            hint="bring the cluster up with an older Slurm, restore, then upgrade step by step",
        )


def _release(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text)[:3])


async def restore(
    spec: ClusterSpec,
    path: Path,
    plan: RestorePlan,
    emit: Emit = ignore,
    *,
    identities: Sequence[Path] = (),
    force: bool = False,
) -> Restored:
    """Put an archive in place on the controller, start Slurm, give all nodes the keys, verify.

    Interrupted at any point, the same call does it again from the beginning, or, where the archive
    is in place and Slurm has started, does what is left.

    Args:
        spec: the cluster.
        path: the archive.
        plan: of ``plan_restore``.
        emit: receives the events.
        identities: private keys for an archive that is encrypted by age.
        force: lose the jobs that are there now.

    Raises:
        CorralError: NOT_GOOD, there are jobs, or what was restored is not what was saved; BUSY;
            COMMAND_FAILED, a step failed.
    """
    if not plan.in_place:
        with cluster_lock(cluster_dir(spec.name)):
            async with await Connection.open(spec) as connection:
                connection.require_running()
                if not force:
                    await _require_no_jobs(connection)
                work = _Restore(spec, connection, plan, emit)
                await work.upload(path, identities)
                await work.replace()
    if not await deployment.up(spec, emit, _same_machines):
        raise CorralError(
            Code.NOT_GOOD,
            "the archive is in place, and the cluster file declares other machines than there are",
            hint="corral up FILE makes them and gives all nodes the keys",
        )
    async with await Connection.open(spec) as connection:
        connection.require_running()
        return await _Restore(spec, connection, plan, emit).verified()


async def _require_no_jobs(connection: Connection) -> None:
    """Ask again: more may have come since the plan."""
    jobs = (await _survey(connection))["jobs"]
    if jobs:
        raise CorralError(
            Code.NOT_GOOD,
            f"{plural(len(jobs), 'job')} would be lost",
            tail="\n".join(jobs[:10]),
            hint="wait for them, or restore with --force",
        )


class _Restore:
    def __init__(
        self, spec: ClusterSpec, connection: Connection, plan: RestorePlan, emit: Emit
    ) -> None:
        archive, places = plan.archive, places_of(spec)
        self._connection = connection
        self._plan = plan
        self._path = Path()
        self._emit = emit
        self._kept = f"{FOLDER}/before-restore-{archive.sha256[:12]}"
        mlflow = places["mlflow"] if archive.about.mlflow == places["mlflow"] else ""
        self._request = {
            **places,
            "database": places["database"] if archive.has_accounting else "",
            "mlflow": mlflow,
            "mlflow_check": program("gates/mlflow.py"),
            "mlflow_uri": uri(spec),
            "keys": list(_KEYS[archive.about.auth]) if plan.keys else [],
            "counts": {t: list(bounds) for t, bounds in archive.manifest.counts.items()},
            "sha256": archive.sha256,
            "kept": self._kept,
        }

    async def upload(self, path: Path, identities: Sequence[Path]) -> None:
        """Send the decrypted archive to a folder of root's, and compare it there."""
        begin = time.monotonic()
        self._emit(Event(Kind.PHASE_STARTED, "upload"))
        loop = asyncio.get_running_loop()
        waiting, sent = bytearray(), 0

        def send() -> None:
            nonlocal sent
            done = asyncio.run_coroutine_threadsafe(self._stage(bytes(waiting), sent), loop)
            done.result()
            sent += len(waiting)
            waiting.clear()

        def piece(data: bytes) -> None:
            waiting.extend(data)
            if len(waiting) >= _PIECE:
                send()

        def read() -> Archive:
            archive = read_encrypted(
                path, identities, lambda plain: read_archive(path, plain, lambda _: None, piece)
            )
            send()
            return archive

        archive = await abandonable(read)
        if archive.sha256 != self._plan.archive.sha256:
            raise CorralError(
                Code.STALE_PLAN,
                f"{path} has changed since it was checked",
                hint="run the same command again",
            )
        await self._step("compare")
        self._emit(Event(Kind.PHASE_DONE, "upload", seconds=time.monotonic() - begin))

    async def _stage(self, data: bytes, offset: int) -> None:
        script = on_controller(_PROGRAM, "stage", offset)
        answer = await self._connection.fleet.run(
            self._connection.controller, script, stdin=data, timeout=LIMIT_S
        )
        succeeded(answer, "sending the archive")

    async def replace(self) -> None:
        """Keep a copy of what is there, then all steps in their order."""
        begin = time.monotonic()
        self._emit(Event(Kind.PHASE_STARTED, "restore", total=len(_STEPS)))
        await self._keep()
        for name, title in _STEPS:
            self._emit(Event(Kind.NOTE, "restore", message=title))
            await self._step(name)
        self._emit(Event(Kind.PHASE_DONE, "restore", seconds=time.monotonic() - begin))

    async def _keep(self) -> None:
        """Copy what is there now, once: a restore that was killed has half of something else."""
        script = call(
            "state/databases.sh",
            "slurm_copy_once",
            self._kept,
            "whole",
            self._request["database"],
            self._request["state"],
        )
        answer = await self._connection.fleet.run(
            self._connection.controller, script, timeout=LIMIT_S
        )
        check(answer, "copying what is there now")

    async def _step(self, name: str) -> str:
        answer = await self._connection.fleet.run(
            self._connection.controller,
            on_controller(_PROGRAM, name),
            stdin=json.dumps(self._request).encode(),
            timeout=LIMIT_S,
        )
        return succeeded(answer, f"restore, step {name}").stdout

    async def verified(self) -> Restored:
        """Check that job ids continue, then remove the copy of the archive."""
        highest = self._plan.archive.manifest.highest_job
        text = await self._step("verify")
        try:
            next_job = int(json.loads(text)["next_job"])
        except BAD_JSON as error:
            raise CorralError(
                Code.PARSE_FAILED, "slurmctld did not report the number of its next job"
            ) from error
        if next_job <= highest:
            raise CorralError(
                Code.NOT_GOOD,
                f"the next job would have number {next_job}, and the accounting database has jobs "
                f"up to {highest}",
                hint="set FirstJobId in slurm.settings above that number",
            )
        await self._step("clean")
        return Restored(next_job, highest)
