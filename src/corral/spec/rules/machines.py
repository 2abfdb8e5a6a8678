"""Rules about nodes, their names, their addresses and what is in them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Any, Final

from corral.plurals import plural
from corral.spec import values
from corral.spec.explain import near
from corral.spec.findings import Level
from corral.spec.models import Gpu, NodeGroup
from corral.spec.providers import CONTAINERS
from corral.spec.slurm.hostlist import NODES_AT_MOST
from corral.spec.slurm.written_keys import all_keys
from corral.spec.tree import Path
from corral.spec.view import GroupView, Problem, Rule, View, repeated, some

# "default" is a keyword of slurm.conf (NodeName=DEFAULT), "all" of scontrol (NodeName=ALL).
RESERVED_NODES: Final = frozenset(("localhost", "default", "all", "localdomain", "broadcasthost"))
_NO_BRACKETS: Final = re.compile(r"([A-Za-z_.-]*(?:[0-9]+\.)*)([0-9]+)-(?:\1)?([0-9]+)")
# What clouds and tailnets take as the name of a machine.
_DNS_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_DNS_CLUSTER: Final = re.compile(values.NAME.pattern)
_HOST: Final = re.compile(values.HOST_NAME.pattern)
_HOST_AT_MOST: Final = 63  # sethostname(2) takes 64 bytes
_NUMBER: Final = re.compile(r"[0-9]+[kmgtp]?")


def nodes_syntax(view: View) -> Iterator[Problem]:
    """Names that cannot be read."""
    yield from (p for group in view.groups for p in group.broken if p.path[-1] == "nodes")


def addresses_syntax(view: View) -> Iterator[Problem]:
    """Addresses that cannot be read."""
    yield from (p for group in view.groups for p in group.broken if p.path[-1] == "addresses")


def too_many_nodes(view: View) -> Iterator[Problem]:
    """More nodes than Slurm takes."""
    if view.too_large:
        message = f"{view.size} nodes; Slurm takes {NODES_AT_MOST} at most"
        yield Problem(("groups",), message, "make two clusters of it")


def duplicate_node(view: View) -> Iterator[Problem]:
    """One name for two nodes."""
    seen: dict[str, GroupView] = {}
    for group in view.groups:
        # /etc/hosts and DNS know no case: Node1 and node1 would be one machine.
        keys = {name: name.lower() for name in group.names}
        inside = repeated([name.lower() for name in group.names])
        if inside:
            hint = "write each name once; upper and lower case are the same to DNS"
            yield Problem(group.at("nodes"), f"{some(inside)} is listed twice here", hint)
        others = [name for name, key in keys.items() if key in seen]
        if others:
            home = seen[keys[others[0]]].group.name
            message = f"{some(others)} is in group {home} already"
            yield Problem(group.at("nodes"), message, "give every node its own name")
        seen.update(dict.fromkeys(keys.values(), group))


def node_name(view: View) -> Iterator[Problem]:
    """Names that no machine can have, or that mean something else."""
    for group in view.groups:
        wrong = [n for n in group.names if not _HOST.fullmatch(n) or len(n) > _HOST_AT_MOST]
        if wrong:
            message = f"{some(wrong)} is not a host name"
            yield Problem(group.at("nodes"), message, f"allowed: {values.HOST_NAME.words}")
        taken = [n for n in group.names if n.lower() in RESERVED_NODES]
        if taken:
            hint = "name the nodes node0, node1 and so on"
            yield Problem(group.at("nodes"), f"{some(taken)} means something else", hint)
        numbers = [n for n in group.names if n.isdigit()]
        if numbers:
            message = f"{some(numbers)} is a number; programs read it as an IP address"
            yield Problem(group.at("nodes"), message, "put a word before it, such as node[0-2]")


def dns_names(view: View) -> Iterator[Problem]:
    """Names that a cloud or a tailnet does not take."""
    mesh = view.spec.network.control == "tailscale"
    strict = [g for g in view.groups if mesh or g.group.capabilities.dns_names]
    where = "a tailnet" if mesh else "the cloud"
    for group in strict:
        wrong = [n for n in group.names if not _DNS_LABEL.fullmatch(n)]
        if wrong:
            message = f"{some(wrong)} cannot be a machine's name in {where}"
            hint = "there: lower-case letters, digits and '-'"
            yield Problem(group.at("nodes"), message, hint)
    if strict and not _DNS_CLUSTER.fullmatch(view.spec.name):
        message = f"{view.spec.name} cannot be part of a machine's name in {where}"
        yield Problem(("name",), message, f"there: {values.NAME.words}")


def no_brackets(view: View) -> Iterator[Problem]:
    """``node0-2`` is one node of that name."""
    for group in view.groups:
        match = _NO_BRACKETS.fullmatch(group.group.nodes)
        if match and int(match[2]) < int(match[3]) and len(group.addresses) != 1:
            message = f"{group.group.nodes} is one node of that name"
            hint = f"write {match[1]}[{match[2]}-{match[3]}] for a range"
            yield Problem(group.at("nodes"), message, hint)


def address_count(view: View) -> Iterator[Problem]:
    """Different numbers of nodes and addresses."""
    for group in view.groups:
        names, addresses = len(group.names), len(group.addresses)
        if group.group.addresses and names and addresses and names != addresses:
            have = plural(addresses, "address", "addresses")
            message = f"{plural(names, 'node')} and {have}: the numbers differ"
            hint = "write one address for each node, in the same order"
            yield Problem(group.at("addresses"), message, hint)


def duplicate_address(view: View) -> Iterator[Problem]:
    """One address for two nodes."""
    seen: set[str] = set()
    for group in view.groups:
        twice = [*repeated(list(group.addresses)), *sorted(seen & set(group.addresses))]
        if twice:
            message = f"{some(twice)} is the address of two nodes"
            yield Problem(group.at("addresses"), message, "give every node its own address")
        seen.update(group.addresses)


def address_invalid(view: View) -> Iterator[Problem]:
    """Addresses that no machine can have."""
    for group in view.groups:
        for address in group.addresses:
            message, hint = _address_fault(address)
            if message:
                yield Problem(group.at("addresses"), message, hint)
                break


def _address_fault(address: str) -> tuple[str, str]:
    match = _NO_BRACKETS.fullmatch(address)
    if match and "." in address:
        return (
            f"{address} is not an address",
            f"write {match[1]}[{match[2]}-{match[3]}] for a range",
        )
    if re.fullmatch(r"[0-9.]+", address):
        return _ipv4_fault(address)
    if not _HOST.fullmatch(address):
        return f"{address} is neither an IPv4 address nor a DNS name", "write 192.168.1.10"
    return "", ""


def _ipv4_fault(text: str) -> tuple[str, str]:
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        return f"{text} is not an IPv4 address", "four numbers from 0 to 255, without leading zeros"
    if address.is_multicast or address.is_unspecified or address.is_reserved:
        return f"{text} cannot be the address of a machine", "see: ip -brief address"
    return "", ""


def address_loopback(view: View) -> Iterator[Problem]:
    """Addresses that mean "this machine" on every machine."""
    for group in view.groups:
        here = [a for a in group.addresses if a.startswith("127.") or a.lower() in RESERVED_NODES]
        if here:
            message = f"{some(here)} means another machine on each node"
            hint = "write the address the other nodes reach it by; see: ip -brief address"
            yield Problem(group.at("addresses"), message, hint)


def address_public(view: View) -> Iterator[Problem]:
    """Addresses on the open internet or given by chance."""
    for group in view.groups:
        known = [a for a in map(_ipv4, group.addresses) if a is not None]
        public = [str(a) for a in known if a.is_global]
        if public:
            message = f"{some(public)} is on the open internet, and so will be Slurm's ports"
            hint = "use a private network or a mesh, or close ports 6817-6820 to others"
            yield Problem(group.at("addresses"), message, hint)
        if any(a.is_link_local for a in known):
            message = "an address 169.254.x.x is made up at each start of a machine"
            yield Problem(group.at("addresses"), message, "give the machine a fixed address")


def _ipv4(text: str) -> ipaddress.IPv4Address | None:
    try:
        return ipaddress.IPv4Address(text)
    except ValueError:
        return None


def field_unused(view: View) -> Iterator[Problem]:
    """Fields that the group's provider does not read."""
    for group in view.groups:
        provider = group.group.provider
        for name in group.group.capabilities.unused:
            if getattr(group.group, name) != NodeGroup.model_fields[name].default:
                message = f"{name} has no effect with provider {provider}"
                yield Problem(group.at(name), message, f"remove {name}")


