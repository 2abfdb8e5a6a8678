"""A cluster of A3 Mega machines on Google Cloud, which Google's Cluster Toolkit makes."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from corral.spec.sections.provider_section import NcclTests, Section
from corral.spec.values import AbsolutePath, Kind, Model, about

MACHINE: Final = "a3-megagpu-8g"

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

GcpProject = Annotated[str, Field(pattern=PROJECT.pattern)]
GcpZone = Annotated[str, Field(pattern=ZONE.pattern)]
GcpBucket = Annotated[str, Field(pattern=BUCKET.pattern)]
GcpReservation = Annotated[str, Field(pattern=RESERVATION.pattern)]


class GcpStorage(Model):
    """A file system that the toolkit makes and all nodes mount."""

    mount: AbsolutePath = about("recreate", "Where every node sees it.")
    kind: Literal["lustre", "exascaler", "filestore", "bucket"] = about(
        "recreate",
        "lustre: Managed Lustre; exascaler: DDN EXAScaler (toolkit v1.39.0); filestore: NFS; "
        "bucket: a new Cloud Storage bucket by FUSE.",
    )
    size_gib: int | None = about(
        "recreate",
        "Capacity in GiB; left out: 36000 of Lustre, 10240 of Filestore. EXAScaler has its "
        "module's own disks.",
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


class Gcp(Section):
    """Where and how the toolkit makes the cluster."""

    meaning: ClassVar[str] = "A3 Mega machines on Google Cloud"
    kinds: ClassVar[tuple[Kind, ...]] = (PROJECT, ZONE, BUCKET, RESERVATION)

    project: GcpProject = about("recreate", "Id of an existing project.")
    zone: GcpZone = about("recreate", "Zone of the machines; it must offer A3 Mega.")
    state_bucket: GcpBucket = about(
        "recreate", "Existing Cloud Storage bucket for Terraform's state."
    )
    toolkit: Literal["v1.95.0", "v1.39.0"] = about(
        "recreate",
        "Release of the Cluster Toolkit that the blueprint is for: v1.95.0 is one blueprint; "
        "v1.39.0 is base, image and cluster apart.",
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
        mounts = ", ".join(storage.mount for storage in self.file_systems())
        return (
            f"Has gcluster destroy {nodes} of cluster {cluster}, its networks, and its "
            f"file systems with all that is on them ({mounts})."
        )

    def nccl(self) -> NcclTests | None:
        """As the file has it."""
        return NcclTests(self.nccl_tests, self.nccl_image) if self.nccl_tests else None
