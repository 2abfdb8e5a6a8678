"""Containers in jobs: Enroot and Pyxis."""

from __future__ import annotations

from corral.spec.kinds import AbsolutePath, Model, PackagePlace, Sha256, about


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
        "Enroot's .deb files of one release for this system: enroot, and enroot+caps where wanted.",
        min_length=1,
    )
    source: PyxisSource = about(
        "restart",
        "Pyxis' source as a tar file: it is compiled on each machine against the Slurm there, and "
        "again when that changes.",
    )
    local: AbsolutePath = about(
        "none",
        "Folder on each node's own disk for unpacked containers and the cache of image layers.",
        default="/var/lib/enroot",
    )