def slurm_field_unused(view: View) -> Iterator[Problem]:
    """Global keys of slurm.conf, where the provider sets up Slurm and takes those of lines only."""
    groups = view.where(lambda c: c.configures)
    if not groups:
        return
    for key in (key for key in all_keys() if key.field and not key.line):
        names = key.field.split(".")
        value: Any = view.spec
        for name in names:
            value = getattr(value, name) if value and name in value.model_fields_set else None
        if value not in (None, "off"):
            provider = groups[0].group.provider
            message = f"{key.field} has no effect with provider {provider}, which sets up Slurm"
            hint = f"remove {key.field}, which is slurm.conf's {key.name}"
            yield Problem(tuple(names), message, hint)
    if view.spec.slurm.settings:
        provider = groups[0].group.provider
        message = f"slurm.settings has no effect with provider {provider}, which sets up Slurm"
        yield Problem(("slurm", "settings"), message, "remove slurm.settings")


def gpu_source(view: View) -> Iterator[Problem]:
    """``source: host`` of machines that are not this one."""
    for group in view.groups:
        if group.group.capabilities.containers:
            continue
        for at, gpu in _gpus(group):
            if gpu.source == "host":
                message = f"source: host is for nodes in containers on this machine ({CONTAINERS})"
                provider = group.group.provider
                hint = f"leave source out: nodes of provider {provider} use their own GPUs"
                yield Problem((*at, "source"), message, hint)


