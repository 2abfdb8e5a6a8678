"""What the node image is made of, from which archive, and whose keys vouch for it. Pure.

A change here, or of ``agents/containers/image-*.sh``, gives the image another tag, so that it is
built again.

A Debian host builds Debian from its own archive. So does an Ubuntu host where Debian's archive is
available and verified, else it builds Ubuntu from its own. Seen in November 2026: Ubuntu 24.04's
debian-archive-keyring verifies Debian 13 (by Debian 12's keys, which sign it still), that of Ubuntu
22.04 does not. A newer Ubuntu's does, and that package comes from the host's own archive, verified
by the host's own keys. Nothing here is ever taken unverified.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Final

from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind, ignore
from corral.hosts.quote import Script, filled, join, sh, shipped
from corral.providers.containers import archive, image_build
from corral.providers.containers.archive import Source
from corral.providers.containers.image_build import Bench
from corral.spec.systems import distributions, releases_in_words
from corral.tables import Row, Words, read_table

REPOSITORY: Final = "localhost/corral-node"
LABEL: Final = "corral.image"
OS_LABEL: Final = "corral.os"
BASE_LABEL: Final = "corral.base"
HEADERS: Final = "/usr/include/*"
"""The pattern of ``recipes.yaml`` that leaves out what compilers read."""


class ImageRow(Row):
    """An image: of which release, and what it has for jobs."""

    release: str
    training: Words


class Recipes(Row):
    """The table ``recipes.yaml``, which explains each key."""

    base: Words
    slurm: Words
    images: Mapping[str, ImageRow]
    hosts: Mapping[str, Words]
    disabled: Words
    masked: Mapping[str, Words]
    left_out: Mapping[str, Words]
    slim_left_out: Mapping[str, Words]


@cache
def recipe_table() -> Recipes:
    """What node images are made of."""
    return read_table("corral.providers.containers", "recipes.yaml", Recipes)


@dataclass(frozen=True, slots=True)
class Recipe:
    """One node image.

    Attributes:
        os_id: ID of os-release.
        os_version: VERSION_ID of os-release.
        suite: release in the archive.
        components: components by pocket of the archive; the pocket "" is the release.
        packages: what is installed.
        left_out: path patterns that dpkg does not unpack.
        disabled: services that are not started at boot.
        masked: units that never start.
    """

    os_id: str
    os_version: str
    suite: str
    components: Mapping[str, tuple[str, ...]]
    packages: tuple[str, ...]
    left_out: tuple[str, ...]
    disabled: tuple[str, ...]
    masked: tuple[str, ...]

    def tag(self, architecture: str, hook: str) -> str:
        """The image's reference: the digest of all it is made of."""
        fields = {**asdict(self), "architecture": architecture, "hook": hook}
        text = json.dumps(fields, sort_keys=True)
        return f"{REPOSITORY}:{self.suite}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


_POCKETS: Final = ("", "security", "updates")


@cache
def recipes() -> Mapping[str, Recipe]:
    """The recipe of each distribution, by ID of os-release."""
    table = recipe_table()
    return MappingProxyType(
        {os_id: _recipe(os_id, row, table) for os_id, row in table.images.items()}
    )


def _recipe(os_id: str, row: ImageRow, table: Recipes) -> Recipe:
    distribution = distributions()[os_id]
    return Recipe(
        os_id,
        row.release,
        distribution.releases[row.release].codename,
        dict.fromkeys(_POCKETS, distribution.components),
        (*table.base, *table.slurm, *row.training),
        left_out=tuple(chain.from_iterable(table.left_out.values())),
        disabled=table.disabled,
        masked=tuple(chain.from_iterable(table.masked.values())),
    )


