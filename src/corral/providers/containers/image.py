"""Node images: built, derived or taken from a user's own image; listed, removed."""

from __future__ import annotations

import asyncio
import hashlib
import os
import platform
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind
from corral.hosts.quote import filled, join
from corral.providers.containers import (
    archive,
    image_build,
    machine,
    recipe,
)
from corral.providers.containers.bundle import Pin
from corral.providers.containers.oci_archive import check_archive
from corral.providers.containers.podman import REMOVAL_S, Fields, Podman
from corral.providers.containers.recipe import (
    BASE_LABEL,
    LABEL,
    OS_LABEL,
    Recipe,
)

BUILD_LABEL: Final = "corral.build"
DERIVE_S: Final = 900.0
_MARK: Final = "corral-os="
_NOT_DEBIAN: Final = 64
"""What ``image-own.sh`` prints in front of the system, and its status for another one."""

SCRIPT: Final = join(
    [
        filled("containers/image-own.sh", needed=list(recipe.recipe_table().base)),
        recipe.settle(recipe.recipes()["debian"]),
    ]
)


async def base_id(podman: Podman, image: str) -> str:
    """Id of the user's image.

    Raises:
        CorralError: NOT_FOUND, podman does not have it.
    """
    end = await podman.ended("image", "inspect", "--format", "{{.Id}}", image)
    if end.status != 0:
        raise CorralError(
            Code.NOT_FOUND,
            f"podman has no image {image}",
            tail=end.stderr.decode(errors="replace").strip(),
            hint="check its name with podman images, or leave image: out to have one built",
        )
    return end.stdout.decode().strip().removeprefix("sha256:")


async def pull(podman: Podman, image: str, emit: Emit) -> None:
    """Fetch the user's image when it is not here; one under localhost/ is the user's to make.

    Raises:
        CorralError: NOT_FOUND or PROVIDER_FAILED.
    """
    if image.startswith("localhost/"):
        return
    if (await podman.ended("image", "exists", image)).status != 0:
        emit(Event(Kind.NOTE, "image", message=f"pulling {image}"))
        await podman.text("pull", "--quiet", image, timeout=DERIVE_S)


def reference(base: str) -> str:
    """Reference of what is derived from a base: digest of the base and of what is done to it."""
    digest = hashlib.sha256(f"{base}\n{SCRIPT}".encode()).hexdigest()
    return f"{recipe.REPOSITORY}:own-{digest[:12]}"


async def derive(podman: Podman, image: str, name: str, emit: Emit) -> str:
    """Make the node image and give its id; it has no tag yet.

    Raises:
        CorralError: IMAGE_FAILED, with apt's last lines.
    """
    base = await base_id(podman, image)
    emit(Event(Kind.NOTE, "image", message=f"installing systemd and sshd into {image}"))
    work = f"corral-build-{secrets.token_hex(4)}"
    # The host's network, not a bridge: its proxies and name service work as they do for its apt.
    argv = ["run", "--name", work, "--label", f"{BUILD_LABEL}=1", "--network", "host", "--no-hosts"]
    argv += ["--pull=never", "--user", "0", "--entrypoint", "/bin/sh"]
    for kind, value in machine.host_limits().items():
        argv += ["--ulimit", f"{kind}={value}:{value}"]
    end = await podman.ended(*argv, image, "-c", SCRIPT, timeout=DERIVE_S)
    try:
        text = end.stdout.decode(errors="replace")
        system = next((v for v in text.splitlines() if v.startswith(_MARK)), "")
        if end.status != 0 or not system:
            raise CorralError(
                Code.IMAGE_FAILED,
                f"{image} could not be made a node image",
                command=" ".join([*podman.base, *argv, image]),
                status=end.status,
                tail=_tail(end.stdout + b"\n" + end.stderr),
                hint="only Debian and Ubuntu images can be nodes"
                if end.status == _NOT_DEBIAN
                else "check that apt-get update works inside that image",
            )
        labels = {
            recipe.LABEL: name,
            recipe.OS_LABEL: system.removeprefix(_MARK),
            recipe.BASE_LABEL: base,
        }
        changes = [f"--change=LABEL {key}={value}" for key, value in labels.items()]
        text = await podman.text("commit", "--quiet", *changes, work, timeout=DERIVE_S)
        return text.strip().removeprefix("sha256:")
    finally:
        await podman.ended("rm", "--force", "--ignore", work)


