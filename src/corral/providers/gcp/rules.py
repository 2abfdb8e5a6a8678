"""Rules about clusters that the toolkit makes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from corral.providers.gcp.blueprint.releases import known_releases
from corral.providers.gcp.figures import figures
from corral.providers.gcp.machines import gpu_machines, gpu_types_of
from corral.providers.gcp.section import GcpStorage
from corral.providers.gcp.toolkit_cluster import section_of
from corral.spec.findings import Level
from corral.spec.nodes import partitions_of
from corral.spec.tree import Path
from corral.spec.view import Problem, Rule, View

NODESET: Final = re.compile(r"[a-z][a-z0-9]{0,13}")
"""A nodeset's name: the module cuts longer ones and takes other characters out, and then two
could become one."""


def together(view: View) -> Iterator[Problem]:
    """``gcp`` and groups of provider gcp need each other, and allow no other groups."""
    groups = view.where(lambda c: c.configures)
    gcp = section_of(view.spec)
    if gcp and not groups:
        hint = "add a group with provider: gcp, or leave gcp out"
        yield Problem(("gcp",), "no group is of provider gcp", hint)
    for group in groups:
        if not gcp:
            hint = "add gcp: with project, zone and state_bucket"
            yield Problem(group.at("provider"), "no project and zone for provider gcp given", hint)
    if groups and len(groups) != len(view.groups):
        other = next(g for g in view.groups if not g.group.capabilities.configures)
        hint = "give them their own cluster file: the toolkit makes all of a cluster's nodes"
        yield Problem(other.at("provider"), "other machines cannot join this cluster", hint)


def controller(view: View) -> Iterator[Problem]:
    """The toolkit's controller is a separate machine, with a name of the toolkit's."""
    expected = f"{view.spec.name}-controller"
    groups = [g for g in view.where(lambda c: c.configures) if g.group.machine is None]
    hint = f"{{name: controller, provider: gcp, nodes: {expected}}}, and controller: {expected}"
    if not view.where(lambda c: c.configures):
        return
    if not groups:
        yield Problem(("groups",), "the controller's group is missing", f"add {hint}")
    for group in groups:
        if group.names and group.names != (expected,):
            message = f"a group without machine is the controller, {expected}"
            yield Problem(
                group.at("nodes"),
                message,
                f"add machine: {next(iter(gpu_machines()))}, or write {hint}",
            )
    if view.spec.controller != expected:
        yield Problem(
            ("controller",),
            "the toolkit's controller has another name",
            f"write controller: {expected}",
        )
    used = {name for part in partitions_of(view.spec) for name in part.groups}
    for group in groups:
        if group.group.name in used:
            hint = "declare partitions over the other groups"
            yield Problem(("partitions",), "no jobs run on the toolkit's controller", hint)


def login(view: View) -> Iterator[Problem]:
    """Google's OS Login lets nobody in as root, and only Google knows the user's name there."""
    groups = view.where(lambda c: c.configures)
    if groups and all(group.group.ssh.user == "root" for group in groups):
        hint = "write ssh: {user: NAME}, as gcloud compute os-login describe-profile prints"
        yield Problem(groups[0].at("ssh"), "no login user given, and root cannot log in", hint)


def machine(view: View) -> Iterator[Problem]:
    """The machine type and its GPUs: all of them, or none; and no partition over both kinds."""
    with_gpus: set[str] = set()
    others: set[str] = set()
    for group in view.where(lambda c: c.configures):
        gpu, kind = group.group.gpu, group.group.machine
        if kind is None:
            continue
        known = gpu_machines().get(kind)
        (with_gpus if known else others).add(group.group.name)
        if known is None and group.group.gpu_kinds:
            field = "gpu" if gpu else "gpus"
            yield Problem(group.at(field), f"{kind} has no GPUs", f"leave {field} out")
        # Another name for the same GPUs is taken, another machine's GPUs are not.
        foreign = {machine.gpu for machine in gpu_machines().values()} - {
            known.gpu if known else ""
        }
        if known and (gpu is None or gpu.count != known.gpus or gpu.type in foreign):
            hint = f"write gpu: {{type: {known.gpu}, count: {known.gpus}}}"
            message = f"{kind} has {known.gpus} GPUs of type {known.gpu} in each node"
            yield Problem(group.at("gpu"), message, hint)
    for i, part in enumerate(partitions_of(view.spec)):
        if with_gpus.intersection(part.groups) and others.intersection(part.groups):
            at = ("partitions", i, "groups") if view.spec.partitions else ("partitions",)
            message = f"partition {part.name} has machines with and without GPUs"
            hint = "declare one for each kind: prologs of machines with GPUs fail on others"
            yield Problem(at, message, hint)


def one_type(view: View) -> Iterator[Problem]:
    """One image and one set of networks: one type of machine with GPUs, of the file's release."""
    gcp, types = section_of(view.spec), gpu_types_of(view.spec)
    if gcp is None:
        return
    for group in view.where(lambda c: c.configures):
        kind = group.group.machine or ""
        if kind in types[1:]:
            hint = "give them their own cluster file: image and networks are of one machine type"
            message = f"{kind} cannot be in a cluster with {types[0]}"
            yield Problem(group.at("machine"), message, hint)
        elif kind in types and gcp.toolkit not in gpu_machines()[kind].toolkits:
            hint = f"write toolkit: {gpu_machines()[kind].toolkits[0]}"
            message = f"toolkit {gcp.toolkit} has no RDMA network, which {kind} needs"
            yield Problem(("gcp", "toolkit"), message, hint)


