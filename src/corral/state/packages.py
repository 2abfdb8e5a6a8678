"""Packages (apt): those of the distribution, and Slurm's in one version. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, sh
from corral.slurm.packages import NAMES, SLURMS, DebSet, Family, Part
from corral.state.base import Change, Context, Impact, Seen, Standalone

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
            'n=$(uname -n); if s=$(timeout 30 scontrol show node "$n" 2>/dev/null) && '
            "! echo \"$s\" | grep -q 'State=[^ ]*DRAIN'; then "
            'timeout 30 scontrol update "NodeName=$n" State=DRAIN {reason} >&2 || exit 1; fi',
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
