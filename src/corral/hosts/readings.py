"""What a machine is asked for its facts, and its answers taken apart: a pure function per question.

Functions here raise ValueError on nonsense; ``facts.parse_facts`` makes it a CorralError.
"""

from __future__ import annotations

import ipaddress
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from corral.hosts.guards import GUARD
from corral.hosts.mesh_facts import MESH
from corral.hosts.quote import Script, sh

Sections = Mapping[str, str]

# slurmd's own view is what slurmctld will compare with; lscpu counts online CPUs only.
_CPU: Final = {
    "swap": sh(
        """\
for f in /sys/fs/cgroup/memory/memory.memsw.limit_in_bytes /sys/fs/cgroup/*/memory.swap.max; do
  if [ -e "$f" ]; then echo accounted; break; fi
done"""
    ),
    "slurmd": sh("if command -v slurmd >/dev/null; then slurmd -C 2>/dev/null; fi"),
    "lscpu": sh("if command -v lscpu >/dev/null; then LC_ALL=C lscpu -p=CPU,CORE,SOCKET; fi"),
    "topology": sh(
        """\
if ! command -v lscpu >/dev/null; then
  for d in /sys/devices/system/cpu/cpu[0-9]*/topology; do
    {{ read -r p <"$d/physical_package_id" && read -r c <"$d/core_id"; }} 2>/dev/null &&
      echo "$p $c"
  done
fi"""
    ),
    "processors": sh("grep -c '^processor' /proc/cpuinfo"),
}

# Without iproute2 (RunPod's and many containers) the kernel's own tables hold the same.
_NET: Final = {
    "default": sh("if command -v ip >/dev/null; then ip -o -4 route show default; fi"),
    "addresses": sh("if command -v ip >/dev/null; then ip -o -4 addr show; fi"),
    "routes": sh("if ! command -v ip >/dev/null; then cat /proc/net/route; fi"),
    "trie": sh("if ! command -v ip >/dev/null; then cat /proc/net/fib_trie; fi"),
    "nics": sh(
        """\
for d in /sys/class/net/*; do
  s=0 m=1500 k=virtual
  [ ! -e "$d/device" ] || k=device
  {{ read -r s <"$d/speed"; read -r m <"$d/mtu"; }} 2>/dev/null
  echo "${{d##*/}} $k ${{s:-0}} ${{m:-1500}}"
done"""
    ),
    "connection": sh('echo "$SSH_CONNECTION"'),
}

_GPU: Final = {
    "devices": sh('for f in /dev/nvidia[0-9]*; do [ ! -c "$f" ] || echo "$f"; done'),
    "minors": sh(
        """\
for f in /proc/driver/nvidia/gpus/*/information; do
  [ ! -r "$f" ] || grep -E '^(Model|Bus Location|Device Minor):' "$f"
done"""
    ),
    "smi": sh(
        """\
if command -v nvidia-smi >/dev/null; then
  t=; ! command -v timeout >/dev/null || t='timeout 20'
  $t nvidia-smi --query-gpu=pci.bus_id,name,memory.total --format=csv,noheader,nounits 2>/dev/null
fi"""
    ),
}

# apt-cache is asked only while Slurm is missing: without its pkgcache.bin (container images switch
# it off) it reads all package lists, half a second of CPU each time.
# A program that is there and cannot print its version is one that dpkg is unpacking, or was when
# the power went: then apt has to report what comes.
# Plugins of the kinds on which a choice depends; all of them would be a hundred names per node.
SLURM: Final = {
    "version": sh(
        """\
v=
for c in slurmd slurmctld slurmdbd sackd scontrol; do
  if v=$($c -V 2>/dev/null) && [ -n "$v" ]; then printf '%s\\n' "$v"; break; else v=; fi
done"""
    ),
    "candidate": sh(
        """\
if [ -z "$v" ] && command -v apt-cache >/dev/null; then
  LC_ALL=C apt-cache policy slurmd slurm-smd-slurmd 2>/dev/null | grep Candidate:
fi"""
    ),
    "plugins": sh(
        """\
for p in auth cgroup cred data_parser gpu metrics mpi serializer switch tls topology; do
  for d in /usr/lib/*/slurm-wlm /usr/lib/*/slurm /usr/lib64/slurm /usr/lib/slurm; do
    for f in $d/${{p}}_*.so; do [ ! -f "$f" ] || echo "${{f##*/}}"; done
  done
done"""
    ),
}