def for_type(view: View) -> Iterator[Problem]:
    """Capacity and groups without GPUs as the type has them."""
    gcp, types = section_of(view.spec), gpu_types_of(view.spec)
    if gcp is None or not types:
        return
    name, kind = types[0], gpu_machines()[types[0]]
    if gcp.provisioning not in kind.provisioning:
        message = f"{name} is not available by {gcp.provisioning}"
        yield Problem(
            ("gcp", "provisioning"), message, "write reservation: NAME, and no provisioning"
        )
    for group in view.where(lambda c: c.configures):
        if not kind.cpu_groups and group.group.machine and group.group.machine not in types:
            hint = f"leave the group out, or run it on {name}"
            message = f"{group.group.machine} cannot start the ARM image of {name}"
            yield Problem(group.at("machine"), message, hint)


def domain(view: View) -> Iterator[Problem]:
    """Nodes beyond a complete NVLink domain."""
    for group in view.where(lambda c: c.configures):
        kind = gpu_machines().get(group.group.machine or "")
        count = len(group.names)
        if kind and kind.domain and count > kind.domain and count % kind.domain:
            hint = f"a multiple of {kind.domain}, or {kind.domain} at most"
            message = f"{count} nodes are {count // kind.domain} NVLink domains and a part of one"
            yield Problem(group.at("nodes"), message, hint)


def zone(view: View) -> Iterator[Problem]:
    """A zone that is not known to offer the machine, where zones that do are known."""
    gcp = section_of(view.spec)
    for kind in gpu_types_of(view.spec) if gcp else ():
        zones = gpu_machines()[kind].zones
        if gcp and zones and gcp.zone not in zones:
            near = sorted(z for z in zones if z.rpartition("-")[0] == gcp.zone.rpartition("-")[0])
            known = ", ".join(near or sorted(zones)[:6])
            yield Problem(
                ("gcp", "zone"), f"{gcp.zone} is not known to offer {kind}", f"known ones: {known}"
            )


def provisioning(view: View) -> Iterator[Problem]:
    """One way to capacity, and only where the release has it."""
    gcp = section_of(view.spec)
    if gcp is None:
        return
    if gcp.reservation and gcp.provisioning != "reservation":
        message = f"a reservation cannot be used with {gcp.provisioning}"
        yield Problem(("gcp", "reservation"), message, "leave one of the two out")
    if gcp.provisioning == "reservation" and not gcp.reservation:
        hint = "write reservation: NAME, or provisioning: flex-start or spot"
        yield Problem(("gcp", "provisioning"), "the reservation's name is missing", hint)
    if gcp.provisioning == "flex-start" and gcp.toolkit == "v1.39.0":
        hint = "toolkit: v1.95.0, or a reservation"
        yield Problem(("gcp", "provisioning"), "toolkit v1.39.0 has no flex-start", hint)


