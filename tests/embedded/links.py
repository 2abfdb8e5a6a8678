"""Links of embedded nodes: this machine's end of one, and how slow it is."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from corral.hosts.quote import sh

if TYPE_CHECKING:
    from tests.embedded.conftest import Live


def peer_of(live: Live, node: str) -> str:
    """This machine's end of a node's link."""
    peer = live.run(node, sh("cat /sys/class/net/eth0/iflink")).stdout.strip()
    links = Path("/sys/class/net").glob("*/ifindex")
    return next(p.parent.name for p in links if p.read_text().strip() == peer)


@contextmanager
def shaped(live: Live, node: str, rate: str) -> Iterator[None]:
    """A node whose link carries no more than ``rate`` towards it."""
    end = peer_of(live, node)
    shape = ["tbf", "rate", rate, "burst", "64kb", "latency", "50ms"]
    subprocess.run(["tc", "qdisc", "replace", "dev", end, "root", *shape], check=True)
    try:
        yield
    finally:
        subprocess.run(["tc", "qdisc", "del", "dev", end, "root"], check=True)
