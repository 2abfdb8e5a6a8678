"""Host keys of rented machines, pinned at first sight: no cloud reports them."""

from __future__ import annotations

from typing import Final

from corral.state_dir import cluster_dir

KNOWN_HOSTS: Final = "known_hosts"


def forget(cluster: str, node: str) -> None:
    """Forget a node's host key: the next machine of that name has another."""
    path = cluster_dir(cluster, create=False) / KNOWN_HOSTS
    if path.is_file():
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(line for line in lines if line.split()[:1] != [node]))
