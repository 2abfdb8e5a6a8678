"""A cluster of machines with GPUs on Google Cloud, which Google's Cluster Toolkit makes."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from corral.spec.sections.provider_section import NcclTests, Section
from corral.spec.values import AbsolutePath, Kind, Model, about

PROJECT: Final = Kind(
    "Google project",
    r"^[a-z][a-z0-9-]{4,28}[a-z0-9]$",
    "a project id: lower-case letters, digits and '-', from a letter, 6 to 30",
    "my-project-123",
)
ZONE: Final = Kind(
    "Google zone",
    r"^[a-z]{2,20}-[a-z]{2,20}[0-9]{1,2}-[a-z]$",
    "a zone such as us-central1-c",
    "us-central1-c",
)
BUCKET: Final = Kind(
    "bucket",
    r"^[a-z0-9][a-z0-9_-]{1,61}[a-z0-9]$",
    "name of a bucket without gs://: lower-case letters, digits, '-' and '_', 3 to 63",
    "my-terraform-state",
)
RESERVATION: Final = Kind(
    "reservation",
    r"^(projects/[a-z][a-z0-9-]{4,28}[a-z0-9]/reservations/)?[a-z]([a-z0-9-]{0,61}[a-z0-9])?$",
    "a reservation's name, or projects/PROJECT/reservations/NAME",
    "a3mega-reservation",
)
SOURCE: Final = Kind(
    "existing file system",
    r"^[a-z0-9][a-z0-9_.-]{1,220}[a-z0-9]$"
    r"|^[A-Za-z0-9][A-Za-z0-9.-]{0,252}(@tcp)?:(/[A-Za-z0-9_][A-Za-z0-9._-]{0,63}){1,16}$",
    "a bucket without gs://, HOST:/EXPORT of Filestore or NFS, or ADDRESS@tcp:/NAME of Lustre",
    "10.20.0.2@tcp:/lustrefs",
)
GOOGLE_NAME: Final = Kind(
    "Google name",
    r"^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$",
    "lower-case letters, digits and '-', from a letter, 63 at most",
    "my-network",
)
GOOGLE_MACHINE: Final = Kind(
    "Google machine type",
    r"^[a-z][a-z0-9]{0,15}(-[a-z0-9]{1,20}){1,3}$",
    "a machine type such as n2-standard-32",
    "n2-standard-32",
)

GcpProject = Annotated[str, Field(pattern=PROJECT.pattern)]
GcpZone = Annotated[str, Field(pattern=ZONE.pattern)]
GcpBucket = Annotated[str, Field(pattern=BUCKET.pattern)]
GcpReservation = Annotated[str, Field(pattern=RESERVATION.pattern)]
GcpSource = Annotated[str, Field(pattern=SOURCE.pattern)]
GcpName = Annotated[str, Field(pattern=GOOGLE_NAME.pattern)]
GcpMachine = Annotated[str, Field(pattern=GOOGLE_MACHINE.pattern)]
DiskType = Literal["pd-standard", "pd-balanced", "pd-ssd", "scratch"]

EXASCALER_IMAGE: Final = "exascaler-cloud-6-3-rocky-linux-8-optimized-gcp"
"""The image that the module's Terraform of toolkit v1.39.0 starts (seed 003)."""


class GcpNetwork(Model):
    """A network that exists, in place of the system network that the toolkit makes."""

    name: GcpName = about("recreate", "Name of the VPC network.")
    subnetwork: GcpName = about("recreate", "Name of its subnetwork in the region of the zone.")


class ManagementServer(Model):
    """EXAScaler's management server (MGS): machine and disk."""

    machine: GcpMachine = about("recreate", "Machine type.", default="n2-standard-32")
    disk_type: DiskType = about(
        "recreate", "Type of its disk; scratch is local SSD.", default="pd-standard"
    )
    disk_gb: int = about("recreate", "Size of its disk.", default=128, ge=10, le=65536)


class MetadataServer(Model):
    """EXAScaler's metadata server (MDS): machine and disks."""

    machine: GcpMachine = about("recreate", "Machine type.", default="n2-standard-32")
    disk_type: DiskType = about(
        "recreate", "Type of its disks; scratch is local SSD.", default="pd-ssd"
    )
    disk_gb: int = about("recreate", "Size of each disk.", default=3500, ge=10, le=65536)
    disks: int = about("recreate", "Number of its disks.", default=1, ge=1, le=128)


class StorageServers(Model):
    """EXAScaler's object storage servers (OSS), which hold the data: machines and disks."""

    machine: GcpMachine = about("recreate", "Machine type.", default="n2-standard-16")
    count: int = about("recreate", "Number of servers.", default=3, ge=1, le=64)
    disk_type: DiskType = about(
        "recreate", "Type of their disks; scratch is local SSD.", default="pd-ssd"
    )
    disk_gb: int = about("recreate", "Size of each disk.", default=3500, ge=10, le=65536)
    disks: int = about("recreate", "Number of disks of each server.", default=1, ge=1, le=128)


class Exascaler(Model):
    """Servers of a DDN EXAScaler file system. Its capacity is that of all disks of oss."""

    image: GcpName = about(
        "recreate", "Image family of the project ddn-public.", default=EXASCALER_IMAGE
    )
    mgs: ManagementServer = about("recreate", "The management server.", default=ManagementServer())
    mds: MetadataServer = about("recreate", "The metadata server.", default=MetadataServer())
    oss: StorageServers = about("recreate", "The storage servers.", default=StorageServers())


