"""The cluster file as pydantic models: one source for schema, reference page and errors."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

from pydantic import create_model

from corral.spec.providers import (
    CLOUDS,
    CONTAINERS,
    HERE,
    MACHINES,
    OWNED,
    PROVIDERS,
    Capabilities,
    MachineName,
    ProviderName,
    either,
    part_of,
)
from corral.spec.sections.backup import ScheduledBackup
from corral.spec.sections.cloud import Budget, Cloud, Elastic
from corral.spec.sections.directory import Directory
from corral.spec.sections.network import Mesh, Topology
from corral.spec.sections.people import Access, Account, Qos, User
from corral.spec.sections.provider_section import Section
from corral.spec.sections.racks import Rack
from corral.spec.sections.reservations import License, Reservation
from corral.spec.sections.services import Health, Prolog, ScheduledProof, Services
from corral.spec.sections.software import Software
from corral.spec.values import (
    AbsolutePath,
    AccountName,
    ClusterName,
    Feature,
    GpuType,
    HostList,
    HostName,
    ImageName,
    Interface,
    Interval,
    Jump,
    KeyPath,
    MaintenanceRelease,
    Model,
    Name,
    NcclSetting,
    OverSubscribe,
    PackagePlace,
    PartitionKey,
    PartitionName,
    Settings,
    Sha256,
    TimeLimit,
    UserName,
    VersionRange,
    about,
)

SECTIONS: Final[Mapping[str, type[Section]]] = MappingProxyType(
    {name: part_of(provider.section) for name, provider in PROVIDERS.items() if provider.section}
)
"""Sections of the cluster file that are a provider's own, by its word."""

_SUMMARIES: Final = tuple(f"{p.name} ({p.summary})" for p in PROVIDERS.values() if p.summary)
_TYPED: Final = tuple(provider.name for provider in PROVIDERS.values() if provider.machines)
_LOGINS: Final = {p.name: p.login for p in PROVIDERS.values() if p.login}


class Gpu(Model):
    """The GPUs of each node of a group, of one type."""

    type: GpuType = about("restart", "Name of the GPU type as jobs ask for it, such as rtx5090.")
    count: int = about(
        "restart",
        f"GPUs of each node that jobs get; {CONTAINERS} nodes are re-created.",
        ge=1,
        le=64,
    )
    source: Literal["stand-in", "host"] = about(
        "recreate",
        f"What GPUs of {CONTAINERS} nodes are: stand-in (device files that Slurm counts and "
        "guards, on which nothing computes) or host (this machine's NVIDIA GPUs, divided among the "
        "nodes).",
        default="stand-in",
    )
    shards: int | None = about(
        "restart",
        "Parts of each GPU that jobs ask for by --gres=shard:N: several jobs share the GPU, and "
        "nothing keeps them apart on it. Left out: a GPU is one job's.",
        default=None,
        ge=2,
        le=1024,
    )


class Ssh(Model):
    """How the nodes of a group are reached by ssh, in addition to the user's ssh config."""

    user: UserName = about(
        "none", "Login user; needs root by sudo when it is not root.", default="root"
    )
    port: int = about(
        "none",
        "Port of sshd; 22 leaves it to your ssh config, where that sets another.",
        default=22,
        ge=1,
        le=65535,
    )
    key: KeyPath | None = about(
        "none",
        "Private key file; left out: the key of `corral keys install`, else what ssh finds itself "
        "(agent, ssh config, ~/.ssh).",
        default=None,
    )
    jump: Jump | None = about(
        "none",
        "Machines to go through, as ssh's ProxyJump takes them; left out: as in your ssh config.",
        default=None,
    )
    password_login: Literal["keep", "off"] = about(
        "none",
        "off: sshd takes keys only, once a new connection by key has worked; else the machine "
        "reverts the change automatically.",
        default="keep",
    )


