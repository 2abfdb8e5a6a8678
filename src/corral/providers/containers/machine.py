"""The machine that carries the containers: cgroups, limits, memory, CPUs, used networks."""

from __future__ import annotations

import ipaddress
import os
import platform
import resource
import shutil
from pathlib import Path
from typing import Final

from corral.errors import Code, CorralError
from corral.inspect import cpu, network, system
from corral.inspect.facts import Facts

Network = ipaddress.IPv4Network

NODE_WATCHES: Final = 16
OTHERS_WATCHES: Final = 512
NOFILE_MAX: Final = 524288
NPROC_MAX: Final = 32768
SHARED_PART: Final = 0.75
LEAST_MIB: Final = 512


def runtime_options(mode: str) -> tuple[str, ...]:
    """Podman's global options for the OCI runtime.

    On pure v2 podman's own default is right. On v1 and hybrid only runc works: crun reports
    "cgroups v1 not supported" or refuses the hybrid tree (seen with crun 1.8 on a Debian 12
    kernel).

    Raises:
        CorralError: MISSING_TOOL, runc is needed and not installed.
    """
    if mode in ("v2", "none"):
        return ()
    if not (shutil.which("runc") or Path("/usr/sbin/runc").exists()):
        raise CorralError(
            Code.MISSING_TOOL,
            f"runc is not installed and this machine has cgroup {mode}",
            command="runc",
            hint="apt install runc (as root)",
        )
    return ("--runtime", "runc")


def cgroup_refusal(root: Path = Path("/")) -> CorralError | None:
    """Why root here may not make cgroups, which each container needs; None where it may.

    A container without --privileged has the cgroups of its machine mounted read-only; in a user
    namespace they belong to nobody.
    """
    mounted = system.hierarchies((root / "proc/mounts").read_text())
    folders = sorted(folder for folder, kind in mounted.items() if kind.startswith("cgroup"))
    closed = [folder for folder in folders if not os.access(root / folder.lstrip("/"), os.W_OK)]
    if folders and not closed:
        return None
    return CorralError(
        Code.FORBIDDEN,
        "nodes in containers need cgroups, and root may make none here: "
        + (f"{closed[0]} is not writable" if closed else "none are mounted below /sys/fs/cgroup"),
        hint="run Corral on the machine itself, or in a container with the machine's cgroups: "
        "podman run --privileged --cgroupns=host",
    )


def limits(nofile_hard: int, nproc_hard: int, pid_max: int) -> dict[str, int]:
    """Ulimits that podman and its runtime can set without CAP_SYS_RESOURCE.

    Without ``--ulimit`` podman 4.3 as root asks for 1048576 open files and fails below that ("error
    setting rlimit type 7"). It lowers its own process limit to kernel.pid_max before it starts the
    runtime, so nproc is bounded by that too ("error setting rlimit type 6"; seen at 32769 with
    pid_max 32768 and a hard limit of 96365). Round upper bounds keep the figures the same over
    reboots, after which hard limits move by a few (podman issue 19634).
    """
    return {
        "nofile": _bounded(nofile_hard, NOFILE_MAX),
        "nproc": min(_bounded(nproc_hard, NPROC_MAX), pid_max),
    }


WATCHES: Final = Path("/proc/sys/fs/inotify/max_user_instances")


def watches(nodes: int, now: int) -> int:
    """The limit of inotify instances that so many nodes need; never less than it is now.

    They are counted for each user, so for all containers of root together. The systemd of a node
    takes about six, and Linux starts at 128: from the 21st node on, systemd ends with status 255 at
    its start and reports nothing (seen). Others of this machine's nodes and programs count as well.
    """
    return max(now, OTHERS_WATCHES + NODE_WATCHES * nodes)


def let_watch(nodes: int) -> str:
    """Raise this kernel's limit for ``nodes`` more of them; a sentence about it, or "".

    It holds until the next boot, and is not taken back: it costs nothing while it is unused.
    """
    now = int(WATCHES.read_text())
    limit = watches(nodes, now)
    if limit == now:
        return ""
    try:
        WATCHES.write_text(str(limit))
    except OSError as error:
        return (
            f"fs.inotify.max_user_instances is {now} and cannot be raised to {limit}: {error}; "
            "from about 20 nodes on, some will not start"
        )
    return f"fs.inotify.max_user_instances raised from {now} to {limit} until the next boot"


def _bounded(hard: int, most: int) -> int:
    return most if hard == resource.RLIM_INFINITY else min(hard, most)


def host_limits() -> dict[str, int]:
    """``limits`` of this process and kernel."""
    return limits(
        resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        resource.getrlimit(resource.RLIMIT_NPROC)[1],
        int(Path("/proc/sys/kernel/pid_max").read_text()),
    )


def memory_share(total_mib: int, nodes: int) -> int:
    """An equal share of the host's memory for one of ``nodes``; a quarter stays the host's."""
    return max(LEAST_MIB, int(total_mib * SHARED_PART) // max(nodes, 1))


def host_memory_mib() -> int:
    """Memory of this machine in MiB."""
    return cpu.memory_mib(Path("/proc/meminfo").read_text())


def host_answers(root: Path = Path("/")) -> dict[str, str]:
    """What this machine answers to the questions of ``inspect`` that its nodes share with it."""
    places: list[str] = []
    for folder in sorted(root.glob("sys/devices/system/cpu/cpu[0-9]*/topology")):
        socket, core = folder / "physical_package_id", folder / "core_id"
        if socket.exists() and core.exists():
            places.append(f"{socket.read_text().strip()} {core.read_text().strip()}")
    return {
        "memory": (root / "proc/meminfo").read_text(),
        "mounts": (root / "proc/mounts").read_text(),
        "topology": "\n".join(places),
        "processors": str(os.cpu_count() or 1),
    }


def host_facts(node: str, *, memory: int, address: str, os_id: str, os_version: str) -> Facts:
    """What a node in a container of this machine will be."""
    answers = host_answers()
    layout = cpu.layout(answers)
    return Facts(
        node=node,
        os_id=os_id,
        os_version=os_version,
        kernel=platform.release(),
        cpus=layout.cpus,
        sockets=layout.sockets,
        cores_per_socket=layout.cores,
        threads_per_core=layout.threads,
        memory_mib=memory,
        cgroup=system.CGROUP.read(answers),
        systemd=True,
        address=address,
    )


def host_routes() -> tuple[Network, ...]:
    """Networks this machine has routes to, but for the default."""
    every = network.kernel_routes(Path("/proc/net/route").read_text())
    return tuple(route.network for route in every if route.network.prefixlen)


def host_runtime() -> tuple[str, ...]:
    """``runtime_options`` of this machine."""
    return runtime_options(system.CGROUP.read(host_answers()))


def carries(pid: int, container_id: str) -> bool:
    """True when process ``pid`` of this machine is in the container's cgroup.

    Podman's own word is not enough: where /run is not a tmpfs its "running" outlives a reboot.
    """
    folder = Path(f"/proc/{pid}")
    try:
        return container_id in (folder / "cgroup").read_text() and not zombie(folder)
    except OSError:
        return False


def zombie(process: Path) -> bool:
    """True of a process that ended and is not reaped: PID 1 of a container may never do it.

    Its cgroup stays readable (cgroup v1, kernel 6.18).
    """
    return (process / "stat").read_text().rpartition(")")[2].split()[0] in ("Z", "X")