async def sweep(podman: Podman) -> None:
    """Remove containers of killed derivations; only under the lock."""
    text = await podman.text(
        "ps", "--all", "--filter", f"label={BUILD_LABEL}", "--format", "{{.Names}}"
    )
    if text.split():
        await podman.ended("rm", "--force", "--ignore", *text.split())


def _tail(output: bytes) -> str:
    return "\n".join(output.decode(errors="replace").strip().splitlines()[-15:])


AUTO: Final = "auto"
WORK: Final = Path("/var/tmp")  # noqa: S108  # disk, not tmpfs; mkdtemp makes private folders in it
LOCK: Final = Path("/run/corral-images.lock")
"""One builder per machine, whatever its state folder: the sweep before a build removes the work
folders of killed ones, and podman's images are the machine's."""


@dataclass(frozen=True, slots=True)
class System:
    """Distribution of an image, "" where it is not known yet."""

    os_id: str = ""
    os_version: str = ""


@dataclass(frozen=True, slots=True)
class ImageInfo:
    """One node image that is here."""

    reference: str
    identity: str
    size: int
    created: int
    system: System
    base: str
    used_by: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        return {
            "reference": self.reference,
            "id": self.identity,
            "size": self.size,
            "created": self.created,
            "os": f"{self.system.os_id} {self.system.os_version}".strip(),
            "base": self.base,
            "used_by": list(self.used_by),
        }


