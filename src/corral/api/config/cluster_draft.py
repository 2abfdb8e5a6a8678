"""A cluster file out of what machines reported: complete, commented, and good as it is. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from corral.errors import Code, CorralError
from corral.inspect.discovery import DiscoveredMachine
from corral.inspect.rules import CLOCK_OFF_S, GpuProblem, amd_only, driver_problem, on_loopback
from corral.slurm.version import SlurmVersion
from corral.spec import values
from corral.spec.findings import one_line
from corral.spec.load import load_text
from corral.spec.providers import HERE, OWNED
from corral.spec.rules.machines import RESERVED_NODES
from corral.spec.rules.shared_resources import system
from corral.spec.sections.people import SHELL
from corral.spec.slurm.hostlist import expand, fold
from corral.spec.slurm.releases import Feature, Release, oldest_tested, since

_IPV4: Final = re.compile(r"[0-9]+(\.[0-9]+){3}")
_NO_NAMES: Final = RESERVED_NODES | {"null", "true", "false"}  # the latter are not strings in YAML
_STORAGE_HERE: Final = (
    "storage:                    # a folder of this machine, for code and results of jobs;",
    "  - {mount: /shared, kind: provider}   # corral down leaves it where it is",
)


@dataclass(frozen=True, slots=True)
class Reached:
    """How the machines were reached, as the file is to declare it.

    Attributes:
        port: of sshd.
        key: private key file.
        jump: machines to go through.
        here: it is the one machine that Corral runs on, reached without ssh.
    """

    port: int = 22
    key: str = ""
    jump: str = ""
    here: bool = False


@dataclass(frozen=True, slots=True)
class Draft:
    """A cluster file and what was not right on the machines.

    Attributes:
        name: the cluster's name.
        text: the file.
        nodes: node name by the address it was asked by.
        warnings: what was seen, each one sentence; they are in the file as comments too.
    """

    name: str
    text: str
    nodes: Mapping[str, str]
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class _Group:
    name: str
    machines: list[tuple[str, DiscoveredMachine]] = field(
        default_factory=list[tuple[str, DiscoveredMachine]]
    )

    @property
    def first(self) -> DiscoveredMachine:
        return self.machines[0][1]

    @property
    def nodes(self) -> str:
        return _folded([name for name, _ in self.machines])

    @property
    def addresses(self) -> str:
        return _folded([_address(machine) for _, machine in self.machines])


def draft(
    name: str,
    machines: Sequence[DiscoveredMachine],
    reached: Reached,
    skews: Mapping[str, float],
    file: str = "",
) -> Draft:
    """Write the file.

    Args:
        name: the cluster's name.
        machines: in the order they were named; the first one becomes the controller.
        reached: port, key and jump hosts, where they are not ssh's own.
        skews: seconds that each machine's clock is ahead, by the address it was asked by.
        file: what the file will be called; left out: ``<name>.yaml``.

    Raises:
        CorralError: SPEC_INVALID, the machines cannot be one cluster (two have one address);
            PARSE_FAILED, a machine reported no user name for its account.
    """
    file = _plain(file or f"{name}.yaml")
    for machine in machines:
        _check_login(machine)
    names = _names(machines)
    groups = _groups(list(zip(names, machines, strict=True)))
    warnings = _warnings(names, machines, skews, here=reached.here)
    parts = [
        *_head(file, names, machines, warnings, here=reached.here),
        "corral: v1",
        f"name: {name}",
        *_slurm(machines),
        *_group_lines(groups, reached),
        f"controller: {names[0]}",
        *_partitions(groups),
        *_network(machines),
        *(_STORAGE_HERE if reached.here else _storage(names, machines)),
        *_software(machines),
        *_users(machines),
    ]
    text = "\n".join(parts) + "\n"
    findings = load_text(text, file).findings
    if findings:
        raise CorralError(
            Code.SPEC_INVALID,
            f"no good cluster file can be made of these machines: {findings[0].message}",
            tail="\n".join(str(f) for f in findings),
            hint="correct that on the machines, or name other ones",
        )
    nodes = {m.at: n for n, m in zip(names, machines, strict=True)}
    return Draft(name, text, nodes, warnings)


def _check_login(machine: DiscoveredMachine) -> None:
    """Refuse words of a machine's that YAML would read as more than one name."""
    if re.fullmatch(values.USER_NAME.pattern, machine.login) is None:
        raise CorralError(
            Code.PARSE_FAILED,
            f"{machine.at} calls its account {_plain(machine.login)!r}, which is not a user name",
            hint="check that machine: whoami does not print a user name there",
        )


