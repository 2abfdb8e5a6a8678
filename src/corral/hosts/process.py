"""Local processes: with limits, as every transport runs them, and long-lived ones.

Built on asyncio's transport and protocol pair, not on its streams: a run then needs no task per
pipe, a closed standard input is not an exception, and all pipes can be closed in one call when a
process that outlived the script still holds them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Self, TypeVar

from corral.errors import Code, CorralError

MAX_OUTPUT: Final = 64 * 1024 * 1024
LINGER_S: Final = 0.5
GONE_S: Final = 5.0
"""So long a killed process is waited for: one that the kernel holds (a frozen cgroup, a network
namespace that does not go away, a dead disk) ends no sooner than that releases it."""

Feed = Callable[[bytes], bool]
Caught = Callable[[], "asyncio.Future[None] | None"]
"""Gives what is done once the reader of the output has caught up; None: it has."""
Begun = TypeVar("Begun")


@dataclass(frozen=True, slots=True)
class Ended:
    """A process that ended: its exit status (negative: a signal) and its output as bytes."""

    status: int | None
    stdout: bytes
    stderr: bytes

    @property
    def out(self) -> str:
        """Its stdout as text, bytes that are not UTF-8 replaced."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def err(self) -> str:
        """Its stderr as text, bytes that are not UTF-8 replaced."""
        return self.stderr.decode("utf-8", "replace")


@dataclass(slots=True)
class _Sink:
    """Bytes of one stream under a limit; ``rolling`` drops the oldest, else ``full`` is set."""

    limit: int
    rolling: bool
    chunks: deque[bytes] = field(default_factory=deque[bytes])
    size: int = 0
    full: bool = False

    def add(self, data: bytes) -> None:
        self.chunks.append(data)
        self.size += len(data)
        if self.size <= self.limit:
            return
        if not self.rolling:
            self.full = True
            return
        while self.size - len(self.chunks[0]) > self.limit:
            self.size -= len(self.chunks.popleft())

    def value(self) -> bytes:
        return b"".join(self.chunks)


