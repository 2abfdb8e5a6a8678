"""A backup whose disk is slower than the controller: the controller waits, memory does not grow."""

from __future__ import annotations

import asyncio
import base64
import os
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from corral.api.operations import encryption
from corral.api.operations.backup import _Reader  # pyright: ignore[reportPrivateUsage]
from corral.api.operations.encryption import EncryptedFile, Encryption
from corral.errors import Code, CorralError
from corral.events import ignore
from corral.hosts.local import Local
from corral.hosts.quote import sh
from corral.hosts.transport import Result

MIB = 1 << 20
SIZE = 24
# Random, so that zstd makes it no smaller; the last line has the digest of all.
SENDER = """\
import base64, hashlib, os, sys
total, size = hashlib.sha256(), int(sys.argv[1])
for _ in range(size):
    data = os.urandom(1 << 20)
    for at in range(0, len(data), 30000):
        total.update(data[at : at + 30000])
        print(base64.b64encode(data[at : at + 30000]).decode())
print("@", size << 20, total.hexdigest())
"""
SLOW = """\
import sys, time
while data := sys.stdin.buffer.read(1 << 20):
    time.sleep(0.1)
    sys.stdout.buffer.write(data)
"""


def sink(program: str) -> Encryption:
    """An encryption that is this Python program."""
    return Encryption((sys.executable, "-c", program))


class Flow:
    """A controller that sends as fast as it can, and an archive that is written as it can be."""

    def __init__(self, folder: Path, program: str) -> None:
        self.path = folder / "lab.tar.zst"
        self.file = EncryptedFile(self.path, sink(program))
        self.reader = _Reader(self.file, ignore)
        self.most = 0
        self.full = asyncio.Event()

    def line(self, text: str) -> asyncio.Future[None] | None:
        behind = self.reader.line(text)
        self.most = max(self.most, self.file._held)  # pyright: ignore[reportPrivateUsage]
        if behind is not None:
            self.full.set()
        return behind

    async def read(self, size: int = SIZE) -> Result:
        script = sh("exec {python} -c {text} {n}", python=sys.executable, text=SENDER, n=size)
        return await Local("head").run(script, timeout=60, on_line=self.line)

    async def written(self) -> int:
        """As ``backup`` does it."""
        try:
            await self.read()
            self.reader.require_end("head")
            return await asyncio.to_thread(self.file.finish)
        finally:
            self.file.close()


def soon(work: Coroutine[Any, Any, Any]) -> Any:
    """Its result, within seconds."""
    return asyncio.run(asyncio.wait_for(work, 50))


def test_what_the_disk_has_not_taken_is_bounded(tmp_path: Path) -> None:
    """With 400 MiB from the controller 434 MiB were in memory."""
    flow = Flow(tmp_path, SLOW)
    assert soon(flow.written()) > SIZE * MIB
    assert flow.reader.size == SIZE * MIB
    assert encryption.HELD < flow.most < encryption.HELD + MIB
    assert [file.name for file in tmp_path.iterdir()] == [flow.path.name]


ENDS: tuple[tuple[str, Code], ...] = (
    ("import sys; sys.stdin.buffer.read(12 << 20); sys.exit('no recipient')", Code.COMMAND_FAILED),
    ("import sys; sys.exit(3)", Code.COMMAND_FAILED),
)


@pytest.mark.parametrize(("program", "code"), ENDS, ids=["later", "at once"])
def test_a_sink_that_ends_is_an_error_and_nothing_waits(
    tmp_path: Path, program: str, code: Code
) -> None:
    flow = Flow(tmp_path, program)
    with pytest.raises(CorralError) as raised:
        soon(flow.written())
    assert raised.value.code is code
    assert list(tmp_path.iterdir()) == []


STUCK = "import time; time.sleep(600)"


def test_ctrl_c_ends_a_backup_whose_sink_is_stuck(tmp_path: Path) -> None:
    flow = Flow(tmp_path, STUCK)

    async def cancelled() -> float:
        task = asyncio.ensure_future(flow.written())
        await asyncio.wait_for(flow.full.wait(), 30)
        await asyncio.sleep(0.3)
        before = flow.most
        await asyncio.sleep(0.3)
        assert flow.most == before
        began = time.monotonic()
        task.cancel()
        await asyncio.wait({task}, timeout=30)
        assert task.cancelled()
        return time.monotonic() - began

    assert soon(cancelled()) < 10
    assert list(tmp_path.iterdir()) == []


def test_a_stuck_sink_is_given_up_after_the_time_limit(tmp_path: Path) -> None:
    flow = Flow(tmp_path, STUCK)

    async def late() -> None:
        script = sh("exec {python} -c {text} 48", python=sys.executable, text=SENDER)
        with pytest.raises(CorralError) as raised:
            await Local("head").run(script, timeout=2, on_line=flow.line)
        assert raised.value.code is Code.TIMED_OUT

    try:
        soon(late())
    finally:
        flow.file.close()


def test_room_is_there_after_an_error(tmp_path: Path) -> None:
    file = EncryptedFile(tmp_path / "a", sink("import sys; sys.exit(3)"))

    async def waited() -> None:
        # The error comes while somebody waits, or before: both go on.
        for _ in range(100):
            try:
                file.write(os.urandom(MIB))
            except CorralError:
                return
            if (room := file.room()) is not None:
                await room
        raise AssertionError("no error came")

    try:
        soon(waited())
    finally:
        file.close()


def paced(pauses: Callable[[int], Awaitable[None]]) -> list[str]:
    """The lines of a script, each of which is waited for."""
    lines: list[str] = []

    def line(text: str) -> asyncio.Future[None]:
        lines.append(text)
        return asyncio.ensure_future(pauses(len(lines)))  # pyright: ignore[reportReturnType]

    async def read() -> None:
        script = sh("seq 1 2000; printf last; sleep 0.1 &")
        result = await Local("head").run(script, timeout=50, on_line=line)
        assert result.status == 0

    soon(read())
    return lines


@pytest.mark.parametrize("pause", [0.0, 0.7])
def test_the_end_of_a_program_does_not_cut_off_what_is_still_in_its_pipe(pause: float) -> None:
    """A program that has ended is given up after 0.5 s, but not while its reader waits."""

    async def pauses(_: int) -> None:
        await asyncio.sleep(pause)

    assert paced(pauses) == [*(str(number) for number in range(1, 2001)), "last"]


def test_lines_of_base64_are_what_was_sent(tmp_path: Path) -> None:
    flow = Flow(tmp_path, SLOW)
    try:
        assert flow.line(base64.b64encode(b"x").decode()) is None
        assert flow.reader.size == 1
    finally:
        flow.file.close()
