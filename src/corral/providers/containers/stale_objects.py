"""What outlives a container: podman's state after a reboot, network namespaces.

Podman keeps what runs below /run and trusts that a reboot empties it. Where /run is not a tmpfs
(seen on a Debian 12 machine with /run on ext4), podman 4.3 then fails at every call ("Joining
network namespace ...") and podman 5 reports "an unhandled reboot has occurred. Please delete
directories /run/containers/storage and /run/libpod". This does that, only when no process of any
container of that podman is alive, so that nothing that runs can be lost, and only when no network
namespace of podman's is mounted: those are of this boot, and podman has to remove them.

A container's network namespace is a mount below /run/netns, which outlives the container's
processes. Podman removes those that it knows (``stop``, ``start``, ``rm``). When podman's runtime
state is lost in the same boot, nothing of podman 4.3 finds them: not ``container cleanup``, ``rm``,
``system renumber`` or ``network rm``, which leaves the bridge too. The next container of that node
has the same address and MAC, and connections end in either of the two.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, cast

from corral.errors import Code, CorralError
from corral.hosts import process
from corral.providers.containers import machine
from corral.providers.containers.podman import Fields, Podman
from corral.runtime.tasks import concurrently

FOLDER: Final = Path("/run/netns")
PROC: Final = Path("/proc")
IP_S: Final = 20.0
_NAME: Final = re.compile(r"(netns|cni)(-[0-9a-f]+){5}")
"""How podman names them: cni- before release 4. A namespace that the user made is not one."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """A network namespace on the cluster's bridge that no process and no container has.

    Attributes:
        veth: its link on the bridge.
        name: its name.
        addresses: its IPv4 addresses.
        alone: it has no link to another network.
    """

    veth: str
    name: str
    addresses: tuple[str, ...]
    alone: bool

    def __str__(self) -> str:
        where = f" ({', '.join(self.addresses)})" if self.addresses else ""
        return f"network namespace {self.name}{where}"


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Those that are there; ``unknown`` is why it could not be read, then nothing is removed."""

    namespaces: tuple[Leftover, ...] = ()
    unknown: str = ""

    @property
    def addresses(self) -> frozenset[str]:
        """All addresses that they hold."""
        return frozenset(address for leftover in self.namespaces for address in leftover.addresses)


def mounted(mountinfo: str) -> frozenset[str]:
    """Names of podman's network namespaces, from the text of /proc/self/mountinfo. Pure.

    Those are of this boot: a reboot leaves empty files at most.
    """
    points = (Path(line.split()[4]) for line in mountinfo.splitlines() if " - nsfs " in line)
    return frozenset(p.name for p in points if p.parent == FOLDER and _NAME.fullmatch(p.name))


def occupied(proc: Path = PROC) -> frozenset[int]:
    """Inodes of the network namespaces that processes are in.

    Without PID 1, which is in no container of this machine and may have more capabilities than root
    here (seen in a Firecracker machine: permission denied).

    Raises:
        OSError: a process cannot be read.
    """
    inodes: set[int] = set()
    for folder in proc.iterdir():
        if folder.name.isdigit() and folder.name != "1":
            try:
                inodes.add((folder / "ns" / "net").stat().st_ino)
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended
    return frozenset(inodes)


def on_bridge(bridge: str, links: Iterable[Fields], namespaces: Iterable[Fields]) -> dict[str, str]:
    """Podman's namespaces with a link on the bridge, by the link's name. Pure."""
    names = {n["id"]: str(n["name"]) for n in namespaces if "id" in n}
    ports = (v for v in links if v.get("master") == bridge)
    by_link = {str(v["ifname"]): names.get(v.get("link_netnsid"), "") for v in ports}
    return {link: name for link, name in by_link.items() if _NAME.fullmatch(name)}


def leftover(veth: str, name: str, inside: Iterable[Fields]) -> Leftover:
    """One of them, from what ``ip address`` prints inside it. Pure."""
    cards = [v for v in inside if v.get("link_type") == "ether"]
    addresses = [a for v in cards for a in v["addr_info"] if a["family"] == "inet"]
    held = tuple(str(a["local"]) for a in addresses)
    return Leftover(veth, name, held, alone=len(cards) == 1)


