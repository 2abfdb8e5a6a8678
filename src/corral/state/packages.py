"""Packages of apt: installed, held, and brought as files from this machine. Pure.

The files travel by the script's stdin and are compared with the digests in the plan; the index is
written there by dpkg-deb. apt trusts the folder (``trusted=yes``): only root can write it, and a
signature would be made and checked by that same root (docs/guide/slurm-versions.md#design-notes).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, call, sh
from corral.slurm.packages import NAMES, SLURMS, DebSet, Part
from corral.spec.impacts import Impact
from corral.state.base import HERE, Change, Context, SecretRef, Seen, Standalone

_PROGRAM: Final = "state/packages.sh"
_FILES: Final = "state/files.sh"


@dataclass(frozen=True, slots=True)
class Packages(Standalone):
    """Packages that must be installed, whatever their version; all missing ones at once.

    Attributes:
        name: what the set is for, such as ``slurm``.
        names: package names of the node's distribution.
        impact: what installing them does to the node's work.
        along: packages that later resources of the same stage want: where these are installed,
            the missing ones of those come in the same run of apt.
    """

    name: str
    names: tuple[str, ...]
    impact: Impact = Impact.NONE
    along: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return f"packages:{self.name}"

    def probe(self) -> Script:
        """``status name`` of each package that dpkg knows, one a line."""
        return sh(
            "dpkg-query -W -f '${{db:Status-Status}} ${{Package}}\\n' {names}", names=self.names
        )

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Install what is missing; services they bring are not started by the package."""
        installed = {
            line.partition(" ")[2]
            for line in seen.text.splitlines()
            if line.startswith("installed ")
        }
        missing = tuple(n for n in self.names if n not in installed)
        if not missing:
            return None
        return Change(
            self.id,
            f"install {', '.join(missing)}",
            "",
            " ".join(missing),
            call(_PROGRAM, "packages_install", *missing, "--", *self.along),
            self.impact,
        )


@dataclass(frozen=True, slots=True)
class SlurmPackages(Standalone):
    """Slurm's packages of one set, all in its version; one apt run for all of a machine.

    They must change together: each depends on a common one of exactly its version (upgrades.html).

    Attributes:
        debs: the set, which the node has as a repository (``DebRepository``).
        parts: what of Slurm the machine needs.
        reason: why a node takes no new jobs from an upgrade on, until its slurmd was restarted.
    """

    debs: DebSet
    parts: tuple[Part, ...]
    reason: str

    @property
    def id(self) -> str:
        return "packages:slurm"

    @property
    def names(self) -> tuple[str, ...]:
        return self.debs.names(self.parts)

    @property
    def _others(self) -> tuple[str, ...]:
        """Packages of the other family, which these exclude."""
        families = [parts for family, parts in NAMES.items() if family != self.debs.family]
        return tuple(name for parts in families for names in parts.values() for name in names)

    def probe(self) -> Script:
        """``status name version`` of each package that dpkg knows, one a line."""
        return sh(
            "dpkg-query -W -f '${{db:Status-Status}} ${{Package}} ${{Version}}\\n' {names}",
            names=(*self.names, *self._others),
        )

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Install, or bring to the set's version; running daemons are not restarted by it."""
        lines = [line.split() for line in seen.text.splitlines()]
        installed = {words[1]: words[2] for words in lines if words[0] == "installed"}
        desired = self.debs.package_version
        if all(installed.get(name) == desired for name in self.names):
            return None
        others = [name for name in installed if name not in self.names]
        before = ", ".join(sorted({v for n, v in installed.items() if v != desired or n in others}))
        verb = f"upgrade Slurm {before} to {desired}" if before else f"install Slurm {desired}"
        if others:
            verb = f"replace {', '.join(others)} {before} by Slurm {desired}"
        return Change(
            self.id,
            f"{verb}: {', '.join(self.names)}",
            before,
            desired,
            sh("{pause} && {bring}", pause=self._pause(), bring=self._bring(others))
            if installed
            else self._bring(others),
            Impact.RESTART if installed else Impact.NONE,
        )

    def _pause(self) -> Script:
        return call(_PROGRAM, "node_pause", self.reason)

    def _bring(self, others: list[str]) -> Script:
        """One apt run; it is refused when it would remove anything but another Slurm.

        What is there of another family goes by name (``slurmrestd-``): apt keeps what conflicts
        with none of the wanted.
        """
        exact = [f"{name}={self.debs.package_version}" for name in self.names]
        slurms = {*self.names}
        more = [f"{d.name}={d.version}" for d in self.debs.debs if d.name not in slurms]
        return call(
            _PROGRAM,
            "slurm_install",
            SLURMS,
            self.debs.family.value,
            *exact,
            *(f"{name}-" for name in others),
            "--",
            *more,
        )


