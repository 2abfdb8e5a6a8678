"""What an NVIDIA driver needs around its packages. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, sh
from corral.state.base import (
    Change,
    Context,
    Impact,
    Seen,
    Standalone,
)

SOURCES: Final = "/etc/apt/sources.list.d/corral-components.list"
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
            # indextargets reads both styles of source files (apt-get(8)); a Signed-By that is a key
            # itself has line breaks, which a one-line source cannot hold.
            sh(
                "t=$(mktemp {path}.XXXXXX) && apt-get indextargets --format "
                "'$(COMPONENT)|$(SIGNED_BY)|$(REPO_URI)|$(RELEASE)' 'Created-By: Packages' | "
                "sort -u | while IFS='|' read -r c k u r; do "
                '[ "$c" = main ] || continue; case "$k" in /*) o="[signed-by=$k] ";; *) o=;; esac; '
                'echo "deb $o$u $r "{names}; done > "$t" && [ -s "$t" ] && '
                'chmod 644 "$t" && mv -f "$t" {path} && '
                "apt-get update -q -o DPkg::Lock::Timeout=300 >&2 && "
                "LC_ALL=C apt-cache policy {package} | grep -q 'Candidate: [0-9]'",
                names=" ".join(self.names),
                path=SOURCES,
                package=self.package,
            ),
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
        """``packages:<package>``."""
        return f"packages:{self.package}"

    def probe(self) -> Script:
        """Whether it is installed."""
        return sh("dpkg-query -W -f '${{db:Status-Status}}' {package}", package=self.package)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Fetch it with apt's own helper, which checks the digest; install it; read the lists."""
        if seen.text == "installed":
            return None
        fetched = f"/var/cache/apt/archives/corral-{self.package}.deb"
        get = (
            sh(
                "/usr/lib/apt/apt-helper download-file {source} {to} {sum} >&2",
                source=self.source,
                to=fetched,
                sum=f"SHA256:{self.sha256}",
            )
            if self.source.startswith("https:")
            else sh("cp {source} {to}", source=self.source, to=fetched)
        )
        if self.machine:
            get = sh(
                '{{ [ "$(uname -m)" = {machine} ] || {{ echo {why} >&2; false; }}; }} && {get}',
                machine=self.machine,
                why=f"{self.source} is for {self.machine}: set software.nvidia.vendor_repo",
                get=get,
            )
        return Change(
            self.id,
            f"the vendor's repository, by {self.source}",
            "",
            self.package,
            sh(
                "export DEBIAN_FRONTEND=noninteractive; {get} && dpkg -i {to} >&2 && rm -f {to} && "
                "apt-get update -q -o DPkg::Lock::Timeout=300 >&2",
                get=get,
                to=fetched,
            ),
        )


@dataclass(frozen=True, slots=True)
class Headers(Standalone):
    """Headers of the kernel that runs, and of those that will follow it: dkms builds with them."""

    @property
    def id(self) -> str:
        """``packages:kernel-headers``."""
        return "packages:kernel-headers"

    def probe(self) -> Script:
        """Present or absent."""
        return sh("[ -e /lib/modules/$(uname -r)/build ] && echo present || echo absent")

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Install them: of the running kernel, and the metapackage with each kernel's one."""
        if seen.text == "present":
            return None
        return Change(
            self.id,
            "install kernel headers",
            "",
            "present",
            # linux-image-generic is a metapackage, linux-image-6.8.0-149-generic a kernel: a new
            # kernel without headers would boot without a driver.
            sh(
                "export DEBIAN_FRONTEND=noninteractive; metas=$(dpkg-query -W -f "
                "'${{db:Status-Status}} ${{Package}}\\n' 'linux-image-*' 2>/dev/null | "
                "sed -n 's/^installed linux-image-\\([a-z].*\\)$/linux-headers-\\1/p' | "
                "grep -v unsigned); {{ {apt} linux-headers-$(uname -r) $metas || "
                "{{ apt-get update -q -o DPkg::Lock::Timeout=300 && "
                "{apt} linux-headers-$(uname -r) $metas; }}; }} >&2",
                apt=APT,
            ),
        )


@dataclass(frozen=True, slots=True)
class FabricManager:
    """The manager of NVSwitches, at the very version of the driver; another one refuses (F23).

    Attributes:
        package: its package.
        after: ids of the resources that bring the driver.
    """

    package: str
    after: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """``packages:fabric-manager``."""
        return "packages:fabric-manager"

    @property
    def watches(self) -> tuple[str, ...]:
        """The driver's packages."""
        return self.after

    def probe(self) -> Script:
        """``driver <version>`` and ``manager <version>``, upstream's part of each."""
        return sh(
            "i=$(readlink -f /usr/lib/*-linux-gnu/libnvidia-ml.so.1 | head -n 1); "
            'echo "driver ${{i##*.so.}}"; '
            "m=$(dpkg-query -W -f '${{db:Status-Status}} ${{Version}}' {package}); "
            'case "$m" in "installed "*) m=${{m#installed }}; echo "manager ${{m%%-*}}";; esac',
            package=self.package,
        )

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Install the version that the driver has."""
        lines = [line.split() for line in seen.text.splitlines()]
        versions = {line[0]: line[1] for line in lines if len(line) > 1}
        driver, manager = versions.get("driver", ""), versions.get("manager", "")
        coming = any(w in context.changed for w in self.after)
        if driver and driver == manager and not coming:
            return None
        return Change(
            self.id,
            f"install {self.package} at the driver's version",
            manager,
            driver or "the driver's version",
            sh(
                "export DEBIAN_FRONTEND=noninteractive; "
                "d=$(readlink -f /usr/lib/*-linux-gnu/libnvidia-ml.so.1 | head -n 1); "
                "d=${{d##*.so.}}; "
                "v=$(LC_ALL=C apt-cache madison {package} | awk -F' *[|] *' -v d=\"$d\" "
                "'index($2, d \"-\") == 1 {{ print $2; exit }}'); "
                'if [ -z "$v" ]; then echo "no source offers {package} of version $d" >&2; exit 1; '
                'fi; {apt} --allow-downgrades {package}="$v" >&2 && '
                "systemctl enable -q nvidia-fabricmanager.service",
                package=self.package,
                apt=APT,
            ),
            Impact.DRAIN,
        )
