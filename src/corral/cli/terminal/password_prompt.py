"""Asking for a password on the terminal while a use case runs."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
import sys
import termios
import threading
from collections.abc import Callable, Generator
from typing import Any

from corral.errors import Code, CorralError


async def asked(prompt: str) -> str:
    """Ask for a password without showing it; the loop goes on meanwhile.

    In a thread that is not waited for: one that reads a terminal cannot be ended, and Ctrl-C must
    end the command.

    Raises:
        CorralError: USAGE, the terminal was closed.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str] = loop.create_future()

    def settle(set_it: Callable[[Any], None], value: Any) -> None:
        if not answer.done():
            set_it(value)

    def read() -> None:
        try:
            set_it, value = answer.set_result, getpass.getpass(f"{prompt}: ", stream=sys.stderr)
        except (EOFError, OSError):
            value = CorralError(Code.USAGE, "no password was typed", hint="run it again")
            set_it = answer.set_exception
        with contextlib.suppress(RuntimeError):  # the loop is closed: the command was interrupted
            loop.call_soon_threadsafe(settle, set_it, value)

    with _echo_kept():
        threading.Thread(target=read, name="password", daemon=True).start()
        return await answer


@contextlib.contextmanager
def _echo_kept() -> Generator[None]:
    """Leave the terminal as it was: an abandoned getpass would leave it without echo."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        yield
        return
    try:
        before = termios.tcgetattr(terminal)
        try:
            yield
        finally:
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)
    finally:
        os.close(terminal)