class NodeGroup(Model):
    """Nodes that are alike: same provider, same hardware."""

    name: Name = about("reload", "Name of the group; also a Slurm feature of its nodes.")
    provider: ProviderName = about(
        "recreate",
        f"Where the machines come from: {', '.join(_SUMMARIES)}, or rented: {', '.join(CLOUDS)}.",
    )
    nodes: HostList = about("restart", "Node names in Slurm's hostlist grammar, such as node[0-2].")
    addresses: HostList | None = about(
        "restart",
        "Addresses in the same order and number, such as 192.168.1.[10-12].",
        default=None,
    )
    gpu: Gpu | None = about("restart", "GPUs of each node; left out: none.", default=None)
    gpus: tuple[Gpu, ...] = about(
        "restart",
        "GPUs of several types in each node, in place of gpu. Those of a type are found by their "
        "model; where that has another name, in the order of their device files.",
        default=(),
    )
    machine: MachineName | None = about(
        "recreate", f"Machine type (provider {either(_TYPED)}).", default=None
    )
    cloud: Cloud | None = about(
        "recreate", f"What is rented (provider {either(CLOUDS)}).", default=None
    )
    elastic: Elastic | None = about(
        "restart", "Nodes that come and go with the jobs; left out: they stay.", default=None
    )
    price_per_hour: float | None = about(
        "none",
        "What a node costs, in dollars an hour: the page's My work has the cost of jobs of it. Of "
        "rented machines the recorded price is taken where it is known, and this one on the "
        "controller's page; no budget counts it.",
        default=None,
        gt=0,
        le=100_000,
    )
    features: tuple[Feature, ...] = about("reload", "More Slurm features.", default=())
    nccl: tuple[NcclSetting, ...] = about(
        "none",
        "NCCL's variables for jobs of corral run on these nodes, as NAME=VALUE: over what Corral "
        "reads from the node, below what a job sets itself.",
        default=(),
    )
    ssh: Ssh = about(
        "none",
        f"How to log in (providers {' and '.join((OWNED, *_LOGINS))}; there "
        f"{', '.join(_LOGINS.values())}).",
        default=Ssh(),
    )
    image: ImageName = about(
        "recreate",
        f"Node image (provider {CONTAINERS}): auto builds one of Debian 13 (see the guide, "
        "Rehearse); else an image podman knows or can pull, Debian 13 or Ubuntu.",
        default="auto",
    )
    memory_mib: int | None = about(
        "recreate",
        f"Memory of each node in MiB (provider {CONTAINERS}); left out: an equal share of the "
        "host's.",
        default=None,
        ge=256,
    )

    @property
    def capabilities(self) -> Capabilities:
        """What its provider is and can do."""
        return PROVIDERS[self.provider]

    @property
    def fabric(self) -> str:
        """The network between GPUs that its type of machine comes with, "" for none."""
        return MACHINES[self.machine].fabric if self.machine else ""

    @property
    def gpu_kinds(self) -> tuple[Gpu, ...]:
        """The GPUs of each node, by type; none without GPUs."""
        return self.gpus or ((self.gpu,) if self.gpu else ())

    @property
    def gpu_count(self) -> int:
        """GPUs of each node, of all types."""
        return sum(gpu.count for gpu in self.gpu_kinds)

    @property
    def host_gpus(self) -> bool:
        """Whether its nodes, which are containers, get GPUs of this machine."""
        return any(gpu.source == "host" for gpu in self.gpu_kinds)

    @property
    def computing_gpus(self) -> int:
        """GPUs of each node on which programs compute; stand-ins do not count."""
        return 0 if self.capabilities.containers and not self.host_gpus else self.gpu_count


class SlurmSource(Model):
    """Where Slurm's packages come from; nothing given: the distribution's own."""

    debs: PackagePlace | None = about(
        "restart",
        "A folder of .deb files on this machine, or the https address of a flat apt repository: "
        "SchedMD's packages (slurm-smd) or the distribution's, with libraries they need.",
        default=None,
    )
    release: MaintenanceRelease | None = about(
        "restart",
        "A release whose source Corral knows by address and digest; with `tarball` from there.",
        default=None,
    )
    tarball: PackagePlace | None = about(
        "restart",
        "Slurm's source as a tar file or its https address: packages are built from it once, by "
        "SchedMD's own packaging, and kept.",
        default=None,
    )
    sha256: Sha256 | None = about(
        "none", "Digest of the tarball; that of `release` is known.", default=None
    )