def gpu_type_number(view: View) -> Iterator[Problem]:
    """``--gres=gpu:5090`` asks Slurm for 5090 GPUs."""
    for group in view.groups:
        for at, gpu in _gpus(group):
            if _NUMBER.fullmatch(gpu.type):
                message = f"Slurm reads gpu:{gpu.type} as a count"
                yield Problem((*at, "type"), message, f"write rtx{gpu.type}, for instance")


def _gpus(group: GroupView) -> Iterator[tuple[Path, Gpu]]:
    """A group's GPU types, each with its place."""
    for path, gpu in zip(group.gpu_paths, group.group.gpu_kinds, strict=True):
        yield group.at(*path), gpu


def gpu_types(view: View) -> Iterator[Problem]:
    """GPUs of several types that contradict each other."""
    for group in view.groups:
        kinds = group.group.gpus
        if group.group.gpu is not None and kinds:
            gpu = group.group.gpu
            message = "gpu and gpus are both given"
            hint = f"write gpu's as an entry of gpus: {{type: {gpu.type}, count: {gpu.count}}}"
            yield Problem(group.at("gpus"), message, hint)
        first: dict[str, Gpu] = {}
        for i, gpu in enumerate(kinds):
            known = first.setdefault(gpu.type.lower(), gpu)
            if known is not gpu:
                hint = f"one entry of count {known.count + gpu.count}, or another type"
                yield Problem(group.at("gpus", i, "type"), f"{gpu.type} is there twice", hint)
            if gpu.source != kinds[0].source:
                message = "a node has GPUs of this machine or stand-ins, not both"
                hint = f"write source: {kinds[0].source}, or a separate group"
                yield Problem(group.at("gpus", i, "source"), message, hint)


def gpu_sharing(view: View) -> Iterator[Problem]:
    """Shards that nobody sets up."""
    for group in view.groups:
        shards = [at for at, gpu in _gpus(group) if gpu.shards]
        if shards and group.group.capabilities.configures:
            message = f"provider {group.group.provider} sets up Slurm, and has no shared GPUs"
            yield Problem((*shards[0], "shards"), message, "leave shards out")


def controller_unknown(view: View) -> Iterator[Problem]:
    """A controller that is not a node."""
    controller, names = view.spec.controller, view.names
    if controller and view.complete and controller not in names:
        meant = near(controller, list(names)[:1000])
        hint = f"did you mean {meant}?" if meant else f"nodes: {some(list(names))}"
        yield Problem(("controller",), f"no node is called {controller}", hint)


def backup_controller(view: View) -> Iterator[Problem]:
    """A backup controller that is unknown, the controller itself, or comes and goes."""
    backup = view.spec.slurm.backup_controller
    if backup is None or not view.complete:
        return
    at = ("slurm", "backup_controller", "node")
    group = view.names.get(backup.node)
    if group is None:
        meant = near(backup.node, list(view.names)[:1000])
        hint = f"did you mean {meant}?" if meant else f"nodes: {some(list(view.names))}"
        yield Problem(at, f"no node is called {backup.node}", hint)
    elif backup.node == view.controller:
        yield Problem(at, f"{backup.node} is the controller itself", "name another node")
    elif group.group.elastic or any(g.group.elastic for g in view.groups):
        message = "nodes that come and go are started by the controller alone"
        yield Problem(at, message, "leave backup_controller out, or the groups' elastic")


