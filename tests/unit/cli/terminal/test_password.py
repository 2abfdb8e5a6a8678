"""A password that is asked for in a terminal, by a thread that nobody ends."""

from __future__ import annotations

import asyncio
import getpass
from typing import Any

import pytest

from corral.cli.terminal.ui import asked
from corral.errors import CorralError


def raising(error: BaseException) -> Any:
    def ask(prompt: str, stream: object) -> str:
        raise error

    return ask


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (EOFError(), "no password was typed"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), "another encoding"),
        (LookupError("unknown encoding"), "unknown encoding"),
    ],
)
def test_no_failure_is_waited_for(
    error: BaseException, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(getpass, "getpass", raising(error))
    with pytest.raises((CorralError, LookupError), match=words):
        asyncio.run(asyncio.wait_for(asked("sudo"), 5))
