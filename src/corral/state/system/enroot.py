"""Enroot's packages, the kernel's consent to user namespaces, and the Pyxis plugin. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, call
from corral.spec.impacts import Impact
from corral.state.base import Change, Context, Seen

SYSCTL: Final = "/etc/sysctl.d/60-corral-enroot.conf"
PLUGIN: Final = "/usr/local/lib/slurm/spank_pyxis.so"
STAMP: Final = "/usr/local/lib/slurm/spank_pyxis.made-from"
BUILD_PACKAGES: Final = ("gcc", "make", "libc6-dev")
DEPENDS: Final = ("bsdmainutils", "libcap2-bin", "passwd")
"""What Enroot's packages depend on besides the packages that the role names (its deb's control)."""

_PROGRAM: Final = "state/containers.sh"


@dataclass(frozen=True, slots=True)
class EnrootPackages:
    """Enroot, from files that are on the node already.

    Attributes:
        files: paths of the .deb files.
        sources: ids of the resources that bring them.
    """

    files: tuple[str, ...]
    sources: tuple[str, ...]

    @property
    def id(self) -> str:
        return "packages:enroot"

    @property
    def watches(self) -> tuple[str, ...]:
        """The files."""
        return self.sources

    def probe(self) -> Script:
        """``name version`` of each file, and of what is installed under these names."""
        return call(_PROGRAM, "enroot_probe", *self.files)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Install them with what they need of the distribution; also over another version."""
        lines = [line.split(maxsplit=1) for line in seen.text.splitlines()]
        desired = {rest for word, rest in lines if word == "wanted"}
        installed = {rest for word, rest in lines if word == "installed"}
        late = any(s in context.changed for s in self.sources)
        if not late and len(desired) == len(self.files) and desired <= installed:
            return None
        return Change(
            self.id,
            "install Enroot" if not installed else f"replace {', '.join(sorted(installed))}",
            "\n".join(sorted(installed)),
            " ".join(f.rpartition("/")[2] for f in self.files),
            call(_PROGRAM, "enroot_install", *self.files),
        )


@dataclass(frozen=True, slots=True)
class UserNamespaces:
    """People may make user namespaces, which is how Enroot needs no root."""

    @property
    def id(self) -> str:
        """``file:`` of its sysctl settings."""
        return f"file:{SYSCTL}"

    @property
    def watches(self) -> tuple[str, ...]:
        """Enroot's packages, which bring an AppArmor profile where one is needed."""
        return ("packages:enroot",)

    def probe(self) -> Script:
        """``yes``, or which settings forbid it."""
        return call(_PROGRAM, "userns_probe")

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Set what forbids it."""
        if seen.text == "yes":
            return None
        values = dict(line.split() for line in seen.text.splitlines() if line.count(" ") == 1)
        text = "# Written by Corral: Enroot needs user namespaces (its requirements.md).\n"
        for key, bad, good in (
            ("user/max_user_namespaces", ("0", "1"), "65536"),
            ("kernel/unprivileged_userns_clone", ("0",), "1"),
            # Only where the package's AppArmor profile is not what allows it (built from source).
            ("kernel/apparmor_restrict_unprivileged_userns", ("1",), "0"),
        ):
            if values.get(key) in bad:
                text += f"{key.replace('/', '.', 1)} = {good}\n"
        return Change(
            self.id,
            "let people make user namespaces",
            seen.text,
            text,
            call(_PROGRAM, "sysctl_write", SYSCTL, text),
        )


@dataclass(frozen=True, slots=True)
class PyxisPlugin:
    """The plugin, compiled against the Slurm that is on the machine.

    Attributes:
        source: path of the source archive on the node.
        sha256: its digest.
        headers: package with Slurm's headers.
        sources: ids of the resources that bring source and Slurm.
    """

    source: str
    sha256: str
    headers: str
    sources: tuple[str, ...]

    @property
    def id(self) -> str:
        """``file:`` of the plugin."""
        return f"file:{PLUGIN}"

    @property
    def watches(self) -> tuple[str, ...]:
        """What it is made from."""
        return self.sources

    def probe(self) -> Script:
        """``current``, or what it was made from."""
        return call(_PROGRAM, "pyxis_probe", PLUGIN, STAMP, self.sha256[:16])

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Compile it; jobs that run keep the old one open."""
        late = any(s in context.changed for s in self.sources)
        if seen.text == "current" and not late:
            return None
        before = "" if seen.text == "absent" else seen.text
        return Change(
            self.id,
            ("recompile" if before else "compile") + " Pyxis against this machine's Slurm",
            before,
            self.sha256[:16],
            call(
                _PROGRAM,
                "pyxis_make",
                PLUGIN,
                STAMP,
                self.sha256[:16],
                self.source,
                self._like,
                self.headers,
                *BUILD_PACKAGES,
            ),
            Impact.NONE,
            keeps=(f"file:{STAMP}",),
        )

    @property
    def _like(self) -> str:
        """The package whose version the headers must have."""
        return "slurm-smd" if self.headers == "slurm-smd-dev" else "slurm-client"