QUESTIONS: Final[Mapping[str, Script]] = MappingProxyType(
    {
        "os": sh("grep -E '^(ID|VERSION_ID|PRETTY_NAME)=' /etc/os-release"),
        "kernel": sh("uname -r"),
        "time": sh("date +%s"),
        "pid1": sh("cat /proc/1/comm; [ ! -d /run/systemd/system ] || echo booted"),
        "memory": sh("grep MemTotal: /proc/meminfo"),
        "mounts": sh("grep cgroup /proc/self/mounts"),
        **_CPU,
        **_NET,
        **_GPU,
        **GUARD,
        **MESH,
        **SLURM,
    }
)
"""What every machine is asked; read-only."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How the CPUs are arranged, and memory in MiB."""

    cpus: int
    sockets: int
    cores: int
    threads: int
    memory: int


@dataclass(frozen=True, slots=True)
class System:
    """ID, VERSION_ID (rolling releases have none: "") and PRETTY_NAME of os-release."""

    id: str
    version: str
    name: str


def os_release(parts: Sections) -> System:
    """What the operating system is."""
    found: dict[str, str] = {}
    for line in parts["os"].splitlines():
        key, _, value = line.partition("=")
        found[key.strip()] = " ".join(shlex.split(value))
    if not found.get("ID"):
        raise ValueError("os-release has no ID")
    return System(found["ID"], found.get("VERSION_ID", ""), found.get("PRETTY_NAME", ""))


