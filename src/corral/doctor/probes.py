"""Rules over what the machines reported: silent faults too, which no log shows. Pure.

Each rule yields findings of its own failure and nothing on a healthy cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

from corral.doctor.catalog import catalog
from corral.doctor.machine_report import MachineReport
from corral.doctor.model import Diagnosis, evidence_lines
from corral.inspect.gpu import DEVICES, declared_files
from corral.inspect.machine import FIREWALL, NAME_S, NAMES, PORTS, USER_NAMESPACES, USERS
from corral.inspect.network import ADDRESSES, LINKS
from corral.inspect.rules import (
    CLOCK_OFF_S,
    FileFault,
    NameFault,
    OwnerFault,
    UnitState,
    VersionFault,
    backup_problem,
    differing_files,
    directory_problems,
    file_faults,
    folder_fault,
    missing_devices,
    mtu_problems,
    name_problems,
    no_real_memory,
    owner_fault,
    unit_state,
    version_fault,
)
from corral.inspect.services import ALONE, BACKUP, LIMITS
from corral.inspect.slurm import (
    ACCOUNTING,
    CGROUP_CONF,
    CONF_FILES,
    GRES_CONF,
    KEY_FILES,
    NODES,
    SLURM_CONF,
    STATE,
    STATE_FOLDER,
    VERSIONS,
    KeyFile,
)
from corral.inspect.storage import MOUNTS, OWNERS, READ_ONLY, ROOM, Room
from corral.slurm.records import Node

FULL_KIB: Final = 50 * 1024
FULL_SHARE: Final = 0.01
"""A disk is full below 50 MiB or 1 % (of small ones): slurmctld and MariaDB need room to write."""
FULL_INODES: Final = 100
ETC: Final = PurePosixPath("/etc/slurm")
_NO_GPU_REPORTED: Final = "gres/gpu count reported lower than configured (0 <"


@dataclass(frozen=True)
class Scene:
    """All that the doctor knows about a cluster.

    Attributes:
        controller: the node of slurmctld.
        compute: nodes that run slurmd.
        machines: what each node answered.
        addresses: the address each node should be found at.
        gpus: GPUs that the cluster file declares, by node.
        devices: device files that the provider makes, by node; nodes without are not listed.
        fabric: kind of data network, "" when none is declared.
        auth: munge or slurm.
    """

    controller: str
    compute: tuple[str, ...]
    machines: Mapping[str, MachineReport]
    addresses: Mapping[str, str]
    gpus: Mapping[str, int] = field(default_factory=dict[str, int])
    fabric: str = ""
    auth: str = ""

    @property
    def lead(self) -> MachineReport:
        """What the controller reported; empty when it reported nothing."""
        return self.machines.get(self.controller, MachineReport(self.controller))

    @property
    def known(self) -> Mapping[str, Node]:
        """Nodes as slurmctld knows them; empty when it does not answer."""
        return self.lead.get(NODES) or {}

    @property
    def all_usable(self) -> bool:
        """True when Slurm reports that all nodes take jobs."""
        known = self.known
        return all(n in known and known[n].state.usable for n in self.compute)

    @property
    def answered(self) -> Iterator[MachineReport]:
        return (t for t in self.machines.values() if t.error is None)


def finding(id_: str, node: str | tuple[str, ...], evidence: str, detail: str = "") -> Diagnosis:
    """A finding of a failure of the catalogue."""
    nodes = (node,) if isinstance(node, str) else node
    return Diagnosis(catalog()[id_], tuple(n for n in nodes if n), evidence_lines(evidence), detail)


def unreachable(scene: Scene) -> Iterator[Diagnosis]:
    """F69: it does not answer at all."""
    for node, machine in scene.machines.items():
        if machine.error is not None:
            yield finding("F69", node, str(machine.error.message))


def clocks(scene: Scene) -> Iterator[Diagnosis]:
    """F02: a clock differs from most others."""
    skews = {t.node: t.skew for t in scene.answered}
    middle = sorted(skews.values())[len(skews) // 2] if skews else 0.0
    for node, skew in skews.items():
        off = skew - middle
        if abs(off) > CLOCK_OFF_S:
            direction = "ahead" if off > 0 else "behind"
            yield finding("F02", node, f"its clock is {abs(off):.0f} s {direction} of most others")


def disks(scene: Scene) -> Iterator[Diagnosis]:
    """F67: no room, or no inodes."""
    for machine in scene.answered:
        full: list[Room] = []
        for room in machine.get(ROOM) or ():
            least = FULL_INODES if room.inodes else min(FULL_KIB, room.total * FULL_SHARE)
            # A folder of the file system above it, which is reported already.
            known = any(f.path in room.path.parents and f.total == room.total for f in full)
            if room.free < least and not known:
                full.append(room)
                what = "inodes" if room.inodes else "KiB"
                text = f"{room.path}: {room.free} of {room.total} {what} free"
                yield finding("F67", machine.node, text, str(room.path))


def readonly(scene: Scene) -> Iterator[Diagnosis]:
    """F71: what daemons and jobs write to cannot be written (/ itself may be so by intent)."""
    for machine in scene.answered:
        for path in machine.get(READ_ONLY) or ():
            yield finding(
                "F71", machine.node, f"{path} cannot be written: read-only file system", path
            )


def mounts(scene: Scene) -> Iterator[Diagnosis]:
    """F68: a shared folder does not answer, or is mounted on other nodes and not here."""
    mounted = {
        path
        for machine in scene.answered
        for path, folder in machine.by_key(MOUNTS).items()
        if folder.mounted
    }
    for machine in scene.answered:
        for path, folder in machine.by_key(MOUNTS).items():
            if folder_fault(folder):
                yield finding("F68", machine.node, f"stat -f {path}: {folder.shown}", path)
            elif path in mounted and not folder.mounted:
                yield finding("F68", machine.node, f"{path} is not mounted there", path)


def shared(scene: Scene) -> Iterator[Diagnosis]:
    """F230: another user could replace the folders of jobs, or the storage that they are on."""
    for folder in scene.lead.get(OWNERS) or ():
        if owner_fault(folder) is OwnerFault.REPLACEABLE:
            yield finding("F230", scene.controller, folder.shown, str(folder.path))


def names(scene: Scene) -> Iterator[Diagnosis]:
    """F05, F06, F66: what the nodes' names mean on each node."""
    for machine in scene.answered:
        for problem in name_problems(machine, tuple(machine.by_key(NAMES)), scene.addresses):
            own = problem.name == machine.node
            here = f"{problem.name} is {' '.join(problem.addresses)} there"
            match problem.fault:
                case NameFault.MISSING | NameFault.UNANSWERED:
                    late = problem.fault is NameFault.UNANSWERED
                    why = f"no answer in {NAME_S} s" if late else "nothing"
                    evidence = f"getent ahostsv4 {problem.name}: {why}"
                    yield finding("F66" if own else "F05", machine.node, evidence, problem.name)
                case NameFault.LOOPBACK | NameFault.ALSO_LOOPBACK if own:
                    yield finding("F06", machine.node, here)
                # Its own name may have other addresses, and one after the first does no harm.
                case _ if (
                    not own and problem.expected and problem.expected not in problem.addresses
                ):
                    evidence = f"{here}, not {problem.expected}"
                    yield finding("F05", machine.node, evidence, problem.name)
                case _:
                    pass


