"""Submits a job: checks it, uploads its files to shared storage, calls sbatch."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Final

from corral.agents import program
from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind, ignore
from corral.hosts.fleet import Fleet
from corral.hosts.quote import Script, join, sh
from corral.hosts.transport import Result, check
from corral.inspect.jobs import UNIX_TIMES
from corral.jobs.batch import environment
from corral.jobs.batch.containers import mounts_of
from corral.jobs.batch.fabric import declared, rdma_of
from corral.jobs.batch.script import Place, batch_script
from corral.jobs.batch.tracking import Tracking, tracking_of
from corral.jobs.follow import as_user
from corral.jobs.handle import JobHandle
from corral.jobs.limits import (
    SubmitAnswers,
    against_array,
    against_image,
    against_nodes,
    against_spec,
    ask,
    cpus_per_rank,
    gpus_left_out,
    memory_share,
    nodes_for,
    partition_name,
    partition_of,
    preemption_note,
    refuse,
    user_of,
)
from corral.jobs.model import JobSpec
from corral.jobs.profile import profiler
from corral.jobs.sweep import point_lines
from corral.jobs.upload.archive import (
    Archive,
    archive,
    missing,
    submit_script,
)
from corral.jobs.upload.git import commit_tags
from corral.jobs.upload.manifest import (
    NO_FILES,
    Manifest,
    named_file,
    outline,
    outline_folder,
    pack,
    pack_folder,
)
from corral.jobs.upload.user_folder import (
    JOBS,
    PERSON,
    entry_hint,
    not_ours,
    roof_script,
    user_folder,
)
from corral.roles.machine.nccl_plugin import PLUGINS
from corral.roles.services.mlflow import uri
from corral.runtime.threads import abandonable
from corral.slurm.directives import refused_options
from corral.slurm.records import Node
from corral.slurm.rest.commands import number_of, sbatch_of, stdin_of
from corral.slurm.rest.write import Submission
from corral.spec.findings import near_file
from corral.spec.models import ClusterSpec

LIBRARY: Final = ("checkpoint.py", "samples.py", "shards.py", "track.py")
"""What scripts may import: modules of this package that each job gets a copy of."""
NOTHING_MORE: Final[Mapping[str, bytes]] = MappingProxyType({})
SEND_S: Final = 1800.0
TEST_S: Final = 60.0
_REFUSED: Final = 3
_FIELD_OF: Final[Mapping[str, str]] = MappingProxyType(
    {"dependency": "after", "gres": "gpus_per_node"}
)
"""Fields of a job that have another name than sbatch's option."""
_PROGRAMS: Final = frozenset({".py", ".sh", ".sbatch"})
"""Endings of what a folder may hold to run."""


@dataclass(frozen=True, slots=True)
class _Going:
    """A job that is being submitted.

    Attributes:
        job: as asked, with what the cluster decides filled in.
        user: whose it is.
        mount: the shared storage.
        name: its folder's name in the user's.
        manifest: what is uploaded; None: its script is on shared storage.
        files: more files of its folder, by their path in it.
    """

    job: JobSpec
    user: str
    mount: str
    name: str
    manifest: Manifest | None
    files: Mapping[str, bytes]

    @property
    def folder(self) -> str:
        return f"{user_folder(self.mount, JOBS, self.user)}/{self.name}"

    @property
    def program(self) -> str:
        if self.job.command:
            return ""
        if self.manifest is None:
            return self.job.script
        return f"{self.folder}/code/{self.manifest.program}"

    @property
    def workdir(self) -> str:
        if self.manifest is None:
            return str(PurePosixPath(self.job.script).parent) if self.job.in_place else ""
        if self.manifest.inside is None:
            return ""
        return f"{self.folder}/code/{self.manifest.inside}".rstrip("/")


def dry_run(
    job: JobSpec, spec: ClusterSpec, *, user_known: bool = False, script_known: bool = False
) -> Script:
    """The batch script as it would be sent, as far as the cluster file alone determines it.

    Args:
        job: the job.
        spec: the cluster.
        user_known: the cluster knows the job's user, whom the file need not name.
        script_known: its script and the lock of its environment need not be files of this machine.

    Raises:
        CorralError: USAGE or NOT_FOUND, the job cannot run as asked.
    """
    job = gpus_left_out(job, spec)
    refuse([*against_spec(job, spec, user_known=user_known), *against_image(job, spec)])
    if not script_known:
        refuse_files(job, spec)
    sent = _outline(job, spec)
    going = _Going(job, user_of(job, spec), spec.storage[0].mount, "JOB", sent, NOTHING_MORE)
    return batch_script(job, _place(going, spec, ()))


