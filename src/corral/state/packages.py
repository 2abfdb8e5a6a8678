"""Distribution packages (apt). Pure."""

from __future__ import annotations

from dataclasses import dataclass

from corral.hosts.quote import Script, sh
from corral.state.base import Change, Context, Impact, Seen


@dataclass(frozen=True, slots=True)
class Packages:
    """Packages that must be installed, whatever their version; all missing ones at once.

    Attributes:
        name: what the set is for, such as ``slurm``.
        names: package names of the node's distribution.
        impact: what installing them does to the node's work.
    """

    name: str
    names: tuple[str, ...]
    impact: Impact = Impact.NONE

    @property
    def id(self) -> str:
        """``packages:<name>``."""
        return f"packages:{self.name}"

    @property
    def watches(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

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
            _install(missing),
            self.impact,
        )


def _install(names: tuple[str, ...]) -> Script:
    # policy-rc.d 101: a package must not start slurmd before its configuration is there
    # (Debian Policy 9.3.3.1, invoke-rc.d(8)). dpkg --configure -a mends what a power cut left.
    return sh(
        "export DEBIAN_FRONTEND=noninteractive; "
        "p=/usr/sbin/policy-rc.d; [ -e $p ] || {{ "
        "printf '#!/bin/sh\\n# corral\\nexit 101\\n' > $p; chmod 755 $p; }}; "
        "clean() {{ grep -qx '# corral' $p 2>/dev/null && rm -f $p; }}; trap clean EXIT; "
        "dpkg --configure -a && "
        "{{ apt-get install -y -q --no-install-recommends -o DPkg::Lock::Timeout=300 {names} "
        "|| {{ apt-get update -q -o DPkg::Lock::Timeout=300 && apt-get install -y -q "
        "--no-install-recommends -o DPkg::Lock::Timeout=300 {names}; }}; }} >&2",
        names=names,
    )
