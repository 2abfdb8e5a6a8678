"""Use cases of the images that nodes in containers are made from."""

from __future__ import annotations

from typing import Any

from corral.events import Emit, ignore
from corral.providers.containers.image import Images
from corral.providers.containers.machine import host_runtime
from corral.providers.containers.podman import Podman

AUTO = "auto"


async def images() -> tuple[dict[str, Any], ...]:
    """All node images on this machine, newest first: reference, id, size, created, os, used_by.

    Raises:
        CorralError: MISSING_TOOL, podman is not installed.
    """
    return tuple(info.as_dict() for info in await _images().listed())


async def build_image(image: str = AUTO, emit: Emit = ignore, *, again: bool = False) -> str:
    """Have the node image that a group with this ``image`` is made from.

    Args:
        image: ``auto`` (Corral builds it) or an image that podman knows or can pull.
        emit: receives the events.
        again: build it even when it is here already.

    Returns:
        the reference to give to podman.

    Raises:
        CorralError: IMAGE_FAILED, MISSING_TOOL, NOT_FOUND.
    """
    return await _images().ensure(image, emit, again=again)


async def remove_images(reference: str = "") -> tuple[str, ...]:
    """Remove one node image, or all that no cluster uses.

    Returns:
        the references that were removed.

    Raises:
        CorralError: NOT_FOUND; BUSY, a cluster uses it.
    """
    return await _images().remove(reference)


def _images() -> Images:
    return Images(Podman(host_runtime()))
