"""Installed packages that no upgrade moves by the way (apt-mark hold). Pure."""

from __future__ import annotations

from dataclasses import dataclass

from corral.hosts.quote import Script, sh
from corral.state.base import Change, Context, Seen


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