def _names(machines: Sequence[DiscoveredMachine]) -> list[str]:
    """Host names where they are good and all different, else node0, node1, ..."""
    own = [m.hostname for m in machines]
    good = all(re.fullmatch(values.HOST_NAME.pattern, n) and n[0].isalpha() for n in own)
    if good and len(set(own)) == len(own) and not _NO_NAMES & {n.lower() for n in own}:
        return own
    return [f"node{i}" for i in range(len(machines))]


def _address(machine: DiscoveredMachine) -> str:
    """The address other nodes reach it by; a name of somebody's ssh config is not an address."""
    known = _IPV4.fullmatch(machine.at) or "." in machine.at
    return machine.at if known or not machine.facts.address else machine.facts.address


def _folded(names: list[str]) -> str:
    """Names as one hostlist that keeps their order."""
    short = fold(names)
    return short if expand(short) == names else ",".join(names)


def _groups(machines: list[tuple[str, DiscoveredMachine]]) -> list[_Group]:
    """Machines of equal hardware and login together, in the order they were named."""
    groups: dict[tuple[object, ...], _Group] = {}
    for name, machine in machines:
        memory = round(machine.facts.memory_mib / 4096)  # a share of it differs from BIOS to BIOS
        gpus = machine.gpu_kinds or ((machine.gpu, machine.gpus),)
        key = (gpus, machine.facts.cpus, memory, machine.login)
        if key not in groups:
            base = re.sub(r"[^a-z0-9-]", "-", machine.gpu or "cpu").strip("-") or "cpu"
            base = base if base[0].isalpha() else f"g{base}"
            twin = sum(g.name.rpartition("-")[0] == base or g.name == base for g in groups.values())
            groups[key] = _Group(f"{base}-{twin + 1}" if twin else base)
        groups[key].machines.append((name, machine))
    return list(groups.values())


def _head(
    file: str,
    names: list[str],
    machines: Sequence[DiscoveredMachine],
    warnings: Sequence[str],
    *,
    here: bool,
) -> list[str]:
    rows = [f"#   {n}: {_description(m)}" for n, m in zip(names, machines, strict=True)]
    seen = [f"#   * {_plain(w)}" for w in warnings] or ["#   nothing that is wrong"]
    verbs = [
        (f"up {file} --rehearse", "  try all of it in containers on this machine first"),
        (f"plan {file}", f"  what would be done to the machine{'' if here else 's'}"),
        (f"up {file}", "  do it, and prove that it works"),
    ]
    if here:
        verbs.append((f"down {file}", "  restore the machine as it was"))
    source = (
        f"--from` of what {len(machines)} machines" if not here else "--here` of what this machine"
    )
    return [
        f"# Written by `corral init {source} reported:",
        "#",
        *rows,
        "#",
        "# Look at these first:",
        *seen,
        "#",
        *(f"#   corral {a:<{len(file) + 14}}{b}" for a, b in verbs),
    ]


def _description(m: DiscoveredMachine) -> str:
    disk = f", {m.disks[0].free_gb} GB free on {m.disks[0].mount}" if m.disks else ""
    kinds = m.gpu_kinds or ((m.gpu, m.gpus),)
    gpu = f", {' + '.join(f'{n} x {kind}' for kind, n in kinds)}" if m.gpu else ", no GPU"
    speed = f" {m.gbps:g} Gb/s" if m.gbps else ""
    nic = f", {m.nic}{' (Wi-Fi)' if m.nic in m.wireless else ''}{speed}" if m.nic else ""
    memory = f"{m.facts.memory_mib / 1024:.0f} GiB"
    processor = f"{m.processor or 'unknown CPU'} ({m.facts.cpus} CPUs)"
    return _plain(f"{_address(m)}, {m.system}, {processor}, {memory}{gpu}{nic}{disk}")


def _plain(text: str) -> str:
    """A machine's own words as one line of a comment."""
    return "".join(c if c.isprintable() else "?" for c in one_line(text))[:300]


def _release(text: str) -> Release | None:
    """None for a version of another form, such as 2.6.5 of 2013."""
    try:
        return SlurmVersion.parse(text).release
    except CorralError:
        return None


def _slurm(machines: Sequence[DiscoveredMachine]) -> list[str]:
    texts = (m.facts.slurm or m.facts.slurm_candidate for m in machines)
    releases = sorted(release for text in texts if text and (release := _release(text)))
    note = "  # what the machines have or their package source offers"
    if not releases:
        releases, note = [oldest_tested()], "  # no machine's package source offered a Slurm yet"
    return [
        "slurm:",
        f'  version: ">={releases[0]}"{note}',
        "  auth: auto                # auth/slurm where every node has "
        f"{since(Feature.JWKS_ROTATION)} or newer, else munge",
        "  accounting: true          # slurmdbd with MariaDB on the controller",
    ]


