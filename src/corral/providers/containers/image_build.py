"""Building a node image: mmdebstrap writes a tar, podman imports it, a tag is given at the end.

Measured on 2 cores (python3-torch and python3-sklearn in it, 1.5 GB): ``podman import -`` reads the
entire pipe into memory before it begins (podman 4.3, containers/image tarball transport), which
took 6 s more than a file; a tmpfs under mmdebstrap saves a third of its system time; byte-compiling
all at once on all CPUs takes 4 s instead of one py3compile per package.

mmdebstrap runs in its own mount and process namespaces, which die with Corral, so that killing
Corral leaves no process and no mount; the work folder is swept by the next build. It holds the
build lock too: no second build begins meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind
from corral.hosts.process import killed
from corral.hosts.quote import Script, sh
from corral.inspect.cpu import memory_mib
from corral.providers.containers.archive import Source

WORK_PREFIX: Final = "corral-build-"
BUILD_S: Final = 1800.0
POLL_S: Final = 0.2
TAIL_LINES: Final = 15
TMPFS_NEEDS_MIB: Final = 6144
_DROPPED_ENV: Final = ("LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME")

_PROGRAMS: Final = {"mmdebstrap": "mmdebstrap", "unshare": "util-linux", "setpriv": "util-linux"}
"""Programs that a build starts, and the distribution's packages that have them."""
_BOX: Final = (
    *("setpriv", "--pdeathsig", "KILL", "--", "unshare", "--mount", "--propagation", "private"),
    *("--pid", "--fork", "--kill-child=KILL", "--mount-proc"),
)
_PLAIN: Final = sh('exec "$@"')
_IN_TMPFS: Final = sh('mount -t tmpfs -o mode=755,size=4g corral "$TMPDIR"\nexec "$@"')


@dataclass(frozen=True, slots=True)
class Build:
    """What is built and from where.

    Attributes:
        suite: release.
        packages: what is installed besides the minimal system.
        left_out: path patterns dpkg leaves out.
        sources: the archive.
        keyring: the keys that vouch for it; None: apt's own.
        early: shell run with the new root as first argument when the essential packages are there.
        late: the same when all packages are there.
    """

    suite: str
    packages: tuple[str, ...]
    left_out: tuple[str, ...]
    sources: tuple[Source, ...]
    keyring: Path | None
    early: Script
    late: Script

    def argv(self, work: Path) -> list[str]:
        """The command line that writes the system to ``root.tar`` in the work folder."""
        argv = ["mmdebstrap", "--variant=minbase", "--mode=root", "--format=tar"]
        argv += ['--aptopt=APT::Install-Recommends "false"', '--aptopt=Acquire::Languages "none"']
        # mmdebstrap 0.8.4 (Ubuntu 22.04) writes "uninitialized" into /etc/machine-id: at its first
        # boot systemd then enables every service again that ``late`` had disabled.
        argv += ["--dpkgopt=force-unsafe-io", "--skip=cleanup/reproducible"]
        argv += [f"--dpkgopt=path-exclude={pattern}" for pattern in self.left_out]
        argv += [f"--keyring={self.keyring}"] if self.keyring else []
        argv += [f"--essential-hook={work / 'early'}", f"--customize-hook={work / 'late'}"]
        argv += [f"--include={','.join(self.packages)}"]
        return [*argv, self.suite, str(work / "root.tar"), *(s.line() for s in self.sources)]


@dataclass(frozen=True, slots=True)
class Bench:
    """Where mmdebstrap works.

    Attributes:
        work: private folder, removed at the end.
        lock: descriptor of the build lock, for children to hold.
        proxies: environment that names the host's apt proxies.
    """

    work: Path
    lock: int
    proxies: Mapping[str, str]


