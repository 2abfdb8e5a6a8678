"""The NVIDIA driver: which packages a machine gets, from what it is. Pure.

One rolling stage does all of it, so that a node is drained once: sources, headers, driver, fabric
manager, toolkit, hold, reboot; its gate is ``nvidia-smi`` with as many GPUs as declared.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from corral.errors import Code, CorralError
from corral.hosts.quote import call, sh
from corral.inspect.facts import Facts
from corral.roles.inventory import Site
from corral.roles.machine import imex
from corral.roles.machine.upkeep import real
from corral.roles.role import Role, Share
from corral.spec.impacts import Impact
from corral.spec.nodes import Node
from corral.spec.rules.drivers import VENDOR, driver_table, least_branch_of
from corral.spec.sections.software import Nvidia
from corral.state.base import Desired, Gate, Resource, Roll
from corral.state.files import File
from corral.state.packages import Holds, Packages
from corral.state.service import Service
from corral.state.system.kernel import Module, Reboot
from corral.state.system.nvidia import Components, DriverPart, Headers, Keyring
from corral.tables import Row, read_table

MODPROBE: Final = "/etc/modprobe.d/corral-nvidia.conf"
PERSISTENCED: Final = "/etc/systemd/system/nvidia-persistenced.service.d/corral.conf"
HELD: Final = (
    "nvidia-*",
    "libnvidia-*",
    "linux-modules-nvidia-*",
    "xserver-xorg-video-nvidia-*",
    "libcuda1",
    "cuda-drivers*",
)
HELD_KERNELS: Final = ("linux-image-*", "linux-headers-*", "linux-generic*")
GATE_S: Final = 120.0
FABRIC_S: Final = 900.0
"""The fabric of a big machine trains for minutes (aws-parallelcluster#6571 waits 900 s)."""

_MODPROBE_TEXT: Final = """\
# Written by Corral: nouveau holds the GPU where it comes first.
blacklist nouveau
options nouveau modeset=0
"""
# Before open_branch the open module takes workstation GPUs only with this option; newer ones do not
# know it and only log that.
_UNSUPPORTED: Final = "options nvidia NVreg_OpenRmEnableUnsupportedGpus=1\n"

# Ubuntu sets --no-persistence-mode and StopWhenUnneeded (580.178.04 of 22.04 and 24.04): each
# job would then initialise the GPU again.
_PERSISTENCED_TEXT: Final = """\
# Written by Corral: GPUs stay initialised between jobs, and their device files stay.
[Unit]
StopWhenUnneeded=no

[Service]
ExecStart=
ExecStart=/usr/bin/nvidia-persistenced --user {user} --persistence-mode --verbose
"""


@dataclass(frozen=True, slots=True)
class Choice:
    """What one machine gets.

    Attributes:
        branch: driver branch, such as 580.
        server: Ubuntu's data-centre flavour.
        opened: the open kernel module.
        switched: the machine has NVSwitches.
        subnet: its NVSwitches need NVIDIA's subnet manager, too.
        signed: Secure Boot is on: the module must come signed.
        desktop: it also draws.
    """

    branch: int
    server: bool
    opened: bool
    switched: bool
    subnet: bool
    signed: bool
    desktop: bool

    @property
    def flavour(self) -> str:
        """As Ubuntu names it: ``580-server-open``."""
        return f"{self.branch}{'-server' if self.server else ''}{'-open' if self.opened else ''}"


def nodes(site: Site) -> tuple[Node, ...]:
    """Nodes that get a driver: real machines whose group declares GPUs."""
    nvidia = site.spec.software.nvidia
    if nvidia is None or nvidia.driver == "none":
        return ()
    return tuple(n for n in real(site) if n.group.gpu_kinds)


def drivers(site: Site) -> tuple[Share, ...]:
    """The one rolling stage of drivers and reboots.

    Raises:
        CorralError: NOT_GOOD, a machine cannot get the declared driver.
    """
    return _rolling(site, "NVIDIA driver and reboots") if nodes(site) else ()


def reboots(site: Site) -> tuple[Share, ...]:
    """The rolling stage where machines are only rebooted."""
    return () if nodes(site) else _rolling(site, "reboots")


def _rolling(site: Site, title: str) -> tuple[Share, ...]:
    software = site.spec.software
    driven = nodes(site)
    rebooted = real(site) if software.reboot == "required" else driven
    if not rebooted:
        return ()
    groups: dict[tuple[Resource, ...], list[str]] = {}
    for node in rebooted:
        mine = _driver(site, node) if node in driven else ()
        groups.setdefault((*mine, *_reboot(site, mine)), []).append(node.name)
    return (
        Share(
            tuple(Desired(tuple(names), resources) for resources, names in groups.items()),
            tuple(gate for node in driven for gate in _gates(site, node)),
            f"{title}, nodes drained in turn",
            Roll(
                site.controller,
                "reboot for its driver" if driven else "reboot",
                software.at_once,
                software.drain_minutes * 60.0,
            ),
        ),
    )


def running(site: Site) -> tuple[Share, ...]:
    """What runs before slurmd: persistence daemon, fabric manager."""
    groups: dict[tuple[Resource, ...], list[str]] = {}
    for node in nodes(site):
        groups.setdefault(_services(site, node), []).append(node.name)
    if not groups:
        return ()
    desired = tuple(Desired(tuple(names), resources) for resources, names in groups.items())
    return (Share(desired, title="services of the NVIDIA driver"),)


def _services(site: Site, node: Node) -> tuple[Resource, ...]:
    inputs = (PERSISTENCED,) if _drop_in(site) else ()
    resources: list[Resource] = [Service("nvidia-persistenced", inputs, impact=Impact.NONE)]
    if choose(site, node).switched:
        resources.append(Service("nvidia-fabricmanager", impact=Impact.DRAIN))
    return tuple(resources)


def choose(site: Site, node: Node) -> Choice:
    """The driver that fits the machine's GPUs.

    Raises:
        CorralError: NOT_GOOD, none does, or not the declared one.
    """
    facts = site.facts[node.name]
    nvidia = site.spec.software.nvidia or Nvidia()
    table = driver_table()
    gpus = [int(i, 16) for i in facts.nvidia_pci if i not in table.switches]
    subnet = bool(table.subnet_manager.intersection(facts.nvidia_pci))
    switched = subnet or any(i in table.switches for i in facts.nvidia_pci)
    old, new = any(g < table.turing for g in gpus), any(g >= table.blackwell for g in gpus)
    name = nvidia.driver
    if name == "auto":
        name = table.auto if old else f"{table.auto}-open"
    desktop = site.spec.software.desktop != "none" and node.name == site.controller
    branch = int(name[:3])
    if facts.os_id == "debian" and not nvidia.from_vendor:
        branch = table.debian.get(facts.os_version, branch)
    choice = Choice(
        branch=branch,
        server="-server" in name,
        opened=name.endswith("-open"),
        switched=switched,
        subnet=subnet,
        signed=facts.secure_boot,
        desktop=desktop,
    )
    _refuse(node.name, facts, nvidia, choice, old=old, new=new)
    return choice


def _refuse(
    node: str, facts: Facts, nvidia: Nvidia, choice: Choice, *, old: bool, new: bool
) -> None:
    distribution = not nvidia.from_vendor
    declared = nvidia.driver[:3]
    debian = distribution and facts.os_id == "debian"
    least = least_branch_of(facts.nvidia_pci) if new else 0
    fit = _fitting(nvidia, choice, debian=debian, least=least, old=old)
    cases = (
        (
            old and new,
            "GPUs before Turing and Blackwell ones need different kernel modules",
            "take one of them out, or declare driver: none and install it by hand",
        ),
        # What no driver changes comes first: a hint for another case would lead here.
        (
            choice.signed and (choice.subnet or not (distribution and facts.os_id == "ubuntu")),
            "Secure Boot is on: a module that is built on the machine is not loaded",
            "switch Secure Boot off in the firmware, or enrol dkms's key at the console "
            "(mokutil --import) and declare driver: none",
        ),
        (
            choice.subnet and distribution,
            "its NVLink fabric needs NVIDIA's subnet manager (nvlsm), which only the vendor has",
            fit,
        ),
        (
            choice.branch < least,
            f"branch {choice.branch} does not know its GPU (Blackwell)",
            fit,
        ),
        (
            new and not choice.opened,
            "its GPU (Blackwell) runs with the open kernel module only",
            fit,
        ),
        (
            old and choice.opened,
            "its GPU is older than Turing: the open kernel module does not know it",
            fit,
        ),
        (debian and choice.switched, "it has NVSwitches, and Debian has no fabric manager", fit),
        (
            debian and declared.isdigit() and declared != str(choice.branch),
            f"Debian {facts.os_version} has driver {choice.branch}, not {declared}",
            fit,
        ),
        (
            distribution and choice.switched and not choice.server,
            "it has NVSwitches, and Ubuntu's fabric manager follows the -server drivers",
            fit,
        ),
    )
    for wrong, what, hint in cases:
        if wrong:
            raise CorralError(Code.NOT_GOOD, what, node=node, hint=hint)


def _fitting(nvidia: Nvidia, choice: Choice, *, debian: bool, least: int, old: bool) -> str:
    """What to write so that this machine runs: of all faults at once, so that no other follows."""
    # least: the oldest branch that knows its GPUs, where those are Blackwell; else 0.
    if debian and not least and not choice.switched:
        return (
            "write driver: auto"
            if not old or not choice.opened
            else f"write driver: {choice.branch}"
        )
    table = driver_table()
    branch = choice.branch
    branch = table.fitting_branch if branch < least else branch
    branch = int(nvidia.driver[:3]) if debian and nvidia.driver[:3].isdigit() else branch
    branch = table.fitting_branch if branch < least else branch
    server = "-server" if choice.switched or choice.server else ""
    name = f"{branch}{server}{'-open' if least or (choice.opened and not old) else ''}"
    if debian or (choice.subnet and not nvidia.from_vendor):
        return f"write driver: {name} with {VENDOR}"
    return f"write driver: {name}"


def _driver(site: Site, node: Node) -> tuple[Resource, ...]:
    nvidia = site.spec.software.nvidia or Nvidia()
    facts = site.facts[node.name]
    choice = choose(site, node)
    text = _MODPROBE_TEXT
    if choice.opened and choice.branch < driver_table().open_branch:
        text += _UNSUPPORTED
    resources: list[Resource] = [*_source(nvidia, facts, choice)]
    if not choice.signed:
        resources.append(Headers())
    resources += [
        File(MODPROBE, text),
        Packages("nvidia", _packages(nvidia, facts, choice), Impact.DRAIN),
    ]
    if choice.subnet:
        # The start script of the fabric manager's unit starts it; it reads switches by ib_umad.
        names = driver_table().subnet_manager_packages
        resources += [Packages("nvlink-subnet-manager", names), Module("ib_umad")]
    if choice.switched:
        resources += _switch_parts(site, nvidia, facts, choice)
    if imex.in_rack(site, node):
        package = _part("nvidia-imex", nvidia, facts, choice)
        resources.append(DriverPart("imex", package, after=("packages:nvidia",)))
    if nvidia.cuda != "none":
        resources.append(Packages("cuda", (_toolkit(nvidia.cuda),)))
    if _drop_in(site):
        user = "nvpd" if facts.os_id == "debian" else "nvidia-persistenced"
        resources.append(File(PERSISTENCED, _PERSISTENCED_TEXT.format(user=user)))
    if site.spec.software.hold:
        patterns = (*HELD, *HELD_KERNELS) if choice.signed else HELD
        names = ("nvidia", "fabric-manager", "nscq", "imex", "cuda")
        after = tuple(f"packages:{name}" for name in names)
        resources.append(Holds("nvidia", patterns, after))
    return tuple(resources)


class KnownKeyring(Row):
    """The vendor's package that sets up its repository on one system."""

    os: str
    release: str
    address: str
    sha256: str
    seen: str


@cache
def keyrings() -> tuple[KnownKeyring, ...]:
    """The table ``keyrings.yaml``."""
    return read_table("corral.roles", "keyrings.yaml", tuple[KnownKeyring, ...])


def _keyring(nvidia: Nvidia, facts: Facts) -> Keyring:
    if nvidia.vendor_repo:
        return Keyring(nvidia.vendor_repo, nvidia.vendor_sha256 or "")
    for row in keyrings():
        if (row.os, row.release) == (facts.os_id, facts.os_version):
            return Keyring(row.address, row.sha256, machine="x86_64")
    raise CorralError(
        Code.NOT_GOOD,
        f"Corral knows no repository of NVIDIA for {facts.os_id} {facts.os_version}",
        node=facts.node,
        hint="write the cuda-keyring package of NVIDIA's installation guide into "
        "software.nvidia.vendor_repo and its SHA-256 into vendor_sha256",
    )


def _source(nvidia: Nvidia, facts: Facts, choice: Choice) -> tuple[Resource, ...]:
    if nvidia.from_vendor:
        pin = Packages("nvidia-pin", (f"nvidia-driver-pinning-{choice.branch}",))
        return (_keyring(nvidia, facts), pin)
    first = _packages(nvidia, facts, choice)[0]
    if facts.os_id == "debian":
        return (Components(first, ("contrib", "non-free", "non-free-firmware")),)
    return (Components(first, ("restricted", "multiverse")),)


def _packages(nvidia: Nvidia, facts: Facts, choice: Choice) -> tuple[str, ...]:
    """The driver's packages by system and source; the first one shows whether apt offers it."""
    if nvidia.from_vendor:
        return ("nvidia-open" if choice.opened else "cuda-drivers",)
    if facts.os_id == "debian":
        kernel = "nvidia-open-kernel-dkms" if choice.opened else "nvidia-kernel-dkms"
        more = ("nvidia-driver",) if choice.desktop else ("libcuda1",)
        return (kernel, "nvidia-smi", "nvidia-persistenced", *more)
    if facts.os_id != "ubuntu":
        raise CorralError(
            Code.NOT_GOOD,
            f"no packages of the NVIDIA driver are known for {facts.os_id}",
            node=facts.node,
            hint="install it by hand and write driver: none",
        )
    name = choice.flavour
    user = name.removesuffix("-open")
    if choice.signed:
        driver = (f"linux-modules-nvidia-{name}-{facts.kernel}", f"nvidia-headless-no-dkms-{name}")
    else:
        driver = (f"nvidia-headless-{name}",)
    draws = (f"libnvidia-gl-{user}", f"xserver-xorg-video-nvidia-{user}") if choice.desktop else ()
    return (*driver, f"nvidia-utils-{user}", *draws)


def _switch_parts(
    site: Site, nvidia: Nvidia, facts: Facts, choice: Choice
) -> tuple[DriverPart, ...]:
    """What a machine with NVSwitches needs of the driver's version.

    The fabric manager; where DCGM's exporter runs, also the library by which DCGM reads the
    switches. Those of HGX B200 and B300 have another one (NVSDM), with which DCGM comes.
    """
    after = ("packages:nvidia",)
    unit = "nvidia-fabricmanager.service"
    manager = _part("nvidia-fabricmanager", nvidia, facts, choice)
    parts = (DriverPart("fabric-manager", manager, unit, after),)
    if not (site.spec.services.metrics and nvidia.from_vendor) or choice.subnet:
        return parts
    library = _part("libnvidia-nscq", nvidia, facts, choice)
    return (*parts, DriverPart("nscq", library, after=after))


def _part(name: str, nvidia: Nvidia, facts: Facts, choice: Choice) -> str:
    """Its package; in newer branches, and on Debian, the vendor's has no branch in its name."""
    newer = choice.branch >= driver_table().one_fabric_manager
    if nvidia.from_vendor and (facts.os_id == "debian" or newer):
        return name
    return f"{name}-{choice.branch}"


def _toolkit(cuda: str) -> str:
    if cuda == "distribution":
        return "nvidia-cuda-toolkit"
    return f"cuda-toolkit-{cuda.replace('.', '-')}"


def _drop_in(site: Site) -> bool:
    """True where the unit's program and user are known: the distributions' own packages."""
    nvidia = site.spec.software.nvidia
    return nvidia is not None and not nvidia.from_vendor


def _reboot(site: Site, mine: tuple[Resource, ...]) -> tuple[Resource, ...]:
    how = site.spec.software.reboot
    if how == "never":
        return ()
    after = ("packages:nvidia", f"file:{MODPROBE}") if mine else ()
    return (Reboot(required=how == "required", driver=bool(mine), after=after),)


def _gates(site: Site, node: Node) -> tuple[Gate, ...]:
    # A machine may have more than are declared: no job gets those.
    count = max(node.group.gpu_count, len(site.facts[node.name].gpus))
    if site.spec.software.reboot == "never":
        return ()
    gates = [
        Gate(
            f"nvidia-smi finds {count} GPU{'s' if count > 1 else ''}",
            node.name,
            call("gates/slurm.sh", "gpus_answer", count),
            GATE_S,
            "read: dmesg | grep -iE 'nvrm|nouveau'; dkms status. An RTX 50 needs the open module; "
            "its board Above 4G Decoding",
            sh("dkms status; dmesg | grep -iE 'nvrm|nvidia' | tail -n 15"),
        )
    ]
    if choose(site, node).switched:
        gates.append(
            Gate(
                "the NVSwitch fabric is up",
                node.name,
                sh(
                    "systemctl is-active -q nvidia-fabricmanager && "
                    "! nvidia-smi -q | grep -A1 '^ *Fabric' | grep -q 'In Progress'"
                ),
                FABRIC_S,
                "its version must be the driver's: dpkg -l 'nvidia-fabricmanager*'",
                sh("journalctl --no-pager -o cat -n 15 -u nvidia-fabricmanager"),
            )
        )
    return tuple(gates)


ROLE: Final = Role("nvidia", {"drivers": drivers, "reboots": reboots, "gpus": running})
