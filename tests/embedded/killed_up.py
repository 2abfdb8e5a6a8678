"""``corral up`` that SIGKILLs itself at the N-th change: run by test_crash.py as a process.

Arguments: cluster name, N (0: never), nodes. Prints each change it starts, as ``resource node``.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from tests.embedded.conftest import named

from corral import api
from corral.events import Event, Kind


class Fuse:
    """Burns at the N-th change or machine that is begun."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, event: Event) -> None:
        machine = event.kind is Kind.NODE_STARTED and event.subject == "machines"
        if not machine and event.kind is not Kind.CHANGE_STARTED:
            return
        what = "machine" if machine else event.subject
        sys.stdout.write(f"{what} {event.node}\n")
        sys.stdout.flush()
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def main(name: str, at: str) -> None:
    asyncio.run(api.up(named(name), Fuse(int(at))))


if __name__ == "__main__":
    main(*sys.argv[1:])
