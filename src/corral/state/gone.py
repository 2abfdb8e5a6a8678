"""A file of Corral's own that must not be there, because nothing declares it any more. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from corral.hosts.quote import Script, sh
from corral.state.base import Change, Context, Seen, Standalone


@dataclass(frozen=True, slots=True)
class Gone(Standalone):
    """A file that is removed; only for paths that nobody but Corral writes.

    Attributes:
        path: absolute path.
        folder: it is a folder, removed with all that is in it.
    """

    path: str
    folder: bool = False

    @property
    def id(self) -> str:
        """``file:<path>``."""
        return f"file:{self.path}"

    def probe(self) -> Script:
        """``there`` or ``absent``."""
        return sh("if [ -e {path} ]; then echo there; else echo absent; fi", path=self.path)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Remove it."""
        if seen.text != "there":
            return None
        remove = sh("rm -rf {p}", p=self.path) if self.folder else sh("rm -f {p}", p=self.path)
        return Change(self.id, f"remove {self.path}", "there", "", remove)
