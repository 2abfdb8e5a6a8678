"""Rules about where Slurm comes from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from corral.spec.findings import Level
from corral.spec.slurm.tarballs import tarball_of, tarballs
from corral.spec.view import Problem, Rule, View

TAR: Final = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")


def source_two(view: View) -> Iterator[Problem]:
    """Debs and a tarball."""
    source = view.spec.slurm.source
    other = "tarball" if source.tarball else "release" if source.release else ""
    if source.debs and other:
        message = f"packages can come from debs or from a {other}, not from both"
        yield Problem(("slurm", "source", other), message, "leave one of them out")


def tarball_digest(view: View) -> Iterator[Problem]:
    """A tarball without digest."""
    source = view.spec.slurm.source
    if source.release:
        return  # its digest is known, and a digest next to it is another rule's
    if source.tarball and not source.sha256:
        hint = "write sha256: with the digest its publisher gives, or that of: sha256sum FILE"
        yield Problem(("slurm", "source", "tarball"), "the tarball's digest is missing", hint)
    if source.sha256 and not source.tarball:
        hint = "leave it out, or name the tarball"
        yield Problem(("slurm", "source", "sha256"), "a digest without a tarball", hint)


def release_known(view: View) -> Iterator[Problem]:
    """A release that Corral has no digest of, or another digest next to one that it has."""
    source = view.spec.slurm.source
    if source.release and tarball_of(source.release) is None:
        known = ", ".join(row.version for row in tarballs())
        hint = f"known: {known}; for another write tarball: and sha256: in its place"
        message = f"no address and digest of Slurm {source.release} are known"
        yield Problem(("slurm", "source", "release"), message, hint)
    elif source.release and source.sha256:
        hint = "leave it out; for another file leave release out"
        message = f"the digest of Slurm {source.release} is known"
        yield Problem(("slurm", "source", "sha256"), message, hint)


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
_RELEASE: Final = ("slurm.source.release",)

RULES: Final = (
    Rule("slurm-source-twice", Level.ERROR, "Slurm from debs and from a tarball.",
         (*_DEBS, *_TARBALL, *_RELEASE), source_two),
    Rule("slurm-release-known", Level.ERROR, "A release without a known digest, or two digests.",
         (*_RELEASE, "slurm.source.sha256"), release_known),
    Rule("slurm-tarball-digest", Level.ERROR, "A tarball without its digest, or the reverse.",
         (*_TARBALL, "slurm.source.sha256"), tarball_digest),
    Rule("slurm-tarball-name", Level.ERROR, "A tarball whose name is not that of a tar archive.",
         _TARBALL, tarball_name),
    Rule("slurm-debs-file", Level.ERROR, "One .deb where a folder of them is meant.",
         _DEBS, debs_one_file),
)  # fmt: skip
