"""What a process of Corral's waits for: an aid to debugging, there with CORRAL_DEBUG alone."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import sys

from corral.variables import DEBUG


def on_signal() -> None:
    """With CORRAL_DEBUG=1 let SIGUSR1 write the stacks of the process to its standard error.

    First the stacks of all threads, from within the signal's handler: so a process that hangs in a
    system call or in C prints them too. Then, where the main thread still runs, those of asyncio's
    tasks. The process goes on. Nothing else is shown: no variables, and so no secrets.
    """
    if os.environ.get(DEBUG, "") not in ("", "0"):
        signal.signal(signal.SIGUSR1, _tasks)
        faulthandler.register(signal.SIGUSR1, all_threads=True, chain=True)


def _tasks(*_: object) -> None:
    try:
        tasks = asyncio.all_tasks()
    except RuntimeError:  # no loop runs
        return
    for task in tasks:
        task.print_stack(file=sys.stderr)
    sys.stderr.flush()