class BackupController(Model):
    """A second slurmctld, which takes over where the first one is lost."""

    node: HostName = about("drain", "Node that runs it.")
    state: AbsolutePath = about(
        "drain",
        "Folder of Slurm's state (StateSaveLocation) for both, below a folder of `storage` that "
        "neither of the two serves. A change stops slurmctld and copies the state.",
    )


class Slurm(Model):
    """Version, packages and features of the cluster's Slurm."""

    version: VersionRange = about("restart", "Accepted versions.", default=">=22.05")
    source: SlurmSource = about(
        "restart",
        "Where its packages come from; another version is a rolling upgrade.",
        default=SlurmSource(),
    )
    auth: Literal["auto", "munge", "slurm"] = about(
        "drain",
        "auth/slurm or munge; auto takes auth/slurm where every node has >= 24.05.",
        default="auto",
    )
    accounting: bool = about("restart", "slurmdbd with MariaDB on the controller.", default=True)
    rest: bool = about("restart", "slurmrestd with JWT on the controller.", default=True)
    backup_controller: BackupController | None = about(
        "drain", "A second slurmctld on another node; left out: none.", default=None
    )
    scrontab: bool = about(
        "reload",
        "Users have jobs of theirs come again at set times (scrontab), as cron does.",
        default=False,
    )
    x11: bool = about(
        "drain",
        "Windows of a job's programs are shown where its user logged in with ssh -X (srun --x11).",
        default=False,
    )
    prolog: Prolog | None = about(
        "reload",
        "Scripts before and after each job; left out: none. Bringing or taking them has Slurm read "
        "slurm.conf again; changing which ones run does not.",
        default=None,
    )
    settings: Settings = about(
        "drain",
        "More keys of slurm.conf with their values, such as MaxArraySize: 10001. A key that Corral "
        "sets is refused, and so is one that the release does not know. What a change does follows "
        "from the key: docs/reference/slurm-keys.md.",
        default={},
    )


