"""The image that nodes boot: a user's script for it, and what Google has of it.

Packer makes a machine, sets it up, deletes it, has Google make the image of the disk that stays,
and deletes the disk (builder/googlecompute of its plugin 1.2.8). So an image that is ready is
complete, whoever was killed meanwhile. Its label has what it is made from: it is known again from
any machine, and after a ``down``.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind
from corral.providers.cloud.response import part
from corral.providers.gcp.toolkit_cluster import section_of
from corral.spec.models import ClusterSpec

AT_MOST: Final = 65536
"""Bytes: it is a part of the blueprint, and what it fetches is not."""
LABEL: Final = "corral_image"
"""Label of an image with the digest of what it is made from: at most 63 characters."""
DIGITS: Final = 32
PENDING_S: Final = 1800.0
"""Seconds that Google gets to finish an image that it is making."""
PENDING: Final = "PENDING"
USELESS: Final = frozenset(("FAILED", "DELETING"))


class Image(NamedTuple):
    """An image at Google.

    Attributes:
        name: its name.
        made: Unix time; 0: unknown.
        status: Google's word for how far it is.
        source: digest of what it is made from, by its label; "" without one.
        deployment: which its label names.
        disk: Google's path of the disk that it is made of, from ``projects`` on.
        deprecated: Google's family no longer means it.
    """

    name: str
    made: float
    status: str
    source: str
    deployment: str
    disk: str
    deprecated: bool


Images = Callable[[], Awaitable[Sequence[Image]]]
"""Asks Google for all images of the cluster's family."""


def made_at(record: Mapping[str, Any], field: str = "creationTimestamp") -> float | None:
    """Unix time at which a resource was made; None: unknown."""
    try:
        return datetime.fromisoformat(str(record.get(field, ""))).timestamp()
    except ValueError:
        return None


def image_of(record: Mapping[str, Any]) -> Image:
    """An image as the API describes it."""
    labels = part(record, "labels")
    return Image(
        str(record["name"]),
        made_at(record) or 0.0,
        str(record.get("status", "")),
        str(labels.get(LABEL, "")),
        str(labels.get("ghpc_deployment", "")),
        str(record.get("sourceDisk", "")).partition("/compute/v1/")[2],
        bool(part(record, "deprecated").get("state")),
    )


def newest(images: Sequence[Image]) -> Image | None:
    """The one that its family means: the last one made; None where there is none."""
    usable = [i for i in images if not i.deprecated and i.status not in USELESS]
    return max(usable, key=lambda image: image.made, default=None)


async def finished(
    images: Images, deployments: Collection[str], emit: Emit, poll: float
) -> Sequence[Image]:
    """All images of the family, once Google makes none of this cluster's any more.

    Google finishes an image whose Packer was killed.

    Args:
        images: asks for them.
        deployments: whose images are waited for.
        emit: receives that an image is waited for.
        poll: seconds between two questions.

    Raises:
        CorralError: TIMED_OUT.
    """
    end, reported = time.monotonic() + PENDING_S, False
    while True:
        every = await images()
        pending = [i.name for i in every if i.status == PENDING and i.deployment in deployments]
        if not pending:
            return every
        if time.monotonic() > end:
            raise CorralError(
                Code.TIMED_OUT,
                f"image {pending[0]} is still {PENDING} after {PENDING_S / 60:.0f} minutes",
                hint=f"gcloud compute images describe {pending[0]}",
            )
        if not reported:
            text = f"Google is making image {pending[0]}: waiting for it"
            emit(Event(Kind.NOTE, "machines", message=text))
            reported = True
        await asyncio.sleep(poll)


def digest_of(groups: Sequence[Mapping[str, Any]]) -> str:
    """Digest of the deployment groups that an image is made from."""
    text = json.dumps(list(groups), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def script_of(spec: ClusterSpec) -> str:
    """Text of the script that the cluster file names, "" where it names none.

    Raises:
        CorralError: NOT_FOUND, it cannot be read; NOT_GOOD, it is not a short text.
    """
    gcp = section_of(spec)
    name = gcp.image_script if gcp else None
    if name is None:
        return ""
    try:
        data = Path(name).read_bytes()
    except OSError as error:
        raise CorralError(
            Code.NOT_FOUND,
            f"gcp.image_script {name} cannot be read: {error.strerror}",
            hint="write the path of a shell script on this machine, or leave image_script out",
        ) from error
    if not data.strip() or len(data) > AT_MOST or b"\0" in data or b"\r" in data:
        raise _not_a_script(name)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise _not_a_script(name) from error


def _not_a_script(name: str) -> CorralError:
    return CorralError(
        Code.NOT_GOOD,
        f"gcp.image_script {name} is not a shell script",
        hint=f"text in UTF-8 with Unix line ends, {AT_MOST} bytes at most; have it fetch what is "
        "larger",
    )
