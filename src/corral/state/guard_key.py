"""A cloud's API key in a file of the controller that only root reads. Pure.

A plan knows it by a digest; the key itself goes from this machine's environment, file or keyring to
the standard input of the script that writes it (docs/decisions/0044).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, sh
from corral.state.base import Change, Context, SecretRef, Seen, Standalone

KEYS: Final = "@cloud"
"""As the node of a ``SecretRef``: an API key of this machine's user, by the cloud's name."""


@dataclass(frozen=True, slots=True)
class GuardKey(Standalone):
    """The key of one cloud.

    Attributes:
        cloud: its name in the cluster file.
        path: where it is stored.
        digest: the first 16 hexadecimal digits of its SHA-256: keys are long and random.
    """

    cloud: str
    path: str
    digest: str

    @property
    def id(self) -> str:
        """``secret:<path>``."""
        return f"secret:{self.path}"

    def probe(self) -> Script:
        """Digest, mode and owner; ``absent``."""
        return sh(
            "if [ -s {path} ]; then d=$(sha256sum < {path}); d=${{d%% *}}; "
            "printf '%.16s %s\\n' \"$d\" \"$(stat -c '%a %U' {path})\"; else echo absent; fi",
            path=self.path,
        )

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Write it, or another one."""
        desired = f"{self.digest} 600 root"
        if seen.text == desired:
            return None
        what = "put the API key of" if seen.text == "absent" else "replace the API key of"
        return Change(
            self.id,
            f"{what} {self.cloud} into {self.path}, for root alone",
            "" if seen.text == "absent" else "another key",
            "the key",
            sh(
                "umask 077 && mkdir -p {parent} && chmod 700 {parent} && IFS= read -r n && "
                'head -c "$n" > {path}.new && [ -s {path}.new ] && chmod 600 {path}.new && '
                "mv -f {path}.new {path}",
                parent=self.path.rpartition("/")[0],
                path=self.path,
            ),
            secrets=(SecretRef(f"API key of {self.cloud}", KEYS, self.cloud),),
        )


@dataclass(frozen=True, slots=True)
class Watched:
    """A cloud that the controller's guard may ask.

    Attributes:
        cloud: its name in the cluster file.
        url: address of its API as the controller reaches it.
        digest: as ``GuardKey``.
        client: the module with the calls that list and end its machines.
    """

    cloud: str
    url: str
    digest: str
    client: str
