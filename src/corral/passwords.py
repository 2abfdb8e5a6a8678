"""The person behind a command: who can be asked for a password and shown what was seen.

Which machine wants a password is known only in the middle of the work, so the one who can be asked
does not travel through every call: it is in a context variable, set around a use case
(``accompanied``). Without one nobody is asked and nothing is shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from corral import variables
from corral.errors import Code, CorralError

Ask = Callable[[str], Awaitable[str | None]]
Show = Callable[[str, str], None]

SUDO: Final = "sudo"
LOGIN: Final = "login"
JUMP: Final = "jump host"
FILES: Final = {
    SUDO: variables.SUDO_PASSWORD_FILE,
    LOGIN: variables.LOGIN_PASSWORD_FILE,
    JUMP: variables.JUMP_PASSWORD_FILE,
}
"""Environment variables that name a file, or /dev/fd/N, whose first line is the password. Not the
password itself: children, core dumps and CI logs get to see an environment."""


async def nobody(_: str) -> str | None:
    """Answer nothing."""
    return None


def silent(_: str, __: str) -> None:
    """Show nothing."""


@dataclass(slots=True)
class Person:
    """Who is there. A password is asked for once and kept in this object's memory only.

    Args:
        ask: returns the password that its words ask for, None without a terminal.
        show: receives a node and what was seen of it.
        environ: where ``FILES`` are looked up.
        only: machines that may have an answer, as ``SshTarget.place`` names them; None: all.
        hint: what to do where there is no answer; "": the error's own.
        asking: held while somebody is asked.
    """

    ask: Ask = nobody
    show: Show = silent
    environ: dict[str, str] = field(default_factory=dict[str, str])
    only: frozenset[str] | None = None
    hint: str = ""
    _known: dict[str, str | None] = field(default_factory=dict[str, str | None], repr=False)
    asking: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)

    def known(self, kind: str) -> str | None:
        """The password of a kind where a machine has wanted it already; nobody is asked."""
        return self._known.get(kind)

    async def password(self, kind: str, words: str, place: str = "") -> str | None:
        """The password of a kind, such as ``SUDO``: from its file, else asked for once.

        Args:
            kind: ``SUDO``, ``LOGIN`` or ``JUMP``.
            words: what is asked for.
            place: the machine that wants it, as ``SshTarget.place`` names it.

        Raises:
            CorralError: USAGE, the file cannot be read, or the password cannot be sent.
        """
        if self.only is not None and place not in self.only:
            return None
        async with self.asking:
            if kind not in self._known:
                name = self.environ.get(FILES[kind], "")
                given = _first_line(name, FILES[kind]) if name else await self.ask(words)
                self._known[kind] = _checked(given, kind)
            return self._known[kind]


_PERSON: ContextVar[Person | None] = ContextVar("person", default=None)


def person() -> Person:
    """Who is there now."""
    return _PERSON.get() or Person()


@contextmanager
def accompanied(by: Person) -> Generator[None]:
    """Have somebody there while a use case runs."""
    by.asking = asyncio.Lock()  # a lock belongs to one event loop
    token = _PERSON.set(by)
    try:
        yield
    finally:
        _PERSON.reset(token)


def _first_line(name: str, variable: str) -> str:
    try:
        with Path(name).open(encoding="utf-8") as file:
            return file.readline().rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise CorralError(
            Code.USAGE,
            f"the file that {variable} names cannot be read",
            tail=str(error),
            hint="name a file, or /dev/fd/N, whose first line is the password",
        ) from error


def _checked(password: str | None, kind: str) -> str | None:
    if password is not None and any(c in password for c in "\0\n\r"):
        raise CorralError(
            Code.USAGE, f"a {kind} password is one line", hint="type it without line breaks"
        )
    return password or None