def _outline(job: JobSpec, spec: ClusterSpec) -> Manifest | None:
    if job.command:
        return NO_FILES if _bare(job) else outline_folder(job.folder or "")
    if _shared(job, spec):
        return None
    path = Path(job.script)
    return outline(path, job.folder) if path.is_file() else Manifest(None, (), path.name)


async def submit(
    fleet: Fleet,
    controller: str,
    spec: ClusterSpec,
    job: JobSpec,
    emit: Emit = ignore,
    *,
    files: Mapping[str, bytes] = NOTHING_MORE,
    user_known: bool = False,
) -> JobHandle:
    """Hand a job to Slurm, with its files in a separate folder on shared storage.

    Args:
        fleet: the cluster's machines.
        controller: the node that runs slurmctld.
        spec: the cluster.
        job: the job.
        emit: receives what is uploaded and which environment is made.
        files: more files of the job's folder, by their path in it.
        user_known: the cluster knows the job's user, whom the file need not name.

    Raises:
        CorralError: USAGE or NOT_FOUND, the job cannot run as asked (nothing was submitted);
            SLURM_REFUSED, sbatch refused it; COMMAND_FAILED, its files could not be written.
    """
    job = gpus_left_out(job, spec)
    refuse(against_spec(job, spec, user_known=user_known))
    manifest = await _parcel(job, spec)
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    name = f"{stamp}-{job.title}-{secrets.token_hex(3)}"
    going = _Going(job, user_of(job, spec), spec.storage[0].mount, name, manifest, files)
    for note in manifest.notes if manifest else ():
        emit(Event(Kind.NOTE, "code", message=note))
    if note := preemption_note(job, spec):
        emit(Event(Kind.NOTE, "preemption", message=note))
    seen, nodes = await _fitting(fleet, controller, going, spec)
    place = _place(going, spec, nodes)
    lock = await _requirements(going, emit)
    if lock is not None:
        made = await environment.ensure(
            fleet, controller, going.user, mount=going.mount, text=lock, env=job.env, emit=emit
        )
        place = replace(place, python=made)
    tracking = tracking_of(job, spec, await _code_tags(job, spec))
    place = replace(place, tracking=tracking)
    text = batch_script(job, place)
    job_id = await _send(
        fleet, controller, going, seen=seen, text=text, tracking=tracking, emit=emit
    )
    return JobHandle(
        job_id, job.title, going.user, going.folder, job.logs, controller, tuple(job.tasks)
    )


async def _fitting(
    fleet: Fleet, controller: str, going: _Going, spec: ClusterSpec
) -> tuple[SubmitAnswers, tuple[Node, ...]]:
    """What the cluster answered, and the nodes that the job may get.

    Raises:
        CorralError: USAGE, it cannot run as asked; COMMAND_FAILED, Slurm is silent.
    """
    job = going.job
    seen = await ask(
        fleet, controller, job, user=going.user, mount=going.mount, manifest=going.manifest
    )
    nodes = nodes_for(job, partition_name(job, spec), seen.nodes)
    refuse(
        [
            *against_nodes(job, partition_name(job, spec), nodes),
            *against_array(job, seen.array_size),
        ]
    )
    return seen, nodes


@dataclass(frozen=True, slots=True)
class ExpectedStart:
    """When and where Slurm would start a job as the cluster is now.

    Attributes:
        start_at: unix seconds; None where Slurm gives no time.
        nodes: a hostlist, "" where it gives none.
    """

    start_at: int | None = None
    nodes: str = ""


# "Job 7 to start at 1795958114 using 2 processors on nodes n[1-2] in partition main"; before 20.11
# without "nodes".
_EXPECTED: Final = re.compile(
    r"Job \d+ to start at (?P<at>\S+) using \d+ processors on (?:nodes )?(?P<nodes>\S+)"
)


