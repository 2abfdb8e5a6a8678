"""After a reboot of this machine: podman's runtime state, where it wrongly outlived it.

Podman keeps what runs below /run and trusts that a reboot empties it. Where /run is not a tmpfs
(seen on a Debian 12 machine with /run on ext4), podman 4.3 then fails at every call ("Joining
network namespace ...") and podman 5 reports "an unhandled reboot has occurred. Please delete
directories /run/containers/storage and /run/libpod". This does that, only when no process of any
container of that podman is alive, so that nothing that runs can be lost, and only when no network
namespace of podman's is mounted: those are of this boot, and podman has to remove them.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from corral.providers.containers import machine, namespaces
from corral.providers.containers.namespaces import PROC


@dataclass(frozen=True, slots=True)
class Places:
    """Where one podman keeps things: podman's defaults for root, or its options."""

    root: Path = Path("/var/lib/containers/storage")
    runroot: Path = Path("/run/containers/storage")
    tmpdir: Path = Path("/run/libpod")
    ipam: Path = Path("/run/containers/networks/ipam.db")
    runtimes: tuple[Path, ...] = (Path("/run/runc"), Path("/run/crun"))

    @classmethod
    def of(cls, options: Sequence[str]) -> Places:
        """Places as podman's global options."""
        given = {o: Path(v) for o, v in pairwise(options)}
        default = cls()
        return cls(
            root=given.get("--root", default.root),
            runroot=given.get("--runroot", default.runroot),
            tmpdir=given.get("--tmpdir", default.tmpdir),
        )


def container_ids(places: Places) -> frozenset[str]:
    """Ids of all containers in podman's storage."""
    folder = places.root / "overlay-containers"
    return frozenset(p.name for p in folder.iterdir()) if folder.is_dir() else frozenset()


def living(ids: Iterable[str], tmpdir: Path, proc: Path = PROC) -> bool:
    """True when a process of one of the containers, or a conmon of this podman, is alive."""
    identities = tuple(ids)
    exits = str(tmpdir / "exits").encode()
    for folder in proc.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            cgroup = (folder / "cgroup").read_text()
            if any(identity in cgroup for identity in identities) and not machine.zombie(folder):
                return True
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it ended meanwhile
        if exits in words:
            return True
    return False


def clear(places: Places, proc: Path = PROC) -> bool:
    """Do what emptying /run at boot would have done; False when something is of this boot.

    The address book is removed only with podman's default folders: it is one for all podmans of a
    machine (podman 4.3).
    """
    ids = container_ids(places)
    if not places.tmpdir.exists() or living(ids, places.tmpdir, proc):
        return False
    if namespaces.mounted((proc / "self" / "mountinfo").read_text()):
        return False
    # runc and crun: "container with given ID already exists" when their own folder outlived it.
    own = [runtime / identity for runtime in places.runtimes for identity in ids]
    if places == Places():
        places.ipam.unlink(missing_ok=True)
    # Podman's own folder is removed last: while it exists, a crash makes all of this run again.
    for folder in (*own, places.runroot, places.tmpdir):
        shutil.rmtree(folder, ignore_errors=True)
    return True


def bury(places: Places, identity: str, proc: Path = PROC) -> None:
    """Report what a killed conmon could not: that its container ended.

    Without that file podman 4.3 keeps the container "stopping" forever and refuses to start it.
    """
    if not living([identity], places.tmpdir / identity, proc):
        exits = places.tmpdir / "exits"
        exits.mkdir(mode=0o750, parents=True, exist_ok=True)
        (exits / identity).write_text("137")