def names(view: View) -> Iterator[Problem]:
    """Names that the toolkit's modules take."""
    gcp = section_of(view.spec)
    if gcp is None:
        return
    taken = known_releases().releases[gcp.toolkit].cluster_name
    if not re.fullmatch(taken.pattern, view.spec.name):
        yield Problem(("name",), f"toolkit {gcp.toolkit} takes no such name", taken.words)
    for group in view.where(lambda c: c.configures):
        name = group.group.name
        if group.group.machine is None:
            continue
        if not NODESET.fullmatch(name):
            hint = "14 lower-case letters and digits at most, from a letter"
            yield Problem(group.at("name"), "not a valid name of a nodeset", hint)
            continue
        made = tuple(f"{view.spec.name}-{name}-{i}" for i in range(len(group.names)))
        if group.names and group.names != made:
            ends = f"[0-{len(made) - 1}]" if len(made) > 1 else "0"
            hint = f"write nodes: {view.spec.name}-{name}-{ends}"
            yield Problem(group.at("nodes"), "the toolkit gives its nodes other names", hint)


def storage(view: View) -> Iterator[Problem]:
    """File systems that the release has, in sizes that there are."""
    gcp = section_of(view.spec)
    if gcp is None:
        return
    steps, smallest = figures().lustre.step_gib, figures().filestore.least_gib
    for i, file_system in enumerate(gcp.storage):
        at = ("gcp", "storage", i)
        if file_system.kind == "lustre" and gcp.toolkit == "v1.39.0":
            hint = "exascaler or filestore, or toolkit: v1.95.0"
            yield Problem((*at, "kind"), "toolkit v1.39.0 has no Managed Lustre", hint)
        if file_system.kind == "exascaler" and gcp.toolkit != "v1.39.0":
            hint = "lustre, or toolkit: v1.39.0 (the module went with v1.78)"
            yield Problem((*at, "kind"), f"toolkit {gcp.toolkit} has no EXAScaler", hint)
        yield from _fields_of_kind(at, file_system)
        yield from _existing(at, file_system, network=gcp.network is not None)
        least = steps.get(file_system.mbps_per_tib, 0)
        if not least:
            hint = f"one of {', '.join(map(str, sorted(steps)))}"
            yield Problem((*at, "mbps_per_tib"), "Managed Lustre has no such tier", hint)
        elif file_system.kind == "lustre" and file_system.size_gib and file_system.size_gib % least:
            hint = f"a multiple of {least} at {file_system.mbps_per_tib} MB/s for each TiB"
            small = "too small" if file_system.size_gib < least else "not a size of Managed Lustre"
            yield Problem((*at, "size_gib"), f"{file_system.size_gib} GiB is {small}", hint)
        if (
            file_system.kind == "filestore"
            and file_system.size_gib
            and file_system.size_gib < smallest
        ):
            hint = f"at least {smallest}"
            yield Problem(
                (*at, "size_gib"), f"{file_system.size_gib} GiB is too small for the tier", hint
            )
    for kind in ("exascaler", "lustre"):
        same = [i for i, file_system in enumerate(gcp.storage) if file_system.kind == kind]
        if len(same) > 1:
            hint = "use folders below its one mount point"
            yield Problem(
                ("gcp", "storage", same[1], "kind"), f"only one {kind} can be mounted", hint
            )


