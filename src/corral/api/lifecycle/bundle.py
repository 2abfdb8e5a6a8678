"""Use cases of bundles: all that a cluster of containers needs in one file, and its use."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from corral.apply.session import Session
from corral.apply.wheelhouse import cached, fetch
from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind, ignore
from corral.inspect.facts import Facts
from corral.providers.containers import bundle
from corral.providers.containers.bundle import Manifest
from corral.providers.containers.image import Images
from corral.providers.containers.machine import host_runtime
from corral.providers.containers.podman import Podman
from corral.roles.services.corral_wheels import locked, own_wheel
from corral.spec.models import ClusterSpec
from corral.spec.providers import CONTAINERS
from corral.state.base import Resource
from corral.state.network.mesh import MeshMember
from corral.state.packages import Artifact, DebRepository, Packages, SlurmPackages
from corral.state.pyenv import PythonEnv, Wheel
from corral.state.system.enroot import BUILD_PACKAGES, DEPENDS, EnrootPackages, PyxisPlugin
from corral.state.system.nvidia import Components, Headers, Keyring
from corral.state_dir import cluster_dir

WORK: Final = Path("/var/tmp")  # noqa: S108  # disk, not tmpfs; mkdtemp makes private folders in it
PREFIX: Final = "corral-bundle-"
_X86: Final = "x86_64"
_OFFERED: Final[Mapping[str, str]] = MappingProxyType({"debian": "24.11.5", "ubuntu": "23.11.4"})
"""Slurm of the releases that node images are built from: which packages it has depends on it."""
_OUTSIDE: Final[Mapping[type[object], str]] = MappingProxyType(
    {
        SlurmPackages: "slurm.source",
        DebRepository: "slurm.source",
        MeshMember: "network.control",
        Components: "software.nvidia",
        Keyring: "software.nvidia",
        Headers: "software.nvidia",
    }
)
"""Resources that bring what a bundle does not hold, and the field that declares them."""
_FILES: Final = (
    "name a file of the machine without internet in its place, or for Enroot and Pyxis their "
    "folder in software.pyxis.mirror"
)


@dataclass(frozen=True, slots=True)
class Bundled:
    """A bundle that was written.

    Attributes:
        path: the file.
        size: bytes.
        sha256: of the file, for whoever copies it.
        image: reference of the node image in it.
        python: version that its wheels are for.
        wheels: how many.
    """

    path: str
    size: int
    sha256: str
    image: str
    python: str
    wheels: int

    def as_dict(self) -> dict[str, Any]:
        """The file with its digest, its image and wheels."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Needs:
    """What the nodes of a cluster fetch: Debian packages, and wheels of their services."""

    packages: tuple[str, ...]
    wheels: tuple[Wheel, ...]


async def make_bundle(
    spec: ClusterSpec,
    target: Path,
    emit: Emit = ignore,
    *,
    python: str = "",
    level: int = bundle.LEVEL,
) -> Bundled:
    """Write a bundle for a cluster whose nodes are containers of one machine.

    Args:
        spec: the cluster.
        target: the file; one that is there is replaced when the new one is complete.
        emit: receives the events.
        python: version that Corral's own wheels are for; "": this Python's.
        level: of zstd's compression.

    Raises:
        CorralError: USAGE, the cluster needs what a bundle cannot hold; IMAGE_FAILED; NOT_FOUND,
            the package index does not have the wheels.
    """
    python = python or f"{sys.version_info.major}.{sys.version_info.minor}"
    host = _host_wheels(python)
    needs = await needs_of(spec)
    images = Images(Podman(host_runtime()))
    reference = await images.slim(needs.packages, emit)
    with tempfile.TemporaryDirectory(dir=WORK, prefix=PREFIX) as name:
        work = Path(name)
        emit(Event(Kind.PHASE_STARTED, "bundle", message=f"packing {reference} and wheels"))
        await images.save(reference, work / bundle.IMAGE)
        files = {bundle.IMAGE: work / bundle.IMAGE}
        for wheels in (host, needs.wheels):
            await fetch(wheels, emit)
            files |= {_wheel_path(w): cached(w.place) for w in wheels}
        listed = work / "requirements.txt"
        own = {_wheel_path(w): cached(w.place) for w in host}
        listed.write_text(await asyncio.to_thread(bundle.requirements, own))
        files[bundle.REQUIREMENTS] = listed
        manifest = Manifest(
            corral=bundle.release(),
            architecture=bundle.architecture(),
            python=python,
            image=reference,
            image_id=await images.identity(reference),
            system=await images.system_of(reference),
            packages=await images.packages(reference),
            members=await asyncio.to_thread(_described, files),
        )
        await asyncio.to_thread(bundle.write, target, manifest, files, level=level)
    made = await asyncio.to_thread(bundle.described, target.name, target)
    emit(Event(Kind.PHASE_DONE, "bundle", message=str(target)))
    return Bundled(str(target), made.size, made.sha256, reference, python, len(files) - 2)


