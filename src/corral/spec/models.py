"""The cluster file as pydantic models: one source for schema, reference page and errors.

Every field says what a change of it does to a live cluster (``impact``), by ``about``. Every string
field has a pattern or an enumeration, so that nothing hostile gets past loading.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from corral.spec import texts

Name = Annotated[str, Field(pattern=texts.NAME.pattern)]
HostList = Annotated[str, Field(pattern=texts.HOST_LIST.pattern)]
HostName = Annotated[str, Field(pattern=texts.HOST_NAME.pattern)]
Address = Annotated[str, Field(pattern=texts.ADDRESS.pattern)]
AbsolutePath = Annotated[str, Field(pattern=texts.ABSOLUTE_PATH.pattern, max_length=1024)]
ImageName = Annotated[str, Field(pattern=texts.IMAGE_NAME.pattern, max_length=255)]
KeyPath = Annotated[str, Field(pattern=texts.KEY_PATH.pattern, max_length=1024)]
Jump = Annotated[str, Field(pattern=texts.JUMP.pattern, max_length=1024)]
UserName = Annotated[str, Field(pattern=texts.USER_NAME.pattern)]
Feature = Annotated[str, Field(pattern=texts.FEATURE.pattern)]
GpuType = Annotated[str, Field(pattern=texts.GPU_TYPE.pattern)]
VersionRange = Annotated[str, Field(pattern=texts.VERSION_RANGE.pattern)]
TimeLimit = Annotated[str, Field(pattern=texts.TIME_LIMIT.pattern)]
Interface = Annotated[str, Field(pattern=texts.INTERFACE.pattern)]
SshKey = Annotated[str, Field(pattern=texts.SSH_KEY.pattern, max_length=4096)]
Driver = Annotated[str, Field(pattern=texts.DRIVER.pattern)]
Cuda = Annotated[str, Field(pattern=texts.CUDA.pattern)]
DebSource = Annotated[str, Field(pattern=texts.DEB_SOURCE.pattern, max_length=1024)]
PackagePlace = Annotated[str, Field(pattern=texts.PACKAGE_PLACE.pattern, max_length=1024)]
Sha256 = Annotated[str, Field(pattern=texts.SHA256.pattern)]
ImpactWord = Literal["none", "reload", "restart", "drain", "reboot", "recreate", "refused"]


def about(impact: ImpactWord, text: str, **more: Any) -> Any:
    """A field with its meaning and what changing it does to a live cluster."""
    return Field(description=text, json_schema_extra={"x-impact": impact}, **more)


class Model(BaseModel):
    """Base: unknown keys are errors, values do not change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Gpu(Model):
    """The GPUs of each node of a group."""

    type: GpuType = about("restart", "Name of the GPU type as jobs ask for it, such as rtx5090.")
    count: int = about("restart", "GPUs in each node; embedded nodes are made anew.", ge=1, le=64)


class Ssh(Model):
    """How the nodes of an ssh group are reached, over what the user's ssh config says."""

    user: UserName = about(
        "none", "Login user; needs root by sudo when it is not root.", default="root"
    )
    port: int = about(
        "none",
        "Port of sshd; 22 leaves it to your ssh config, where that says another.",
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
        "Machines to go through, as ssh's ProxyJump takes them; left out: as your ssh config says.",
        default=None,
    )
    password_login: Literal["keep", "off"] = about(
        "none",
        "off: sshd takes keys only, once a new connection by key has worked; else the machine "
        "takes the change back by itself.",
        default="keep",
    )


class NodeGroup(Model):
    """Nodes that are alike: same provider, same hardware."""

    name: Name = about("reload", "Name of the group; also a Slurm feature of its nodes.")
    provider: Literal["embedded", "ssh"] = about(
        "recreate", "Where the machines come from: embedded (containers here) or ssh (yours)."
    )
    nodes: HostList = about("restart", "Node names in Slurm's hostlist grammar, such as node[0-2].")
    addresses: HostList | None = about(
        "restart",
        "Addresses in the same order and number, such as 192.168.1.[10-12].",
        default=None,
    )
    gpu: Gpu | None = about("restart", "GPUs of each node; left out: none.", default=None)
    features: tuple[Feature, ...] = about("reload", "More Slurm features.", default=())
    ssh: Ssh = about("none", "How to log in (provider ssh).", default=Ssh())
    image: ImageName = about(
        "recreate",
        "Node image (provider embedded): auto builds one of Debian 13 (see the guide, Rehearse); "
        "else an image podman knows or can pull, Debian 13 or Ubuntu.",
        default="auto",
    )
    memory_mib: int | None = about(
        "recreate",
        "Memory of each node in MiB (provider embedded); left out: an equal share of the host's.",
        default=None,
        ge=256,
    )


