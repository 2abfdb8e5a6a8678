"""Mounts in /etc/fstab, each line marked as Corral's by the option x-corral. Pure.

Options that begin with ``x-`` are for programs other than the kernel (mount(8)); so the mark costs
nothing, and what Corral once mounted can be found on the machine itself.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Final, LiteralString

from corral.hosts.quote import Script, call
from corral.spec.impacts import Impact
from corral.state.base import Change, Context, Seen, Standalone

NFS_OPTIONS: Final = "rw,hard,vers=4.2,noatime"
"""How Corral mounts by NFS, without what depends on the kernel."""

MARK: Final = "x-corral"
FSTAB: Final = "/etc/fstab"
_FIELDS: Final = 4
_PROGRAM: Final = "state/mounts.sh"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of fstab."""

    source: str
    path: str
    kind: str
    options: str

    @property
    def ours(self) -> bool:
        """Corral wrote it."""
        return MARK in self.options.split(",")

    def __str__(self) -> str:
        return f"{self.source} {self.path} {self.kind} {self.options} 0 0"


def parse_lines(encoded: str) -> tuple[Line, ...]:
    """Lines of fstab, as a probe printed them in base64; ``-`` for none."""
    try:
        text = base64.b64decode(encoded if encoded != "-" else "", validate=True).decode()
    except (binascii.Error, ValueError):
        return ()
    rows = [line.split() for line in text.splitlines()]
    return tuple(Line(*row[:_FIELDS]) for row in rows if len(row) >= _FIELDS)


@dataclass(frozen=True, slots=True)
class Mount(Standalone):
    """A folder of a server, or of this machine, mounted at a place, now and after each boot.

    Attributes:
        source: ``address:/path`` for NFS, a folder of this machine for a bind mount.
        path: where it is seen.
        options: mount options, without those that Corral adds.
        bind: the source is a folder of this machine.
    """

    source: str
    path: str
    options: str
    bind: bool = False

    @property
    def id(self) -> str:
        return f"mount:{self.path}"

    def probe(self) -> Script:
        """Five words: can automount?, lines of fstab, what is mounted, answers?, holds files?

        By statfs(2): it makes an automount mount, needs no right on the folder (root of a client
        may have none), and asks the server each time, where stat(2) may be answered from the
        client's cache. SIGKILL: a process that waits for an NFS server dies of nothing else (option
        hard).
        """
        return call(_PROGRAM, "mount_probe", self.path, self._bound)

    @property
    def _bound(self) -> str:
        """A bind mount shows its file system's device as source: the folder itself is compared."""
        return self.source if self.bind else ""

    def line(self, *, automount: bool) -> Line:
        """The wanted line of fstab."""
        options = [*self.options.split(","), "nofail", MARK]
        if self.bind:
            options.insert(-1, f"x-systemd.requires-mounts-for={self.source}")
        else:
            options.insert(-1, "_netdev")
            if automount:
                options.insert(-1, "x-systemd.automount")
        return Line(self.source, self.path, "none" if self.bind else "nfs4", ",".join(options))

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Compare the line of fstab and what is mounted now."""
        automount, lines, mounted, answer, holds = (*seen.text.split(), "", "", "", "", "")[:5]
        entries = parse_lines(lines)
        desired = self.line(automount=automount == "auto")
        right = mounted == self.source and answer == "ok"
        if right and entries == (desired,):
            return None
        foreign = [line for line in entries if not line.ours]
        before = "\n".join(map(str, entries)) or ("" if mounted == "-" else f"mounted: {mounted}")
        moved = mounted not in ("-", self.source) or any(x.source != self.source for x in entries)
        if right and not moved:
            summary, impact = f"options of {self.path} in fstab, from the next mount on", 0
        elif moved and not foreign:
            summary, impact = (
                f"mount {self.path} from {self.source}, not {_old(entries, mounted)}",
                3,
            )
        elif mounted == self.source:
            summary, impact = f"mount {self.path} again: {answer}", 2
        else:
            summary, impact = f"mount {self.path} from {self.source}", 0
        dead = mounted == self.source and answer != "ok"
        if right:
            script = self._make("mount_line", desired)
        elif not dead:
            script = self._make("mount_again", desired)
        elif entries == (desired,):
            script = self._make("mount_if_dead", desired)
        else:
            script = self._make("mount_dead", desired)
        return Change(
            self.id,
            summary,
            before,
            str(desired),
            script,
            Impact(impact),
            refuses=self._refusal(foreign, mounted, holds),
        )

    def _refusal(self, foreign: list[Line], mounted: str, holds: str) -> str:
        if foreign:
            return (
                f"/etc/fstab mounts {foreign[0].source} at {self.path} already: delete that line, "
                "or declare kind: existing"
            )
        if mounted == "-" and holds == "holds":
            return f"{self.path} holds files that a mount would hide: move them away first"
        return ""

    def _make(self, function: LiteralString, line: Line) -> Script:
        return call(_PROGRAM, function, self.path, self.source, self._bound, str(line))


def _old(entries: tuple[Line, ...], mounted: str) -> str:
    return mounted if mounted != "-" or not entries else entries[0].source


@dataclass(frozen=True, slots=True)
class FormerMounts(Standalone):
    """What Corral once mounted and the file names no longer: unmounted when nobody uses it.

    Attributes:
        keep: the places that are declared for this machine.
    """

    keep: tuple[str, ...]

    @property
    def id(self) -> str:
        return "former-mounts"

    def probe(self) -> Script:
        """The lines of fstab that are Corral's, in base64; none that has Slurm's state in use."""
        return call(_PROGRAM, "former_probe", FSTAB)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Unmount each one; fails with who uses it, and then keeps its line."""
        gone = [line for line in parse_lines(seen.text or "-") if line.path not in self.keep]
        if not gone:
            return None
        paths = [line.path for line in gone]
        return Change(
            self.id,
            f"unmount {', '.join(paths)}, which the file names no longer",
            "\n".join(map(str, gone)),
            "",
            call(_PROGRAM, "mounts_end", *paths),
            Impact.DRAIN,
            keeps=(f"file:{FSTAB}",),
        )