def layout(parts: Sections) -> Layout:
    """CPUs and memory: slurmd's view, else the kernel's."""
    known = dict(re.findall(r"\b(\w+)=(\d+)", parts.get("slurmd", "")))
    if known:
        sockets = int(known.get("SocketsPerBoard") or known.get("Sockets") or 1)
        return _checked(
            Layout(
                cpus=int(known["CPUs"]),
                sockets=sockets * int(known.get("Boards", 1)),
                cores=int(known["CoresPerSocket"]),
                threads=int(known["ThreadsPerCore"]),
                memory=int(known["RealMemory"]),
            )
        )
    total = re.search(r"MemTotal:\s+(\d+) kB", parts["memory"])
    if total is None:
        raise ValueError("no MemTotal")
    return _checked(_counted(_places(parts), int(total[1]) // 1024))


def _places(parts: Sections) -> list[tuple[str, str]]:
    """(socket, core) of each CPU that is online."""
    rows = [line.split(",") for line in parts.get("lscpu", "").splitlines() if line[:1].isdigit()]
    if rows:
        return [(row[2] or "0", row[1] or "0") for row in rows]
    pairs = [line.split() for line in parts.get("topology", "").splitlines()]
    if pairs:
        return [(pair[0], pair[1]) for pair in pairs]
    return [("0", str(n)) for n in range(int(parts["processors"]))]


def _counted(places: list[tuple[str, str]], memory: int) -> Layout:
    cpus = len(places)
    cores = len(set(places))
    sockets = len({socket for socket, _ in places})
    if sockets and cores % sockets == 0 and cpus % cores == 0:
        return Layout(cpus, sockets, cores // sockets, cpus // cores, memory)
    return Layout(cpus, 1, cpus, 1, memory)  # unlike cores: no product fits


def _checked(found: Layout) -> Layout:
    if min(found.cpus, found.sockets, found.cores, found.threads, found.memory) < 1:
        raise ValueError(f"impossible CPU layout or memory: {found}")
    return found


CgroupMode = Literal["v1", "hybrid", "v2", "none"]


def cgroup(parts: Sections) -> CgroupMode:
    """v1, hybrid (version 2 next to version 1 controllers), v2, or none."""
    kinds: set[str] = set()
    for line in parts["mounts"].splitlines():
        fields = line.split()
        if len(fields) > 2 and fields[1].startswith("/sys/fs/cgroup"):  # noqa: PLR2004
            kinds.add(fields[2])
    if "cgroup2" in kinds:
        return "hybrid" if "cgroup" in kinds else "v2"
    return "v1" if "cgroup" in kinds else "none"


def swap_limit(parts: Sections) -> bool:
    """True when the kernel can limit a job's swap (facts recorded before this was read: False)."""
    return parts.get("swap", "").strip() == "accounted"


def systemd(parts: Sections) -> bool:
    """True when PID 1 is systemd and it booted the machine (sd_booted(3))."""
    words = parts["pid1"].split()
    return words[:1] in (["systemd"], ["init"]) and "booted" in words


@dataclass(frozen=True, slots=True)
class Interface:
    """One network interface as the kernel lists it."""

    name: str
    addresses: tuple[str, ...]
    speed: int
    mtu: int


def interfaces(parts: Sections) -> tuple[Interface, ...]:
    """Interfaces that are devices or have an address; not lo, not the veths of other containers."""
    addresses = _addresses(parts)
    found: list[Interface] = []
    for line in parts["nics"].splitlines():
        name, kind, speed, mtu = line.split()
        own = tuple(addresses.get(name, ()))
        if name != "lo" and (own or kind == "device"):
            found.append(Interface(name, own, max(0, int(speed)), int(mtu)))
    return tuple(found)


def _addresses(parts: Sections) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in parts["addresses"].splitlines():
        fields = line.split()
        if len(fields) > 3 and fields[2] == "inet":  # noqa: PLR2004
            name = fields[1].partition("@")[0]
            found.setdefault(name, []).append(_ipv4(fields[3].partition("/")[0]))
    return found or _addresses_of_kernel(parts)


def _addresses_of_kernel(parts: Sections) -> dict[str, list[str]]:
    """Addresses by interface from fib_trie (local addresses) and route (whose network it is)."""
    last = ""
    local: list[str] = []
    for line in parts.get("trie", "").splitlines():
        fields = line.split()
        if fields[:1] == ["|--"]:
            last = fields[1]
        elif fields == ["/32", "host", "LOCAL"] and last not in local:
            local.append(last)
    found: dict[str, list[str]] = {}
    for name, network in _networks(parts):
        if network.prefixlen:
            inside = [a for a in local if ipaddress.IPv4Address(a) in network]
            found.setdefault(name, []).extend(inside)
    return found


def _networks(parts: Sections) -> Iterable[tuple[str, ipaddress.IPv4Network]]:
    for line in parts.get("routes", "").splitlines()[1:]:
        fields = line.split()
        base, mask = (int(fields[n], 16).to_bytes(4, "little") for n in (1, 7))
        gateway = int(fields[2], 16)
        if not gateway or not any(mask):
            yield fields[0], ipaddress.IPv4Network((base, ipaddress.IPv4Address(mask).exploded))


def address(parts: Sections, nics: tuple[Interface, ...]) -> str:
    """The control network's address: as ssh was reached, else by default.

    "" when the machine has no IPv4 address but loopback.
    """
    own = [a for nic in nics for a in nic.addresses]
    reached = parts.get("connection", "").split()
    if len(reached) == 4 and reached[2] in own:  # noqa: PLR2004  # behind NAT it is another's
        return reached[2]
    source = re.search(r"\bsrc (\S+)", parts["default"])
    if source:
        return _ipv4(source[1])
    device = re.search(r"\bdev (\S+)", parts["default"])
    name = device[1] if device else _default_of_kernel(parts)
    first = [a for nic in nics if nic.name == name for a in nic.addresses]
    return (first or own or [""])[0]


def _default_of_kernel(parts: Sections) -> str:
    for name, network in _networks(parts):
        if not network.prefixlen:
            return name
    return ""


def _ipv4(text: str) -> str:
    return str(ipaddress.IPv4Address(text))


def gpus(parts: Sections) -> tuple[tuple[str, str, int], ...]:
    """(device file, name, MiB) of each GPU, in the order of their device files."""
    minors = _minors(parts.get("minors", ""))
    named: dict[str, tuple[str, int]] = {}
    for index, line in enumerate(parts.get("smi", "").splitlines()):
        fields = [field.strip() for field in line.split(",")]
        if len(fields) == 3:  # noqa: PLR2004  # else a message: the driver does not work
            device = minors.get(_bus(fields[0]), f"/dev/nvidia{index}")
            named[device] = (fields[1], int(fields[2]) if fields[2].isdecimal() else 0)
    devices = {d for d in parts["devices"].split() if re.fullmatch(r"/dev/nvidia\d+", d)}
    return tuple(
        (device, *named.get(device, ("", 0)))
        for device in sorted(devices | set(named), key=lambda d: int(d.removeprefix("/dev/nvidia")))
    )


def _minors(text: str) -> dict[str, str]:
    """PCI address to device file, from the driver's own list: nvidia-smi's order is PCI order."""
    found: dict[str, str] = {}
    bus = ""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key == "Bus Location":
            bus = _bus(value.strip())
        elif key == "Device Minor":
            found[bus] = f"/dev/nvidia{int(value)}"
    return found


def _bus(text: str) -> str:
    """A PCI address in one form: nvidia-smi writes 8 domain digits, the kernel 4."""
    domain, _, rest = text.lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def slurm(parts: Sections) -> str:
    """Installed version, as ``24.11.5``; "" when there is none."""
    found = re.search(r"^slurm\S* (\d+\.\d+\.\d+\S*)$", parts["version"], re.MULTILINE)
    return found[1] if found else ""


def candidate(parts: Sections) -> str:
    """Upstream version the package source offers, the newest of its packages; "" if none."""
    # Debian policy 5.6.12: [epoch:]upstream[-revision]
    found = re.findall(r"Candidate: (?:\d+:)?(\d+\.\d+\.\d+)", parts["candidate"])
    return max(found, key=lambda version: [int(n) for n in version.split(".")], default="")


def plugins(parts: Sections) -> frozenset[str]:
    """Names of installed plugins, as ``auth_slurm``."""
    return frozenset(line.removesuffix(".so") for line in parts["plugins"].split())