async def find(podman: Podman, network: str, bridge: str) -> Leftovers:
    """Those on the bridge of a cluster's network; changes nothing.

    Args:
        podman: what knows the containers.
        network: the network's name.
        bridge: the network's interface on this machine, "" when the network does not exist.
    """
    try:
        return Leftovers(await _find(podman, network, bridge) if bridge else ())
    except (CorralError, OSError) as error:
        return Leftovers(unknown=str(error))
    except KeyError as error:
        return Leftovers(unknown=f"no field {error} in what ip printed")


async def _find(podman: Podman, network: str, bridge: str) -> tuple[Leftover, ...]:
    """The order matters: podman is asked after the namespaces were listed.

    Its ``inspect`` waits for a container in the middle of its start. So a namespace that was listed
    before belongs to a container of the answer, or to none.
    """
    links, named = await concurrently(ip("link", "show", "type", "veth"), ip("netns", "list"))
    by_link = on_bridge(bridge, links, named)
    used = await asyncio.to_thread(occupied) if by_link else frozenset[int]()
    free = {v: n for v, n in by_link.items() if (FOLDER / n).stat().st_ino not in used}
    known = await _known(podman, network) if free else frozenset[str]()
    left = {veth: name for veth, name in free.items() if name not in known}
    return tuple([leftover(v, n, await ip("-n", n, "address")) for v, n in left.items()])


async def _known(podman: Podman, network: str) -> frozenset[str]:
    """Namespaces of the containers in the network, as podman has them in its state.

    Raises:
        CorralError: podman's message.
    """
    text = await podman.text(
        *("ps", "--all", "--quiet", "--no-trunc", "--filter", f"network={network}")
    )
    if not text.split():
        return frozenset()
    paths = await podman.text(
        *("inspect", "--format", "{{.NetworkSettings.SandboxKey}}", *text.split())
    )
    return frozenset(Path(line).name for line in paths.splitlines() if line.strip())


async def remove(podman: Podman, network: str, bridge: str) -> Leftovers:
    """Remove them: the link on the bridge with its address, and the namespace it was in.

    Returns:
        those that were removed, or why they could not be read.

    Raises:
        CorralError: PROVIDER_FAILED, with ip's message.
    """
    left = await find(podman, network, bridge)
    for namespace in left.namespaces:
        await ip("link", "delete", namespace.veth)
        if namespace.alone:
            await ip("netns", "delete", namespace.name)
    return left


async def remove_bridge(bridge: str) -> None:
    """Remove a bridge without ports: podman does that with the last container that it knows.

    Raises:
        CorralError: PROVIDER_FAILED, with ip's message.
    """
    bridges, links = await concurrently(ip("link", "show", "type", "bridge"), ip("link", "show"))
    there = any(v.get("ifname") == bridge for v in bridges)
    if there and not any(v.get("master") == bridge for v in links):
        await ip("link", "delete", bridge)


async def ip(*args: str) -> list[Fields]:
    """Records that ``ip`` of iproute2 prints.

    Raises:
        CorralError: PROVIDER_FAILED, MISSING_TOOL, TIMED_OUT or PARSE_FAILED.
    """
    argv = ["ip", "-json", *args]
    command = " ".join(argv)
    try:
        end = await process.run(argv, timeout=IP_S)
    except TimeoutError as error:
        text = f"{command} did not end within {IP_S:.0f} s"
        raise CorralError(Code.TIMED_OUT, text, command=command) from error
    if end.status != 0:
        text = f"{command} failed: {end.err.strip()}"
        hint = "run it by hand as root"
        raise CorralError(Code.PROVIDER_FAILED, text, command=command, status=end.status, hint=hint)
    try:
        return cast("list[Fields]", json.loads(end.out or "[]"))
    except json.JSONDecodeError as error:
        text = f"{command} printed no JSON"
        raise CorralError(Code.PARSE_FAILED, text, command=command, tail=end.out[:200]) from error


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
    if mounted((proc / "self" / "mountinfo").read_text()):
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
