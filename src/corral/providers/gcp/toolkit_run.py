"""A run of gcluster: it outlives the Corral that started it, and the next one waits for it.

gcluster starts Terraform in a separate process group and has the kernel kill it when gcluster dies
(terraform-exec v0.21.0 and v0.24.0, ``cmd_linux.go``: ``Setpgid``, ``Pdeathsig: SIGKILL``). A
Terraform that is killed keeps its lock on the state and forgets what it was making. Go programs
die of writing to a closed pipe. So gcluster writes to files, which are read as they grow, and an
interrupt goes to the programs that gcluster runs, not to gcluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from corral.errors import BAD_JSON
from corral.events import Emit, Event, Kind
from corral.providers.gcp.processes import children_of

POLL_S: Final = 0.1
"""Seconds between two reads of what gcluster printed."""
INTERRUPT_S: Final = 120.0
"""Seconds that an interrupted Terraform gets to write its state and release its lock."""
CHILDLESS_S: Final = 1.0
"""After so many seconds without a child process gcluster itself is interrupted."""
KILLED_S: Final = 5.0
LINE_AT_MOST: Final = 1 << 20
LOCK: Final = "gcluster.lock"

Lines = Callable[[str], Iterator[Event]]
"""Takes a line that gcluster printed; gives what it is worth."""


class Window(NamedTuple):
    """From the start of a run that was killed to its end, in Unix time."""

    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Run:
    """What is recorded of the last run for a deployment, before it starts and at its end.

    Attributes:
        started: Unix time.
        killed: runs before it that were killed, since the last one that made all.
        status: how it ended, negative for a signal; None: nobody saw its end.
        ended: Unix time; 0: nobody saw it.
        makes: it deploys: no other run's success shows that nothing is left that an earlier run
            made and forgot.
    """

    started: float
    killed: tuple[Window, ...] = ()
    status: int | None = None
    ended: float = 0.0
    makes: bool = True

    def windows(self, alive: float) -> tuple[Window, ...]:
        """Runs that were killed, itself among them, since the last one that made all.

        Args:
            alive: Unix time of its last sign of life, where nobody saw its end.
        """
        if self.status is None or self.status < 0:
            return (*self.killed, Window(self.started, self.ended or max(alive, self.started)))
        return () if self.makes and not self.status else self.killed


class Runs:
    """The runs of gcluster in one folder, one at a time.

    Args:
        folder: where blueprints and deployment folders are; logs, records and lock are put there.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def last(self, deployment: str) -> Run | None:
        """The last run for a deployment from this machine; None where none is recorded."""
        try:
            record: Any = json.loads(self._path(deployment, "json").read_bytes())
            return Run(
                float(record["started"]),
                tuple(Window(float(begin), float(end)) for begin, end in record["killed"]),
                None if record["status"] is None else int(record["status"]),
                float(record["ended"]),
                bool(record["makes"]),
            )
        except (OSError, *BAD_JSON):
            return None

    def windows(self, deployment: str) -> tuple[Window, ...]:
        """When runs were killed, since the last one that made all of a deployment."""
        run = self.last(deployment)
        return run.windows(self._alive(deployment)) if run else ()

    def unfinished(self, deployment: str) -> bool:
        """Whether the last run from this machine did not make all of it: killed, failed, or gone.

        False where none is recorded, as the deployment may have been made elsewhere.
        """
        run = self.last(deployment)
        return run is not None and not (run.makes and run.status == 0)

    def _alive(self, deployment: str) -> float:
        """Unix time at which the last run last printed something, 0 where that is unknown.

        The time of its end when nobody saw that: it may have worked on, but not for certain.
        """
        times: list[float] = []
        for end in ("out", "err"):
            with contextlib.suppress(OSError):
                times.append(self._path(deployment, end).stat().st_mtime)
        return max(times, default=0.0)

    def printed(self, deployment: str) -> str:
        """All that the last run printed, its errors at the end."""
        texts: list[str] = []
        for end in ("out", "err"):
            with contextlib.suppress(OSError):
                data = self._path(deployment, end).read_bytes()
                texts.append(data.decode("utf-8", "replace"))
        return "\n".join(texts)

    async def follow(
        self, deployment: str, argv: Sequence[str], lines: Lines, emit: Emit
    ) -> tuple[int, str]:
        """Run gcluster to its end, however long that takes, and print what it does.

        Args:
            deployment: which one, for the record.
            argv: program and arguments.
            lines: reads its output.
            emit: receives what that is worth.

        Returns:
            its status and what it wrote to standard error.
        """
        async with self._turn(emit) as lock:
            run = self._next(deployment, makes=tuple(argv[1:2]) == ("deploy",))
            out, err = (self._path(deployment, end) for end in ("out", "err"))
            with _opened(out) as stdout, _opened(err) as stderr:
                self._record(deployment, run)
                os.pwrite(lock, f"{deployment}\n".encode().ljust(64), 0)
                process = await asyncio.create_subprocess_exec(
                    *argv,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=stderr,
                    start_new_session=True,
                    pass_fds=(lock,),
                )
            try:
                status = await _followed(process, Log(out), lines, emit)
            except BaseException:
                await interrupt(process)
                self._over(deployment, run, process.returncode)
                raise
            self._over(deployment, run, status)
        return status, err.read_bytes().decode("utf-8", "replace")

    def _next(self, deployment: str, *, makes: bool) -> Run:
        """A run that starts now."""
        before = self.last(deployment)
        if before and not before.ended:
            # The new run empties the files whose time shows its end.
            before = replace(before, ended=max(self._alive(deployment), before.started))
            self._record(deployment, before)
        killed = before.windows(before.ended) if before else ()
        return Run(time.time(), killed, makes=makes)

    def _over(self, deployment: str, run: Run, status: int | None) -> None:
        ended = 0.0 if status is None else time.time()
        self._record(deployment, replace(run, status=status, ended=ended))

    async def settle(self, emit: Emit) -> None:
        """Wait for the end of a run whose Corral was killed."""
        async with self._turn(emit):
            pass

    @asynccontextmanager
    async def _turn(self, emit: Emit) -> AsyncGenerator[int]:
        """Hold the lock, which gcluster and all that it runs inherit: the last one frees it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(self._folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            waited = False
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    pass
                if not waited:
                    waited = True
                    deployment = os.pread(lock, 64, 0).decode("utf-8", "replace").strip()
                    emit(Event(Kind.NOTE, "machines", message=_earlier(deployment, self._folder)))
                await asyncio.sleep(POLL_S)
            yield lock
        finally:
            os.close(lock)

    def _path(self, deployment: str, end: str) -> Path:
        return self._folder / f"run-{deployment}.{end}"

    def _record(self, deployment: str, run: Run) -> None:
        replace_text(self._path(deployment, "json"), json.dumps(asdict(run)))


def _earlier(deployment: str, folder: Path) -> str:
    log = folder / f"run-{deployment}.out"
    return (
        f"gcluster of an earlier run, whose Corral has ended, still works on {deployment or '?'}: "
        f"waiting for its end (tail -f {log})"
    )


def replace_text(path: Path, text: str) -> None:
    """Write a file that is never seen half written."""
    new = path.with_name(path.name + ".new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


@contextlib.contextmanager
def _opened(path: Path) -> Generator[int]:
    """An empty file to append to, for nobody else."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
    handle = os.open(path, flags, 0o600)
    try:
        yield handle
    finally:
        os.close(handle)


