"""Rules about where Slurm comes from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from corral.spec.findings import Level
from corral.spec.view import Problem, Rule, View

TAR: Final = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")


def source_two(view: View) -> Iterator[Problem]:
    """Debs and a tarball."""
    source = view.spec.slurm.source
    if source.debs and source.tarball:
        message = "packages can come from debs or from a tarball, not from both"
        yield Problem(("slurm", "source", "tarball"), message, "leave one of them out")


def tarball_digest(view: View) -> Iterator[Problem]:
    """A tarball without digest."""
    source = view.spec.slurm.source
    if source.tarball and not source.sha256:
        hint = "write sha256: with the digest its publisher gives, or that of: sha256sum FILE"
        yield Problem(("slurm", "source", "tarball"), "the tarball's digest is missing", hint)
    if source.sha256 and not source.tarball:
        hint = "leave it out, or name the tarball"
        yield Problem(("slurm", "source", "sha256"), "a digest without a tarball", hint)


def tarball_name(view: View) -> Iterator[Problem]:
    """A tarball whose name is not that of an archive."""
    tarball = view.spec.slurm.source.tarball
    if tarball and not PurePosixPath(tarball).name.endswith(TAR):
        hint = f"name a source archive that ends in {', '.join(TAR)}"
        yield Problem(("slurm", "source", "tarball"), "this is not a tar file", hint)


def debs_one_file(view: View) -> Iterator[Problem]:
    """One package where a folder is meant."""
    debs = view.spec.slurm.source.debs
    if debs and debs.endswith(".deb"):
        hint = "name the folder that holds slurmd, slurmctld and the others"
        yield Problem(("slurm", "source", "debs"), "this is one package, not a folder", hint)


_DEBS: Final = ("slurm.source.debs",)
_TARBALL: Final = ("slurm.source.tarball",)

RULES: Final = (
    Rule("slurm-source-twice", Level.ERROR, "Slurm from debs and from a tarball.",
         (*_DEBS, *_TARBALL), source_two),
    Rule("slurm-tarball-digest", Level.ERROR, "A tarball without its digest, or the reverse.",
         (*_TARBALL, "slurm.source.sha256"), tarball_digest),
    Rule("slurm-tarball-name", Level.ERROR, "A tarball whose name is not that of a tar archive.",
         _TARBALL, tarball_name),
    Rule("slurm-debs-file", Level.ERROR, "One .deb where a folder of them is meant.",
         _DEBS, debs_one_file),
)  # fmt: skip
