"""Package files that came from this machine, as an apt repository on the node itself. Pure.

The files travel by the script's stdin and are compared with the digests in the plan; the index is
written there by dpkg-deb. apt trusts the folder (``trusted=yes``): only root can write it, and a
signature would be made and checked by that same root (docs/guide/slurm-versions.md#design-notes).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, sh
from corral.slurm.packages import DebSet
from corral.state.base import HERE, Change, Context, SecretRef, Seen, Standalone

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