async def expected_start(
    fleet: Fleet, controller: str, spec: ClusterSpec, job: JobSpec, *, user_known: bool = False
) -> ExpectedStart:
    """When Slurm would start a job, by ``sbatch --test-only`` as its user; submits nothing.

    Args:
        fleet: the cluster's machines.
        controller: the node that runs slurmctld.
        spec: the cluster.
        job: the job; its script is on the cluster, or it is a command.
        user_known: the cluster knows the job's user, whom the file need not name.

    Raises:
        CorralError: USAGE or NOT_FOUND, the job cannot run as asked; SLURM_REFUSED.
    """
    job = gpus_left_out(job, spec)
    refuse(against_spec(job, spec, user_known=user_known))
    manifest = await _parcel(job, spec)
    going = _Going(job, user_of(job, spec), spec.storage[0].mount, "JOB", manifest, NOTHING_MORE)
    _, nodes = await _fitting(fleet, controller, going, spec)
    text = batch_script(job, _place(going, spec, nodes))
    asks = join([sh("cd /"), UNIX_TIMES, sh("exec sbatch --test-only")])
    result = await fleet.run(
        controller, as_user(going.user, asks), stdin=text.encode(), timeout=TEST_S
    )
    if not result.ok:
        raise _refused(result, going, "sbatch --test-only", "")
    return read_expected(f"{result.stdout}\n{result.stderr}")


async def expected_of_script(
    fleet: Fleet, controller: str, user: str, submission: Submission
) -> ExpectedStart:
    """When Slurm would start a batch script, by ``sbatch --test-only`` as its user.

    Args:
        fleet: the cluster's machines.
        controller: the node that runs slurmctld.
        user: whose job it would be.
        submission: the script.

    Raises:
        CorralError: SLURM_REFUSED, at the option of sbatch that it is about.
    """
    options = ["--test-only", *(word for word in sbatch_of(submission)[1:] if word != "--parsable")]
    asks = join([sh("cd /"), UNIX_TIMES, sh("exec sbatch {options}", options=options)])
    stdin = stdin_of(submission).encode()
    result = await fleet.run(controller, as_user(user, asks), stdin=stdin, timeout=TEST_S)
    if not result.ok:
        raise _script_refused(result, "sbatch --test-only")
    return read_expected(f"{result.stdout}\n{result.stderr}")


async def send_script(fleet: Fleet, controller: str, user: str, submission: Submission) -> int:
    """Submit a batch script by ``sbatch`` as its user, who is whom Slurm judges; its number.

    Args:
        fleet: the cluster's machines.
        controller: the node that runs slurmctld.
        user: whose job it is.
        submission: the script.

    Raises:
        CorralError: SLURM_REFUSED, at the option of sbatch that it is about; PARSE_FAILED.
    """
    words = list(sbatch_of(submission))
    asks = join([sh("cd /"), sh("exec {words}", words=words)])
    stdin = stdin_of(submission).encode()
    result = await fleet.run(controller, as_user(user, asks), stdin=stdin, timeout=TEST_S)
    if not result.ok:
        raise _script_refused(result, "sbatch")
    number = number_of(result.stdout)
    if number is None:
        raise CorralError(
            Code.PARSE_FAILED,
            "sbatch gave no job id: it is perhaps queued",
            node=result.node,
            tail=result.tail,
            hint="look for it in the list of jobs before it is submitted again",
        )
    return number


def _script_refused(result: Result, command: str) -> CorralError:
    lines = [line for line in result.tail.splitlines() if "error:" in line or "failure:" in line]
    why = lines[-1].partition("error: ")[2] if lines else ""
    return CorralError(
        Code.SLURM_REFUSED,
        f"Slurm refuses the job: {why}" if why else "Slurm refuses the job",
        node=result.node,
        command=command,
        status=result.status,
        tail=result.tail,
        fields={option: why for option in refused_options(lines)},
    )


def read_expected(text: str) -> ExpectedStart:
    """What ``sbatch --test-only`` printed, with times in unix seconds."""
    match = _EXPECTED.search(text)
    if match is None:
        return ExpectedStart()
    at = match["at"]
    return ExpectedStart(int(at) if at.isdecimal() else None, match["nodes"])


