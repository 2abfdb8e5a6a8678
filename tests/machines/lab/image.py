"""The root image that all machines of one suite share: a bare Debian, built once per recipe.

Nothing of Corral, Slurm, a database or NTP is installed. Packages that tests install lie as files
in apt's own cache (``/var/cache/apt/archives``), so that three machines do not fetch the same
each; apt checks them against its index like any other.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import platformdirs

from corral.providers.containers import archive
from tests.machines.lab import kernel
from tests.machines.lab.kernel import Kernel

USER, ASKED, PASSWORD = "admin", "asked", "bare-metal"
"""USER may sudo without a password, ASKED with PASSWORD; both have the lab's key."""
HOSTNAME = "debian"
DISK = "6G"
BUILD_S = 900
RESOLVERS = (Path("/run/systemd/resolve/resolv.conf"), Path("/etc/resolv.conf"))
TOOLS = ("mmdebstrap", "patchelf", "mke2fs", "ip", "iptables", "ssh", "ssh-keygen")

_OS = (
    *("systemd", "systemd-sysv", "dbus", "udev", "openssh-server", "sudo", "ca-certificates"),
    *("iproute2", "iputils-ping", "procps", "less", "kmod", "libpam-systemd", "e2fsprogs", "cron"),
)
_FETCHED = (
    *("slurmctld", "slurmd", "slurmdbd", "slurmrestd", "sackd", "slurm-client", "munge"),
    *("slurm-wlm-basic-plugins", "slurm-wlm-mysql-plugin", "slurm-wlm-jwt-plugin"),
    *("mariadb-server", "chrony", "nfs-kernel-server", "nfs-common", "python3-numpy"),
)
_LEFT_OUT = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*")
_MODULES = ("fs", "net", "drivers/net", "drivers/block", "crypto", "lib", "kernel")


@dataclass(frozen=True)
class Suite:
    """One release as bare machines run it.

    Attributes:
        name: release in the archive.
        components: components by pocket of the archive.
        fetched: packages that are in apt's cache, not installed.
    """

    name: str
    components: dict[str, tuple[str, ...]]
    fetched: tuple[str, ...] = _FETCHED


SUITES = {
    "trixie": Suite("trixie", {p: ("main",) for p in ("", "security", "updates")}),
    "forky": Suite("forky", {"": ("main",)}),
}


def cache() -> Path:
    """Where images and labs are kept: $CORRAL_TEST_CACHE, else the user's cache folder."""
    given = os.environ.get("CORRAL_TEST_CACHE", "")
    return Path(given) if given else Path(platformdirs.user_cache_dir("corral-tests")) / "machines"


def needs() -> str:
    """Why such machines cannot run here, "" when they can."""
    if os.geteuid() != 0:
        return "machines need root (taps, bridges, mmdebstrap)"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"not installed: {', '.join(missing)}"
    if not Path("/dev/net/tun").exists():
        return "no /dev/net/tun"
    return ""


def key() -> Path:
    """The private key that opens all machines; made on first use."""
    path = cache() / "id_ed25519"
    if not path.exists():
        cache().mkdir(mode=0o700, parents=True, exist_ok=True)
        made = path.with_suffix(f".{os.getpid()}")
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "corral-lab", "-f", str(made)]
        subprocess.run(argv, check=True)
        made.with_name(made.name + ".pub").replace(path.with_suffix(".pub"))
        made.replace(path)
    return path


def built_kernel() -> Kernel:
    """The machines' kernel, unpacked when it is not there yet (a few seconds).

    The suite is one that still changes: what a cache has is kept, so that its images stay good.
    """
    kept = Kernel(cache() / f"kernel-{kernel.SUITE}")
    with _locked("kernel"):
        if not kept.tree.exists():
            with tempfile.TemporaryDirectory(dir=cache(), prefix="build-") as name:
                made = Path(name) / "tree"
                recipe = Suite(kernel.SUITE, {"": ("main",)})
                _debootstrap(recipe, made, "--variant=extract", f"--include={kernel.PACKAGE}")
                Kernel(made).settle(kept.tree)
                made.rename(kept.tree)
    return kept


