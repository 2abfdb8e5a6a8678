"""Who did what through the page, one JSON line each. Never a token, a code or a cookie."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path


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
