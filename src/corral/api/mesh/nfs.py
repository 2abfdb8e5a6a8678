"""Whether NFS over a link of the mesh can pay. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from corral.mesh.link import Link
from corral.spec.models import Storage

THIN_MBPS: Final = 500.0
"""Half of what a gigabit line carries, the least that NFS is usually run over."""

SET_GB: Final = 10
"""A data set to reckon with, in gigabytes."""


def thin(storage: Sequence[Storage], links: Sequence[Link], controller: str) -> tuple[str, ...]:
    """One line for each NFS folder and node whose link to its server is too thin for it.

    Args:
        storage: the cluster's shared folders.
        links: measured links; one without figures is left out.
        controller: serves what names no server.
    """
    return tuple(
        line
        for folder in storage
        if folder.kind == "nfs"
        for line in _of(folder, links, folder.server or controller)
    )


def _of(folder: Storage, links: Sequence[Link], server: str) -> Iterator[str]:
    for link in links:
        if server not in (link.source, link.target) or not link.mbps:
            continue
        other = link.target if link.source == server else link.source
        where = f"{other}: {folder.mount} from {server}"
        if link.mtu == 0:
            yield f"{where} cannot be mounted there: it is reached by TCP only"
        elif link.path == "relayed" or link.mbps < THIN_MBPS:
            minutes = SET_GB * 8e3 / link.mbps / 60
            relayed = ", by a relay" if link.path == "relayed" else ""
            yield (
                f"{where} comes at {link.mbps:.0f} Mb/s{relayed}: {SET_GB} GB take "
                f"{minutes:.0f} minutes, in each epoch"
            )