async def use_bundle(
    spec: ClusterSpec, path: Path, emit: Emit = ignore, *, sha256: str = ""
) -> Manifest:
    """Check a bundle, load its node image and wheels, and let the cluster's nodes be made from it.

    Nothing outside of this machine is reached, neither here nor by ``up`` afterwards.

    Args:
        spec: the cluster.
        path: the bundle.
        emit: receives the events.
        sha256: of the file, compared before anything of it is interpreted; "": not known.

    Raises:
        CorralError: NOT_FOUND; USAGE, the bundle is another file, damaged, for another release or
            architecture, or lacks what the cluster needs; IMAGE_FAILED, its image is not the one
            that its manifest names; PROVIDER_FAILED, this machine cannot have the nodes. Nothing
            was changed then.
    """
    needs = await needs_of(spec, here=True)
    with tempfile.TemporaryDirectory(dir=WORK, prefix=PREFIX) as name:
        work = Path(name)
        emit(Event(Kind.PHASE_STARTED, "bundle", message=f"checking {path}"))
        manifest = await asyncio.to_thread(bundle.unpack, path, work, sha256)
        _require(path, manifest, needs)
        images = Images(Podman(host_runtime()))
        await images.load(work / bundle.IMAGE, manifest.image, manifest.image_id, emit)
        await asyncio.to_thread(_keep, needs.wheels, work)
        await asyncio.to_thread(bundle.pin, cluster_dir(spec.name), manifest)
        emit(Event(Kind.PHASE_DONE, "bundle", message=f"{spec.name} uses {manifest.image}"))
    return manifest


async def needs_of(spec: ClusterSpec, *, here: bool = False) -> Needs:
    """What the nodes of a cluster would fetch.

    Args:
        spec: the cluster.
        here: its nodes are to be made on this machine, which must be able to.

    Raises:
        CorralError: USAGE, some of it cannot be in a bundle; PROVIDER_FAILED, this machine cannot
            have the nodes (a GPU is in use).
    """
    elsewhere = [g.name for g in spec.groups if not g.capabilities.containers or g.image != "auto"]
    if elsewhere:
        raise CorralError(
            Code.USAGE,
            f"a bundle is for nodes of provider {CONTAINERS} with image auto, and group "
            f"{elsewhere[0]} is not one of them",
            hint="rehearse the cluster (--rehearse), or take machines that reach an archive",
        )
    async with await Session.open(spec) as session:
        if here:
            session.require_possible()
        facts = {name: _offered(each) for name, each in (await session.facts()).items()}
        stages = session.desired_stages(facts)
    resources = [r for stage in stages for each in stage.desired for r in each.resources]
    _refuse_outside(resources)
    names = [name for resource in resources for name in _installed(resource)]
    wheels = [w for r in resources if isinstance(r, PythonEnv) for w in r.wheels]
    return Needs(tuple(sorted(set(names))), tuple(dict.fromkeys(wheels)))


def _installed(resource: Resource) -> tuple[str, ...]:
    """The distribution's packages that a resource installs."""
    match resource:
        case Packages():
            return (*resource.names, *resource.along)
        case EnrootPackages():
            return DEPENDS
        case PyxisPlugin():
            return (*BUILD_PACKAGES, resource.headers)
        case _:
            return ()


def _offered(facts: Facts) -> Facts:
    """Facts of a node of a fresh image, in which Slurm is installed."""
    return facts if facts.slurm else replace(facts, slurm=_OFFERED.get(facts.os_id, ""))


def _refuse_outside(resources: Sequence[Resource]) -> None:
    for each in resources:
        field = _OUTSIDE.get(type(each), "")
        if isinstance(each, Artifact) and each.place.startswith("https:"):
            field = each.place
        if field:
            raise CorralError(
                Code.USAGE,
                f"a bundle cannot hold what {field} needs",
                hint=_FILES
                if isinstance(each, Artifact)
                else "leave it out of the cluster file for machines without internet",
            )


def _host_wheels(python: str) -> tuple[Wheel, ...]:
    """Corral's own wheel and those of its dependencies.

    Raises:
        CorralError: USAGE, they are not known for this Python or architecture.
    """
    wheels = locked("web").get(python, ())
    known = [version for version in locked("web") if version != "3.10"]
    if python not in known:
        raise CorralError(
            Code.USAGE,
            f"no wheels are known for Python {python}",
            hint=f"--python takes one of {', '.join(known)}",
        )
    if bundle.architecture() != _X86:
        raise CorralError(
            Code.USAGE,
            f"wheels are known for {_X86} only, and this machine is {bundle.architecture()}",
            hint=f"make the bundle on a machine with {_X86}",
        )
    return (*wheels, own_wheel()[0])


def _described(files: Mapping[str, Path]) -> tuple[bundle.Member, ...]:
    return tuple(bundle.described(path, file) for path, file in files.items())


def _require(path: Path, manifest: Manifest, needs: Needs) -> None:
    """Check that the bundle has all that the cluster needs.

    Raises:
        CorralError: USAGE.
    """
    held = {m.path: m.sha256 for m in manifest.members}
    missing = [name for name in needs.packages if name not in manifest.packages]
    missing += [w.file for w in needs.wheels if held.get(_wheel_path(w)) != w.sha256]
    if missing:
        raise CorralError(
            Code.USAGE,
            f"{path} lacks {', '.join(missing[:5])}, which this cluster needs",
            hint="make it for this cluster file: corral bundle FILE -o KIT",
        )


def _keep(wheels: Sequence[Wheel], work: Path) -> None:
    """Put wheels that nodes get where ``apply`` looks for them."""
    for wheel in wheels:
        place = cached(wheel.place)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = place.with_suffix(".new")
        shutil.copyfile(work / _wheel_path(wheel), new)
        new.replace(place)


def _wheel_path(wheel: Wheel) -> str:
    """A wheel's path in the archive."""
    return f"{bundle.WHEELS}/{wheel.file}"
