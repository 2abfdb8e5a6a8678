"""Files and folders. Pure."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from corral.hosts.quote import Script, sh
from corral.state.base import Change, Context, Impact, Seen, Standalone

SHOWN_BYTES = 65536
"""Of a file that differs, at most this much is read back to be shown in the plan."""

ImpactOf = Callable[[str, str], Impact]


@dataclass(frozen=True)
class File(Standalone):
    """A text file with an owner and a mode.

    Attributes:
        path: absolute path.
        content: the entire text.
        owner: ``user:group``.
        mode: octal without leading zero, as ``stat -c %a`` prints it.
        in_place: write into the existing file instead of renaming a new one over it; for files
            that are bind mounts in containers, such as /etc/hosts (F65).
        impact_of: impact of going from one content to another; None: no separate impact.
        quiet: shell that runs before a change of impact drain or worse: it makes sure that no work
            is disturbed, or fails.
    """

    path: str
    content: str
    owner: str = "root:root"
    mode: str = "644"
    in_place: bool = False
    impact_of: ImpactOf | None = None
    quiet: Script | None = None

    @property
    def id(self) -> str:
        """``file:<path>``."""
        return f"file:{self.path}"

    @cached_property
    def digest(self) -> str:
        """Sha256 of the wanted content."""
        return hashlib.sha256(self.content.encode()).hexdigest()

    def probe(self) -> Script:
        """Digest, mode and owner; the content itself only when it is not the wanted one."""
        return sh(
            "if [ -f {path} ]; then d=$(sha256sum < {path}); d=${{d%% *}}; "
            "printf '%s %s\\n' \"$d\" \"$(stat -c '%a %U:%G' {path})\"; "
            '[ "$d" = {digest} ] || head -c {shown} {path} | base64 -w0; else echo absent; fi',
            path=self.path,
            digest=self.digest,
            shown=SHOWN_BYTES,
        )

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Compare content, then owner and mode."""
        first, _, encoded = seen.text.partition("\n")
        if first == f"{self.digest} {self.mode} {self.owner}":
            return None
        if first.startswith(self.digest):
            return self._attributes(first)
        before = "" if first == "absent" else _decode(encoded)
        impact = self.impact_of(before, self.content) if self.impact_of else Impact.NONE
        verb = "write" if first == "absent" else "change"
        summary, script = f"{verb} {self.path}", self._write()
        if self.quiet is not None and impact >= Impact.DRAIN:
            summary += ", when all jobs have ended"
            script = sh("( {quiet}\n) && {{ {write}\n}}", quiet=self.quiet, write=script)
        return Change(self.id, summary, before, self.content, script, impact)

    def _attributes(self, first: str) -> Change:
        before = first.partition(" ")[2]
        return Change(
            self.id,
            f"owner and mode of {self.path}",
            before,
            f"{self.mode} {self.owner}",
            sh(
                "chown {owner} {path} && chmod {mode} {path}",
                owner=self.owner,
                mode=self.mode,
                path=self.path,
            ),
        )

    def _write(self) -> Script:
        if self.in_place:
            return sh(
                "printf %s {content} > {path} && chown {owner} {path} && chmod {mode} {path}",
                content=self.content,
                path=self.path,
                owner=self.owner,
                mode=self.mode,
            )
        return sh(
            'mkdir -p {parent} && t=$(mktemp {path}.corral.XXXXXX) && printf %s {content} > "$t" '
            '&& chown {owner} "$t" && chmod {mode} "$t" && mv -f "$t" {path} '
            "&& rm -f {path}.corral.??????",
            parent=self.path.rpartition("/")[0] or "/",
            content=self.content,
            path=self.path,
            owner=self.owner,
            mode=self.mode,
        )


@dataclass(frozen=True, slots=True)
class Directory(Standalone):
    """A folder with an owner and a mode (octal as ``stat -c %a`` prints it)."""

    path: str
    owner: str = "root:root"
    mode: str = "755"

    @property
    def id(self) -> str:
        """``directory:<path>``."""
        return f"directory:{self.path}"

    def probe(self) -> Script:
        """Mode and owner."""
        return sh(
            "if [ -d {path} ]; then stat -c '%a %U:%G' {path}; else echo absent; fi", path=self.path
        )

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Compare mode and owner."""
        desired = f"{self.mode} {self.owner}"
        if seen.text == desired:
            return None
        return Change(
            self.id,
            f"folder {self.path} ({desired})",
            "" if seen.text == "absent" else seen.text,
            desired,
            sh(
                "mkdir -p {path} && chown {owner} {path} && chmod {mode} {path}",
                path=self.path,
                owner=self.owner,
                mode=self.mode,
            ),
        )


def _decode(encoded: str) -> str:
    try:
        return base64.b64decode(encoded).decode(errors="replace")
    except (binascii.Error, ValueError):
        return ""
