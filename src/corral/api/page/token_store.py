"""Bearer tokens of the page's API: made, listed, revoked, and found again by a request's header.

The file holds a SHA-256 digest of each token, never the token. Slurm judges what a token's user
may do, so a token stands for a login of Slurm's (``slurmrestd`` takes nothing else). That login is
sealed with a key that is derived from the bearer token: who reads the file has neither of the two.
A bearer token has 256 random bits and seals one text once, so that its key stream is used once.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError

from corral.errors import Code, CorralError
from corral.runtime.private_file import write_private
from corral.state_dir import cluster_dir

FILE: Final = "api-tokens.json"
MOST_OF_USER: Final = 50
"""No limit for all users together: some could use it up for the others."""
LONGEST_DAYS: Final = 365
PREFIX: Final = "corral_"
TOKEN: Final = re.compile(r"corral_[A-Za-z0-9_-]{43}")
NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9 ._@-]{0,63}$"
NAMED: Final = re.compile(NAME)
_MAC: Final = 32

Clock = Callable[[], float]


class Scope(StrEnum):
    """What a bearer token may do; Slurm decides in addition what its user may do."""

    READ = "read"
    SUBMIT = "submit"
    ADMINISTER = "administer"


class Bearer(BaseModel):
    """One token, as the file has it.

    Attributes:
        id: names it in lists and when it is revoked.
        name: what its maker calls it.
        digest: SHA-256 of the token, hexadecimal.
        sealed: the login of Slurm's, readable with the token alone, hexadecimal.
        owner: made by who runs Corral on this machine: it may use Corral itself.
        ends: unix seconds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    name: str
    user: str
    scopes: tuple[Scope, ...]
    digest: str
    sealed: str
    owner: bool = False
    made: float
    ends: float

    def as_dict(self) -> dict[str, Any]:
        """What a list shows: nothing that opens anything."""
        fields = self.model_dump(mode="json", exclude={"digest", "sealed", "owner"})
        return {**fields, "scopes": [*fields["scopes"]]}


@dataclass(frozen=True, slots=True)
class Wish:
    """The properties of a new token.

    Attributes:
        user: whose it is.
        login: the user's token of Slurm, which has accepted it; "" where no slurmrestd is asked.
        ends: unix seconds.
        owner: see ``Bearer``.
    """

    name: str
    user: str
    login: str = field(repr=False)
    scopes: tuple[Scope, ...]
    ends: float
    owner: bool = False


def tokens_file(cluster: str) -> Path:
    """Where the page that runs on this machine keeps its tokens, in the cluster's folder."""
    return cluster_dir(cluster) / FILE


