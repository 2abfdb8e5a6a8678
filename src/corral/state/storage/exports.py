"""What a machine serves by NFS, and folders that must be there without being made. Pure."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from corral.hosts.quote import Script, call, sh
from corral.spec.impacts import Impact
from corral.state.base import Change, Context, Seen, Standalone

_PROGRAM: Final = "state/exports.sh"
FILE: Final = "/etc/exports.d/corral.exports"
ETAB: Final = "/var/lib/nfs/etab"
_HEAD: Final = "# Written by Corral: one line for each folder and machine, never a whole network.\n"


@dataclass(frozen=True)
class Export:
    """One folder served to some machines.

    Attributes:
        path: the folder.
        clients: addresses of the machines.
        fsid: what names its file system in file handles (exports(5)); needed where the file system
            has no UUID, and it keeps handles valid when the disk gets another device number.
        root_squash: root of a client is nobody.
    """

    path: str
    clients: tuple[str, ...]
    fsid: str
    root_squash: bool = True

    @property
    def squash(self) -> str:
        """The option as exports and etab write it."""
        return "root_squash" if self.root_squash else "no_root_squash"

    @property
    def lines(self) -> tuple[str, ...]:
        """A line for each client."""
        options = f"rw,sync,no_subtree_check,{self.squash},fsid={self.fsid}"
        return tuple(f"{self.path} {client}({options})" for client in self.clients)


@dataclass(frozen=True)
class Exports(Standalone):
    """All folders that Corral serves from this machine; other export files are left alone.

    Attributes:
        exports: the folders, none where the machine serves nothing (any more).
    """

    exports: tuple[Export, ...] = ()

    @property
    def id(self) -> str:
        return "exports"

    @cached_property
    def content(self) -> str:
        """The text of the export file, "" for no file."""
        lines = [line for export in self.exports for line in export.lines]
        return _HEAD + "".join(f"{line}\n" for line in lines) if lines else ""

    def probe(self) -> Script:
        """The file, and which folder is served to whom with which squash now; both in base64."""
        return call(_PROGRAM, "exports_probe", FILE, ETAB)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Compare the file; and what is served, which somebody may have taken back by hand."""
        written, served = (*seen.text.split(), "-", "-")[:2]
        before = _decoded(written)
        desired = {f"{e.path} {client} {e.squash}" for e in self.exports for client in e.clients}
        lost = desired - set(_decoded(served).splitlines())
        if before == self.content and not lost:
            return None
        return Change(
            self.id,
            self._summary(before, lost),
            before,
            self.content,
            self._write() if self.content else self._remove(),
            Impact.RELOAD if before else Impact.NONE,
            keeps=(f"file:{FILE}",),
        )

    def _summary(self, before: str, lost: set[str]) -> str:
        if not self.content:
            return "serve nothing by NFS any more"
        paths = ", ".join(e.path for e in self.exports)
        if before == self.content:
            return f"serve {paths} again to {len(lost)} machines"
        old, new = set(before.splitlines()[1:]), set(self.content.splitlines()[1:])
        if not old:
            return f"serve {paths} to {len(new)} machines"
        return f"serve {paths}: {len(new - old)} lines more, {len(old - new)} less"

    def _write(self) -> Script:
        return call(_PROGRAM, "exports_write", FILE, self.content)

    def _remove(self) -> Script:
        return call(_PROGRAM, "exports_remove", FILE)


@dataclass(frozen=True, slots=True)
class ServedFolder(Standalone):
    """A folder that is made, open to all like /tmp, when it is not there; else left as it is."""

    path: str

    @property
    def id(self) -> str:
        return f"directory:{self.path}"

    def probe(self) -> Script:
        """``there`` or ``absent``."""
        return call("state/files.sh", "is_folder", self.path)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Make it: mode 1777, so that each user owns what they make in it."""
        if seen.text == "there":
            return None
        return Change(
            self.id,
            f"make {self.path}, open to all users (1777)",
            "",
            "1777 root:root",
            sh("mkdir -p {path} && chmod 1777 {path}", path=self.path),
        )


@dataclass(frozen=True, slots=True)
class ExistingFolder(Standalone):
    """A folder that somebody else mounts: looked for, never touched."""

    path: str

    @property
    def id(self) -> str:
        return f"existing:{self.path}"

    def probe(self) -> Script:
        """``there``, ``absent`` or ``hung``."""
        return call(_PROGRAM, "mounted_probe", self.path)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Nothing, or a refusal."""
        if seen.text == "there":
            return None
        what = "does not answer" if seen.text == "hung" else "is not there"
        return Change(
            self.id,
            f"look for {self.path}, which is kind: existing",
            seen.text,
            "there",
            sh("[ -d {path}/. ]", path=self.path),
            refuses=f"{self.path} {what}: mount it there, or declare kind: nfs",
        )


def _decoded(encoded: str) -> str:
    try:
        return base64.b64decode(encoded if encoded != "-" else "").decode(errors="replace")
    except (binascii.Error, ValueError):
        return ""