class Partition(Model):
    """A Slurm partition: all nodes of the groups that it names."""

    name: PartitionName = about(
        "drain",
        "Name of the partition; one that leaves the file is removed once its jobs have ended.",
    )
    groups: tuple[Name, ...] = about("reload", "Groups whose nodes it holds.", min_length=1)
    default: bool = about("reload", "Jobs that name no partition go here.", default=False)
    state: Literal["up", "down", "drain", "inactive"] = about(
        "reload",
        "down: accepts jobs and starts none; drain: accepts none, and pending ones start; "
        "inactive: neither. Running jobs go on.",
        default="up",
    )
    max_time: TimeLimit = about(
        "reload", "Longest job: infinite or [days-]hours[:minutes[:seconds]].", default="infinite"
    )
    default_time: TimeLimit | None = about(
        "reload", "Time limit of jobs that give none; left out: max_time.", default=None
    )
    min_nodes: int | None = about(
        "reload", "Fewest nodes of a job; left out: 1.", default=None, ge=1, le=100000
    )
    max_nodes: int | None = about(
        "reload", "Most nodes of a job; left out: no limit.", default=None, ge=1, le=100000
    )
    max_cpus_per_node: int | None = about(
        "reload",
        "CPUs of each node that its jobs may hold together; left out: all.",
        default=None,
        ge=1,
        le=65535,
    )
    max_memory_gib: int | None = about(
        "reload",
        "Memory of each node in GiB that one of its jobs may hold; left out: all.",
        default=None,
        ge=1,
        le=1000000,
    )
    priority_tier: int | None = about(
        "reload",
        "Jobs of a higher tier start before those of a lower one; left out: 1.",
        default=None,
        ge=1,
        le=65533,
    )
    # The first one turns priorities on, which slurmctld reads at its start only.
    priority_job_factor: int | None = about(
        "restart",
        "Its part of a job's priority, in proportion to the highest one of all partitions; left "
        "out: 1.",
        default=None,
        ge=0,
        le=65533,
    )
    # As above: preemption.
    preempt_mode: Literal["off", "requeue", "cancel"] = about(
        "restart",
        "What happens to its jobs when one of a partition of a higher tier needs their nodes; "
        "requeue: those submitted with --requeue start again, others end.",
        default="off",
    )
    grace_time: Interval = about(
        "reload",
        "Time that a preempted job has after SIGTERM.",
        default="off",
    )
    oversubscribe: OverSubscribe = about(
        "reload",
        "Whether jobs share nodes: no (a node's CPUs and GPUs are divided among jobs), exclusive "
        "(complete nodes), or yes and force (several jobs on the same CPUs).",
        default="no",
    )
    allow_accounts: tuple[AccountName, ...] = about(
        "reload", "Slurm accounts whose jobs it takes; left out: all.", default=()
    )
    deny_accounts: tuple[AccountName, ...] = about(
        "reload", "Slurm accounts whose jobs it refuses.", default=()
    )
    allow_qos: tuple[AccountName, ...] = about(
        "reload", "QOS whose jobs it takes; left out: all.", default=()
    )
    deny_qos: tuple[AccountName, ...] = about("reload", "QOS whose jobs it refuses.", default=())
    allow_groups: tuple[UserName, ...] = about(
        "reload", "Unix groups whose members may submit to it; left out: all.", default=()
    )
    qos: AccountName | None = about(
        "reload", "QOS whose limits hold for all its jobs together.", default=None
    )
    hidden: bool = about("reload", "Left out of what sinfo and squeue list.", default=False)


class DataNetwork(Model):
    """The network between GPUs (NCCL), apart from the control network."""

    interface: Interface | None = about(
        "none", "Interface name; left out: the one of the node's address.", default=None
    )
    fabric: Literal["ethernet", "infiniband", "roce"] = about(
        "none", "Kind of fabric.", default="ethernet"
    )
    gbps: float | None = about("none", "Line rate in Gb/s.", default=None, gt=0, le=10000)
    nics: int = about(
        "none",
        "Interfaces of that rate which carry GPU traffic on each node; corral bench run judges by "
        "all of them together.",
        default=1,
        ge=1,
        le=64,
    )
    pkey: PartitionKey | None = about(
        "none",
        "Partition of an InfiniBand fabric that jobs use; left out: the default one.",
        default=None,
    )
    gid_index: int | None = about(
        "none",
        "Index of RoCE's GID tables that jobs use; left out: RoCE v2 over IPv4, where it is the "
        "same on all ports.",
        default=None,
        ge=0,
        le=255,
    )
    stack: Literal["inbox", "vendor"] = about(
        "none",
        "inbox: the distribution's RDMA libraries and tools on nodes that lack them; vendor: those "
        "of a vendor's package (DOCA, MLNX_OFED, DGX OS) are there, and nothing is installed.",
        default="inbox",
    )
    mtu: int | None = about(
        "none",
        "MTU that its interfaces and the path between them should carry; corral bench network "
        "checks it, Corral does not set it.",
        default=None,
        ge=576,
        le=65535,
    )


class Network(Model):
    """Control network and data network."""

    control: Literal["lan", "provider", "tailscale"] = about(
        "drain",
        "lan: addresses as declared; provider: the provider's own network; tailscale: nodes join "
        "a tailnet, and Slurm uses their addresses in it.",
        default="provider",
    )
    mesh: Mesh | None = about("drain", "The tailnet (control: tailscale).", default=None)
    data: DataNetwork | None = about("none", "Network between GPUs.", default=None)
    topology: Topology | None = about(
        "restart", "Switches, for the placing of jobs; left out: all nodes are near.", default=None
    )
    firewall: Literal["open", "leave"] = about(
        "none",
        "Where a firewall is on: open the cluster's ports for its own nodes, or leave it as it is. "
        "It is never switched on or off.",
        default="open",
    )