def ports(scene: Scene) -> Iterator[Diagnosis]:
    """F18: a port is closed although its daemon runs, or our rules are gone from a firewall."""
    for machine in scene.answered:
        if machine.get(FIREWALL) == "closed":
            yield finding(
                "F18", machine.node, "the cluster's rules are not in its firewall any more"
            )
    runs = {a: scene.machines[n] for n, a in scene.addresses.items() if n in scene.machines}
    daemons = {6817: "slurmctld", 6818: "slurmd"}
    for machine in scene.answered:
        for port in machine.get(PORTS) or ():
            other = runs.get(port.address)
            daemon = daemons[port.port]
            # One that is still starting does not listen yet, and its log shows what it waits for.
            unit = other.unit_state(daemon, "active") if other else ""
            alive = (
                other is not None and other.error is None and unit_state(unit) is UnitState.ACTIVE
            )
            if not port.is_open and alive and other is not None:
                target = f"{port.address}:{port.port}"
                yield finding(
                    "F18",
                    tuple(dict.fromkeys((machine.node, other.node))),
                    f"{machine.node} cannot reach {target}, and {daemon} runs on {other.node}",
                    target,
                )


def keys(scene: Scene) -> Iterator[Diagnosis]:
    """F01 and F75: keys that differ, that others may read, or that are missing."""
    paths = {"munge": ("/etc/munge/munge.key",), "slurm": ("/etc/slurm/slurm.key",)}.get(
        scene.auth, ()
    )
    modes = {"/etc/munge/munge.key": "munge", "/etc/slurm/slurm.key": "slurm"}
    jwks = any("/etc/slurm/slurm.jwks" in t.by_key(KEY_FILES) for t in scene.answered)
    if jwks and scene.auth == "slurm":
        paths = ("/etc/slurm/slurm.jwks",)
    for path in paths:
        files = {t.node: t.by_key(KEY_FILES).get(path) for t in scene.answered}
        sums = Counter(file.digest for file in files.values() if file)
        usual = _usual(sums, files.get(scene.controller))
        for node, file in files.items():
            if file is None:
                yield finding("F75", node, f"{path} is missing", path)
            elif file.digest != usual:
                text = f"sha256 of {path} begins {file.digest}, elsewhere {usual}"
                yield finding("F01", node, text, path)
            elif (file.mode or 0) & 0o077 or (path in modes and file.owner != modes[path]):
                yield finding("F75", node, f"{path} is {file.access}", path)


