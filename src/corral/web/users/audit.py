"""Who did what through the page, one JSON line each; who answers for sudo's password.

The password came by standard input and is in this process's memory only. It is for the machines
that ``corral ui`` was started for, each under its name and address: a plan for an edited
file may name any machine, and must not carry the password there (docs/decisions/0057).
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Final

from corral.passwords import Person
from corral.web.settings import Sudo


class Audit:
    """Appends to a file of mode 0600, or to standard error (which is the journal of a service)."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def note(self, user: str, what: str, subject: str = "", outcome: str = "ok") -> None:
        """Write one record.

        Args:
            user: Slurm user; "" for nobody.
            what: verb: login, cancel, drain, apply, ...
            subject: job, node or address.
            outcome: ok, or the error's code.
        """
        fields = {
            "at": round(time.time(), 3),
            "audit": what,
            "user": user,
            "subject": subject[:200],
            "outcome": outcome,
        }
        line = f"{json.dumps(fields)}\n"
        if self._path is None:
            sys.stderr.write(line)
            sys.stderr.flush()
            return
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)


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