def slim(recipe: Recipe, packages: Sequence[str]) -> Recipe:
    """The recipe without PyTorch and with these packages, for machines without internet.

    With packages for compiling (Pyxis) it has their headers: apt installs nothing again there.
    """
    table = recipe_table()
    names = (*table.base, *table.slurm, "python3", *packages)
    more = chain.from_iterable(table.slim_left_out.values())
    left_out = (*recipe.left_out, *more)
    if any(name.endswith("-dev") for name in packages):
        left_out = tuple(pattern for pattern in left_out if pattern != HEADERS)
    return replace(recipe, packages=tuple(dict.fromkeys(names)), left_out=left_out)


def recipes_for(os_id: str, os_like: str = "") -> tuple[Recipe, ...]:
    """The recipes that a host of this distribution can build, the best first.

    Raises:
        CorralError: IMAGE_FAILED, the distribution's archive holds neither Debian nor Ubuntu.
    """
    choices = recipe_table().hosts.get(os_id, ())
    if not choices:
        raise CorralError(
            Code.IMAGE_FAILED,
            f"no node image can be built from the archive of {os_id or 'this system'}"
            + (f" (like {os_like})" if os_like else ""),
            hint=f"use {releases_in_words()}, or name an image in the group: "
            "image: localhost/my-debian:13",
        )
    return tuple(recipes()[choice] for choice in choices)


EARLY: Final = sh("#!/bin/sh\n{script}\n", script=shipped("containers/image-early.sh"))
"""Keep python packages from byte-compiling one by one; ``late`` does all at once."""


def late(recipe: Recipe) -> Script:
    """What is done when all packages are there; the new root is the first argument."""
    compiled = sh("#!/bin/sh\n{script}\n", script=shipped("containers/image-late.sh"))
    return join([compiled, settle(recipe)])


def settle(recipe: Recipe) -> Script:
    """Make an installed system a node image: shell with the root as first argument, "" for /."""
    script = filled(
        "containers/image-settle.sh", disabled=list(recipe.disabled), masked=list(recipe.masked)
    )
    return sh("{script}\n", script=script)


PACKAGE: Final = "debian-archive-keyring"
KEYRING: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_NEWER: Final = ("ubuntu", "26.04")
"""Supported until 2031."""
BRIDGE_COMPONENTS: Final[Mapping[str, tuple[str, ...]]] = {"": ("universe",)}
FETCH_S: Final = 90.0
_WHY_NOT: Final = ("E: ", "W: ")


@dataclass(frozen=True, slots=True)
class Host:
    """What of this host decides it.

    Attributes:
        os_id: ID of os-release.
        codename: its release, such as noble.
        sources: its apt sources.
        keyring: where its debian-archive-keyring package keeps the keys.
    """

    os_id: str
    codename: str
    sources: tuple[Source, ...]
    keyring: Path = KEYRING


@dataclass(frozen=True, slots=True)
class Supply:
    """A recipe with its archive.

    Attributes:
        recipe: what is built.
        sources: from where.
        keyring: the keys that vouch for it; None: apt's own.
    """

    recipe: Recipe
    sources: tuple[Source, ...]
    keyring: Path | None


async def find(recipes: Sequence[Recipe], host: Host, at: Bench, emit: Emit) -> Supply:
    """The first of the recipes whose archive is available here.

    Args:
        recipes: the best first; the last is the host's own (``recipe.recipes_for``).
        host: this machine.
        at: where mmdebstrap works.
        emit: receives a note when it is not the first source, with the reason.

    Raises:
        CorralError: IMAGE_FAILED, the host has no usable source of its own release.
    """
    for recipe in recipes[:-1]:
        try:
            text = f"asking for the archive of {recipe.os_id} {recipe.suite} and its keys"
            emit(Event(Kind.NOTE, "image", message=text))
            return await _foreign(recipe, host, at)
        except CorralError as error:
            if error.code not in (Code.IMAGE_FAILED, Code.TIMED_OUT):
                raise
            text = f"{recipe.os_id} {recipe.suite} is not available here: {_reason(error)}"
            emit(Event(Kind.NOTE, "image", message=text))
            text = f"building from this machine's own {host.os_id} archive instead, without PyTorch"
            emit(Event(Kind.NOTE, "image", message=text))
    own = recipes[-1]
    sources = archive.for_suite(host.sources, host.codename, own.suite, own.components)
    return Supply(own, sources, image_build.keyring(sources, at.work))