def build(suite: str = "trixie") -> Path:
    """The image of a suite, built when there is none of this recipe yet (about a minute)."""
    recipe = SUITES[suite]
    modules = built_kernel().modules
    with _locked("image"):
        customize = _customize(recipe, modules)
        path = cache() / f"{suite}-{_digest(recipe, customize)}.ext4"
        if not path.exists():
            _build(recipe, customize, path)
            for old in cache().glob(f"{suite}-*.ext4"):
                # Disks of running machines lie over an old image by its name: those stay.
                if old != path and not any(old.name in p.read_text() for p in _records()):
                    old.unlink()
        return path


def _records() -> list[Path]:
    return [*(cache() / "labs").glob("*/lab.json")]


@contextmanager
def _locked(name: str) -> Iterator[None]:
    cache().mkdir(mode=0o700, parents=True, exist_ok=True)
    with (cache() / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _digest(recipe: Suite, customize: str) -> str:
    parts = [json.dumps(asdict(recipe), sort_keys=True), customize, DISK, *_OS]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _sources(recipe: Suite) -> tuple[archive.Source, ...]:
    codename = archive.host_release()["VERSION_CODENAME"]
    return archive.for_suite(archive.host_sources(), codename, recipe.name, recipe.components)


def _apt_option(name: str) -> str:
    argv = ["apt-config", "shell", "v", name]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


def _unchecked() -> list[str]:
    """What of an archive's dates this machine's administrator has apt not look at."""
    fields = ("Check-Valid-Until", "Check-Date")
    return [field for field in fields if "false" in _apt_option(f"Acquire::{field}")]


def _deb822(source: archive.Source) -> str:
    # What this machine's administrator decided for a frozen archive goes for its guests as well
    # (failures.md F58: a Release file past its Valid-Until).
    lines = [f"URIs: {source.uri}", f"Suites: {source.suite}"]
    lines.append(f"Components: {' '.join(source.components)}")
    lines += [f"{field}: no" for field in _unchecked()]
    lines.append("Trusted: yes" if source.trusted else f"Signed-By: {source.signed_by}")
    return "\n".join(["Types: deb", *lines, ""])


def _resolver() -> str:
    for path in RESOLVERS:
        if path.is_file():
            lines = path.read_text().splitlines()
            servers = [x for x in lines if x.startswith("nameserver") and " 127." not in x]
            if servers:
                return "\n".join(servers)
    return ""


def _customize(recipe: Suite, modules: Path) -> str:
    sources = "\n".join(_deb822(s) for s in _sources(recipe))
    return f"""#!/bin/sh
set -eu
root=$1
modules=$root/usr/lib/modules/{modules.name}
mkdir -p "$modules/kernel/drivers"
cp {modules}/modules.* "$modules/"
for part in {" ".join(_MODULES)}; do
  cp -r "{modules}/kernel/$part" "$modules/kernel/$part"
done
chroot "$root" depmod {modules.name}
rm -f "$root/etc/apt/sources.list" "$root"/etc/apt/sources.list.d/*
cat > "$root/etc/apt/sources.list.d/debian.sources" <<'END'
{sources}
END
printf '%s\\n' '{_resolver()}' > "$root/etc/resolv.conf"
chroot "$root" apt-get -qq update
chroot "$root" apt-get -qq -y --no-install-recommends --download-only install \\
  {" ".join(recipe.fetched)} >/dev/null
rm -rf "$root"/var/lib/apt/lists/*
echo {HOSTNAME} > "$root/etc/hostname"
printf '%s\\n' '127.0.0.1 localhost' '127.0.1.1 {HOSTNAME}' '::1 localhost' > "$root/etc/hosts"
echo '/dev/ubda / ext4 defaults,noatime 0 1' > "$root/etc/fstab"
for user in {USER} {ASKED}; do
  chroot "$root" useradd -m -s /bin/bash -G sudo "$user"
  mkdir -m 700 "$root/home/$user/.ssh"
  printf '%s\\n' '{key().with_suffix(".pub").read_text().strip()}' \\
    > "$root/home/$user/.ssh/authorized_keys"
  chroot "$root" chown -R "$user:$user" "/home/$user/.ssh"
done
echo '{ASKED}:{PASSWORD}' | chroot "$root" chpasswd
echo '{USER} ALL=(ALL) NOPASSWD: ALL' > "$root/etc/sudoers.d/{USER}"
chmod 440 "$root/etc/sudoers.d/{USER}"
units=$root/etc/systemd/system
# Each machine makes its own host keys. To systemd an empty machine-id is not a first boot.
rm -f "$root"/etc/ssh/ssh_host_*
mkdir -p "$units/sshd-keygen.service.d"
printf '%s\\n' '[Unit]' 'ConditionFirstBoot=' \
  'ConditionPathExists=!/etc/ssh/ssh_host_ed25519_key' \
  > "$units/sshd-keygen.service.d/lab.conf"
# The address comes from the kernel's command line (ip=), read by systemd-network-generator(8).
chroot "$root" systemctl -q enable ssh.service systemd-networkd.service \\
  systemd-network-generator.service
chroot "$root" systemctl -q disable apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer
for unit in getty@.service serial-getty@.service systemd-firstboot.service \\
    systemd-networkd-wait-online.service e2scrub_reap.service ldconfig.service; do
  ln -sf /dev/null "$units/$unit"
done
find "$root/var/log" -type f -exec truncate -s 0 {{}} +
: > "$root/etc/machine-id"
rm -f "$root/var/lib/dbus/machine-id"
"""


def _build(recipe: Suite, customize: str, path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="build-") as name:
        work = Path(name)
        work.chmod(0o755)
        hook, tree, made = work / "hook", work / "tree", work / "root.ext4"
        hook.write_text(customize)
        hook.chmod(0o700)
        argv = ["--variant=minbase", '--aptopt=APT::Install-Recommends "false"']
        argv += ["--dpkgopt=force-unsafe-io"]
        argv += [f"--dpkgopt=path-exclude={pattern}" for pattern in _LEFT_OUT]
        argv += [f'--customize-hook={hook} "$1"', "--skip=cleanup/apt", "--skip=cleanup/tmp"]
        _debootstrap(recipe, tree, *argv, f"--include={','.join(_OS)}")
        # These are for building only: a machine's own dpkg unpacks what it is given.
        for left in (tree / "etc/dpkg/dpkg.cfg.d", tree / "etc/apt/apt.conf.d"):
            for file in left.glob("99mmdebstrap*"):
                file.unlink()
        argv = ["mke2fs", "-q", "-t", "ext4", "-L", "root", "-d", str(tree)]
        _run([*argv, "-E", "lazy_itable_init=1,lazy_journal_init=1", str(made), DISK])
        shutil.rmtree(tree)
        made.chmod(0o444)
        made.rename(path)


def _debootstrap(recipe: Suite, tree: Path, *options: str) -> None:
    """Packages of a suite in a new folder, from where this machine's own come."""
    sources = _sources(recipe)
    argv = ["mmdebstrap", "--mode=root", "--format=directory", *options]
    argv += [f'--aptopt=Acquire::{field} "false"' for field in _unchecked()]
    signed = next((s.signed_by for s in sources if s.signed_by.startswith("/")), "")
    argv += [f"--keyring={signed}"] if signed else []
    _run([*argv, recipe.name, str(tree), *(s.line() for s in sources)])


def _run(argv: list[str]) -> None:
    end = subprocess.run(argv, capture_output=True, text=True, timeout=BUILD_S, check=False)
    if end.returncode != 0:
        raise RuntimeError(f"{argv[0]} ended with {end.returncode}:\n{end.stderr[-3000:]}")