def _fields_of_kind(at: Path, file_system: GcpStorage) -> Iterator[Problem]:
    """Fields that another kind has: they were read and did nothing."""
    kind = file_system.kind
    if file_system.cache and kind != "bucket":
        yield Problem((*at, "cache"), f"{kind} has no cache", "leave cache out; buckets have one")
    if file_system.exascaler and kind != "exascaler":
        hint = "leave exascaler out, or write kind: exascaler"
        yield Problem((*at, "exascaler"), f"{kind} has no such servers", hint)
    if file_system.size_gib and kind in ("exascaler", "bucket"):
        hint = "write exascaler: {oss: {count: N, disks: N, disk_gb: GB}}"
        hint = hint if kind == "exascaler" else "leave size_gib out"
        yield Problem((*at, "size_gib"), f"{kind} takes no size", hint)
    if file_system.exascaler:
        servers, ssd_gb = file_system.exascaler, figures().local_ssd_gb
        for name, server in (("mgs", servers.mgs), ("mds", servers.mds), ("oss", servers.oss)):
            if server.disk_type == "scratch" and server.disk_gb != ssd_gb:
                hint = f"write disk_gb: {ssd_gb}, and more disks"
                message = f"a local SSD has {ssd_gb} GB"
                yield Problem((*at, "exascaler", name, "disk_gb"), message, hint)


def _existing(at: Path, file_system: GcpStorage, *, network: bool) -> Iterator[Problem]:
    """An existing file system is named as its kind is, and is reached."""
    if file_system.existing is None:
        return
    form = figures().existing[file_system.kind]
    if not re.fullmatch(form.pattern, file_system.existing):
        message = f"not an existing {file_system.kind}"
        yield Problem((*at, "existing"), message, f"write {form.words}")
    elif file_system.kind != "bucket" and not network:
        hint = "write gcp: {network: {name: NAME, subnetwork: NAME}}, the network that it is in"
        message = "it cannot be reached from a new network"
        yield Problem((*at, "existing"), message, hint)
    for field in ("size_gib", "exascaler"):
        if getattr(file_system, field) is not None:
            message = "what exists has its size already"
            yield Problem((*at, field), message, f"leave {field} out")


_GCP: Final = ("gcp",)
_NODES: Final = ("groups.provider", "groups.name", "groups.nodes")

RULES: Final = (
    Rule("gcp-groups", Level.ERROR, "gcp without groups of provider gcp, or the reverse.",
         (*_GCP, "groups.provider"), together),
    Rule("gcp-controller", Level.ERROR, "A controller that the toolkit does not make.",
         (*_NODES, "groups.machine", "controller", "partitions"), controller,
         across=("groups.machine", "name")),
    Rule("gcp-machine", Level.ERROR, "GPUs that the type lacks, or one partition over both kinds.",
         ("groups.provider", "groups.gpu", "groups.machine", "partitions"), machine),
    Rule("gcp-one-type", Level.ERROR,
         "Two types of machine with GPUs in a cluster, or one that the release lacks.",
         ("groups.provider", "groups.machine", "gcp.toolkit"), one_type),
    Rule("gcp-for-type", Level.ERROR,
         "Capacity or machines without GPUs that the machine type does not go with.",
         ("groups.machine", "gcp.provisioning"), for_type),
    Rule("gcp-domain", Level.WARNING, "More nodes than complete NVLink domains.",
         ("groups.machine", "groups.nodes"), domain),
    Rule("gcp-login", Level.WARNING, "No user to log in as: Corral cannot reach the machines.",
         ("groups.provider", "groups.ssh.user"), login),
    Rule("gcp-zone", Level.WARNING, "A zone that is not known to offer the type.",
         ("gcp.zone", "groups.machine"), zone),
    Rule("gcp-provisioning", Level.ERROR, "A reservation with flex-start or spot, or none at all.",
         ("gcp.provisioning", "gcp.reservation", "gcp.toolkit"), provisioning),
    Rule("gcp-names", Level.ERROR, "Names that the toolkit's modules refuse or change.",
         (*_NODES, "gcp.toolkit"), names, across=("name",)),
    Rule("gcp-storage", Level.ERROR, "A file system that the release lacks, or that cannot be so.",
         ("gcp.storage", "gcp.toolkit", "gcp.network"), storage),
)  # fmt: skip
