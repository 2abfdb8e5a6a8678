"""A long-lived local process: gets one line on standard input, ends when its owner does."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final, Self

from corral.errors import Code, CorralError

EOF_S: Final = 1.0
END_S: Final = 5.0
STDERR_S: Final = 2.0


class Child:
    """One process with its standard output; standard error goes to ours.

    Its standard input stays open while it should live: a child that reads it to its end knows when
    its owner died. Use ``async with await Child.start(argv) as child``.
    """

    def __init__(self, process: asyncio.subprocess.Process, name: str) -> None:
        self._process = process
        self._name = name

    @classmethod
    async def start(cls, argv: Sequence[str], *, quiet: bool = False) -> Self:
        """Start a program.

        Args:
            argv: program and arguments, given to no shell; never a secret.
            quiet: keep its standard error, for ``ended``, instead of showing it.

        Raises:
            CorralError: MISSING_TOOL.
        """
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe if quiet else None,
                start_new_session=True,  # Ctrl-C is its owner's to handle
            )
        except FileNotFoundError as error:
            raise CorralError(
                Code.MISSING_TOOL, f"{argv[0]} is not installed", hint=f"install {argv[0]}"
            ) from error
        return cls(process, argv[0])

    async def write(self, line: bytes) -> None:
        """Write to its standard input, which stays open."""
        if self._process.stdin is not None:
            self._process.stdin.write(line)
            with contextlib.suppress(ConnectionError):
                await self._process.stdin.drain()

    async def line(self, timeout: float) -> str:
        """The next line of its standard output, "" when it ended.

        Raises:
            TimeoutError: none came.
        """
        if self._process.stdout is None:
            return ""
        async with asyncio.timeout(timeout):
            return (await self._process.stdout.readline()).decode("utf-8", "replace")

    async def wait(self) -> int:
        """Wait for its end; returns its exit status."""
        return await self._process.wait()

    @property
    def running(self) -> bool:
        """It has not ended."""
        return self._process.returncode is None

    async def stderr_tail(self) -> str:
        """The last lines of its standard error, once it has ended (``quiet`` only)."""
        if self._process.stderr is None:
            return ""
        tail = b""
        # A child process that outlived it may hold the other end.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STDERR_S):
                while more := await self._process.stderr.read(4096):
                    tail = (tail + more)[-2000:]
        return tail.decode("utf-8", "replace")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        """End it: by closing its input, then by SIGTERM, then by SIGKILL."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        # Not asyncio.timeout: after Ctrl-C this task is cancelled already, and the end of that is
        # a CancelledError, which leaves this loop and the process behind (CPython 3.11).
        gone = asyncio.ensure_future(self._process.wait())
        for end in (None, self._process.terminate, self._process.kill):
            if end is not None:
                with contextlib.suppress(ProcessLookupError):
                    end()
            await asyncio.wait({gone}, timeout=END_S if end else EOF_S)
            if gone.done() or not self.running:
                return
