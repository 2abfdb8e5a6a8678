"""Who answers when a machine's sudo wants a password: nobody but who started the page, beforehand.

The password came by standard input and is in this process's memory only. It is for the machines
that ``corral ui`` was started for, each under its name and address: a plan for an edited
file may name any machine, and must not carry the password there (docs/decisions/0057).
"""

from __future__ import annotations

from typing import Final

from corral.passwords import Person
from corral.web.settings import Sudo

HINT: Final = (
    "corral ui asks for sudo's password as it starts, and uses it for the machines that its file "
    "had then: run it again on a terminal, or name a file with it in CORRAL_SUDO_PASSWORD_FILE"
)


def attendant(sudo: Sudo | None) -> Person:
    """The person who is there for all that the page does.

    Args:
        sudo: what ``corral ui`` handed over; None where no machine wanted a password, or nobody
            could be asked.
    """

    async def ask(_: str) -> str | None:
        return sudo.password.get_secret_value() if sudo is not None else None

    return Person(ask, only=sudo.machines if sudo is not None else frozenset(), hint=HINT)