class SlurmSource(Model):
    """Where Slurm's packages come from; nothing given: the distribution's own."""

    debs: PackagePlace | None = about(
        "restart",
        "A folder of .deb files on this machine, or the https address of a flat apt repository: "
        "SchedMD's packages (slurm-smd) or the distribution's, with libraries they need.",
        default=None,
    )
    tarball: PackagePlace | None = about(
        "restart",
        "Slurm's source as a tar file or its https address: packages are built from it once, by "
        "SchedMD's own packaging, and kept.",
        default=None,
    )
    sha256: Sha256 | None = about("none", "Digest of the tarball.", default=None)


class Slurm(Model):
    """Slurm itself."""

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


class Partition(Model):
    """A Slurm partition over whole groups."""

    name: Name = about(
        "drain", "Name of the partition; one that vanishes goes when its jobs have ended."
    )
    groups: tuple[Name, ...] = about("reload", "Groups whose nodes it holds.", min_length=1)
    default: bool = about("reload", "Jobs that name no partition go here.", default=False)
    max_time: TimeLimit = about(
        "reload", "Longest job: infinite or [days-]hours[:minutes[:seconds]].", default="infinite"
    )


class DataNetwork(Model):
    """The network between GPUs (NCCL), apart from the control network."""

    interface: Interface | None = about(
        "none", "Interface name; left out: the one of the node's address.", default=None
    )
    fabric: Literal["ethernet", "infiniband", "roce"] = about(
        "none", "Kind of fabric.", default="ethernet"
    )
    gbps: float | None = about("none", "Line rate in Gb/s.", default=None, gt=0, le=10000)


class Network(Model):
    """Control network and data network."""

    control: Literal["lan", "provider"] = about(
        "drain",
        "lan: addresses as declared; provider: the provider's own network.",
        default="provider",
    )
    data: DataNetwork | None = about("none", "Network between GPUs.", default=None)
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
        "provider: the provider shares it (embedded); nfs: Corral serves and mounts it; "
        "existing: it is mounted already, Corral checks it.",
    )
    server: HostName | None = about("drain", "Node that serves it (kind nfs).", default=None)
    path: AbsolutePath | None = about("drain", "Folder on the server (kind nfs).", default=None)
    root_squash: bool = about(
        "reload",
        "Root of a client is nobody there (kind nfs); false: root of every node is root there.",
        default=True,
    )


class Limits(Model):
    """What may be used at once; what is left out has no limit."""

    gpus: int | None = about("none", "GPUs.", default=None, ge=0, le=1000000)
    cpus: int | None = about("none", "CPUs.", default=None, ge=0, le=10000000)
    memory_gib: int | None = about("none", "Memory in GiB.", default=None, ge=0, le=10000000)
    nodes: int | None = about("none", "Nodes.", default=None, ge=0, le=100000)
    jobs: int | None = about("none", "Running jobs.", default=None, ge=0, le=10000000)
    submitted: int | None = about(
        "none", "Jobs in the queue, running and waiting.", default=None, ge=0, le=10000000
    )


class Account(Model):
    """A Slurm account: people who share a share and a limit."""

    name: Name = about("none", "Name of the account.")
    parent: Name | None = about(
        "none", "Account above it; left out: it stands at the top.", default=None
    )
    fair_share: int = about(
        "none", "Its share against its siblings' (fair share).", default=1, ge=0, le=1000000
    )
    limits: Limits = about("none", "What all its users may use together.", default=Limits())
    qos: tuple[Name, ...] = about(
        "none",
        "QOS its users may ask for, the first one is what they get unasked; left out: normal.",
        default=(),
    )


class Qos(Model):
    """A quality of service: priority and limits that a job can ask for."""

    name: Name = about("none", "Name of the QOS; normal is the one Slurm has already.")
    priority: int = about("none", "Added to a job's priority.", default=0, ge=0, le=1000000)
    preempts: tuple[Name, ...] = about(
        "none", "QOS whose jobs give way to its jobs; they are requeued.", default=()
    )
    max_time: TimeLimit = about("none", "Longest job.", default="infinite")
    limits: Limits = about("none", "What all its jobs may use together.", default=Limits())
    per_user: Limits = about("none", "What one user's jobs in it may use.", default=Limits())