def _usual(sums: Counter[str], lead: KeyFile | None) -> str:
    """What most nodes have; the controller's where there is no majority."""
    ordered = sums.most_common(2)
    if not ordered:
        return ""
    tied = len(ordered) > 1 and ordered[0][1] == ordered[1][1]
    return lead.digest if tied and lead else ordered[0][0]


def identities(scene: Scene) -> Iterator[Diagnosis]:
    """F17: the user slurm has another uid."""
    numbers = {t.node: t.by_key(USERS).get("slurm") for t in scene.answered}
    expected = numbers.get(scene.controller)
    for node, number in numbers.items():
        if None not in (expected, number) and number != expected:
            yield finding(
                "F17", node, f"uid of slurm is {number} there, {expected} on {scene.controller}"
            )


def versions(scene: Scene) -> Iterator[Diagnosis]:
    """F19: a node's Slurm is newer than the controller's, or differs in its major release."""
    lead = scene.lead.by_key(VERSIONS).get("slurmctld", "")
    for machine in scene.answered:
        mine = machine.by_key(VERSIONS).get("slurmd", "")
        if version_fault(mine, lead) is VersionFault.NEWER:
            yield finding("F19", machine.node, f"slurmd {mine} is newer than slurmctld {lead}")


def configuration(scene: Scene) -> Iterator[Diagnosis]:
    """F04: slurmd's copy differs from the controller's files; or there is a second copy."""
    expected = {
        path.name: digest
        for path, digest in scene.lead.by_key(CONF_FILES).items()
        if path.parent == ETC
    }
    apart = {
        host.node: differing_files(host.by_key(CONF_FILES), expected) for host in scene.answered
    }
    for name in expected:
        copies = {
            (machine.node, path): copy
            for machine in scene.answered
            for path, copy in machine.by_key(CONF_FILES).items()
            if path.name == name and (machine.node, path) != (scene.controller, ETC / name)
        }
        other = {node: path for node, path in copies if path in apart[node]}
        if len(other) > 1 and set(copies.values()) == {next(iter(copies.values()))}:
            text = f"{ETC}/{name} was changed, and nobody has it yet: scontrol reconfigure"
            yield finding("F04", scene.controller, text, name)
            continue
        for node, path in other.items():
            yield finding("F04", node, f"{path} differs from the controller's {ETC}/{name}", name)