@dataclass(frozen=True, slots=True)
class Holds:
    """All installed packages of these names are held.

    Attributes:
        name: what the set is for, such as ``slurm``.
        patterns: names with dpkg's wildcards, such as ``libslurm*``.
        after: ids of the resources that install such packages.
    """

    name: str
    patterns: tuple[str, ...]
    after: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return f"holds:{self.name}"

    @property
    def watches(self) -> tuple[str, ...]:
        """What installs such packages."""
        return self.after

    def probe(self) -> Script:
        """Names of those that are installed and not held."""
        return call(_PROGRAM, "packages_free", *self.patterns)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Hold those that are not; and those that this plan installs."""
        coming = any(w in context.changed for w in self.after)
        free = seen.text.split()
        if not free and not coming:
            return None
        return Change(
            self.id,
            f"hold packages of {self.name}: no upgrade replaces them by the way",
            " ".join(free),
            "held",
            call(_PROGRAM, "packages_hold", *self.patterns),
            keeps=tuple(f"hold:{name}" for name in free),
        )


DEBS: Final = "/var/lib/corral/debs"
SOURCES: Final = "/etc/apt/sources.list.d/corral-slurm.list"


@dataclass(frozen=True, slots=True)
class DebRepository(Standalone):
    """The files of a set, and apt's knowledge of them.

    Attributes:
        debs: the set.
    """

    debs: DebSet

    @property
    def id(self) -> str:
        return "debs:slurm"

    @property
    def path(self) -> str:
        """The folder on the node."""
        return f"{DEBS}/{self.debs.digest}"

    def probe(self) -> Script:
        """``complete`` when all files and their index are there and apt reads them."""
        return call(_PROGRAM, "debs_probe", self.path, SOURCES)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Send the files."""
        if seen.text == "complete":
            return None
        debs = self.debs.debs
        return Change(
            self.id,
            f"{len(debs)} package files of Slurm {self.debs.package_version}",
            "",
            self.path,
            self._receive(),
            secrets=tuple(SecretRef(d.file, HERE, f"{self.debs.folder}/{d.file}") for d in debs),
            keeps=(f"file:{SOURCES}",),
        )

    def _receive(self) -> Script:
        debs = self.debs.debs
        sums = "".join(f"{d.sha256}  {d.file}\n" for d in debs)
        return call(
            _PROGRAM,
            "debs_receive",
            self.path,
            SOURCES,
            f"deb [trusted=yes] file:{self.path} ./",
            sums,
            *(d.file for d in debs),
        )


def stanzas(text: str) -> list[dict[str, str]]:
    """Each stanza's fields by name in lower case; continued lines are joined by line feeds."""
    parsed: list[dict[str, str]] = [{}]
    key = ""
    for raw in text.splitlines():
        if not raw.strip():
            parsed.append({})
            key = ""
        elif raw.startswith("#"):
            continue
        elif raw[0] in " \t":
            if key:
                # A line that holds one dot stands for an empty one (inline PGP keys).
                more = raw.strip()
                parsed[-1][key] += "\n" + ("" if more == "." else more)
        else:
            name, _, value = raw.partition(":")
            key = name.strip().lower()
            parsed[-1][key] = value.strip()
    return [{k: v.strip() for k, v in fields.items()} for fields in parsed if fields]


FOLDER: Final = "/var/lib/corral/files"


@dataclass(frozen=True, slots=True)
class Artifact(Standalone):
    """A file on the node with exactly these bytes.

    Attributes:
        place: where it comes from: a path on this machine, sent by the script's stdin, or an https
            address, which the node fetches itself.
        sha256: digest of the entire file.
        name: its name on the node.
        machine: the only kind of machine it is for (uname -m); "": any.
        named_by: who states the digest, as a message has it.
        hint: what to do on another kind of machine.
    """

    place: str
    sha256: str
    name: str
    machine: str = ""
    named_by: str = "the cluster file declares"
    hint: str = ""

    @property
    def path(self) -> str:
        """Where the node has it."""
        return f"{FOLDER}/{self.sha256[:16]}/{self.name}"

    @property
    def id(self) -> str:
        return f"file:{self.path}"

    def probe(self) -> Script:
        """``complete`` when the file is there with its digest."""
        return call(_FILES, "complete_if_sum", self.path, self.sha256)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Send or fetch it; a file of another digest fails and is not kept."""
        if seen.text == "complete":
            return None
        here = not self.place.startswith("https:")
        wrong = f"{self.place} is another file than {self.named_by}"
        words = [self.path, self.sha256, wrong, *([] if here else [self.place])]
        function = "artifact_receive" if here else "artifact_fetch"
        if self.machine:
            function = "artifact_receive_for" if here else "artifact_fetch_for"
            words = [self.machine, f"{self.name} is for {self.machine}: {self.hint}", *words]
        return Change(
            self.id,
            f"{self.name} from {'this machine' if here else self.place}",
            "",
            self.sha256,
            call(_FILES, function, *words),
            secrets=(SecretRef(self.name, HERE, self.place),) if here else (),
        )