class Storage(Model):
    """A folder that all nodes share."""

    mount: AbsolutePath = about("drain", "Where every node sees it.")
    kind: Literal["provider", "nfs", "existing"] = about(
        "drain",
        f"provider: the provider shares it ({CONTAINERS}), or it is a folder of the one machine "
        f"({HERE}); nfs: Corral serves and mounts it; "
        "existing: it is mounted already, Corral checks it.",
    )
    server: HostName | None = about("drain", "Node that serves it (kind nfs).", default=None)
    path: AbsolutePath | None = about("drain", "Folder on the server (kind nfs).", default=None)
    root_squash: bool = about(
        "reload",
        "Root of a client is nobody there (kind nfs); false: root of every node is root there.",
        default=True,
    )


class _Common(Model):
    """What the file has before providers' sections."""

    corral: Literal["v1"] = about("none", "Version of this file's grammar.")
    name: ClusterName = about("recreate", "Name of the cluster; Slurm's ClusterName.")
    slurm: Slurm = about("restart", "Version, packages and features of Slurm.", default=Slurm())
    groups: tuple[NodeGroup, ...] = about("restart", "The machines.", min_length=1)
    controller: HostName | None = about(
        "refused",
        "Node that runs slurmctld and its services; left out: the first node.",
        default=None,
    )
    partitions: tuple[Partition, ...] = about(
        "reload", "Left out: one partition called main with all groups.", default=()
    )
    licenses: tuple[License, ...] = about(
        "reload", "Licences that jobs ask for by corral run --licenses.", default=()
    )
    reservations: tuple[Reservation, ...] = about(
        "none", "Reservations of nodes, for maintenance or for some people.", default=()
    )
    racks: tuple[Rack, ...] = about(
        "none", "Where nodes are mounted, which the page draws; nothing else reads it.", default=()
    )
    network: Network = about("drain", "Networks.", default=Network())
    storage: tuple[Storage, ...] = about("drain", "Folders all nodes share.", default=())
    users: tuple[User, ...] = about(
        "none", "People who run jobs; left out: one user called corral.", default=()
    )
    directory: Directory | None = about(
        "none", "More people: those of an LDAP directory, besides `users`.", default=None
    )
    # The first one turns enforcement or fair share on, which slurmctld reads at its start only.
    accounts: tuple[Account, ...] = about(
        "restart", "Slurm accounts; left out: one called corral for all users.", default=()
    )
    qos: tuple[Qos, ...] = about("restart", "Qualities of service.", default=())
    access: Access = about("none", "Who may log in where.", default=Access())
    software: Software = about(
        "none", "What is installed alongside Slurm; reboots.", default=Software()
    )


if TYPE_CHECKING:
    _WithSections = _Common
else:
    _WithSections = create_model(
        "_WithSections",
        __base__=_Common,
        **{
            name: (
                section | None,
                about("recreate", f"{section.meaning} (provider {name}).", default=None),
            )
            for name, section in SECTIONS.items()
        },
    )


class ClusterSpec(_WithSections):
    """One cluster: the entire file."""

    budget: Budget | None = about(
        "none", "What rented machines may cost; nothing is launched past it.", default=None
    )
    proof: ScheduledProof = about(
        "restart", "What the cluster measures of itself on idle nodes.", default=ScheduledProof()
    )
    backup: ScheduledBackup = about(
        "none",
        "Archives of what cannot be made again, which the controller makes.",
        default=ScheduledBackup(),
    )
    health: Health = about("reload", "What each node checks automatically.", default=Health())
    services: Services = about(
        "restart", "What runs alongside Slurm: tracking of experiments.", default=Services()
    )