@dataclass(slots=True)
class Bearers:
    """The tokens of one page.

    Args:
        path: the file; None: this page has no tokens and cannot create any.
        clock: returns unix seconds.
    """

    path: Path | None
    clock: Clock = time.time
    _read: tuple[object, dict[str, Bearer]] = field(default=(None, {}), repr=False)

    def find(self, secret: str) -> tuple[Bearer, str] | None:
        """A token and its login of Slurm's; None where it is unknown, revoked or expired.

        The file is read again whenever it has changed, so that a token which another process has
        revoked is refused from the next request on.
        """
        if not TOKEN.fullmatch(secret):
            return None
        bearer = self._all().get(_digest(secret))
        if bearer is None or self.clock() >= bearer.ends:
            return None
        text = _opened(bearer.sealed, secret)
        return None if text is None else (bearer, text)

    def knows(self, secret: str) -> str:
        """The id of a token that is good; "" for any other text."""
        try:
            bearer = self._all().get(_digest(secret))
        except CorralError:  # the request itself is answered with it
            return ""
        return bearer.id if bearer is not None and self.clock() < bearer.ends else ""

    def alive(self, identity: str) -> bool:
        """Whether a token is neither revoked nor expired."""
        now = self.clock()
        return any(b.id == identity and now < b.ends for b in self._all().values())

    def listed(self) -> tuple[Bearer, ...]:
        """All that have not expired, the newest first."""
        now = self.clock()
        return tuple(sorted((b for b in self._all().values() if b.ends > now), key=_newest))

    def make(self, wish: Wish) -> tuple[str, Bearer]:
        """A new token, which is kept nowhere, and its entry.

        Raises:
            CorralError: NOT_FOUND, this page keeps no tokens; USAGE, the name is taken; TOO_MANY.
        """
        secret = PREFIX + secrets.token_urlsafe(32)
        bearer = Bearer(
            id=secrets.token_hex(4),
            name=wish.name,
            user=wish.user,
            scopes=wish.scopes,
            digest=_digest(secret),
            sealed=_sealed(wish.login, secret),
            owner=wish.owner,
            made=self.clock(),
            ends=wish.ends,
        )
        with self._changing() as kept:
            mine = [b for b in kept if b.user == bearer.user]
            if any(b.name == bearer.name for b in mine):
                raise CorralError(
                    Code.USAGE,
                    f"{bearer.user} has a token {bearer.name!r} already",
                    hint="choose another name, or revoke that one",
                )
            # Tokens that users create on the page do not use up the limit of Corral's owner here.
            if sum(b.owner == bearer.owner for b in mine) >= MOST_OF_USER:
                raise CorralError(
                    Code.TOO_MANY, "there are too many tokens", hint="revoke those without use"
                )
            kept.append(bearer)
        return secret, bearer

    def revoke(self, identity: str, may: Callable[[Bearer], bool] = lambda _: True) -> Bearer:
        """End a token at once.

        Args:
            identity: its id, or its name where only one has that.
            may: whether who asks may see and revoke a token.

        Raises:
            CorralError: NOT_FOUND; USAGE, several tokens have that name.
        """
        with self._changing() as kept:
            seen = [b for b in kept if may(b)]
            named = [b for b in seen if b.id == identity] or [b for b in seen if b.name == identity]
            if not named:
                raise CorralError(Code.NOT_FOUND, f"no token {identity[:70]!r}")
            if len(named) > 1:
                raise CorralError(
                    Code.USAGE,
                    f"{len(named)} tokens have the name {identity!r}",
                    hint=f"give the id of one: {', '.join(b.id for b in named)}",
                )
            kept.remove(named[0])
            return named[0]

    def _all(self) -> dict[str, Bearer]:
        """Entries by digest; read where the file is another than last time."""
        mark = self._mark()
        if mark != self._read[0]:
            self._read = (mark, {b.digest: b for b in self._loaded()})
        return self._read[1]

    def _mark(self) -> object:
        if self.path is None:
            return ()
        try:
            stat = self.path.stat()
        except OSError:
            return ()
        return stat.st_ino, stat.st_mtime_ns, stat.st_size

    def _loaded(self) -> list[Bearer]:
        if self.path is None:
            return []
        try:
            rows = json.loads(self.path.read_bytes())["tokens"]
            return [Bearer.model_validate(row) for row in rows]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, KeyError, TypeError, ValidationError) as error:
            raise CorralError(
                Code.PARSE_FAILED,
                f"the file of API tokens cannot be read: {type(error).__name__}",
                hint=f"see {self.path}; without the file there are no tokens",
            ) from error

    @contextmanager
    def _changing(self) -> Generator[list[Bearer]]:
        """The entries, which are written when the context ends; one process at a time."""
        if self.path is None:
            raise CorralError(Code.NOT_FOUND, "this page keeps no API tokens")
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            now = self.clock()
            kept = [b for b in self._loaded() if b.ends > now]
            yield kept
            self._write(self.path, kept)
        finally:
            os.close(lock)

    def _write(self, path: Path, kept: Iterable[Bearer]) -> None:
        text = json.dumps({"tokens": [b.model_dump(mode="json") for b in kept]}, indent=1)
        write_private(path, text + "\n")


def _newest(bearer: Bearer) -> float:
    return -bearer.made


def _digest(secret: str) -> str:
    return hashlib.sha256(b"corral api token\0" + secret.encode()).hexdigest()


def _stream(secret: str, size: int) -> tuple[bytes, bytes]:
    """The key of the authentication code, and a key stream of a length."""
    made = hashlib.shake_256(b"corral sealed login\0" + secret.encode()).digest(_MAC + size)
    return made[:_MAC], made[_MAC:]


def _sealed(text: str, secret: str) -> str:
    data = text.encode()
    key, stream = _stream(secret, len(data))
    hidden = bytes(a ^ b for a, b in zip(data, stream, strict=True))
    return (hmac.digest(key, hidden, "sha256") + hidden).hex()


def _opened(sealed: str, secret: str) -> str | None:
    """The text; None where it was changed, or sealed for another token."""
    try:
        data = bytes.fromhex(sealed)
    except ValueError:
        return None
    code, hidden = data[:_MAC], data[_MAC:]
    key, stream = _stream(secret, len(hidden))
    if not hmac.compare_digest(code, hmac.digest(key, hidden, "sha256")):
        return None
    return bytes(a ^ b for a, b in zip(hidden, stream, strict=True)).decode()