class Log:
    """A file that grows, read line by line.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._rest = b""

    def more(self, *, over: bool = False) -> Iterator[str]:
        """Lines that are complete now; ``over``: what follows the last one counts too."""
        while data := self._file.read(LINE_AT_MOST):
            *lines, self._rest = (self._rest + data).split(b"\n")
            if len(self._rest) > LINE_AT_MOST:
                lines, self._rest = [*lines, self._rest], b""
            yield from (line.decode("utf-8", "replace") for line in lines)
        if over:
            yield self._rest.decode("utf-8", "replace")
            self._file.close()


async def _followed(process: asyncio.subprocess.Process, log: Log, lines: Lines, emit: Emit) -> int:
    ended = asyncio.ensure_future(process.wait())
    over = False
    while not over:
        await asyncio.wait({ended}, timeout=POLL_S)
        over = ended.done()  # before the last read, which then misses nothing
        for line in log.more(over=over):
            for event in lines(line):
                emit(event)
    return ended.result()


async def interrupt(process: asyncio.subprocess.Process) -> None:
    """Interrupt what gcluster runs, once each, and wait for its end; at last kill it.

    gcluster takes no signal (v1.39.0, v1.95.0): one to it would kill its Terraform.
    """
    gone = asyncio.ensure_future(process.wait())
    asked: set[int] = set()
    alone = 0.0
    end = time.monotonic() + INTERRUPT_S
    while time.monotonic() < end and not gone.done():
        children = children_of(process.pid)
        for child in sorted(children - asked):
            _interrupt_one(child)
        asked |= children
        alone = 0.0 if children else alone + POLL_S
        if alone > CHILDLESS_S:
            _signal_group(process.pid, signal.SIGINT)
        # Not asyncio.timeout: this task is cancelled already, and the limit's end would be a
        # CancelledError, which leaves the loop before the kill (CPython 3.11).
        await asyncio.wait({gone}, timeout=POLL_S)
    if not gone.done():
        _signal_group(process.pid, signal.SIGKILL)
        await asyncio.wait({gone}, timeout=KILLED_S)


def _interrupt_one(pid: int) -> None:
    """Interrupt a program, with its group where it leads one, as a terminal does."""
    with contextlib.suppress(ProcessLookupError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGINT)
        else:
            os.kill(pid, signal.SIGINT)


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)
