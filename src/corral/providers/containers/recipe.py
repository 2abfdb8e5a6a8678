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
from pathlib import Path
from types import MappingProxyType
from typing import Final

from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind, ignore
from corral.hosts.quote import Script, filled, join, sh, shipped
from corral.providers.containers import archive, image_build
from corral.providers.containers.archive import Source
from corral.providers.containers.image_build import Bench

REPOSITORY: Final = "localhost/corral-node"
LABEL: Final = "corral.image"
OS_LABEL: Final = "corral.os"
BASE_LABEL: Final = "corral.base"

_BASE: Final = (
    *("apt", "systemd", "systemd-sysv", "dbus", "openssh-server", "sudo", "ca-certificates"),
    *("iproute2", "iputils-ping", "procps", "less"),
)
_SLURM: Final = (
    *("slurmctld", "slurmd", "slurmdbd", "slurmrestd", "sackd", "slurm-client"),
    *("slurm-wlm-basic-plugins", "slurm-wlm-mysql-plugin", "slurm-wlm-jwt-plugin"),
    *("munge", "mariadb-server"),
)
_TRAINING: Final = ("python3-numpy", "python3-torch", "python3-sklearn")
NEEDED: Final = _BASE
"""What a user's own image gets before it is a node; the rest comes by the roles' packages."""

DISABLED: Final = (
    *("slurmctld", "slurmd", "slurmdbd", "slurmrestd", "sackd", "munge", "mariadb"),
    *("chrony", "chronyd", "systemd-timesyncd", "cron", "unattended-upgrades"),
)
"""Services that only Corral's roles enable."""

