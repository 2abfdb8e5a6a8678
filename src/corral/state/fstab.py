"""Mounts in /etc/fstab, each line marked as Corral's by the option x-corral. Pure.

Options that begin with ``x-`` are for programs other than the kernel (mount(8)); so the mark costs
nothing, and what Corral once mounted can be found on the machine itself.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, join, sh
from corral.state.base import (
    Change,
    Context,
    Impact,
    Seen,
    Standalone,
)

NFS_OPTIONS: Final = "rw,hard,vers=4.2,noatime"
"""How Corral mounts by NFS, without what depends on the kernel."""

MARK: Final = "x-corral"
FSTAB: Final = "/etc/fstab"
_FIELDS: Final = 4

# Who keeps a mount busy, by name and number; without psmisc's fuser, which may not be there.
_HOLDERS: Final = sh(
    "holders() {{ find /proc/[0-9]*/cwd /proc/[0-9]*/root /proc/[0-9]*/exe /proc/[0-9]*/fd "
    '-maxdepth 1 -type l \\( -lname "$1" -o -lname "$1/*" \\) 2>/dev/null | cut -d/ -f3 | '
    "sort -un | head -n 20 | while read -r h; do "
    'echo "$(cat "/proc/$h/comm" 2>/dev/null) ($h)"; done | tr "\\n" " "; }}; '
)
_UNMOUNT: Final = sh(
    "unmount() {{ "
    'while awk -v p="$1" \'$2 == p && $3 != "autofs" {{ f = 1 }} END {{ exit !f }}\' /proc/mounts; '
    'do umount "$1" || {{ echo "$1 is in use by: $(holders "$1")" >&2; return 1; }}; done; '
    'u=$(systemd-escape -p --suffix=automount "$1"); systemctl -q stop "$u" 2>/dev/null || :; }}; '
)
# Two changes of one machine never run at once (the stage's lock), so one temporary name is enough.
_REWRITE: Final = sh(
    "without() {{ if [ -e {fstab} ]; then "
    "awk -v p=\"$1\" '!($1 !~ /^#/ && $2 == p && $4 ~ /(^|,)x-corral(,|$)/)' {fstab}; fi; }}; "
    "replace() {{ cat > {fstab}.corral && chmod 644 {fstab}.corral && "
    "mv -f {fstab}.corral {fstab}; }}; ",
    fstab=FSTAB,
)
_FUNCTIONS: Final = join((_HOLDERS, _UNMOUNT, _REWRITE), "")


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
        """``mount:<path>``."""
        return f"mount:{self.path}"

    def probe(self) -> Script:
        """Five words: can automount?, lines of fstab, what is mounted, answers?, holds files?

        By statfs(2): it makes an automount mount, needs no right on the folder (root of a client
        may have none), and asks the server each time, where stat(2) may be answered from the
        client's cache. SIGKILL: a process that waits for an NFS server dies of nothing else (option
        hard).
        """
        return sh(
            "p={path}; a=plain; if grep -qw autofs /proc/filesystems || modprobe -nq autofs4; "
            "then a=auto; fi; "
            "l=$(awk -v p=\"$p\" '$1 !~ /^#/ && $2 == p' {fstab} | base64 -w0); "
            'r=$(timeout -s KILL 20 stat -f -c %T "$p" 2>&1); s=$?; '
            'w=ok; case "$s $r" in 0*) ;; 137*) w=hung ;; *[Ss]tale*) w=stale ;; '
            '*"Permission denied"*) w=refused ;; *) w=error ;; esac; '
            'm=$(awk -v p="$p" \'$2 == p && $3 != "autofs" {{ m = $1 }} END {{ print m }}\' '
            "/proc/mounts); {same} h=empty; "
            'if [ -z "$m" ] && [ -d "$p" ] && [ -n "$(timeout -s KILL 20 ls -A "$p" '
            '2>/dev/null)" ]; then h=holds; fi; '
            'echo "$a ${{l:--}} ${{m:--}} $w $h"',
            path=self.path,
            fstab=FSTAB,
            same=self._same(),
        )

    def _same(self) -> Script:
        """A bind mount shows its file system's device as source: the folder itself is compared."""
        if not self.bind:
            return Script("")
        return sh(
            'if [ -n "$m" ] && [ "$(stat -c %d:%i "$p/." 2>/dev/null)" = '
            '"$(stat -c %d:%i {source}/. 2>/dev/null)" ]; then m={source}; fi;',
            source=self.source,
        )

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
        script = self._make(desired, lazily=dead, keep=right)
        if dead and entries == (desired,):
            # The server may be back, or serve it again since the stage before this one.
            ask = sh('timeout -s KILL 20 stat -f "$p" >/dev/null 2>&1')
            script = sh("p={path}; {ask} || {{ {make}; }}", path=self.path, ask=ask, make=script)
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

    def _make(self, line: Line, *, lazily: bool, keep: bool) -> Script:
        automount = "x-systemd.automount" in line.options
        before = sh("umount -l {path} 2>/dev/null;", path=self.path) if lazily else Script("")
        return sh(
            "{functions} p={path}; {lazy} {unmount} "
            '{{ [ -d "$p" ] || mkdir -p "$p"; }} && '
            "{{ without \"$p\"; printf '%s\\n' {line}; }} | replace && systemctl daemon-reload && "
            "{{ {start} || exit 1; }} && {verify}",
            functions=_FUNCTIONS,
            lazy=before,
            unmount=sh(":;") if keep else sh('unmount "$p" || exit 1;'),
            path=self.path,
            line=str(line),
            start=sh(":") if keep else self._start(automount=automount),
            verify=self._verify(),
        )

    def _start(self, *, automount: bool) -> Script:
        if not automount:
            return sh('timeout -s KILL 180 mount "$p"')
        return sh('systemctl restart "$(systemd-escape -p --suffix=automount "$p")"')

    def _verify(self) -> Script:
        """It answers, and it is the right one; the first access makes an automount mount it."""
        return sh(
            'timeout -s KILL 180 stat -f "$p" >/dev/null && '
            'm=$(awk -v p="$p" \'$2 == p && $3 != "autofs" {{ m = $1 }} END {{ print m }}\' '
            "/proc/mounts) && w={source} && "
            '{{ {same} [ "$m" = "$w" ]; }} || '
            '{{ echo "$p does not answer as $w: found ${{m:-nothing mounted}}" >&2; exit 1; }}',
            same=self._same(),
            source=self.source,
        )


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
        """``former-mounts``."""
        return "former-mounts"

    def probe(self) -> Script:
        """The lines of fstab that are Corral's, in base64."""
        return sh("awk '$1 !~ /^#/ && $4 ~ /(^|,)x-corral(,|$)/' {fstab} | base64 -w0", fstab=FSTAB)

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
            sh(
                '{functions} for p in {paths}; do unmount "$p" || exit 1; '
                'without "$p" | replace && systemctl daemon-reload || exit 1; '
                'rmdir "$p" 2>/dev/null || :; done',
                functions=_FUNCTIONS,
                paths=paths,
            ),
            Impact.DRAIN,
            keeps=(f"file:{FSTAB}",),
        )