def _group_lines(groups: Sequence[_Group], reached: Reached) -> list[str]:
    lines = ["groups:"]
    for group in groups:
        first = group.first
        lines += [
            f"  - name: {group.name}",
            f"    provider: {HERE}           # this machine, without ssh"
            if reached.here
            else f"    provider: {OWNED}",
            f"    nodes: {group.nodes}",
            f"    addresses: {group.addresses}",
        ]
        if first.gpu_kinds:
            kinds = ", ".join(f"{{type: {kind}, count: {n}}}" for kind, n in first.gpu_kinds)
            lines.append(f"    gpus: [{kinds}]")
        elif first.gpu:
            note = "" if reached.here else "  # in each node"
            lines.append(f"    gpu: {{type: {first.gpu}, count: {first.gpus}}}{note}")
        if reached.here:
            continue
        lines += ["    ssh:", f"      user: {first.login}"]
        lines += [f"      port: {reached.port}"] if reached.port != 22 else []  # noqa: PLR2004
        lines += [f"      key: {reached.key}"] if reached.key else []
        lines += [f"      jump: {reached.jump}"] if reached.jump else []
        if any(m.passwords for _, m in group.machines):
            lines.append(
                "      # password_login: off   # keys only; a machine reverts it when no key works"
            )
    return lines


def _partitions(groups: Sequence[_Group]) -> list[str]:
    gpu = [g.name for g in groups if g.first.gpu]
    cpu = [g.name for g in groups if not g.first.gpu]
    main = ", ".join(gpu or cpu)
    lines = ["partitions:", f"  - {{name: main, groups: [{main}], default: true}}"]
    if gpu and cpu:
        lines.append(f"  - {{name: cpu, groups: [{', '.join(cpu)}]}}")
    return lines


def _network(machines: Sequence[DiscoveredMachine]) -> list[str]:
    lines = ["network:", "  control: lan"]
    speeds = [m.gbps for m in machines]
    nics = {m.nic for m in machines}
    wired = not any(m.nic in m.wireless for m in machines)
    if len(machines) > 1 and all(speeds) and wired:
        lines.append("  data:                     # between GPUs (NCCL): the wired interface")
        same = len(nics) == 1 and re.fullmatch(values.INTERFACE.pattern, next(iter(nics)))
        if same:
            lines.append(f"    interface: {next(iter(nics))}")
        else:
            lines.append("    # interface: the nodes' have unlike names: that of their address")
        lines += ["    fabric: ethernet", f"    gbps: {min(speeds):g}"]
    return lines


def _storage(names: list[str], machines: Sequence[DiscoveredMachine]) -> list[str]:
    sized = [(m.disks[0].free_gb if m.disks else 0, -i) for i, m in enumerate(machines)]
    most, place = max(sized)
    if len(machines) < 2 or not most:  # noqa: PLR2004
        return ["# storage: none to share"]
    server = names[-place]
    folder = machines[-place].disks[0].mount
    good = folder not in ("/", "/home") and re.fullmatch(values.ABSOLUTE_PATH.pattern, folder)
    path = f"{folder}/corral" if good else "/srv/corral"
    return [
        "storage:",
        f"  # {server} has the most room: {most} GB free on {_plain(folder)}",
        f"  - {{mount: /shared, kind: nfs, server: {server}, path: {path}}}",
    ]


def _driver(m: DiscoveredMachine) -> GpuProblem | None:
    return driver_problem(m.on_bus, m.listed, m.programs) if m.gpu else None


def _software(machines: Sequence[DiscoveredMachine]) -> list[str]:
    without = [m for m in machines if _driver(m) and not m.listed]
    if not any(m.gpu for m in machines):
        return []
    if not without:
        return ["# software: the machines have an NVIDIA driver already; it is left alone"]
    return [
        "software:",
        "  nvidia: {driver: auto, cuda: none}   # PyTorch brings its own CUDA",
    ]


def _users(machines: Sequence[DiscoveredMachine]) -> list[str]:
    first, *others = machines
    people = sorted(
        (uid, name)
        for name, uid in first.people
        if all((name, uid) in m.people for m in others)
        and re.fullmatch(values.USER_NAME.pattern, name)
        and name not in system().names
    )
    if not people:
        return [
            "# users:                      # left out: one user called corral",
            "#   - {name: alice, uid: 2001}  # the same number on every node",
        ]
    rows = [f"  - {{name: {name}, uid: {uid}{_shell(name, machines)}}}" for uid, name in people]
    return ["users:                      # they are on all machines with equal numbers", *rows]