class Images:
    """The node images of one podman.

    Args:
        podman: the podman.
        apt: folder with the host's apt sources.
        pin: the image that ``auto`` is, for a cluster that was brought up from a bundle.
    """

    def __init__(self, podman: Podman, apt: Path = archive.APT, pin: Pin | None = None) -> None:
        self._podman = podman
        self._apt = apt
        self._pin = pin
        self._systems: dict[str, System] = {}
        if pin is not None:
            self._systems[AUTO] = System(*pin.system.split(":", 1))

    def system(self, image: str) -> System:
        """Distribution of a group's image; of a user's own only after ``ensure``."""
        if image == AUTO and AUTO not in self._systems:
            return _system(_host_recipes()[0])
        return self._systems.get(image, System())

    async def reference(self, image: str) -> str:
        """What to give podman for a group's ``image``; it may not be there yet."""
        if image == AUTO:
            return self._pin.image if self._pin else _tag(await self._chosen())
        return reference(await base_id(self._podman, image))

    async def ensure(self, image: str, emit: Emit, *, again: bool = False) -> str:
        """Have the image here and give its reference.

        Args:
            image: ``auto`` or an image podman knows.
            emit: progress.
            again: build it even if it is here.

        Raises:
            CorralError: IMAGE_FAILED, MISSING_TOOL, NOT_FOUND.
        """
        if image != AUTO:
            await pull(self._podman, image, emit)
        reference = await self.reference(image)
        if image == AUTO and self._pin is not None:
            await self._require(reference)
            return reference
        if again or not await self._here(reference):
            async with image_build.locked(LOCK) as lock:
                reference = await self.reference(image)
                if again or not await self._here(reference):
                    await self._sweep()
                    reference = await self._make(image, reference, lock, emit)
        if image != AUTO:
            self._systems[image] = await self._labelled_system(reference)
        return reference

    async def _require(self, reference: str) -> None:
        if not await self._here(reference):
            raise CorralError(
                Code.NOT_FOUND,
                f"the node image {reference} of the cluster's bundle is not here",
                hint="load it again with: corral up FILE --bundle KIT",
            )

    async def slim(self, packages: Sequence[str], emit: Emit) -> str:
        """Have a small image with these packages and without PyTorch; gives its reference.

        Raises:
            CorralError: IMAGE_FAILED, MISSING_TOOL.
        """
        recipes = tuple(recipe.slim(each, packages) for each in _host_recipes())
        async with image_build.locked(LOCK) as lock:
            here = [r for r in recipes if await self._here(_tag(r))]
            if here:
                return _tag(here[0])
            await self._sweep()
            emit(Event(Kind.PHASE_STARTED, "image", message=f"building {_tag(recipes[0])}"))
            name, identity = await self._build(lock, emit, recipes)
            await self._podman.text("tag", identity, name)
            emit(Event(Kind.PHASE_DONE, "image", message=f"node image {name}"))
        return name

    async def identity(self, reference: str) -> str:
        """Id of an image that is here."""
        return await base_id(self._podman, reference)

    async def system_of(self, reference: str) -> str:
        """Distribution of a node image, ``debian:13``."""
        system = await self._labelled_system(reference)
        return f"{system.os_id}:{system.os_version}"

    async def packages(self, reference: str) -> dict[str, str]:
        """Version of each package in a Debian image, by name."""
        query = ("-W", "-f", "${Package} ${Version}\\n")
        text = await self._podman.text(
            *("run", "--rm", "--pull=never", "--network", "none", "--entrypoint", "dpkg-query"),
            *(
                word
                for k, v in machine.host_limits().items()
                for word in ("--ulimit", f"{k}={v}:{v}")
            ),
            *(reference, *query),
        )
        return dict(line.split(" ", 1) for line in text.splitlines() if " " in line)

    async def save(self, reference: str, path: Path) -> None:
        """Write an image as an OCI archive, its layers not compressed."""
        await self._podman.text(
            *("save", "--quiet", "--format", "oci-archive", "--uncompressed"),
            *("--output", str(path), reference),
            timeout=DERIVE_S,
            what=f"podman could not write {reference}",
        )

    async def load(self, path: Path, reference: str, identity: str, emit: Emit) -> None:
        """Read an OCI archive that ``save`` wrote; an image that is here already is kept.

        Raises:
            CorralError: PROVIDER_FAILED; IMAGE_FAILED, the archive holds another image.
        """
        async with image_build.locked(LOCK):
            if await self._here(reference) and await self.identity(reference) == identity:
                return
            emit(Event(Kind.PHASE_STARTED, "image", message=f"loading {reference}"))
            await asyncio.to_thread(check_archive, path, reference)
            await self._podman.text(
                *("load", "--quiet", "--input", str(path)),
                timeout=DERIVE_S,
                what="podman could not load the node image of the bundle",
            )
            if not await self._here(reference) or await self.identity(reference) != identity:
                raise CorralError(
                    Code.IMAGE_FAILED,
                    f"the bundle's image is not {reference} with the id that its manifest names",
                    hint="make the bundle again with: corral bundle FILE -o KIT",
                )
            emit(Event(Kind.PHASE_DONE, "image", message=f"node image {reference}"))

    async def listed(self) -> tuple[ImageInfo, ...]:
        """All node images here, newest first, with the containers made from each."""
        images = await self._podman.records("images", "--filter", f"label={LABEL}")
        users = await self._podman.records("ps", "--all", "--filter", "label=corral.cluster")
        infos = [_info(fields, users) for fields in images]
        return tuple(sorted(infos, key=lambda i: i.created, reverse=True))

    async def remove(self, reference: str = "") -> tuple[str, ...]:
        """Remove one node image, or all that no container uses; gives the references removed.

        Raises:
            CorralError: NOT_FOUND; BUSY, a cluster uses it.
        """
        infos = await self.listed()
        selected = (
            [i for i in infos if reference in (i.reference, i.identity)]
            if reference
            else [i for i in infos if not i.used_by]
        )
        if reference and not selected:
            known = ", ".join(i.reference for i in infos)
            raise CorralError(
                Code.NOT_FOUND, f"no node image {reference}", hint=f"images: {known or 'none'}"
            )
        for info in selected:
            if info.used_by:
                raise CorralError(
                    Code.BUSY,
                    f"{info.reference} is used by {', '.join(info.used_by)}",
                    hint="take those clusters down first",
                )
            await self._podman.text(
                "rmi", info.identity, what=f"{reference} was not removed", timeout=REMOVAL_S
            )
        await self._sweep()
        return tuple(i.reference for i in selected)

    async def _chosen(self) -> Recipe:
        """The first of this host's recipes that is built; none is: the first."""
        recipes = _host_recipes()
        chosen = recipes[0]
        if len(recipes) > 1:
            here = [r for r in recipes if await self._here(_tag(r))]
            chosen = (*here, chosen)[0]
        self._systems[AUTO] = _system(chosen)
        return chosen

    async def _make(self, image: str, reference: str, lock: int, emit: Emit) -> str:
        began = time.monotonic()
        emit(Event(Kind.PHASE_STARTED, "image", message=f"building node image {reference}"))
        if image == AUTO:
            reference, identity = await self._build(lock, emit)
        else:
            identity = await derive(self._podman, image, reference, emit)
        await self._podman.text("tag", identity, reference)
        took = time.monotonic() - began
        emit(Event(Kind.PHASE_DONE, "image", message=f"node image {reference}", seconds=took))
        return reference

    async def _build(
        self, lock: int, emit: Emit, recipes: Sequence[Recipe] = ()
    ) -> tuple[str, str]:
        """Build the first recipe whose archive is available; gives its reference and id."""
        if os.geteuid() != 0:
            raise CorralError(
                Code.IMAGE_FAILED,
                "building the node image needs root",
                hint="run Corral as root or by sudo",
            )
        system = archive.host_release()
        host = recipe.Host(
            os_id=system.get("ID", ""),
            codename=system.get("VERSION_CODENAME", ""),
            sources=await asyncio.to_thread(archive.host_sources, self._apt),
        )
        with image_build.bench(WORK, lock, await archive.host_proxies()) as at:
            supplied = await recipe.find(recipes or _host_recipes(), host, at, emit)
            tar = await image_build.root_tar(_job(supplied), at, emit)
            emit(Event(Kind.NOTE, "image", message="importing into podman"))
            name, made = _tag(supplied.recipe), supplied.recipe
            labels = {LABEL: name, OS_LABEL: f"{made.os_id}:{made.os_version}"}
            changes = [f"--change=LABEL {key}={value}" for key, value in labels.items()]
            text = await self._podman.text(
                *("import", "--quiet", *changes, str(tar)),
                timeout=600.0,
                what="podman could not import the node image",
            )
        if not recipes:
            self._systems[AUTO] = _system(made)
        return name, text.strip().removeprefix("sha256:")

    async def _here(self, reference: str) -> bool:
        return (await self._podman.ended("image", "exists", reference)).status == 0

    async def _sweep(self) -> None:
        """Remove what killed builds left: work folders and untagged images with Corral's label."""
        await asyncio.to_thread(image_build.sweep, WORK)
        await sweep(self._podman)
        label = f"label={LABEL}"
        text = await self._podman.text(
            "images", "--filter", label, "--filter", "dangling=true", "--format", "{{.Id}}"
        )
        for identity in dict.fromkeys(text.split()):
            await self._podman.ended("rmi", identity, timeout=REMOVAL_S)

    async def _labelled_system(self, reference: str) -> System:
        fmt = f'{{{{index .Labels "{OS_LABEL}"}}}}'
        text = await self._podman.text("image", "inspect", "--format", fmt, reference)
        os_id, _, version = text.strip().partition(":")
        return System(os_id, version)