MASKED: Final = (
    # In a privileged container these would act on the host: its devices, modules, sysctls, clock.
    *("systemd-udevd.service", "systemd-udevd-control.socket", "systemd-udevd-kernel.socket"),
    *("systemd-udev-trigger.service", "systemd-udev-settle.service"),
    *("systemd-modules-load.service", "systemd-sysctl.service", "systemd-binfmt.service"),
    *("modprobe@.service", "kmod-static-nodes.service", "systemd-hwdb-update.service"),
    *("proc-sys-fs-binfmt_misc.automount", "proc-sys-fs-binfmt_misc.mount"),
    *("sys-kernel-debug.mount", "sys-kernel-tracing.mount", "sys-kernel-config.mount"),
    *("sys-fs-fuse-connections.mount", "dev-hugepages.mount", "systemd-pstore.service"),
    *("getty.target", "getty@.service", "console-getty.service", "serial-getty@.service"),
    *("systemd-vconsole-setup.service", "keyboard-setup.service", "console-setup.service"),
    # These only cost time at boot, or change what Corral declares.
    *("systemd-logind.service", "ldconfig.service", "systemd-sysusers.service"),
    *("systemd-journal-catalog-update.service", "systemd-update-done.service"),
    *("systemd-firstboot.service", "systemd-remount-fs.service", "systemd-random-seed.service"),
    *("systemd-networkd.service", "systemd-networkd.socket", "systemd-resolved.service"),
    *("systemd-machine-id-commit.service", "systemd-boot-random-seed.service"),
    *("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "logrotate.timer"),
    *("fstrim.timer", "e2scrub_all.timer", "e2scrub_reap.service", "motd-news.timer"),
    # Ubuntu starts sshd by socket; its generator would take the port before ssh.service.
    "ssh.socket",
)

LEFT_OUT: Final = (
    *("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*"),
    *("/usr/share/lintian/*", "/usr/share/bug/*", "/usr/include/*", "/usr/lib/libtorch-test/*"),
    # ROCm, 250 MB: only UCX's plugins for AMD GPUs load it (python3-torch -> libopenmpi -> libucx).
    *("/usr/lib/*/libLLVM-17*", "/usr/lib/*/libamd_comgr*", "/usr/lib/*/libamdhip64*"),
    *("/usr/lib/*/libhsa-runtime64*", "/usr/lib/*/ucx/*rocm*"),
)

SLIM_LEFT_OUT: Final = (
    *LEFT_OUT,
    # Each of MariaDB's programs holds a copy of its library, 5 MB. Kept: server, client, dump,
    # admin, check and upgrade (/etc/mysql/debian-start), and what mariadb-install-db calls.
    *("/usr/bin/aria_*", "/usr/bin/myisam*", "/usr/bin/innochecksum", "/usr/bin/perror"),
    *("/usr/bin/resolve_stack_dump", "/usr/bin/replace"),
    *(
        f"/usr/bin/mariadb-{name}"
        for name in ("binlog", "conv", "import", "plugin", "show", "slap", "tzinfo-to-sql")
    ),
    # Perl is there for MariaDB's scripts alone.
    *("/usr/lib/*/perl/*/CORE/*", "/usr/share/perl/*/Unicode/Collate/*", "/usr/share/perl/*/pod/*"),
    *(f"/usr/lib/*/perl/*/auto/Encode/{name}/*" for name in ("CN", "JP", "KR", "TW")),
    *("/usr/share/perl/*/CPAN*", "/usr/share/perl/*/ExtUtils/*", "/usr/share/perl/*/Test*"),
    *("/usr/share/perl/*/Module/CoreList*", "/usr/lib/*/gconv/*"),
    # Level Zero, which only hwloc's plugin for Intel GPUs loads.
    "/usr/lib/*/libze_*",
)


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
    left_out: tuple[str, ...] = LEFT_OUT
    disabled: tuple[str, ...] = DISABLED
    masked: tuple[str, ...] = MASKED

    def tag(self, architecture: str, hook: str) -> str:
        """The image's reference: the digest of all it is made of."""
        fields = {**asdict(self), "architecture": architecture, "hook": hook}
        text = json.dumps(fields, sort_keys=True)
        return f"{REPOSITORY}:{self.suite}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


_DEBIAN: Final = MappingProxyType({p: ("main",) for p in ("", "security", "updates")})
_UBUNTU: Final = MappingProxyType({p: ("main", "universe") for p in ("", "security", "updates")})

RECIPES: Final[Mapping[str, Recipe]] = MappingProxyType(
    {
        "debian": Recipe("debian", "13", "trixie", dict(_DEBIAN), (*_BASE, *_SLURM, *_TRAINING)),
        # Ubuntu 24.04 has no python3-torch.
        "ubuntu": Recipe(
            "ubuntu",
            "24.04",
            "noble",
            dict(_UBUNTU),
            (*_BASE, *_SLURM, "python3-numpy", "python3-sklearn"),
        ),
    }
)


def slim(recipe: Recipe, packages: Sequence[str]) -> Recipe:
    """The recipe without PyTorch and with these packages, for machines without internet."""
    names = (*_BASE, *_SLURM, "python3", *packages)
    return replace(recipe, packages=tuple(dict.fromkeys(names)), left_out=SLIM_LEFT_OUT)


_CHOICES: Final = MappingProxyType(
    {
        "debian": (RECIPES["debian"],),
        # Ubuntu hosts use Debian first too: everything is tested with it (docs/guide/rehearse.md).
        "ubuntu": (RECIPES["debian"], RECIPES["ubuntu"]),
    }
)


def recipes_for(os_id: str, os_like: str = "") -> tuple[Recipe, ...]:
    """The recipes that a host of this distribution can build, the best first.

    Raises:
        CorralError: IMAGE_FAILED, the distribution's archive holds neither Debian nor Ubuntu.
    """
    recipes = _CHOICES.get(os_id, ())
    if not recipes:
        raise CorralError(
            Code.IMAGE_FAILED,
            f"no node image can be built from the archive of {os_id or 'this system'}"
            + (f" (like {os_like})" if os_like else ""),
            hint="use Debian 12/13 or Ubuntu 22.04/24.04, or name an image in the group: "
            "image: localhost/my-debian:13",
        )
    return recipes


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
