"""A secret of a service that comes from a file of this machine. Pure.

Such secrets are chosen by people, so their plain digests could be guessed: a plan knows them by a
fingerprint that is dear to compute (``apply.own_secrets``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, call
from corral.state.base import HERE, Change, Context, SecretRef, Seen, Standalone

FOLDER: Final = "/etc/corral/secrets"
_PROGRAM: Final = "state/directory.sh"


@dataclass(frozen=True, slots=True)
class OwnSecret(Standalone):
    """The first line of a file of this machine, in a file of root's on the node.

    The service's group may read it. systemd's credentials would be the service's alone, but where
    systemd runs in a container it leaves them out without an error (257).

    Attributes:
        name: of the file on the node.
        source: path of the file on this machine.
        fingerprint: of the secret.
        group: of the service.
    """

    name: str
    source: str
    fingerprint: str
    group: str = "slurm"

    @property
    def id(self) -> str:
        return f"secret:{self.path}"

    @property
    def path(self) -> str:
        """Where the node has it."""
        return f"{FOLDER}/{self.name}"

    @property
    def mark(self) -> str:
        """Where the node has its fingerprint."""
        return f"{self.path}.fingerprint"

    def probe(self) -> Script:
        """The fingerprint, ``absent`` or ``changed``."""
        return call(_PROGRAM, "password_probe", self.mark, self.path)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Write it, or another one."""
        if seen.text == self.fingerprint:
            return None
        return Change(
            self.id,
            f"put the secret {self.name} into {self.path}, for root and group {self.group}",
            "" if seen.text == "absent" else "another one",
            "the secret",
            call(_PROGRAM, "secret_receive", self.mark, self.fingerprint, self.path, self.group),
            secrets=(SecretRef(f"the secret {self.name}", HERE, self.source),),
            keeps=(f"file:{self.mark}",),
        )
