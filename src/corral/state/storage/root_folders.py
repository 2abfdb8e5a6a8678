"""A folder that is root's alone, in a place that others may share. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, call
from corral.state.base import Change, Context, Seen, Standalone

_PROGRAM: Final = "state/exports.sh"


@dataclass(frozen=True, slots=True)
class RootFolder(Standalone):
    """A folder that root makes; one that somebody else made there is refused, not given to root.

    ``Directory`` changes the owner of a folder and leaves what is in it. On shared storage a user
    may have made that folder before, with files that root would then trust.

    Attributes:
        path: absolute path.
        mode: octal as ``stat -c %a`` prints it; nobody but root may write.
    """

    path: str
    mode: str = "700"

    @property
    def id(self) -> str:
        return f"directory:{self.path}"

    def probe(self) -> Script:
        """Mode and owner, or why others could replace the folder or what is in it."""
        return call(_PROGRAM, "root_folder_probe", self.path)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Make it; the change fails where another user could replace a part of the path."""
        desired = f"{self.mode} root"
        if seen.text == desired:
            return None
        why = f"; {seen.text.removeprefix('! ')}" if seen.text.startswith("! ") else ""
        return Change(
            self.id,
            f"folder {self.path} ({desired}){why}",
            "" if seen.text == "absent" else seen.text,
            desired,
            call(_PROGRAM, "root_folder_make", self.path, self.mode),
        )