def isolation(scene: Scene) -> Iterator[Diagnosis]:
    """F16, F11, F31: what the controller's files must contain."""
    conf = scene.lead.get(SLURM_CONF)
    if conf is None or not conf.text():
        return
    cgroup = scene.lead.get(CGROUP_CONF)
    faults = set(file_faults(conf, cgroup, gpus=any(scene.gpus.values())))
    if FileFault.NO_CLUSTER_NAME in faults:
        yield finding("F31", scene.controller, FileFault.NO_CLUSTER_NAME)
    if FileFault.NO_GPUS in faults:
        yield finding("F11", scene.controller, FileFault.NO_GPUS)
    if FileFault.DEVICES_OPEN in faults:
        fenced = cgroup.get("ConstrainDevices") if cgroup else None
        setting = f"cgroup.conf: ConstrainDevices={fenced}" if fenced else FileFault.DEVICES_OPEN
        yield finding("F16", scene.controller, setting)
    elif FileFault.NO_TASK_CGROUP in faults:
        yield finding("F16", scene.controller, FileFault.NO_TASK_CGROUP)


def devices(scene: Scene) -> Iterator[Diagnosis]:
    """F13: a GPU has no device file."""
    gres = scene.lead.get(GRES_CONF)
    for machine in scene.answered:
        declared = scene.gpus.get(machine.node, 0)
        files = declared_files(gres, machine.node) if gres and declared else ()
        missing = missing_devices(machine.get(DEVICES) or (), declared, files)
        if missing:
            there = max(len(files), declared) - len(missing)
            named = f", not {', '.join(missing)}" if files else ""
            text = f"{there} of {there + len(missing)} /dev/nvidia* files are there{named}"
            yield finding("F13", machine.node, text)


def autodetect(scene: Scene) -> Iterator[Diagnosis]:
    """F12: slurmd detects no GPU although the device files are there.

    Slurm without NVML, which all distributions have, logs nothing about AutoDetect=nvml (seen with
    22.05.8 and 24.11.5): only the count is 0.
    """
    conf = scene.lead.get(GRES_CONF)
    detects = [v for v in conf.values("AutoDetect") if v.lower() != "off"] if conf else []
    for node, info in scene.known.items():
        there = node in scene.machines and scene.machines[node].get(DEVICES)
        if detects and there and _NO_GPU_REPORTED in info.reason:
            setting = f"AutoDetect={detects[0]}"
            yield finding("F12", node, f"gres.conf: {setting}; {info.reason}", setting)


def memory(scene: Scene) -> Iterator[Diagnosis]:
    """F08: slurmctld has the default of 1 MiB for a node."""
    for node, info in scene.known.items():
        if no_real_memory(info):
            yield finding("F08", node, f"scontrol show node {node}: RealMemory={info.memory}")


def state(scene: Scene) -> Iterator[Diagnosis]:
    """F74: slurmctld's state folder is missing or another user's."""
    folder = scene.lead.get(STATE)
    if folder and folder.shown and folder.owner != "slurm":
        yield finding("F74", scene.controller, f"{STATE_FOLDER}: {folder.shown}")


def units(scene: Scene) -> Iterator[Diagnosis]:
    """F03, F38, F73: daemons that do not run."""
    special = {"munge": "F03", "mariadb": "F38", "slurmdbd": "F38"}
    for machine in scene.answered:
        for unit in machine.down:
            state = machine.units[unit].shown or "not known"
            yield finding(
                special.get(unit, "F73"), machine.node, f"{unit}.service is {state}", unit
            )


