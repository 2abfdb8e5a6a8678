"""What an NVIDIA driver needs around its packages. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, call, sh
from corral.spec.impacts import Impact
from corral.state.base import Change, Context, Seen, Standalone

SOURCES: Final = "/etc/apt/sources.list.d/corral-components.list"
_PROGRAM: Final = "state/nvidia.sh"
APT: Final = Script(
    "apt-get install -y -q --no-install-recommends --allow-change-held-packages "
    "-o DPkg::Lock::Timeout=300"
)


@dataclass(frozen=True, slots=True)
class Components(Standalone):
    """More components of the archive that the machine uses already.

    Debian's driver is in non-free, Ubuntu's in restricted (a default there).

    Attributes:
        package: a package of theirs: when apt offers it, nothing is to do.
        names: components to add, in order.
    """

    package: str
    names: tuple[str, ...]

    @property
    def id(self) -> str:
        """``file:<the list that is written>``."""
        return f"file:{SOURCES}"

    def probe(self) -> Script:
        """Whether apt offers the package."""
        return sh(
            "LC_ALL=C apt-cache policy {package} | awk '/Candidate:/ {{ c = $2 }} "
            'END {{ print (c == "" || c == "(none)") ? "absent" : "offered" }}\'',
            package=self.package,
        )

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Name the components in addition to ``main`` of each archive in use."""
        if seen.text == "offered":
            return None
        return Change(
            self.id,
            f"apt: components {' '.join(self.names)} of the archives in use",
            "",
            " ".join(self.names),
            call(_PROGRAM, "components_add", SOURCES, self.package, *self.names),
        )


@dataclass(frozen=True, slots=True)
class Keyring(Standalone):
    """The vendor's repository, by the package that brings its address and key.

    Attributes:
        source: https address of the package, or its path on the node.
        sha256: its digest; "" for a path.
        package: the package's name.
        machine: the only kind of machine it is for (uname -m); "": any.
    """

    source: str
    sha256: str = ""
    package: str = "cuda-keyring"
    machine: str = ""

    @property
    def id(self) -> str:
        return f"packages:{self.package}"

    def probe(self) -> Script:
        """Whether it is installed."""
        return sh("dpkg-query -W -f '${{db:Status-Status}}' {package}", package=self.package)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Fetch it with apt's own helper, which checks the digest; install it; read the lists."""
        if seen.text == "installed":
            return None
        fetched = f"/var/cache/apt/archives/corral-{self.package}.deb"
        fetch = self.source.startswith("https:")
        function, digest = (
            ("keyring_fetch", (f"SHA256:{self.sha256}",)) if fetch else ("keyring_copy", ())
        )
        why = f"{self.source} is for {self.machine}: set software.nvidia.vendor_repo"
        return Change(
            self.id,
            f"the vendor's repository, by {self.source}",
            "",
            self.package,
            call(_PROGRAM, function, self.machine, why, fetched, self.source, *digest),
        )


@dataclass(frozen=True, slots=True)
class Headers(Standalone):
    """Headers of the kernel that runs, and of those that will follow it: dkms builds with them."""

    @property
    def id(self) -> str:
        return "packages:kernel-headers"

    def probe(self) -> Script:
        """Present or absent."""
        return call(_PROGRAM, "headers_probe")

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Install them: of the running kernel, and the metapackage with each kernel's one."""
        if seen.text == "present":
            return None
        return Change(
            self.id,
            "install kernel headers",
            "",
            "present",
            call(_PROGRAM, "headers_install"),
        )


@dataclass(frozen=True, slots=True)
class DriverPart:
    """A package at the very version of the driver, such as the fabric manager: others refuse (F23).

    Attributes:
        name: what it is: ``fabric-manager``.
        package: its package.
        unit: its service, which starts with the machine; "" for none.
        after: ids of the resources that bring the driver.
    """

    name: str
    package: str
    unit: str = ""
    after: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return f"packages:{self.name}"

    @property
    def watches(self) -> tuple[str, ...]:
        """The driver's packages."""
        return self.after

    def probe(self) -> Script:
        """``driver <version>`` and ``part <version>``, upstream's part of each."""
        return call(_PROGRAM, "part_probe", self.package)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Install the version that the driver has."""
        lines = [line.split() for line in seen.text.splitlines()]
        versions = {line[0]: line[1] for line in lines if len(line) > 1}
        driver, part = versions.get("driver", ""), versions.get("part", "")
        coming = any(w in context.changed for w in self.after)
        if driver and driver == part and not coming:
            return None
        return Change(
            self.id,
            f"install {self.package} at the driver's version",
            part,
            driver or "the driver's version",
            call(_PROGRAM, "part_install", self.package, *([self.unit] if self.unit else [])),
            Impact.DRAIN,
        )
