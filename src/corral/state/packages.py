"""Packages of apt: installed, held, and brought as files from this machine. Pure.

The files travel by the script's stdin and are compared with the digests in the plan; the index is
written there by dpkg-deb. apt trusts the folder (``trusted=yes``): only root can write it, and a
signature would be made and checked by that same root (docs/guide/slurm-versions.md#design-notes).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, sh, shipped
from corral.slurm.packages import NAMES, SLURMS, DebSet, Family, Part
from corral.state.base import (
    HERE,
    Change,
    Context,
    Impact,
    SecretRef,
    Seen,
    Standalone,
)

# Debian's libslurm goes when SchedMD's Slurm comes: slurm-smd brings the same files when both are
# of one release, and does not name a conflict (24.11.5, seen). apt removes it after unpacking, so
# dpkg must be allowed to overwrite the files.
_LIBRARY: Final = sh(
    "drop=$(dpkg-query -W -f '${{db:Status-Status}} ${{Package}}\\n' 'libslurm[0-9]*' 2>&1 | "
    "sed -n 's/^installed \\(.*\\)/\\1-/p'); "
    '[ -z "$drop" ] || drop="$drop -o Dpkg::Options::=--force-overwrite";'
)


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
        """``packages:<name>``."""
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
            _install(missing, self.along),
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
        """``packages:slurm``."""
        return "packages:slurm"

    @property
    def names(self) -> tuple[str, ...]:
        """Package names."""
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
            sh("{pause}; {bring}", pause=self._pause(), bring=self._bring(others))
            if installed
            else self._bring(others),
            Impact.RESTART if installed else Impact.NONE,
        )

    def _pause(self) -> Script:
        # A node that somebody drained keeps its reason; one that Slurm does not know has no jobs.
        return sh(
            "{functions}\n"
            'n=$(uname -n); if s=$(timeout 30 scontrol -o show node "$n" 2>/dev/null) && '
            '! printf "%s\\n" "$s" | drained_nodes | grep -q .; then '
            'timeout 30 scontrol update "NodeName=$n" State=DRAIN {reason} >&2 || exit 1; fi',
            functions=shipped("slurm-nodes.sh"),
            reason=f"Reason={self.reason}",
        )

    def _bring(self, others: list[str]) -> Script:
        """One apt run; it is refused when it would remove anything but another Slurm.

        What is there of another family goes by name (``slurmrestd-``): apt keeps what conflicts
        with none of the wanted.
        """
        exact = [f"{name}={self.debs.package_version}" for name in self.names]
        slurms = {*self.names}
        more = [f"{d.name}={d.version}" for d in self.debs.debs if d.name not in slurms]
        return sh(
            # What the set holds and the machine has already moves with it: Slurm may need newer
            # libraries, which break others of the same build (libpmix2t64 and libhwloc15, seen).
            "more=; for p in {more}; do dpkg-query -W -f '${{db:Status-Status}}' \"${{p%%=*}}\" "
            '2>/dev/null | grep -qx installed && more="$more $p"; done; '
            'apt() {{ apt-get "$@" -q --no-install-recommends --allow-change-held-packages '
            "-o DPkg::Lock::Timeout=300 -o Dpkg::Options::=--force-confold "
            # Slim images leave headers out (dpkg.cfg's path-exclude): Pyxis wants Slurm's.
            "-o Dpkg::Options::=--path-include=/usr/include/\\* -f {exact} {gone} "
            "$drop $more; }}; {guard}; {library} {{ dpkg --configure -a >&2 || :; }} && "
            "{{ s=$(apt install -s) || {{ apt-get update -q -o DPkg::Lock::Timeout=300 >&2 && "
            "s=$(apt install -s); }}; }} && "
            "gone=$(echo \"$s\" | sed -n 's/^Remv \\([^ ]*\\).*/\\1/p' | "
            "grep -vxE {slurms} || :) && "
            '{{ [ -z "$gone" ] || {{ echo "apt would remove" $gone >&2; exit 1; }}; }} && '
            "apt install -y >&2",
            more=more,
            exact=exact,
            gone=[f"{name}-" for name in others],
            library=_LIBRARY if self.debs.family is Family.SCHEDMD else sh("drop=;"),
            guard=_guard(),
            slurms=SLURMS,
        )


def _guard() -> Script:
    # policy-rc.d 101: a package must not start slurmd before its configuration is there
    # (Debian Policy 9.3.3.1, invoke-rc.d(8)); needrestart would restart it as well.
    return sh(
        "export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1; "
        "p=/usr/sbin/policy-rc.d; [ -e $p ] || {{ "
        "printf '#!/bin/sh\\n# corral\\nexit 101\\n' > $p; chmod 755 $p; }}; "
        "clean() {{ grep -qx '# corral' $p 2>/dev/null && rm -f $p; }}; trap clean EXIT"
    )


def _install(names: tuple[str, ...], along: tuple[str, ...]) -> Script:
    # dpkg --configure -a fixes what a power cut left; what was unpacked before what it depends on,
    # only apt-get -f does. Held ones too: Corral holds what it installs.
    return sh(
        'there() {{ [ "$(dpkg-query -W -f \'${{db:Status-Status}}\\n\' "$@" 2>/dev/null | '
        'grep -cx installed)" -ge $# ]; }}; there {names} && exit 0; '
        "{guard}; get() {{ apt-get install -y -q --no-install-recommends "
        "--allow-change-held-packages -o DPkg::Lock::Timeout=300 "
        # A configuration file that the owner has there already stays: dpkg would ask.
        "-o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold "
        '-f {names} "$@"; }}; '
        "{{ dpkg --force-confdef --force-confold --configure -a || :; }} && "
        "{{ {more}; get $more || {{ apt-get update -q -o DPkg::Lock::Timeout=300 && "
        "{{ get $more || get; }}; }}; }} >&2",
        guard=_guard(),
        names=names,
        more=_missing(along),
    )


def _missing(names: tuple[str, ...]) -> Script:
    # One that is there already is not named: apt would bring it to a newer version.
    if not names:
        return sh("more=")
    return sh('more=; for p in {names}; do there "$p" || more="$more $p"; done', names=names)


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
        """``holds:<name>``."""
        return f"holds:{self.name}"

    @property
    def watches(self) -> tuple[str, ...]:
        """What installs such packages."""
        return self.after

    def probe(self) -> Script:
        """Names of those that are installed and not held."""
        return self._free()

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
            sh('p=$({free}); [ -z "$p" ] || apt-mark hold $p >&2', free=self._free()),
            keeps=tuple(f"hold:{name}" for name in free),
        )

    def _free(self) -> Script:
        return sh(
            "dpkg-query -W -f '${{db:Status-Want}} ${{db:Status-Status}} ${{Package}}\\n' "
            '{patterns} 2>/dev/null | awk \'$1 != "hold" && $2 == "installed" {{ print $3 }}\' '
            "| sort -u",
            patterns=self.patterns,
        )


DEBS: Final = "/var/lib/corral/debs"
SOURCES: Final = "/etc/apt/sources.list.d/corral-slurm.list"

_SUMS: Final = "SHA256SUMS"


@dataclass(frozen=True, slots=True)
class DebRepository(Standalone):
    """The files of a set, and apt's knowledge of them.

    Attributes:
        debs: the set.
    """

    debs: DebSet

    @property
    def id(self) -> str:
        """``debs:slurm``."""
        return "debs:slurm"

    @property
    def path(self) -> str:
        """The folder on the node."""
        return f"{DEBS}/{self.debs.digest}"

    def probe(self) -> Script:
        """``complete`` when all files and their index are there and apt reads them."""
        return sh(
            "cd {path} && [ -s Packages ] && sha256sum -c --quiet --status {sums} && "
            "grep -qsF {path} {sources} && echo complete || echo absent",
            path=self.path,
            sums=_SUMS,
            sources=SOURCES,
        )

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
        # Other sets of Corral go: they would be offered by nobody and fill the disk.
        return sh(
            "umask 022; rm -rf {path}.new && mkdir -p {path}.new && cd {path}.new && "
            'for f in {files}; do IFS= read -r n && head -c "$n" > "$f" || exit 1; done && '
            "printf %s {sums} > {name} && sha256sum -c --quiet {name} && "
            'for f in {files}; do dpkg-deb -f "$f" > .c && [ -s .c ] && cat .c && '
            "printf 'Filename: ./%s\\nSize: %s\\nSHA256: %s\\n\\n' \"$f\" "
            '"$(stat -c %s "$f")" "$(sha256sum < "$f" | cut -d\' \' -f1)" || exit 1; done '
            "> Packages && rm -f .c && chmod 755 . && cd / && "
            'for d in {root}/*; do [ "$d" = {path}.new ] || rm -rf "$d"; done && '
            "mv {path}.new {path} && mkdir -p {etc} && "
            "printf '%s\\n' '# Written by Corral.' {line} > {sources}.corral && "
            "mv -f {sources}.corral {sources} && "
            "apt-get update -q -o DPkg::Lock::Timeout=300 -o Dir::Etc::sourcelist={sources} "
            "-o Dir::Etc::sourceparts=/dev/null -o APT::Get::List-Cleanup=0 >&2",
            path=self.path,
            root=DEBS,
            files=[d.file for d in debs],
            sums=sums,
            name=_SUMS,
            etc=SOURCES.rpartition("/")[0],
            line=f"deb [trusted=yes] file:{self.path} ./",
            sources=SOURCES,
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
    """

    place: str
    sha256: str
    name: str

    @property
    def path(self) -> str:
        """Where the node has it."""
        return f"{FOLDER}/{self.sha256[:16]}/{self.name}"

    @property
    def id(self) -> str:
        """``file:<path>``."""
        return f"file:{self.path}"

    def probe(self) -> Script:
        """``complete`` when the file is there with its digest."""
        return sh(
            '[ "$(sha256sum < {path} 2>/dev/null | cut -c 1-64)" = {sum} ] && echo complete || '
            "echo absent",
            path=self.path,
            sum=self.sha256,
        )

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Send or fetch it; a file of another digest fails and is not kept."""
        if seen.text == "complete":
            return None
        here = not self.place.startswith("https:")
        get = (
            sh('IFS= read -r n && head -c "$n" > {new}', new=f"{self.path}.new")
            if here
            else sh("curl -fsSL --retry 3 -o {new} {url}", new=f"{self.path}.new", url=self.place)
        )
        return Change(
            self.id,
            f"{self.name} from {'this machine' if here else self.place}",
            "",
            self.sha256,
            sh(
                'mkdir -p {folder} && {get} && {{ [ "$(sha256sum < {new} | cut -c 1-64)" = {sum} ] '
                "|| {{ rm -f {new}; echo {wrong} >&2; exit 1; }}; }} && mv -f {new} {path}",
                folder=self.path.rpartition("/")[0],
                get=get,
                sum=self.sha256,
                new=f"{self.path}.new",
                wrong=f"{self.place} is another file than the cluster file declares",
                path=self.path,
            ),
            secrets=(SecretRef(self.name, HERE, self.place),) if here else (),
        )