async def _code_tags(job: JobSpec, spec: ClusterSpec) -> dict[str, str]:
    """Commit and branch of the code, where a run is tracked."""
    if not uri(spec) or _bare(job):
        return {}
    return await commit_tags(Path(job.script or f"{job.folder}/{job.command[0]}"))


def _bare(job: JobSpec) -> bool:
    """A command that no folder is uploaded for."""
    return bool(job.command) and job.folder in (None, "none")


def _shared(job: JobSpec, spec: ClusterSpec) -> bool:
    """The script is used where it is on shared storage."""
    under = any(PurePosixPath(job.script).is_relative_to(s.mount) for s in spec.storage)
    return under and (job.in_place or not Path(job.script).is_file())


async def _parcel(job: JobSpec, spec: ClusterSpec) -> Manifest | None:
    if job.command:
        return NO_FILES if _bare(job) else await pack_folder(job.folder or "")
    if _shared(job, spec):
        return None
    await asyncio.to_thread(_refuse_script, job, spec)
    return await pack(Path(job.script), job.folder)


def refuse_files(job: JobSpec, spec: ClusterSpec) -> None:
    """Refuse a job whose script or lock is not a file of this machine, where it must be one.

    Raises:
        CorralError: USAGE or NOT_FOUND.
    """
    if not job.command and not _shared(job, spec):
        _refuse_script(job, spec)
    if job.environment not in (None, "none") and not job.python and not job.container:
        named_file(Path(job.environment))


def _refuse_script(job: JobSpec, spec: ClusterSpec) -> None:
    """Refuse a script that is neither on shared storage nor a file of this machine.

    Raises:
        CorralError: USAGE or NOT_FOUND.
    """
    shared = ", ".join(s.mount for s in spec.storage)
    path = Path(job.script)
    if job.in_place:
        raise CorralError(
            Code.USAGE,
            f"{job.script} is not on the cluster's shared storage",
            hint=f"with --in-place name a script under {shared}; else its folder is uploaded",
        )
    if path.is_dir():
        script = _script_in(path)
        raise CorralError(
            Code.NOT_FOUND,
            f"{job.script} is a folder, not a script",
            hint="name a script in it" + (f": corral run {shlex.quote(script)}" if script else ""),
        )
    if not path.is_file():
        raise CorralError(
            Code.NOT_FOUND,
            f"script {job.script} does not exist on this machine",
            hint=near_file(path)
            or f"name a file of this machine, or one under {shared} on the cluster; for a command "
            f"of the nodes: corral run -- {job.script}",
        )


def _script_in(folder: Path) -> str:
    """The first program of a folder, "" for none."""
    try:
        names = sorted(file.name for file in folder.iterdir() if file.suffix in _PROGRAMS)
    except OSError:
        return ""
    return str(folder / names[0]) if names else ""


async def _requirements(going: _Going, emit: Emit) -> bytes | None:
    """What pip is given, None for the nodes' own Python; which of both is reported."""
    requested = going.job.environment
    lock = going.manifest.lock if going.manifest else None
    if python := going.job.python:
        unused = f"; {lock.path.name} is not used" if lock and requested is None else ""
        emit(Event(Kind.NOTE, "environment", message=f"Python of {python}{unused}"))
        return None
    if requested == "none" or going.job.container:
        return None
    if requested is not None:
        lock = await asyncio.to_thread(named_file, Path(requested))
    if lock is None:
        return None
    note, text = "", None
    name = lock.path.name
    if requested is None and name != "uv.lock":
        content = await asyncio.to_thread(lock.read)
        loose = environment.unpinned(content.decode(errors="replace"))
        note = f"{name} is not a lock ({loose[0]!r} is not pinned)" if loose else ""
    if not note:
        text = await environment.requirements(lock)
        words = environment.seen_words(name, text.decode(errors="replace"))
        text = text if words else None
        note = words or f"{name} names no package"
    message = note if text is not None else f"{note}: the job has the nodes' own Python"
    emit(Event(Kind.NOTE, "environment", message=message))
    return text