def _shell(name: str, machines: Sequence[DiscoveredMachine]) -> str:
    """The login shell that someone has already, where it is not the default.

    Without it the first ``up`` would change it. Where machines differ, the default is for all.
    """
    shells = {m.shells.get(name, "") for m in machines}
    shell = shells.pop() if len(shells) == 1 else ""
    taken = shell != SHELL and re.fullmatch(values.ABSOLUTE_PATH.pattern, shell)
    return f", shell: {shell}" if taken else ""


def _warnings(
    names: list[str],
    machines: Sequence[DiscoveredMachine],
    skews: Mapping[str, float],
    *,
    here: bool,
) -> tuple[str, ...]:
    warnings: list[str] = []
    both = list(zip(names, machines, strict=True))
    systems = {m.system: n for n, m in reversed(both)}
    if len(systems) > 1:
        each = ", ".join(f"{n} has {system}" for system, n in systems.items())
        warnings.append(f"the machines have different systems: {each}")
    nodes_by_text: dict[str, list[str]] = {}
    for name, m in both:
        for text in _of_one(name, m, skews.get(m.at, 0.0), here=here):
            nodes_by_text.setdefault(text, []).append(name)
    warnings += [f"{fold(nodes)}: {text}" for text, nodes in nodes_by_text.items()]
    return (*warnings, *_clones(both), *_numbers(machines))


def _of_one(name: str, m: DiscoveredMachine, skew: float, *, here: bool) -> list[str]:
    own = ", ".join(map(str, on_loopback(m.own_name)))
    driver = _driver(m)
    driver_text = driver.text if m.listed and driver else "its GPU has no working driver yet"
    facts = m.facts
    wired = [n for n in facts.nics if n.name not in m.wireless and n.speed_mbps > 0]
    conditions = (
        (
            bool(own),
            f"its own name is on {own} in /etc/hosts; Corral "
            "moves it to its address, since Slurm and NCCL would talk to loopback",
        ),
        (
            not here and m.nic != "" and m.nic in m.wireless,
            f"{facts.address} is a Wi-Fi address"
            + (f"; {wired[0].name} is wired: name its address instead" if wired else ""),
        ),
        (
            facts.address in m.leased,
            f"{facts.address} is a DHCP lease: reserve it at the router, or set it on the machine",
        ),
        (
            abs(skew) > CLOCK_OFF_S,
            f"its clock is {abs(skew):.0f} s "
            f"{'ahead' if skew > 0 else 'behind'}; Corral installs chrony",
        ),
        (not here and m.passwords, "sshd takes passwords; see ssh.password_login"),
        (
            bool(m.facts.firewall),
            f"a firewall is on ({m.facts.firewall}); Corral opens Slurm's ports in it",
        ),
        (m.hostname != name, f"it calls itself {m.hostname or 'nothing'}; Corral names it {name}"),
        (driver is not None, driver_text),
        (
            amd_only(m.amd, m.gpu),
            "its GPUs are AMD's, which Corral does not support: jobs get none",
        ),
        (
            m.gpu.startswith("nvidia-"),
            f"PCI device {m.gpu[7:]} is not in Corral's table; "
            "give the GPU type a name of your choice",
        ),
        (not facts.systemd, "no systemd runs there; Corral needs it"),
    )
    return [text for true, text in conditions if true]


def _clones(both: Sequence[tuple[str, DiscoveredMachine]]) -> list[str]:
    keys: dict[str, list[str]] = {}
    for name, m in both:
        if m.host_key:
            keys.setdefault(m.host_key, []).append(name)
    return [
        f"{', '.join(names)} have one SSH host key: they are copies; make new ones on each with "
        "ssh-keygen -A"
        for names in keys.values()
        if len(names) > 1
    ]


def _numbers(machines: Sequence[DiscoveredMachine]) -> list[str]:
    """People whose numbers differ: files on shared storage would change owners."""
    uids_by_name: dict[str, set[int]] = {}
    for name, uid in (person for m in machines for person in m.people):
        uids_by_name.setdefault(name, set()).add(uid)
    return [
        f"user {_plain(name)} has unlike numbers: {', '.join(map(str, sorted(uids)))}"
        for name, uids in uids_by_name.items()
        if len(uids) > 1
    ]