@contextlib.asynccontextmanager
async def locked(path: Path) -> AsyncGenerator[int]:
    """Hold the lock file, waiting for whoever has it; gives the descriptor for children to hold.

    Raises:
        CorralError: FORBIDDEN, the lock is not this user's to take.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except PermissionError as error:
        raise CorralError(
            Code.FORBIDDEN,
            f"node images are made by root alone: {path} cannot be opened",
            hint="run the same command with sudo",
        ) from error
    try:
        while not _taken(fd):  # noqa: ASYNC110  # another process holds it
            await asyncio.sleep(POLL_S)
        yield fd
    finally:
        os.close(fd)


def _taken(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def sweep(folder: Path, prefix: str = WORK_PREFIX) -> None:
    """Remove work folders of builds that were killed; only under the lock of this prefix.

    Another kind of build has another lock, so it has another prefix too: taking away the folder of
    one that runs unmounts its tmpfs under it (seen with Linux 6.18).
    """
    for old in folder.glob(f"{prefix}*"):
        shutil.rmtree(old, ignore_errors=True)


@contextlib.contextmanager
def bench(
    folder: Path, lock: int, proxies: Mapping[str, str], prefix: str = WORK_PREFIX
) -> Generator[Bench]:
    """A work folder below ``folder``, until the end.

    Raises:
        CorralError: MISSING_TOOL.
    """
    require_programs()
    with tempfile.TemporaryDirectory(dir=folder, prefix=prefix) as name:
        work = Path(name)
        work.chmod(0o755)  # apt's sandbox user must get through
        (work / "tmp").mkdir(mode=0o755)
        yield Bench(work, lock, proxies)


async def root_tar(job: Build, at: Bench, emit: Emit) -> Path:
    """Build the system as a tar file in the work folder.

    Raises:
        CorralError: TIMED_OUT or IMAGE_FAILED, with mmdebstrap's last lines.
    """
    for name, text in (("early", job.early), ("late", job.late)):
        (at.work / name).write_text(text)
        (at.work / name).chmod(0o700)
    await mmdebstrap(job.argv(at.work), at, emit)
    return at.work / "root.tar"


def require_programs() -> None:
    """Check that the programs of a build are installed.

    Raises:
        CorralError: MISSING_TOOL.
    """
    for program, package in _PROGRAMS.items():
        if shutil.which(program) is None:
            raise CorralError(
                Code.MISSING_TOOL,
                f"{program} is not installed on this machine",
                command=program,
                hint=f"apt install {package} (as root)",
            )


def keyring(sources: Sequence[Source], work: Path) -> Path | None:
    """The host's keyring for an archive, written to the work folder if inline; None: apt's own."""
    signed = next((s.signed_by for s in sources if s.signed_by), "")
    if not signed or signed.startswith("/"):
        return Path(signed) if signed else None
    inline = work / "archive.asc"
    inline.write_text(signed + "\n")
    inline.chmod(0o644)
    return inline


def _available_mib() -> int:
    return memory_mib(Path("/proc/meminfo").read_text(), "MemAvailable")


async def mmdebstrap(argv: Sequence[str], at: Bench, emit: Emit, limit: float = BUILD_S) -> None:
    """Run it in a box that dies with Corral.

    Args:
        argv: its command line.
        at: where.
        emit: receives the progress.
        limit: seconds it may take.

    Raises:
        CorralError: TIMED_OUT or IMAGE_FAILED, with its last lines.
    """
    env = {k: v for k, v in os.environ.items() if k not in _DROPPED_ENV} | dict(at.proxies)
    env |= {"TMPDIR": str(at.work / "tmp"), "LC_ALL": "C.UTF-8"}
    shell = _IN_TMPFS if _available_mib() >= TMPFS_NEEDS_MIB else _PLAIN
    log = at.work / "log"
    fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        process = await asyncio.create_subprocess_exec(
            *(*_BOX, "sh", "-ec", shell, "sh", *argv),
            stdin=subprocess.DEVNULL,
            stdout=fd,
            stderr=fd,
            env=env,
            pass_fds=(at.lock,),
            start_new_session=True,
        )
    finally:
        os.close(fd)
    try:
        await _follow(process, log, emit, limit)
    finally:
        await _end(process)
    if process.returncode != 0:
        raise CorralError(
            Code.IMAGE_FAILED,
            "mmdebstrap could not build the node image",
            command=" ".join(argv),
            status=process.returncode,
            tail=_tail(log),
            hint="check that apt update works on this machine and /var/tmp has 6 GB free",
        )


async def _follow(process: asyncio.subprocess.Process, log: Path, emit: Emit, limit: float) -> None:
    """Report the progress of mmdebstrap (its lines that begin with ``I: ``) until it has ended.

    Raises:
        CorralError: TIMED_OUT.
    """
    began, reported = time.monotonic(), 0
    over = asyncio.ensure_future(process.wait())
    while True:
        await asyncio.wait([over], timeout=POLL_S)
        notes = _notes(log)
        for line in notes[reported:]:
            emit(Event(Kind.NOTE, "image", message=line, seconds=time.monotonic() - began))
        reported = len(notes)
        if over.done():
            return
        if time.monotonic() - began > limit:
            raise CorralError(
                Code.TIMED_OUT,
                f"mmdebstrap was not done within {limit:.0f} s",
                tail=_tail(log),
                hint="check the speed of this machine's package archive",
            )


def _notes(log: Path) -> Sequence[str]:
    lines = log.read_text(errors="replace").splitlines()
    return [line.removeprefix("I: ") for line in lines if line.startswith("I: ")]


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").strip().splitlines()[-TAIL_LINES:])


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill it with all its children if it still runs."""
    if process.returncode is None:
        await killed(process)