async def _foreign(recipe: Recipe, host: Host, at: Bench) -> Supply:
    """Debian on another distribution, by the host's keys for it, else by those of a newer one.

    That Debian's own keyring package arrives shows that its archive answers and is verified; the
    build then uses those keys, which know every pocket.
    """
    sources = await _mirror(recipe, at)
    first: CorralError | None = None
    if host.keyring.is_file():
        try:
            return Supply(recipe, sources, await _keys(at, "by-host", sources, host.keyring))
        except CorralError as error:
            first = error
    try:
        bridge = _bridge(host)
        newer = await _keys(at, "newer", bridge, image_build.keyring(bridge, at.work))
    except CorralError as error:
        if first is None:
            raise
        both = f"E: {_reason(first)}; nor the keys of {newer_suite()}: {_reason(error)}"
        raise CorralError(first.code, first.message, tail=both) from error
    return Supply(recipe, sources, await _keys(at, "by-newer", sources, newer))


def newer_suite() -> str:
    """The Ubuntu release whose keyring package knows the keys of Debian 13."""
    os_id, release = _NEWER
    return distributions()[os_id].releases[release].codename


def _bridge(host: Host) -> tuple[Source, ...]:
    """The newer Ubuntu in the host's own archive; verified even where the host trusts blindly."""
    components = BRIDGE_COMPONENTS
    sources = archive.for_suite(host.sources, host.codename, newer_suite(), components)
    return tuple(replace(source, trusted=False) for source in sources)


async def _mirror(recipe: Recipe, at: Bench) -> tuple[Source, ...]:
    """The mirror that mmdebstrap itself has for the suite; asks no network.

    Its own sources are not used as they are: where gpg is installed, it puts the host's keyring
    into them (signed-by), which then counts in the place of ``--keyring`` (0.8.4, 1.4.3).

    Raises:
        CorralError: IMAGE_FAILED, this mmdebstrap knows no such suite.
    """
    hook = at.work / "mirror"
    apt = at.work / "mirror.apt"
    hook.write_text(sh('#!/bin/sh\ncp -R "$1/etc/apt" {apt}\nexit 1\n', apt=str(apt)))
    hook.chmod(0o700)
    argv = ["mmdebstrap", "--variant=extract", "--mode=root", "--format=directory"]
    argv += [f"--setup-hook={hook}", f"--include={PACKAGE}", recipe.suite, str(at.work / "none")]
    try:
        await image_build.mmdebstrap(argv, at, ignore, FETCH_S)
    except CorralError:
        if not apt.is_dir():
            raise
    known = archive.host_sources(apt)
    return archive.for_suite(known, recipe.suite, recipe.suite, recipe.components)


async def _keys(at: Bench, place: str, sources: Sequence[Source], keyring: Path | None) -> Path:
    """Unpack debian-archive-keyring from the archive and give the keys in it.

    Raises:
        CorralError: IMAGE_FAILED or TIMED_OUT, the archive does not answer or is not verified.
    """
    argv = ["mmdebstrap", "--variant=extract", "--mode=root", "--format=directory"]
    # Where the archive is unreachable, the user waits for the next source.
    argv += ['--aptopt=Acquire::Retries "1"', '--aptopt=Acquire::http::Timeout "15"']
    argv += [f"--include={PACKAGE}", *([f"--keyring={keyring}"] if keyring else [])]
    root = at.work / place
    argv += [sources[0].suite, str(root), *(source.line() for source in sources)]
    await image_build.mmdebstrap(argv, at, ignore, FETCH_S)
    return root / KEYRING.relative_to("/")


def _reason(error: CorralError) -> str:
    """The first line of apt that names the fault."""
    lines = (error.tail or "").splitlines()
    line = next((v for mark in _WHY_NOT for v in lines if v.startswith(mark)), "")
    return line[len(_WHY_NOT[0]) :].strip() or error.message
