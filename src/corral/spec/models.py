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
UserName = Annotated[str, Field(pattern=texts.USER_NAME.pattern)]
Feature = Annotated[str, Field(pattern=texts.FEATURE.pattern)]
GpuType = Annotated[str, Field(pattern=texts.GPU_TYPE.pattern)]
VersionRange = Annotated[str, Field(pattern=texts.VERSION_RANGE.pattern)]
TimeLimit = Annotated[str, Field(pattern=texts.TIME_LIMIT.pattern)]
Interface = Annotated[str, Field(pattern=texts.INTERFACE.pattern)]
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
    count: int = about("restart", "GPUs in each node.", ge=1, le=64)


class Ssh(Model):
    """How the nodes of an ssh group are reached, over what the user's ssh config says."""

    user: UserName = about(
        "none", "Login user; needs root by sudo when it is not root.", default="root"
    )
    port: int = about("none", "Port of sshd.", default=22, ge=1, le=65535)


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
        "Node image (provider embedded): auto builds one from this machine's own archive; "
        "else an image podman knows or can pull, Debian 13 or Ubuntu.",
        default="auto",
    )
    memory_mib: int | None = about(
        "restart",
        "Memory of each node in MiB (provider embedded); left out: an equal share of the host's.",
        default=None,
        ge=256,
    )


class Slurm(Model):
    """Slurm itself."""

    version: VersionRange = about("restart", "Accepted versions.", default=">=22.05")
    auth: Literal["auto", "munge", "slurm"] = about(
        "drain",
        "auth/slurm or munge; auto takes auth/slurm where every node has >= 24.05.",
        default="auto",
    )
    accounting: bool = about("restart", "slurmdbd with MariaDB on the controller.", default=True)
    rest: bool = about("restart", "slurmrestd with JWT on the controller.", default=True)


class Partition(Model):
    """A Slurm partition over whole groups."""

    name: Name = about("reload", "Name of the partition.")
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


class User(Model):
    """A person who runs jobs; gets the same uid on every node."""

    name: UserName = about("none", "Login name.")
    uid: int = about("refused", "Numeric id, equal on all nodes.", ge=1000, le=60000)


class ClusterSpec(Model):
    """One cluster: the whole file."""

    corral: Literal["v1"] = about("none", "Version of this file's grammar.")
    name: Name = about("recreate", "Name of the cluster; Slurm's ClusterName.")
    slurm: Slurm = about("restart", "Slurm itself.", default=Slurm())
    groups: tuple[NodeGroup, ...] = about("restart", "The machines.", min_length=1)
    controller: HostName | None = about(
        "drain",
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
