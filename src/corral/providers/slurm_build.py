"""Slurm's packages built once from its source, by SchedMD's own debian/ folder, and kept.

The build runs in a fresh root of the nodes' own release that mmdebstrap makes of this machine's
package archive; nothing is installed here or on a node for it. Seen: 24.11.5 for Debian 13 in 498 s
on two cores.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Final

from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind
from corral.hosts.quote import Script, sh, shipped
from corral.providers.containers import archive, image_build
from corral.spec.systems import distributions, release_of, releases_in_words

WORK: Final = Path("/var/tmp")  # noqa: S108  # disk; mkdtemp makes private folders in it
LOCK: Final = Path("/run/corral-slurm-build.lock")
WORK_PREFIX: Final = "corral-slurm-build-"
BUILD_S: Final = 7200.0
RECIPE: Final = "1"
"""Version of the build: increased when the same tarball gives other packages."""

INSIDE: Final = sh("{script}\n", script=shipped("containers/slurm-build.sh"))
"""What runs in the fresh root."""


def kept_at(cache: Path, sha256: str, release: tuple[str, str]) -> Path:
    """Where the packages of one tarball are for one release and this machine's architecture."""
    text = "\0".join((RECIPE, sha256, *release, os.uname().machine))
    return cache / f"slurm-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


async def built(
    tarball: Path, sha256: str, release: tuple[str, str], cache: Path, emit: Emit
) -> Path:
    """The folder of packages made of a tarball; built when it is not there yet.

    Args:
        tarball: the source; its digest was checked.
        sha256: its digest.
        release: ID and VERSION_ID of the nodes' os-release.
        cache: folder that keeps what was built.
        emit: receives the steps.

    Raises:
        CorralError: IMAGE_FAILED, it cannot be built; MISSING_TOOL; TIMED_OUT.
    """
    place = kept_at(cache, sha256, release)
    if place.is_dir():
        return place
    suite, components = _release(release)
    async with image_build.locked(LOCK) as lock:
        if place.is_dir():
            return place
        proxies = await archive.host_proxies()
        image_build.sweep(WORK, WORK_PREFIX)
        with image_build.bench(WORK, lock, proxies, WORK_PREFIX) as at:
            text = f"building Slurm's packages from {tarball.name} for {suite}: some ten minutes"
            emit(Event(Kind.NOTE, "packages", message=text))
            await _build(tarball, suite, components, at, emit)
            _keep(at.work / "out", place)
    return place


def _keep(made: Path, place: Path) -> None:
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = place.with_name(f".{place.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    shutil.copytree(made, new)
    new.rename(place)


def _release(release: tuple[str, str]) -> tuple[str, tuple[str, ...]]:
    known = release_of(*release)
    if known is None:
        raise CorralError(
            Code.IMAGE_FAILED,
            f"Slurm's packages cannot be built for {' '.join(release)}",
            hint=f"they are for {releases_in_words()}; for others build them on such a machine and "
            "name their folder: slurm.source.debs",
        )
    return known.codename, distributions()[release[0]].components


async def _build(
    tarball: Path, suite: str, components: tuple[str, ...], at: image_build.Bench, emit: Emit
) -> None:
    host = archive.host_release()
    pockets = {"": components, "security": components, "updates": components}
    sources = archive.for_suite(
        archive.host_sources(), host.get("VERSION_CODENAME", ""), suite, pockets
    )
    (at.work / "inside").write_text(INSIDE)
    (at.work / "out").mkdir()
    shutil.copyfile(tarball, at.work / "tarball")
    argv = ["nice", "-n", "10", "mmdebstrap", "--variant=buildd", "--mode=root", "--format=null"]
    keyring = image_build.keyring(sources, at.work)
    argv += [f"--keyring={keyring}"] if keyring else []
    argv += ['--aptopt=APT::Install-Recommends "false"', "--dpkgopt=force-unsafe-io"]
    argv += ["--include=fakeroot", *(f"--customize-hook={hook}" for hook in _hooks(at.work))]
    argv += [suite, "/dev/null", *(s.line() for s in sources)]
    try:
        await image_build.mmdebstrap(argv, at, emit, BUILD_S)
    except CorralError as error:
        error.message = f"Slurm's packages could not be built for {suite}"
        error.hint = "read the last lines: a missing build dependency, or no debian/ folder"
        raise


def _hooks(work: Path) -> tuple[Script, ...]:
    return (
        sh('mkdir "$1/build"'),
        sh("upload {path} /build/tarball", path=work / "tarball"),
        sh("upload {path} /build/inside", path=work / "inside"),
        sh('chroot "$1" sh /build/inside'),
        sh("sync-out /build/out {path}", path=work / "out"),
    )
