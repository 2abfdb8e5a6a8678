"""What the node image is made of, as data. Pure.

A change here gives the image another tag, so that it is built again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Final

from corral.errors import Code, CorralError
from corral.hosts.quote import Script, join, sh

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


_CHOICES: Final = MappingProxyType(
    {
        "debian": (RECIPES["debian"],),
        # Ubuntu hosts too rehearse on what all is tested with; see docs/guide/rehearse.md.
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


_PY3COMPILE: Final = "/usr/bin/py3compile"

EARLY: Final = sh(
    """#!/bin/sh
set -eu
chroot "$1" dpkg-divert --quiet --local --rename --divert {real} --add {tool}
ln -s true "$1"{tool}
""",
    tool=_PY3COMPILE,
    real=f"{_PY3COMPILE}.corral",
)
"""Keep python packages from byte-compiling one by one; ``late`` does all at once."""


def late(recipe: Recipe) -> Script:
    """What is done when all packages are there; the new root is the first argument."""
    compiled = sh(
        """#!/bin/sh
set -eu
rm "$1"{tool}
chroot "$1" dpkg-divert --quiet --local --rename --remove {tool}
if [ -d "$1/usr/lib/python3/dist-packages" ]; then
  chroot "$1" python3 -m compileall -q -j 0 -x /tests/ /usr/lib/python3/dist-packages
fi
""",
        tool=_PY3COMPILE,
    )
    return join([compiled, settle(recipe)])


def settle(recipe: Recipe) -> Script:
    """Make an installed system a node image: shell with the root as first argument, "" for /."""
    return sh(
        """set -eu
root=$1
units=$root/etc/systemd/system
mkdir -p "$units/multi-user.target.wants" "$root/etc/ssh" "$root/etc/systemd/journald.conf.d"
for unit in {disabled}; do
  if [ -e "$root/usr/lib/systemd/system/$unit.service" ]; then
    chroot "${{root:-/}}" systemctl --quiet disable "$unit.service"
  fi
done
for unit in {masked}; do ln -sf /dev/null "$units/$unit"; done
ln -sf /usr/lib/systemd/system/multi-user.target "$units/default.target"
rm -f "$units/sockets.target.wants/ssh.socket" "$units/ssh.service.requires/ssh.socket"
ln -sf /usr/lib/systemd/system/ssh.service "$units/multi-user.target.wants/ssh.service"
rm -f "$root"/etc/ssh/ssh_host_* "$root/etc/munge/munge.key" "$root/var/lib/dbus/machine-id"
printf '%s\\n' '[Journal]' 'ReadKMsg=no' > "$root/etc/systemd/journald.conf.d/corral.conf"
if [ -n "$root" ]; then find "$root/var/log" -type f -exec truncate -s 0 {{}} +; fi
if [ -n "$root" ] || ! grep -q localhost /etc/hosts; then
  printf '%s\\n' '127.0.0.1 localhost' '::1 localhost ip6-localhost' > "$root/etc/hosts"
fi
: > "$root/etc/machine-id"
""",
        disabled=list(recipe.disabled),
        masked=list(recipe.masked),
    )