def accounting(scene: Scene) -> Iterator[Diagnosis]:
    """F38: the database does not answer although its daemons run."""
    lead = scene.lead
    if lead.error is not None or "slurmdbd" not in lead.units or "slurmdbd" in lead.down:
        return
    fault = ACCOUNTING.read_or_empty(lead.sections)
    if fault is not None:
        yield finding("F38", scene.controller, fault)


def limits(scene: Scene) -> Iterator[Diagnosis]:
    """F29: little memory may be locked where RDMA needs it."""
    if scene.fabric not in ("infiniband", "roce"):
        return
    for machine in scene.answered:
        limit = machine.get(LIMITS)
        if limit is not None:
            yield finding("F29", machine.node, f"LimitMEMLOCK of slurmd is {limit}")


def subnets(scene: Scene) -> Iterator[Diagnosis]:
    """F37: two interfaces in one subnet."""
    for machine in scene.answered:
        by_network: dict[str, set[str]] = {}
        for interface, own in machine.get(ADDRESSES) or ():
            if interface != "lo":
                by_network.setdefault(str(own.network), set()).add(interface)
        for network, interfaces in by_network.items():
            if len(interfaces) > 1 and not network.endswith("/32"):
                listed = ", ".join(sorted(interfaces))
                yield finding(
                    "F37", machine.node, f"{listed} all have addresses in {network}", network
                )


def mtus(scene: Scene) -> Iterator[Diagnosis]:
    """F28: the interface of the nodes' addresses has another MTU on some nodes."""
    sizes: dict[str, int] = {}
    for machine in scene.answered:
        address = scene.addresses.get(machine.node, "")
        own = (i for i, held in machine.get(ADDRESSES) or () if str(held.ip) == address)
        mtu = (machine.get(LINKS) or {}).get(next(own, ""))
        if mtu is not None:
            sizes[machine.node] = mtu
    for problem in mtu_problems(sizes):
        text = f"its MTU is {problem.mtu}, that of most others {problem.usual}"
        yield finding("F28", problem.node, text)


Probe = Callable[[Scene], Iterator[Diagnosis]]
PROBES: Final[tuple[Probe, ...]] = (
    *(unreachable, clocks, disks, readonly, mounts, names, ports, keys, identities, versions),
    *(configuration, isolation, devices, autodetect, memory, state, units, accounting),
    *(limits, subnets, mtus, shared),
)
"""All rules."""


def user_namespaces(scene: Scene) -> Iterator[Diagnosis]:
    """F20: nobody may make a user namespace there, which Enroot does for each container."""
    for machine in scene.answered:
        why = machine.get(USER_NAMESPACES)
        if why is not None:
            yield finding("F20", machine.node, why or "unshare -Ur, as nobody: no answer in 10 s")


def directory(scene: Scene) -> Iterator[Diagnosis]:
    """F446: a server of the directory does not let a node read it, or SSSD lacks a group."""
    for machine in scene.answered:
        for problem in directory_problems(machine):
            yield finding("F446", machine.node, problem.text, problem.name)


def backup(scene: Scene) -> Iterator[Diagnosis]:
    """F2240: the scheduled backup fails, does not run, or is late."""
    for machine in scene.answered:
        state = machine.get(BACKUP)
        problem = backup_problem(state) if state else ""
        if problem:
            yield finding("F2240", machine.node, problem)


def alone(scene: Scene) -> Iterator[Diagnosis]:
    """F54: a daemon whose network has no address but loopback's, whatever the machine has.

    Slurm 24.11 then reports names that do resolve as unresolvable.
    """
    for machine in scene.answered:
        for unit in machine.get(ALONE) or ():
            yield finding("F54", machine.node, f"{unit} has no address but 127.*", unit)