class _Watch(asyncio.SubprocessProtocol):
    """Collects output and reports the end of the process."""

    def __init__(
        self, feed: Feed | None, caught: Caught | None, limit: int, *, rolling: bool
    ) -> None:
        loop = asyncio.get_running_loop()
        self.over: asyncio.Future[None] = loop.create_future()
        self.exited: asyncio.Future[None] = loop.create_future()
        self.broken: Exception | None = None
        self.out = _Sink(limit, rolling=rolling)
        self.err = _Sink(limit, rolling=True)
        self._feed = feed
        self._caught = caught
        self._open = {1, 2}
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.SubprocessTransport | None = None
        self._paused = False
        self._exits = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.SubprocessTransport):
            self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:  # noqa: PLR2004  # stderr
            self.err.add(data)
            return
        self.out.add(data)
        if self.out.full:
            self._finish()
        if self._feed is None or self.broken is not None:
            return
        try:
            ended = self._feed(data)
        except Exception as error:  # the caller's own error is raised by run(), not by the loop
            self.broken = error
            self._finish()
            return
        if ended:
            self._linger()
        behind = self._caught() if self._caught is not None else None
        if behind is not None and not behind.done():
            self._pause(behind)

    def _pause(self, behind: asyncio.Future[None]) -> None:
        """Read no more of stdout until this is done: the program waits when its pipe is full."""
        pipe = self._transport.get_pipe_transport(1) if self._transport is not None else None
        if self._paused or not isinstance(pipe, asyncio.ReadTransport) or pipe.is_closing():
            return
        self._paused = True
        pipe.pause_reading()
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._exits = None, True
        behind.add_done_callback(lambda _: self._resume(pipe))

    def _resume(self, pipe: asyncio.ReadTransport) -> None:
        self._paused = False
        if not pipe.is_closing():
            pipe.resume_reading()
        if self._exits:
            self._exits = False
            self._linger()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open.discard(fd)
        self._maybe_finish()

    def process_exited(self) -> None:
        self.exited.set_result(None)
        self._maybe_finish()
        self._linger()

    def _maybe_finish(self) -> None:
        if self.exited.done() and not self._open:
            self._finish()

    def _linger(self) -> None:
        # A daemon started by the script may hold stdout or stderr for ever: sshd then never
        # closes the session (https://bugzilla.mindrot.org/show_bug.cgi?id=52).
        if self._paused:  # the rest of what it printed is still to be read
            self._exits = True
        elif self._timer is None and not self.over.done():
            self._timer = asyncio.get_running_loop().call_later(LINGER_S, self._finish)

    def _finish(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self.over.done():
            self.over.set_result(None)


async def run(
    argv: Sequence[str],
    *,
    stdin: bytes = b"",
    timeout: float,
    feed: Feed | None = None,
    caught: Caught | None = None,
    env: Mapping[str, str] | None = None,
    limit: int = MAX_OUTPUT,
    rolling: bool = False,
    folder: str | None = None,
) -> Ended:
    """Run a program in its own process group and leave nothing of it behind.

    Args:
        argv: the program and its arguments.
        stdin: what it reads; a program that does not read it is not an error.
        timeout: seconds until its process group is killed.
        feed: called with each piece of stdout; True means that the output is complete and what
            still runs after a short while is given up.
        caught: called after ``feed``; no more of stdout is read until what it gives is done.
        env: its environment, this process's own when None.
        limit: bytes of stdout at most; of stderr the last that many are kept.
        rolling: keep the last ``limit`` bytes of stdout too, however many there are.
        folder: where it runs, this process's own when None.

    Raises:
        TimeoutError: it took longer than ``timeout``.
        CorralError: MISSING_TOOL or COMMAND_FAILED, it printed more than ``limit`` bytes.
    """
    start = asyncio.get_running_loop().subprocess_exec(
        lambda: _Watch(feed, caught, limit, rolling=rolling),
        *argv,
        env=env,
        cwd=folder,
        start_new_session=True,
    )
    try:
        transport, watch = await _started(start, lambda begun: _end(*begun))
    except FileNotFoundError as error:
        raise _missing(argv[0]) from error
    try:
        _write(transport, stdin)
        # Not asyncio.timeout: in the cleaning up of a task that was cancelled its end would be a
        # CancelledError (CPython 3.11).
        await asyncio.wait({watch.over}, timeout=timeout)
        if not watch.over.done():
            raise TimeoutError
    finally:
        await _end(transport, watch)
    if watch.broken is not None:
        raise watch.broken
    if watch.out.full:
        raise CorralError(
            Code.COMMAND_FAILED,
            f"more than {limit // 1024 // 1024} MiB of output",
            hint="let the command write to a file on the node and read a part of it",
        )
    return Ended(transport.get_returncode(), watch.out.value(), watch.err.value())


async def _started(start: Awaitable[Begun], end: Callable[[Begun], Awaitable[None]]) -> Begun:
    """What a start gives. One that is cancelled is completed, which takes milliseconds, and ended.

    Cancelled halfway, asyncio kills the program and waits for its pipes, some of which are never
    closed: with a child of the program that reads one of them, for ever (CPython 3.11,
    ``BaseSubprocessTransport._wait``).
    """
    task = asyncio.ensure_future(start)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        if not task.cancelled() and task.exception() is None:
            await end(task.result())
        raise


def _missing(program: str) -> CorralError:
    return CorralError(
        Code.MISSING_TOOL,
        f"{program} is not installed on this machine",
        command=program,
        hint=f"install the package that holds {program}",
    )


async def killed(process: asyncio.subprocess.Process) -> None:
    """Kill it with all of its process group, and wait for its end GONE_S at most."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    gone = asyncio.ensure_future(process.wait())
    try:
        await asyncio.wait({gone}, timeout=GONE_S)
    finally:
        gone.cancel()


def _write(transport: asyncio.SubprocessTransport, stdin: bytes) -> None:
    pipe = transport.get_pipe_transport(0)
    if not isinstance(pipe, asyncio.WriteTransport):
        return
    if stdin:
        pipe.write(stdin)
    pipe.close()  # flushes what is buffered, then closes


async def _end(transport: asyncio.SubprocessTransport, watch: _Watch) -> None:
    """Kill the process group if it still runs, wait a while for its end, close its pipes."""
    pipe = transport.get_pipe_transport(0)
    if isinstance(pipe, asyncio.WriteTransport) and pipe.get_write_buffer_size():
        pipe.abort()  # close() would wait for a reader that may never come
    if transport.get_returncode() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(transport.get_pid(), signal.SIGKILL)
    try:
        # Before close(): that polls the child itself, and then the loop's child watcher warns
        # "Unknown child process" (CPython 3.11, base_subprocess.py).
        await asyncio.wait({watch.exited}, timeout=GONE_S)
    finally:
        transport.close()


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
    async def start(
        cls, argv: Sequence[str], *, quiet: bool = False, handles: Sequence[int] = ()
    ) -> Self:
        """Start a program.

        Args:
            argv: program and arguments, given to no shell; never a secret.
            quiet: keep its standard error, for ``ended``, instead of showing it.
            handles: open descriptors that it gets, under the same numbers.

        Raises:
            CorralError: MISSING_TOOL.
        """
        pipe = asyncio.subprocess.PIPE
        start = asyncio.create_subprocess_exec(
            *argv,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe if quiet else None,
            start_new_session=True,  # Ctrl-C is its owner's to handle
            pass_fds=handles,
        )
        try:
            process = await _started(start, killed)
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
