"""Which recipe this host builds, from which archive, and whose keys vouch for it.

A Debian host builds Debian from its own archive. So does an Ubuntu host where Debian's archive is
available and verified, else it builds Ubuntu from its own. Seen in November 2026: Ubuntu 24.04's
debian-archive-keyring verifies Debian 13 (by Debian 12's keys, which sign it still), that of Ubuntu
22.04 does not. A newer Ubuntu's does, and that package comes from the host's own archive, verified
by the host's own keys. Nothing here is ever taken unverified.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind, ignore
from corral.hosts.quote import sh
from corral.providers.containers import archive, image_build
from corral.providers.containers.archive import Source
from corral.providers.containers.image_build import Bench
from corral.providers.containers.recipe import Recipe

PACKAGE: Final = "debian-archive-keyring"
KEYRING: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
BRIDGE: Final = "resolute"
"""Ubuntu 26.04, supported until 2031: its keyring package knows the keys of Debian 13."""
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
        both = f"E: {_reason(first)}; nor the keys of {BRIDGE}: {_reason(error)}"
        raise CorralError(first.code, first.message, tail=both) from error
    return Supply(recipe, sources, await _keys(at, "by-newer", sources, newer))


def _bridge(host: Host) -> tuple[Source, ...]:
    """The newer Ubuntu in the host's own archive; verified even where the host trusts blindly."""
    sources = archive.for_suite(host.sources, host.codename, BRIDGE, BRIDGE_COMPONENTS)
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