def _tag(image_recipe: Recipe) -> str:
    return image_recipe.tag(platform.machine(), join([recipe.EARLY, recipe.late(image_recipe)]))


def _system(image_recipe: Recipe) -> System:
    return System(image_recipe.os_id, image_recipe.os_version)


def _job(supplied: recipe.Supply) -> image_build.Build:
    return image_build.Build(
        suite=supplied.recipe.suite,
        packages=supplied.recipe.packages,
        left_out=supplied.recipe.left_out,
        sources=supplied.sources,
        keyring=supplied.keyring,
        early=recipe.EARLY,
        late=recipe.late(supplied.recipe),
    )


def _host_recipes() -> tuple[Recipe, ...]:
    system = archive.host_release()
    return recipe.recipes_for(system.get("ID", ""), system.get("ID_LIKE", ""))


def _info(fields: Fields, users: Sequence[Fields]) -> ImageInfo:
    labels = cast("Mapping[str, str]", fields.get("Labels") or {})
    os_id, _, version = str(labels.get(OS_LABEL, "")).partition(":")
    identity = str(fields["Id"])
    used = [c["Names"][0] for c in users if str(c["ImageID"]).removeprefix("sha256:") == identity]
    names = cast("list[str]", fields.get("Names") or ["<none>"])
    return ImageInfo(
        reference=str(names[0]),
        identity=identity,
        size=int(fields.get("Size", 0)),
        created=int(fields.get("Created", 0)),
        system=System(os_id, version),
        base=str(labels.get(BASE_LABEL, "")),
        used_by=tuple(sorted(used)),
    )
