"""Secrets on machines: made, copied, a cloud's key, and their rotation. Pure: no plan sees one.

A plan knows it by a digest; the key itself goes from this machine's environment, file or keyring to
the standard input of the script that writes it (docs/decisions/0044).

slurm.jwks goes through three phases (docs/guide/keys.md); the file itself states which one it is
in, in a field that Slurm ignores, so a rotation that was killed goes on where it was:

* ``announced``: the old key signs, the new one is known;
* ``promoted``: the new key signs, the old one is known;
* ``rotated``: the new key signs, the old one expires; slurm.key is the new key too.

Keys pass through variables, pipes and shell builtins: they are in no argument list.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, call, sh
from corral.spec.impacts import Impact
from corral.state.base import Change, Context, Reading, ReadTogether, SecretRef, Seen, Standalone
from corral.state.files import paths_read

_PROGRAM: Final = "state/secrets.sh"


@dataclass(frozen=True, slots=True)
class Secret(Standalone, ReadTogether):
    """A file of random bytes, equal on all nodes that want it.

    Attributes:
        path: absolute path.
        source: the node on which it is made, and from which the others get it.
        owner: ``user:group``.
        mode: octal as ``stat -c %a`` prints it.
        size: random bytes to make.
        optional: it is not made when the source has none; the other nodes then have none either.
    """

    path: str
    source: str
    owner: str
    mode: str = "600"
    size: int = 1024
    optional: bool = False

    @property
    def id(self) -> str:
        return f"secret:{self.path}"

    @property
    def reading(self) -> Reading:
        """Its path."""
        return paths_read(self.path)

    def probe(self) -> Script:
        """Digest (of random bytes: it reveals nothing), size, mode and owner."""
        return call(_PROGRAM, "secret_probe", self.path)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """On the source: make it when absent. Elsewhere: copy it when it is not the source's."""
        digest, _, attributes = seen.text.partition(" ")
        desired = f"{self.mode} {self.owner}"
        here = context.node == self.source
        known = context.secrets.get(self.id)
        if (here and digest != "absent") or (not here and known is not None and digest == known):
            return None if attributes == desired else self._attributes(attributes, desired)
        if self.optional and known is None:
            return None if digest == "absent" else self._remove()
        before = "" if digest == "absent" else "another key"
        if here:
            return Change(
                self.id, f"make {self.path}", before, f"{self.size} random bytes", self._make()
            )
        return Change(
            self.id,
            f"copy {self.path} from {self.source}",
            before,
            f"the key of {self.source}",
            self._receive(),
            Impact.NONE if digest == "absent" else Impact.RESTART,
            (SecretRef(self.id, self.source, self.path),),
        )

    def _attributes(self, before: str, desired: str) -> Change:
        return Change(
            self.id,
            f"owner and mode of {self.path}",
            before,
            desired,
            call("state/files.sh", "file_own", self.path, self.owner, self.mode),
        )

    def _remove(self) -> Change:
        return Change(
            self.id,
            f"remove {self.path}: {self.source} has none",
            "its own key",
            "",
            sh("rm -f {path}", path=self.path),
            Impact.RESTART,
        )

    def _make(self) -> Script:
        return call(_PROGRAM, "secret_make", self.path, self.owner, self.mode, self.size)

    def _receive(self) -> Script:
        return call(_PROGRAM, "secret_receive", self.path, self.owner, self.mode)


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
        return f"secret:{self.path}"

    def probe(self) -> Script:
        """Digest, mode and owner; ``absent``."""
        return call(_PROGRAM, "cloud_key_probe", self.path)

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
            call(_PROGRAM, "cloud_key_receive", self.path),
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


NEXT: Final = ".next"
"""Ending of a munge key that waits to take its place."""
OVERLAP_S: Final = 900
"""Seconds that the old key is still good after the new one signs everywhere. Tokens live 60 s, job
credentials 120 s (DEFAULT_TTL of auth/slurm, DEFAULT_EXPIRATION_WINDOW of cred)."""

OWNER: Final = "slurm:slurm"


def phase(jwks: str) -> Script:
    """Read-only: announced, promoted, rotated, or none."""
    return call(_PROGRAM, "jwks_phase", jwks)


def announce(jwks: str, key: str, owner: str = OWNER) -> Script:
    """A new key in addition to the one that signs; nothing when that was done already."""
    return call(_PROGRAM, "jwks_announce", jwks, key, owner)


def promote(jwks: str, owner: str = OWNER) -> Script:
    """The new key signs; all daemons must know it by now."""
    return call(_PROGRAM, "jwks_promote", jwks, owner)


def retire(jwks: str, key: str, owner: str = OWNER) -> Script:
    """The old key gets an end; slurm.key becomes the new key, should slurm.jwks ever be lost."""
    return call(_PROGRAM, "jwks_retire", jwks, key, owner, OVERLAP_S)


def replace(path: str, size: int, owner: str, mode: str) -> Script:
    """New random bytes in a file's place."""
    return call(_PROGRAM, "secret_replace", path, owner, mode, size)


def prepare(path: str, size: int, owner: str, mode: str) -> Script:
    """A next key in addition to the one in use; nothing when there is one already."""
    return call(_PROGRAM, "secret_prepare", f"{path}{NEXT}", owner, mode, size)


def swap_munge(path: str) -> Script:
    """Put the next key in its place and start munged with it (munged reads its key at start)."""
    return call(_PROGRAM, "munge_swap", f"{path}{NEXT}", path)


def reconfigured(unit: str, path: str) -> Script:
    """Wait until a daemon that was asked to reconfigure has restarted since ``path`` changed.

    A daemon that reconfigures begins as a new process and hands its sockets over (23.11 and later).
    One that does not within some seconds is restarted. So is a configless slurmd whose first start
    found no slurm.jwks: it then keeps SLURM_SACK_KEY in its environment over all reconfigures and
    looks for slurm.jwks in its cache only (fetch_config.c; seen with 26.05.5: it signs with
    slurm.key for ever, and slurmdbd refuses it once another key is the default).
    """
    return call(_PROGRAM, "reconfigured", f"{unit}.service", path)
