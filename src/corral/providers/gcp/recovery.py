"""After a Terraform that was killed: its lock on the state is released, what it forgot is adopted.

Terraform writes its state to the bucket at intervals (20 s) and at its end. One that is killed in
between leaves its lock, and Google has resources of which the state knows nothing: the next run is
refused, first by the lock, then for each resource by "already exists" (409). Both are touched only
where they are the killed run's: no process of it is left (``toolkit_run``), the lock was taken by
this user on this machine, and lock and resource are of the time of a run that a signal ended or
whose end nobody saw. What else is in the way stays, with the command that a person may run.
"""

from __future__ import annotations

import os
import pwd
import re
import shlex
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind
from corral.hosts.process import run
from corral.providers.gcp.processes import terraform_in
from corral.providers.gcp.toolkit_run import Window


class Origin(NamedTuple):
    """Where a resource at Google comes from.

    Attributes:
        made: Unix time.
        deployment: what its label names; "" for one without labels, such as a network.
    """

    made: float
    deployment: str = ""


OriginOf = Callable[[str, str], Awaitable[Origin | None]]
"""Asks Google for a resource, by its Terraform type and id; None: unknown."""

TERRAFORM_S: Final = 600.0
DELETE_S: Final = 900.0
SKEW_S: Final = 60.0
"""Google's clock and this machine's may differ by so much."""
IMAGE_MACHINE: Final = re.compile(r"packer-[0-9a-f]{6}")
"""Name of the machine that an image is made on, and of its disk (image.pkr.hcl of the toolkit)."""
_LOCK: Final = re.compile(
    r"Error acquiring the state lock.*?\bLock Info:\s.*?\bID:\s+(\S+).*?\bWho:\s+(\S+)"
    r".*?\bCreated:\s+(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)",
    re.S,
)
_EXISTS: Final = re.compile(
    r"Error 409: (?:The resource|Resource) '([^'\s]+)' already exists.*?\bwith ([^\n]+?),$",
    re.S | re.M,
)
_TYPE: Final = re.compile(r"\b(google_\w+)\.[\w-]+(?:\[[^\]]*\])?$")
_MACHINE: Final = re.compile(r"projects/([\w.:-]+)/zones/([\w-]+)/instances/([\w-]+)")
_NO_IMPORT: Final = re.compile(r"does(?:n't| not) support import")


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock on Terraform's state, as its message has it.

    Attributes:
        id: what ``force-unlock`` takes.
        who: USER@HOST of its holder.
        created: Unix time.
    """

    id: str
    who: str
    created: float


@dataclass(frozen=True, slots=True)
class Forgotten:
    """A resource that Google has and Terraform's state has not.

    Attributes:
        address: of the resource in Terraform's configuration.
        id: Google's path of it.
    """

    address: str
    id: str

    @property
    def kind(self) -> str:
        """Its type, such as ``google_compute_network``; "" for one that is not Google's."""
        match = _TYPE.search(self.address)
        return match[1] if match else ""


def lock_of(output: str) -> Lock | None:
    """The lock that a run was refused for."""
    match = _LOCK.search(_unframed(output))
    if match is None:
        return None
    try:
        created = datetime.fromisoformat(f"{match[3]}T{match[4]}").replace(tzinfo=UTC)
    except ValueError:
        return None
    return Lock(match[1], match[2], created.timestamp())


def forgotten_of(output: str) -> tuple[Forgotten, ...]:
    """Resources that a run was refused for, because they exist."""
    blocks = re.split(r"^(?=\s*Error: )", _unframed(output), flags=re.M)
    matches = (match for block in blocks if (match := _EXISTS.search(block)))
    return tuple(dict.fromkeys(Forgotten(match[2], match[1]) for match in matches))


def _unframed(output: str) -> str:
    """Without the frame that Terraform draws around an error."""
    return re.sub(r"^[│╷╵|] ?", "", output, flags=re.M)


def is_ours(lock: Lock, killed: Sequence[Window]) -> bool:
    """Whether this user took it on this machine, while a run that was killed worked."""
    # As Go's user.Current() without cgo: by number, else by the environment.
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's user that no file names
        user = os.environ.get("USER", "")
    # The lock's time has no fraction of a second here; it is this machine's.
    return lock.who == f"{user}@{socket.gethostname()}" and any(
        int(window.begin) <= lock.created <= window.end + SKEW_S for window in killed
    )


def made_then(made: float, killed: Sequence[Window]) -> bool:
    """Whether something was made while a run that was killed worked."""
    return any(window.begin - SKEW_S <= made <= window.end + SKEW_S for window in killed)