class GcpStorage(Model):
    """A file system that all nodes mount: the toolkit makes it, or it exists."""

    mount: AbsolutePath = about("recreate", "Where every node sees it.")
    kind: Literal["lustre", "exascaler", "filestore", "bucket"] = about(
        "recreate",
        "lustre: Managed Lustre; exascaler: DDN EXAScaler (toolkit v1.39.0); filestore: NFS; "
        "bucket: a Cloud Storage bucket by FUSE.",
    )
    existing: GcpSource | None = about(
        "recreate",
        "Mounts what exists and is never removed: a bucket's name, HOST:/EXPORT of Filestore or "
        "NFS, ADDRESS@tcp:/NAME of Lustre; left out: a new one.",
        default=None,
    )
    cache: bool = about(
        "recreate",
        "Nodes with GPUs keep what they read from the bucket on their local SSD.",
        default=False,
    )
    size_gib: int | None = about(
        "recreate",
        "Capacity in GiB; left out: 36000 of Lustre, 10240 of Filestore. EXAScaler's is that of "
        "exascaler.oss.",
        default=None,
        ge=1,
    )
    mbps_per_tib: int = about(
        "recreate",
        "Throughput tier of Managed Lustre, in MB/s for each TiB: 125, 250, 500 or 1000.",
        default=500,
        ge=125,
        le=1000,
    )
    exascaler: Exascaler | None = about(
        "recreate",
        "Image, machines and disks of DDN EXAScaler; left out: those of its module.",
        default=None,
    )


class Gcp(Section):
    """Where and how the toolkit makes the cluster."""

    meaning: ClassVar[str] = "Machines with GPUs on Google Cloud"
    kinds: ClassVar[tuple[Kind, ...]] = (
        PROJECT,
        ZONE,
        BUCKET,
        RESERVATION,
        SOURCE,
        GOOGLE_NAME,
        GOOGLE_MACHINE,
    )

    project: GcpProject = about("recreate", "Id of an existing project.")
    zone: GcpZone = about("recreate", "Zone of the machines; it must offer their type.")
    state_bucket: GcpBucket = about(
        "recreate", "Existing Cloud Storage bucket for Terraform's state."
    )
    toolkit: Literal["v1.95.0", "v1.39.0"] = about(
        "recreate",
        "Release of the Cluster Toolkit that the blueprint is for: v1.95.0 is one blueprint; "
        "v1.39.0 is base, image and cluster apart, for A3 Mega alone.",
        default="v1.95.0",
    )
    provisioning: Literal["reservation", "flex-start", "spot"] = about(
        "recreate", "How capacity is had.", default="reservation"
    )
    reservation: GcpReservation | None = about(
        "recreate",
        "Name of the reservation, or projects/PROJECT/reservations/NAME for a shared one.",
        default=None,
    )
    storage: tuple[GcpStorage, ...] = about(
        "recreate",
        "File systems; left out: Managed Lustre on /home (v1.39.0: Filestore).",
        default=(),
    )
    network: GcpNetwork | None = about(
        "recreate",
        "An existing network for everything but GPU traffic; existing Lustre and Filestore are "
        "reached through theirs alone. Left out: the toolkit makes one.",
        default=None,
    )
    image_script: AbsolutePath | None = about(
        "recreate",
        "Shell script on this machine that installs more software into the nodes' image, as root, "
        "after everything else; without a first line #! it is bash that ends at the first error.",
        default=None,
    )
    gpu_check: bool = about(
        "recreate",
        "After each job on nodes with GPUs, the toolkit's test of them (DCGM, ECC, NVLink) drains "
        "a node that fails it (toolkit v1.95.0).",
        default=True,
    )
    ops_agent: bool = about(
        "recreate",
        "Google's Ops Agent sends logs and metrics to Cloud Logging and Monitoring, those of GPUs "
        "(DCGM), too; Google bills them.",
        default=True,
    )
    nccl_tests: AbsolutePath | None = about(
        "none",
        "Folder on shared storage with the source of nccl-tests: the proof builds and runs it over "
        "two nodes; left out: the proof looks at the nodes' preparation alone.",
        default=None,
    )
    nccl_image: AbsolutePath | None = about(
        "none",
        "Image on shared storage (corral image import) that nccl-tests is built and run in; left "
        "out: on the nodes themselves.",
        default=None,
    )
    public_addresses: bool = about(
        "recreate",
        "Login node and controller have addresses on the internet; else they are reached through "
        "Google's IAP.",
        default=False,
    )

    def file_systems(self) -> tuple[GcpStorage, ...]:
        """The file systems, or the one that the release's own example has."""
        old = self.toolkit == "v1.39.0"
        return self.storage or (GcpStorage(mount="/home", kind="filestore" if old else "lustre"),)

    def removal(self, nodes: str, cluster: str) -> str:
        """What gcluster destroys."""
        mounts = ", ".join(s.mount for s in self.file_systems() if s.existing is None)
        kept = ", ".join(s.mount for s in self.file_systems() if s.existing is not None)
        return (
            f"Has gcluster destroy {nodes} of cluster {cluster}, its networks"
            + (f", and its file systems with all that is on them ({mounts})" if mounts else "")
            + (f". Existing file systems stay ({kept})." if kept else ".")
        )

    def nccl(self) -> NcclTests | None:
        """As the file has it."""
        return NcclTests(self.nccl_tests, self.nccl_image) if self.nccl_tests else None