class User(Model):
    """A person who runs jobs; gets the same uid and gid on every node."""

    name: UserName = about("none", "Login name.")
    uid: int = about(
        "refused", "Numeric id of user and group, equal on all nodes.", ge=1000, le=60000
    )
    keys: tuple[SshKey, ...] = about(
        "none", "Public keys that log in; others in authorized_keys are left alone.", default=()
    )
    home: AbsolutePath | None = about(
        "none", "Home folder; left out: /home/NAME on each node.", default=None
    )
    shell: AbsolutePath = about("none", "Login shell.", default="/bin/bash")
    admin: bool = about(
        "none", "May use sudo without a password, and logs in to every node.", default=False
    )
    account: Name | None = about(
        "none", "Slurm account; left out: the one called corral.", default=None
    )
    qos: Name | None = about(
        "none", "QOS of jobs that name none; left out: the account's first.", default=None
    )
    fair_share: int = about(
        "none", "Share against the account's other users'.", default=1, ge=0, le=1000000
    )
    limits: Limits = about("none", "What this user may use.", default=Limits())


class Access(Model):
    """Who may log in where."""

    ssh: Literal["all", "jobs_only"] = about(
        "none",
        "jobs_only: users log in to a compute node only while a job of theirs runs there, and the "
        "session belongs to that job; root, Corral's login user and admins are exempt.",
        default="all",
    )
    login: HostList | None = about(
        "none",
        "Nodes where users may always log in; left out: the controller.",
        default=None,
    )


class Nvidia(Model):
    """The NVIDIA driver of the nodes with GPUs (provider ssh)."""

    driver: Driver = about(
        "reboot",
        "Branch and flavour; auto takes the one that fits the GPUs; none leaves the driver alone. "
        "-open is the open kernel module: Turing and newer, and the only one for Blackwell.",
        default="auto",
    )
    cuda: Cuda = about(
        "none",
        "CUDA toolkit on the nodes with GPUs: a release from the vendor, or the distribution's own "
        "one. Jobs that bring their CUDA (PyTorch's wheels, containers) need none.",
        default="none",
    )
    source: Literal["distribution", "vendor"] = about(
        "reboot",
        "Where driver and toolkit come from; one source for both.",
        default="distribution",
    )
    vendor_repo: DebSource | None = about(
        "none",
        "With source vendor: the vendor's package that sets up its repository (cuda-keyring), as "
        "its installation guide names it for this system; https address, or path on the nodes.",
        default=None,
    )
    vendor_sha256: Sha256 | None = about(
        "none", "SHA-256 of that package; needed for an address.", default=None
    )


class Software(Model):
    """What is installed beside Slurm, and how machines are changed and rebooted."""

    nvidia: Nvidia | None = about(
        "reboot", "NVIDIA driver; left out: the machines keep the one they have.", default=None
    )
    desktop: Literal["none", "gnome", "cinnamon"] = about(
        "none",
        "Desktop on the controller; it takes memory of that machine's GPU. none removes nothing.",
        default="none",
    )
    hold: bool = about(
        "none",
        "Keep unattended upgrades, apt upgrade and needrestart away from Slurm and the driver.",
        default=True,
    )
    sleep: bool = about(
        "none", "Let machines suspend and hibernate; a node that sleeps is down.", default=False
    )
    reboot: Literal["never", "driver", "required"] = about(
        "none",
        "When apply reboots nodes, drained and one after the other: never, for another NVIDIA "
        "driver, or also when their packages ask for it (/run/reboot-required).",
        default="driver",
    )
    at_once: int = about("none", "Nodes that are drained and rebooted at once.", default=1, ge=1)
    drain_minutes: int = about(
        "none",
        "Minutes a drained node may wait for its jobs; then it is given back and apply fails.",
        default=60,
        ge=0,
        le=43200,
    )


class ClusterSpec(Model):
    """One cluster: the whole file."""

    corral: Literal["v1"] = about("none", "Version of this file's grammar.")
    name: Name = about("recreate", "Name of the cluster; Slurm's ClusterName.")
    slurm: Slurm = about("restart", "Slurm itself.", default=Slurm())
    groups: tuple[NodeGroup, ...] = about("restart", "The machines.", min_length=1)
    controller: HostName | None = about(
        "refused",
        "Node that runs slurmctld and its services; left out: the first node.",
        default=None,
    )
    partitions: tuple[Partition, ...] = about(
        "reload", "Left out: one partition called main with all groups.", default=()
    )
    network: Network = about("drain", "Networks.", default=Network())
    storage: tuple[Storage, ...] = about("drain", "Folders all nodes share.", default=())
    users: tuple[User, ...] = about(
        "none", "People who run jobs; left out: one user called corral.", default=()
    )
    # The first one turns enforcement or fair share on, which slurmctld reads at its start only.
    accounts: tuple[Account, ...] = about(
        "restart", "Slurm accounts; left out: one called corral for all users.", default=()
    )
    qos: tuple[Qos, ...] = about("restart", "Qualities of service.", default=())
    access: Access = about("none", "Who may log in where.", default=Access())
    software: Software = about(
        "none", "What is installed beside Slurm; reboots.", default=Software()
    )