async def recover(
    output: str, group: Path, killed: Sequence[Window], origin_of: OriginOf | None, emit: Emit
) -> bool:
    """Undo what a killed run left, as far as a later run was refused for it.

    Args:
        output: what the later run printed.
        group: folder of the deployment group that it failed in.
        killed: when runs before it were killed.
        origin_of: asks Google for a resource; None: resources are left as they are.
        emit: receives what is done, and what a person may do in its place.

    Returns:
        whether something was undone, so that the same run may succeed now.

    Raises:
        CorralError: PROVIDER_FAILED, a command of Terraform's or gcloud's failed.
    """
    lock = lock_of(output)
    if lock is not None:
        return await _unlock(lock, group, killed, emit)
    undone = False
    for resource in forgotten_of(output) if origin_of else ():
        origin = await origin_of(resource.kind, resource.id) if origin_of else None
        if origin is None:
            continue
        # What has labels names its deployment.
        mine = origin.deployment in ("", group.parent.name)
        if mine and made_then(origin.made, killed):
            text = await _adopt(resource, origin, group)
            text += ": a run that was killed made it"
            undone = True
        else:
            text = (
                f"left as it is, as no run that was killed here made it: {resource.id}; if it is "
                f"this cluster's: {shlex.join(_import(resource))} in {group}"
            )
        emit(Event(Kind.NOTE, "machines", message=text))
    return undone


async def _unlock(lock: Lock, group: Path, killed: Sequence[Window], emit: Emit) -> bool:
    """Release a lock that a killed run left; one that a Terraform may still hold stays."""
    argv = ("terraform", "force-unlock", "-force", lock.id)
    undone = is_ours(lock, killed) and not terraform_in(group)
    if undone:
        await _command(argv, group)
        text = f"released Terraform's lock {lock.id}: the run that took it was killed"
    else:
        text = (
            f"Terraform's lock {lock.id} of {lock.who} stays: its holder may still work; if it "
            f"does not: {shlex.join(argv)} in {group}"
        )
    emit(Event(Kind.NOTE, "machines", message=text))
    return undone


def _import(resource: Forgotten) -> tuple[str, ...]:
    return "terraform", "import", "-no-color", "-input=false", resource.address, resource.id


async def _adopt(resource: Forgotten, origin: Origin, group: Path) -> str:
    """Put a resource into Terraform's state.

    A machine that cannot be in it is deleted where its label names the deployment.

    Raises:
        CorralError: PROVIDER_FAILED.
    """
    try:
        await _command(_import(resource), group)
    except CorralError as error:
        machine = _MACHINE.fullmatch(resource.id)
        if machine is None or not _NO_IMPORT.search(error.tail):
            raise
        if origin.deployment != group.parent.name:
            deletion = shlex.join(_delete("instances", *machine.groups()))
            raise CorralError(
                Code.PROVIDER_FAILED,
                f"{resource.id} is in the way and has no label of deployment {group.parent.name}",
                command=error.command,
                tail=error.tail,
                hint=f"if it is this cluster's: {deletion}",
            ) from error
        await delete_machine(machine[1], machine[2], machine[3])
        return f"deleted {resource.id}"
    return f"adopted {resource.id} as {resource.address}"


def _delete(what: str, project: str, zone: str, name: str) -> tuple[str, ...]:
    argv = ("gcloud", "compute", what, "delete", name, f"--project={project}")
    return (*argv, f"--zone={zone}", "--quiet")


async def delete_machine(project: str, zone: str, name: str, *, disk: bool = False) -> None:
    """Delete a machine by gcloud: Corral itself sends Google nothing but GETs.

    Args:
        project: its project.
        zone: its zone.
        name: its name.
        disk: its boot disk too, which Packer's machines leave behind otherwise.

    Raises:
        CorralError: PROVIDER_FAILED.
    """
    more = ("--delete-disks=boot",) if disk else ()
    await _command((*_delete("instances", project, zone, name), *more), None, DELETE_S)


def disk_deletion(project: str, zone: str, name: str) -> str:
    """The command that deletes a disk, for a person."""
    return shlex.join(_delete("disks", project, zone, name))


async def delete_disk(project: str, zone: str, name: str) -> None:
    """Delete a disk by gcloud.

    Raises:
        CorralError: PROVIDER_FAILED.
    """
    await _command(_delete("disks", project, zone, name), None, DELETE_S)


async def _command(argv: tuple[str, ...], folder: Path | None, limit: float = TERRAFORM_S) -> None:
    ended = await run(argv, timeout=limit, folder=str(folder) if folder else None)
    if ended.status:
        raise CorralError(
            Code.PROVIDER_FAILED,
            f"{argv[0]} failed after a run that was killed",
            command=" ".join(argv),
            status=ended.status,
            tail=f"{ended.out}\n{ended.err}".strip()[-3000:],
            hint="run it by hand" + (f" in {folder}" if folder else "") + ", then the same again",
        )
