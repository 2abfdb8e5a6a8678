"""Files that come from this machine or an address, known by digest. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, sh
from corral.state.base import HERE, Change, Context, SecretRef, Seen, Standalone

FOLDER: Final = "/var/lib/corral/files"


@dataclass(frozen=True, slots=True)
class Artifact(Standalone):
    """A file on the node with exactly these bytes.

    Attributes:
        place: where it comes from: a path on this machine, sent by the script's stdin, or an https
            address, which the node fetches itself.
        sha256: digest of the entire file.
        name: its name on the node.
    """

    place: str
    sha256: str
    name: str

    @property
    def path(self) -> str:
        """Where the node has it."""
        return f"{FOLDER}/{self.sha256[:16]}/{self.name}"

    @property
    def id(self) -> str:
        """``file:<path>``."""
        return f"file:{self.path}"

    def probe(self) -> Script:
        """``complete`` when the file is there with its digest."""
        return sh(
            '[ "$(sha256sum < {path} 2>/dev/null | cut -c 1-64)" = {sum} ] && echo complete || '
            "echo absent",
            path=self.path,
            sum=self.sha256,
        )

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Send or fetch it; a file of another digest fails and is not kept."""
        if seen.text == "complete":
            return None
        here = not self.place.startswith("https:")
        get = (
            sh('IFS= read -r n && head -c "$n" > {new}', new=f"{self.path}.new")
            if here
            else sh("curl -fsSL --retry 3 -o {new} {url}", new=f"{self.path}.new", url=self.place)
        )
        return Change(
            self.id,
            f"{self.name} from {'this machine' if here else self.place}",
            "",
            self.sha256,
            sh(
                'mkdir -p {folder} && {get} && {{ [ "$(sha256sum < {new} | cut -c 1-64)" = {sum} ] '
                "|| {{ rm -f {new}; echo {wrong} >&2; exit 1; }}; }} && mv -f {new} {path}",
                folder=self.path.rpartition("/")[0],
                get=get,
                sum=self.sha256,
                new=f"{self.path}.new",
                wrong=f"{self.place} is another file than the cluster file declares",
                path=self.path,
            ),
            secrets=(SecretRef(self.name, HERE, self.place),) if here else (),
        )
