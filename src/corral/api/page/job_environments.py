"""Use case of the page: container images and Python environments that a job may run in."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Final, cast

from pydantic import TypeAdapter, ValidationError

from corral.api.sync import reached
from corral.errors import Code, CorralError
from corral.hosts.quote import Script, call
from corral.hosts.transport import check
from corral.jobs import model
from corral.jobs.follow import as_user
from corral.spec.models import ClusterSpec
from corral.spec.values import AbsolutePath

MOST_ENVIRONMENTS: Final = 200
"""Images and environments in all; a person chooses one of them."""
LISTING_S: Final = 10.0
"""Storage that is slower is listed as far as it got."""
_USER: Final = "jobs/user.sh"
_WORDS: Final = {"image": 3, "python": 2}
"""What a line begins with, and how many words it has."""
_TAKEN: Final[Mapping[str, TypeAdapter[str]]] = MappingProxyType(
    {"image": TypeAdapter(model.Image), "python": TypeAdapter(AbsolutePath)}
)
"""What a job's field takes."""


@dataclass(frozen=True, slots=True)
class Image:
    """A container image.

    Attributes:
        path: of the file.
        size: in bytes.
    """

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class Environments:
    """What is on shared storage for a job to run in.

    Attributes:
        images: container images, the user's own first.
        pythons: folders of environments (venv, uv, conda), the user's own first.
        cut: there are more than are listed, or the time was up before all was looked at.
    """

    images: tuple[Image, ...] = ()
    pythons: tuple[str, ...] = ()
    cut: bool = False

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def environments_script(mounts: Sequence[str]) -> Script:
    """Prints what is on the mounts, in the time that there is for it."""
    listing = call(_USER, "environments_list", MOST_ENVIRONMENTS, *mounts)
    return call(_USER, "environments_within", LISTING_S, str(listing))


async def job_environments(spec: ClusterSpec, user: str, *, here: bool = False) -> Environments:
    """List container images and Python environments on shared storage, with a user's rights.

    Looked at are the folders ``images``, ``containers``, ``envs`` and ``venvs`` of the user's home,
    where it is on a mount, and of each mount; ``.venv`` there; and conda's of the home.
    Images are listed where jobs can run in containers. Paths that no job takes are left out.

    Args:
        spec: the cluster.
        user: who wants to submit.
        here: this process is on the controller and runs as that user.

    Raises:
        CorralError: NOT_FOUND, the cluster is not up; UNREACHABLE.
    """
    mounts = [storage.mount for storage in spec.storage]
    if not mounts:
        return Environments()
    script = as_user(user, environments_script(mounts))
    async with reached(spec, here=here) as (fleet, controller):
        result = await fleet.run(controller, script, timeout=60)
    listed = read_environments(check(result, "listing images and environments").stdout)
    if spec.software.containers == "none":
        return Environments((), listed.pythons, listed.cut)
    return listed


def read_environments(text: str) -> Environments:
    """What ``environments_list`` printed."""
    images, pythons = dict[str, Image](), dict[str, None]()
    lines = text.splitlines()
    for line in lines:
        word, *rest = line.split(" ")
        if _WORDS.get(word) != len(rest) + 1:
            continue
        try:
            path = base64.b64decode(rest[0]).decode()
            size = int(rest[1]) if word == "image" else 0  # none: the file is gone meanwhile
            _TAKEN[word].validate_python(path)
        except (ValueError, ValidationError):
            continue
        if word == "image":
            images[path] = Image(path, size)
        else:
            pythons[path] = None
    return Environments(tuple(images.values()), tuple(pythons), "more" in lines)


def environments_of(fields: dict[str, Any]) -> Environments:
    """As the controller's helper sends it.

    Raises:
        CorralError: PARSE_FAILED.
    """
    try:
        sent = cast("list[dict[str, Any]]", fields["images"])
        images = tuple(Image(str(image["path"]), int(image["size"])) for image in sent)
        pythons = tuple(str(path) for path in fields["pythons"])
        return Environments(images, pythons, bool(fields["cut"]))
    except (KeyError, TypeError, ValueError) as error:
        raise CorralError(
            Code.PARSE_FAILED, "the helper's answer cannot be read", hint="load the page again"
        ) from error