def backup_state(view: View) -> Iterator[Problem]:
    """Slurm's state where the backup controller could not read it once the first one is lost."""
    backup = view.spec.slurm.backup_controller
    if backup is None:
        return
    at = ("slurm", "backup_controller", "state")
    above = [s for s in view.spec.storage if f"{backup.state}/".startswith(f"{s.mount}/")]
    where = max(above, key=lambda storage: len(storage.mount), default=None)
    other = "name a folder below a mount of `storage` that a third machine serves"
    if where is None:
        yield Problem(at, f"{backup.state} is on no shared storage", other)
    elif where.mount == backup.state:
        hint = f"name a folder below it, such as {where.mount}/slurmctld"
        yield Problem(at, "the folder of Slurm's state is slurmctld's alone", hint)
    elif where.kind == "nfs" and where.server in (view.controller, backup.node):
        yield Problem(at, f"{where.server} serves {where.mount}: both stop when it is lost", other)
    elif where.kind == "nfs" and where.root_squash:
        message = f"root cannot make {backup.state}: {where.mount} has root_squash"
        yield Problem(at, message, "root_squash: false, for a mount of root's own")


_NODES: Final = ("groups.nodes",)
_ADDRESSES: Final = ("groups.addresses", "groups.nodes")
_E, _W = Level.ERROR, Level.WARNING
RULES: Final = (
    Rule("nodes-syntax", _E, "Node names that cannot be read, or more than 65,536 of them.",
         _NODES, nodes_syntax),
    Rule("addresses-syntax", _E, "A hostlist of addresses that cannot be read.",
         ("groups.addresses",), addresses_syntax),
    Rule("too-many-nodes", _E, "More nodes than Slurm takes in one cluster (65,536).",
         (), too_many_nodes, _NODES),
    Rule("duplicate-node", _E, "Two nodes of one name.",
         (), duplicate_node, _NODES),
    Rule("node-name", _E, "A node name that is not a host name, is a number, or is one such as "
         "localhost, all or default that Slurm or Linux keeps for itself.", _NODES, node_name),
    Rule("machine-name", _E, "A name of a cluster or node that the cloud or the tailnet does not "
         "take.", (), dns_names, ("name", "groups.nodes", "groups.provider", "network.control")),
    Rule("node-range-without-brackets", _W, "node0-2 is one node of that name; a range is "
         "node[0-2].", _ADDRESSES, no_brackets),
    Rule("address-count", _E, "Not as many addresses as nodes.", _ADDRESSES, address_count),
    Rule("address-duplicate", _E, "Two nodes of one address.",
         (), duplicate_address, ("groups.addresses",)),
    Rule("address-invalid", _E, "An address that no machine can have, or a range without brackets.",
         ("groups.addresses",), address_invalid),
    Rule("address-loopback", _E, "An address 127.x or localhost: each node would reach itself.",
         ("groups.addresses",), address_loopback),
    Rule("address-unsafe", _W, "An address on the open internet, where anybody reaches Slurm's "
         "ports, or a link-local one, which changes.", ("groups.addresses",), address_public),
    Rule("field-unused", _W, "A field that the group's provider does not read.",
         ("groups",), field_unused),
    Rule("slurm-field-unused", _E, "A field that is a global key of slurm.conf, with a provider "
         "that sets up Slurm itself and takes no such key.",
         ("groups.provider",), slurm_field_unused),
    Rule("gpu-source", _E, "The source of GPUs is declared for machines that have their own.",
         ("groups.gpu.source", "groups.gpus.source"), gpu_source, ("groups.provider",)),
    Rule("gpu-type-number", _E, "A GPU type that is a number: --gres=gpu:5090 asks for 5090 GPUs.",
         ("groups.gpu.type", "groups.gpus.type"), gpu_type_number),
    Rule("gpu-types", _E, "GPUs by gpu and by gpus, a type twice, or of two sources.",
         ("groups.gpus",), gpu_types, ("groups.gpu",)),
    Rule("gpu-sharing", _E, "Shards of GPUs with a provider that sets up Slurm itself.",
         ("groups.gpu.shards", "groups.gpus.shards"), gpu_sharing, ("groups.provider",)),
    Rule("controller-unknown", _E, "The controller is not one of the nodes.",
         ("controller",), controller_unknown, _ADDRESSES),
    Rule("backup-controller", _E, "The backup controller is not another node that stays.",
         ("slurm.backup_controller.node",), backup_controller,
         ("controller", "groups.nodes", "groups.elastic")),
    Rule("backup-controller-state", _E, "Slurm's state is not where both controllers have it "
         "without each other.", ("slurm.backup_controller.state",), backup_state,
         ("controller", "storage.mount", "storage.kind", "storage.server", "storage.root_squash",
          "slurm.backup_controller.node")),
)  # fmt: skip
