"""Use case: an image of a registry onto the cluster's shared storage."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from corral.apply.session import Session
from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind, ignore
from corral.hosts.quote import sh
from corral.jobs.batch.image_import import (
    MINUTES,
    NGC_LOGIN,
    Import,
    checked_key,
    import_of,
    script,
)
from corral.prove.context import as_user
from corral.providers.cloud.client.secrets import Place, kept_key
from corral.spec.models import ClusterSpec
from corral.spec.nodes import partitions_of, users_of
from corral.variables import NGC_KEY, REGISTRY_KEY

KEY: Final = REGISTRY_KEY
NGC: Final = NGC_KEY
SECONDS: Final = MINUTES * 60.0 + 300
NO_ENROOT: Final = 127


@dataclass(frozen=True, slots=True)
class Imported:
    """An image that is there now.

    Attributes:
        image: as Enroot names it.
        path: on shared storage, for ``srun --container-image`` and ``corral run --container``.
        size: bytes.
    """

    image: str
    path: str
    size: int

    def as_dict(self) -> dict[str, Any]:
        """The image's name, file and size."""
        return asdict(self)


async def import_image(
    spec: ClusterSpec,
    image: str,
    emit: Emit = ignore,
    *,
    name: str = "",
    login: str = "",
    http: bool = False,
) -> Imported:
    """Fetch an image by a job of the first user, and keep it as one file that all nodes see.

    Args:
        spec: the cluster.
        image: ``docker://REGISTRY/NAME:TAG``.
        emit: receives Enroot's messages.
        name: the file's name below images/ of the first shared folder, or an absolute path.
        login: name that belongs to the registry's key; "" with a key: as NVIDIA's registry wants
            it.
        http: the registry speaks no TLS.

    Raises:
        CorralError: USAGE; NOT_FOUND, no shared folder, or a login without a key; MISSING_TOOL, no
            Enroot there; COMMAND_FAILED, with Enroot's last lines.
    """
    if not spec.storage:
        raise CorralError(
            Code.NOT_FOUND, "the cluster has no shared folder for images", hint="declare storage:"
        )
    key = key_of(login)
    mount = spec.storage[0].mount
    # A key without a login is for a registry that is named; the default one needs none.
    named = "#" in import_of(image, mount).image
    login = login or (NGC_LOGIN if key and named else "")
    request = import_of(image, mount, name=name, http=http, login=login)
    key = key if request.login else ""
    partition = next((p for p in partitions_of(spec) if p.default), partitions_of(spec)[0])
    job = as_user(users_of(spec)[0].name, script(request, partition.name))
    emit(Event(Kind.PHASE_STARTED, "image", message=f"{request.image} to {request.path}"))

    def on_line(line: str) -> None:
        if line.startswith("[INFO]"):
            emit(Event(Kind.NOTE, "image", message=line.removeprefix("[INFO]").strip()))

    async with await Session.open(spec) as session:
        session.require_running()
        stdin = checked_key(key) if key else b""
        result = await session.fleet.run(
            session.controller,
            sh("{job} 2>&1", job=job),
            stdin=stdin,
            timeout=SECONDS,
            on_line=on_line,
        )
        if not result.ok:
            output = result.stdout.replace(key, "***") if key else result.stdout
            raise _failed(request, result.status, output)
        size = await session.fleet.run(session.controller, sh("stat -c %s {p}", p=request.path))
    emit(Event(Kind.PHASE_DONE, "image"))
    return Imported(request.image, request.path, int(size.stdout.strip() or 0))


def key_of(login: str, environ: Mapping[str, str] = os.environ) -> str:
    """The registry's key: environment, a private file or the keyring; "" where there is none.

    Raises:
        CorralError: NOT_FOUND, a login was named and there is no key; USAGE, others can read it.
    """
    place = Place("registry", "the registry", KEY, "")
    key = environ.get(KEY, "").strip() or environ.get(NGC, "").strip() or kept_key(place.provider)
    if login and not key:
        raise CorralError(
            Code.NOT_FOUND,
            f"no key for {login}",
            hint=f"set {KEY} (or {NGC}), or: keyring set corral registry",
        )
    return key


def _failed(request: Import, status: int | None, output: str) -> CorralError:
    tail = "\n".join(output.strip().splitlines()[-12:])
    if status == NO_ENROOT:
        return CorralError(
            Code.MISSING_TOOL,
            "Enroot is not installed on the cluster",
            command="enroot",
            hint="software: {containers: pyxis, pyxis: ...}, and corral up",
        )
    hint = "see Enroot's last lines"
    # Enroot 4.1.2 ends without another word where a registry does not take the login.
    asked = "Authenticating with user" in tail and "Authentication succeeded" not in tail
    if asked or "401" in tail or "Unauthorized" in tail or "403" in tail:
        hint = f"the registry wants a login: set {KEY} (or {NGC}), and --login NAME"
    elif "failed to set capabilities" in tail:
        hint = (
            "people import images by Enroot's package enroot+caps, which the nodes lack: add "
            "its file to software.pyxis.enroot"
        )
    elif "Could not resolve" in tail or "Failed to connect" in tail:
        hint = "the nodes do not reach the registry: name, network, proxy"
    return CorralError(
        Code.COMMAND_FAILED,
        f"{request.image} was not imported",
        command=f"enroot import docker://{request.image}",
        status=status,
        tail=tail,
        hint=hint,
    )
