"""Software on nodes: drivers, CUDA, containers, desktops."""

from __future__ import annotations

from typing import Literal

from corral.spec.values import (
    AbsolutePath,
    Cuda,
    DebSource,
    Driver,
    Model,
    PackagePlace,
    Sha256,
    about,
)


class EnrootPackage(Model):
    """One of Enroot's packages, known by its digest."""

    file: PackagePlace = about(
        "none", "A file on this machine, or its https address: a release's or your mirror's."
    )
    sha256: Sha256 = about("none", "Its digest.")


class PyxisSource(Model):
    """Pyxis' source, known by its digest."""

    file: PackagePlace = about(
        "restart", "A file on this machine, or its https address: a release's or your mirror's."
    )
    sha256: Sha256 = about("restart", "Its digest.")


class Pyxis(Model):
    """Enroot, and the Pyxis plugin that gives srun --container-image."""

    enroot: tuple[EnrootPackage, ...] = about(
        "none",
        "Enroot's .deb files of one release for this system: enroot, and enroot+caps where wanted. "
        "Left out: those that Corral knows, 4.2.1 for x86_64 of Debian 12 and 13, Ubuntu 22.04 and "
        "24.04.",
        default=(),
    )
    source: PyxisSource | None = about(
        "restart",
        "Pyxis' source as a tar file: it is compiled on each machine against the Slurm there, and "
        "again when that changes. Left out: the one that Corral knows, 0.24.0.",
        default=None,
    )
    mirror: PackagePlace | None = about(
        "none",
        "Where the files that Corral knows are, in place of the vendor: a folder of this machine, "
        "or its https address. They must have the digests that Corral knows.",
        default=None,
    )
    local: AbsolutePath = about(
        "none",
        "Folder on each node's own disk for unpacked containers and the cache of image layers.",
        default="/var/lib/enroot",
    )


class Nvidia(Model):
    """The NVIDIA driver of the nodes with GPUs, on machines that the user owns."""

    driver: Driver = about(
        "reboot",
        "Branch and flavour; auto takes the one that fits the GPUs; none leaves the driver alone. "
        "-open is the open kernel module: Turing and newer, and the only one for Blackwell.",
        default="auto",
    )
    cuda: Cuda = about(
        "reboot",
        "CUDA toolkit on the nodes with GPUs: a release from the vendor, or the distribution's own "
        "one. Jobs that bring their CUDA (PyTorch's wheels, containers) need none.",
        default="none",
    )
    source: Literal["auto", "distribution", "vendor"] = about(
        "reboot",
        "Where driver and toolkit come from; one source for both. auto is the vendor for a CUDA "
        "release or with vendor_repo, else the distribution.",
        default="auto",
    )
    vendor_repo: DebSource | None = about(
        "none",
        "With source vendor: the vendor's package that sets up its repository (cuda-keyring), as "
        "its installation guide names it for this system; https address, or path on the nodes. "
        "Left out: the one that Corral knows for x86_64 of Debian 12 and 13 and Ubuntu 22.04 to "
        "26.04.",
        default=None,
    )
    vendor_sha256: Sha256 | None = about(
        "none", "SHA-256 of that package; needed for an address.", default=None
    )

    @property
    def from_vendor(self) -> bool:
        """Driver and toolkit come from the vendor's repository."""
        if self.source == "auto":
            return self.vendor_repo is not None or self.cuda not in ("none", "distribution")
        return self.source == "vendor"


class Software(Model):
    """What is installed alongside Slurm, and how machines are changed and rebooted."""

    nvidia: Nvidia | None = about(
        "reboot", "NVIDIA driver; left out: the machines keep the one they have.", default=None
    )
    containers: Literal["none", "pyxis"] = about(
        "restart",
        "pyxis: jobs may run in containers (srun --container-image), by Enroot and without root.",
        default="none",
    )
    pyxis: Pyxis | None = about(
        "restart",
        "Where Enroot and Pyxis come from (containers: pyxis); left out: releases that "
        "Corral knows.",
        default=None,
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
        "Minutes a drained node may wait for its jobs; then it returns to service and apply fails.",
        default=60,
        ge=0,
        le=43200,
    )