def own_files(job: JobSpec, text: Script) -> dict[str, bytes]:
    """The job's own small files, by their path in its folder."""
    about = {"logs": job.logs, "array": list(job.tasks), "job": job.model_dump()}
    files = {
        "job.sh": text.encode(),
        "job.json": json.dumps(about, indent=1).encode(),
        "lib/corral/__init__.py": b'"""What `corral run` sends with a job."""\n',
    }
    for name in LIBRARY:
        files[f"lib/corral/{name}"] = resources.files("corral").joinpath(name).read_bytes()
    if job.torchrun:
        for name in ("torchrun.py", "lines.py"):
            files[f"lib/corral/{name}"] = program(f"jobs/{name}").encode()
    if job.sweep:
        files["points"] = point_lines(job.sweep)
    return files


async def _send(
    fleet: Fleet,
    controller: str,
    going: _Going,
    *,
    seen: SubmitAnswers,
    text: Script,
    tracking: Tracking,
    emit: Emit,
) -> int:
    manifest = going.manifest or NO_FILES
    token = secrets.token_hex(4)
    own = own_files(going.job, text) | tracking.files | profiler.files(going.job.profile)
    own |= going.files
    packed = await abandonable(
        archive, manifest, missing(manifest, seen.lacking), going.name, token, own
    )
    if manifest.root is not None:
        emit(
            Event(
                Kind.NOTE,
                "code",
                message=f"{manifest.root} is uploaded: {_sent(len(manifest.files), packed)}",
            )
        )
    tasks = [f"task-{number}" for number in going.job.tasks]
    inner = submit_script(
        user_folder(going.mount, JOBS, going.user), going.name, token, tasks, refused=_REFUSED
    )
    script = join([roof_script(going.mount, JOBS, going.user), as_user(going.user, inner)], " && ")
    result = await fleet.run(controller, script, stdin=packed.data, timeout=SEND_S)
    return _number(result, going)


def _sent(files: int, packed: Archive) -> str:
    many = "1 file" if files == 1 else f"{files} files"
    if not packed.contents:
        return f"{many}, none of them new"
    return f"{many}, {packed.contents} new ({max(1, packed.size // 1000)} kB)"


def _number(result: Result, going: _Going) -> int:
    folder = going.folder
    if result.status == _REFUSED:
        hint = f"the script that was refused is in {folder}/job.sh"
        raise _refused(result, going, "sbatch job.sh", hint)
    if (taken := not_ours(result)) is not None:
        raise taken
    check(result, f"writing the job's files to {folder}", hint="is the shared storage writable?")
    number = result.stdout.strip().rpartition("\n")[2]
    if not number.isdecimal():
        raise CorralError(
            Code.PARSE_FAILED, "sbatch gave no job id", node=result.node, tail=result.tail
        )
    return int(number)


def _refused(result: Result, going: _Going, command: str, hint: str) -> CorralError:
    """The error of a job that sbatch refused, at the field that its message is about."""
    why = ""
    if "Invalid account" in result.tail:  # ESLURM_INVALID_ACCOUNT: no association fits
        why = f": {going.user} may not charge {going.job.account or 'an account'}"
        hint = (
            f"those of {going.user}: sacctmgr show associations user={going.user}; where there is "
            f"none, {entry_hint(going.user, person=PERSON in result.stderr)}"
        )
    lines = [line for line in result.tail.splitlines() if "error:" in line or "failure:" in line]
    fields = {
        _FIELD_OF.get(option, option): lines[-1].partition("error: ")[2] or lines[-1]
        for option in refused_options(lines)
    }
    return CorralError(
        Code.SLURM_REFUSED,
        f"Slurm refused the job{why}",
        node=result.node,
        command=command,
        status=result.status,
        tail=result.tail,
        hint=hint,
        fields=fields,
    )


def _place(going: _Going, spec: ClusterSpec, nodes: tuple[Node, ...]) -> Place:
    job = going.job
    interface, fabric = declared(spec, partition_of(job, spec))
    shared = [storage.mount for storage in spec.storage]
    return Place(
        folder=going.folder,
        program=going.program,
        partition=partition_name(job, spec),
        cpus_per_rank=cpus_per_rank(job, nodes),
        mem=memory_share(job, nodes),
        interface=interface,
        fabric=fabric,
        rdma=rdma_of(spec),
        workdir=going.workdir,
        python=job.python or "",
        mounts=mounts_of(job, shared, PLUGINS[fabric].mounts if fabric in PLUGINS else ()),
    )
