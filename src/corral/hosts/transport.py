"""How a script reaches a machine: the Transport protocol and the framing all transports share.

Framing. The remote command is a fixed line (``REMOTE``); the script, and after it the bytes meant
for the script's own standard input (secrets), travel by stdin, so that nothing of either is in
an argument list on any machine. A first marker line with a random token cuts off what login files
print; the script runs in a subshell; then a sentinel line with the token and the exit status is
printed. No sentinel means the connection broke: a transport error, never success (OpenSSH's exit
status 255 does not distinguish the two).
"""

from __future__ import annotations

import asyncio
import codecs
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from corral.errors import Code, CorralError
from corral.hosts.framing import boundary
from corral.hosts.quote import Script

# read(1) of dash takes one byte at a time and GNU and busybox head -c take exactly N bytes, so what
# follows the script on stdin is left for the script.
REMOTE: Final = 'IFS= read -r n && s=$(head -c "$n") && eval "$s"'
TAIL_LINES: Final = 20
MAX_LINE: Final = 64 * 1024

# The same surroundings on every machine: Debian's ssh client sends LC_* and Debian's sshd takes
# them, other sshds give a PATH without sbin, and a root umask of 077 makes files others must read.
_PRELUDE: Final = (
    "LC_ALL=C; export LC_ALL; PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin; export PATH; umask 022"
)

OnLine = Callable[[str], "asyncio.Future[None] | None"]
"""Takes a line. It may give a future: no more is read from the machine until that of the last line
that was read is done."""


@dataclass(frozen=True, slots=True)
class Result:
    """A script's answer: its exit status and all it printed (UTF-8, bad bytes replaced)."""

    node: str
    status: int
    stdout: str
    stderr: str

    @property
    def ok(self) -> bool:
        """True when the script ended with status 0."""
        return self.status == 0

    @property
    def tail(self) -> str:
        """The last lines of stderr, or of stdout when stderr is empty."""
        text = self.stderr.strip() or self.stdout.strip()
        return "\n".join(text.splitlines()[-TAIL_LINES:])


class Transport(Protocol):
    """One machine that can run scripts as root.

    Implementations: ``openssh.OpenSSH``, ``local.Local``, and recorded ones in tests.
    """

    @property
    def node(self) -> str:
        """The node's name."""
        ...

    async def run(
        self,
        script: Script,
        *,
        stdin: bytes = b"",
        timeout: float = 120.0,
        on_line: OnLine | None = None,
    ) -> Result:
        """Run a script and give its answer, whatever its exit status.

        Args:
            script: POSIX shell text.
            stdin: bytes the script may read from its standard input.
            timeout: seconds until it is given up.
            on_line: called with each line of stdout as it comes (sentinel left out).

        Raises:
            CorralError: UNREACHABLE, HOST_KEY_CHANGED, TIMED_OUT, or COMMAND_FAILED (it printed
                more than ``process.MAX_OUTPUT`` bytes and there is no ``on_line``).
        """
        ...

    async def close(self) -> None:
        """Give up connections that are kept open."""
        ...


@runtime_checkable
class Alone(Protocol):
    """A transport that can make a new connection for one script."""

    async def run_alone(self, script: Script, *, timeout: float = 120.0) -> Result:
        """Run a script by a new connection, which logs in by key or not at all.

        Raises:
            CorralError: as ``Transport.run``.
        """
        ...


@dataclass(frozen=True, slots=True)
class Frame:
    """One script made ready to travel: what goes to stdin, and the sentinel to wait for."""

    payload: bytes
    token: str

    @classmethod
    def of(cls, script: Script, stdin: bytes = b"") -> Frame:
        """Wrap a script so that its end and its status can be read from the output.

        The script is evaluated as one quoted word in a subshell: a syntax error in it, or a
        parenthesis too many, ends the subshell and not the sentinel after it.
        """
        token = boundary()
        wrapped = (
            f"{_PRELUDE}; unset s n; printf '%s\\n' {token}-begin\n"
            f"(eval {shlex.quote(script)}\n)\n"
            f"printf '\\n%s %d\\n' {token}-end $?"
        ).encode("utf-8", "surrogateescape")
        return cls(b"%d\n%b%b" % (len(wrapped), wrapped, stdin), token)

    @property
    def begin(self) -> str:
        """The marker line before the script's own output."""
        return f"{self.token}-begin"

    @property
    def end(self) -> str:
        """What the sentinel line starts with."""
        return f"{self.token}-end"

    def read(self, node: str, stdout: str, stderr: str, exit_status: int | None) -> Result:
        """Take the marker and the sentinel off ``stdout``.

        Raises:
            CorralError: UNREACHABLE, the sentinel is missing.
        """
        body, separator, rest = stdout.rpartition(f"\n{self.end} ")
        status, ended, _ = rest.partition("\n")
        if not separator or not ended or not status.isdecimal():
            raise CorralError(
                Code.UNREACHABLE,
                "the connection broke before the script ended",
                node=node,
                status=exit_status,
                tail="\n".join(stderr.strip().splitlines()[-TAIL_LINES:]),
                hint="check the machine and the network, then run the same command again",
            )
        before, began, after = body.partition(f"{self.begin}\n")
        return Result(node, int(status), after if began else before, stderr)


class Lines:
    """Cuts a running stdout into the script's lines for ``on_line``; sees its begin and its end.

    Only a line feed ends a line; a line longer than ``MAX_LINE`` characters comes in pieces.
    """

    def __init__(self, frame: Frame, on_line: OnLine | None) -> None:
        self.began = False
        self.ended = False
        self._frame = frame
        self._on_line = on_line
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._part = ""
        self._piece = False
        self._empty = False
        self._behind: asyncio.Future[None] | None = None

    def behind(self) -> asyncio.Future[None] | None:
        """What is done once ``on_line`` has caught up; None: it has."""
        return self._behind

    def feed(self, data: bytes) -> bool:
        """Take the next bytes; True when the sentinel has been seen."""
        if self.ended:
            return True
        *lines, self._part = (self._part + self._decoder.decode(data)).split("\n")
        for line in lines:
            self._line(line)
            if self.ended:
                return True
        if len(self._part) > MAX_LINE:
            if self.began:
                self._emit(self._part)
                self._part, self._piece = "", True
            else:
                self._part = self._part[-len(self._frame.begin) :]
        return False

    def _line(self, line: str) -> None:
        if not self.began:
            self.began = line.endswith(self._frame.begin)
            return
        if line.startswith(f"{self._frame.end} ") and not self._piece:
            self.ended = True
            return
        if line or not self._piece:
            self._emit(line)
        self._piece = False

    def _emit(self, line: str) -> None:
        if self._on_line is None:
            return
        # The sentinel starts with a newline: an empty line counts only when more follows it.
        if self._empty:
            self._behind = self._on_line("")
        self._empty = not line
        if line:
            self._behind = self._on_line(line)


_FULL: Final = (
    ("disk quota exceeded", "the quota is used up"),
    ("no space left on device", "no space is left"),
)
"""The kernel's own words for a write that had no room (EDQUOT, ENOSPC), as programs print them."""


def full_storage(text: str) -> str:
    """What is full, in words, where a program's messages name it; "" else."""
    lower = text.lower()
    return next((words for reason, words in _FULL if reason in lower), "")


def check(result: Result, what: str, *, hint: str = "") -> Result:
    """Return the result when its status is 0.

    Raises:
        CorralError: COMMAND_FAILED, with the node, status and last lines; where it had no room to
            write, with that and the way out.
    """
    if result.ok:
        return result
    full = full_storage(result.stderr)
    raise CorralError(
        Code.COMMAND_FAILED,
        f"{what} failed" + (f": {full}" if full else ""),
        node=result.node,
        command=what,
        status=result.status,
        tail=result.tail,
        hint=FULL_HINT if full else hint,
    )


FULL_HINT: Final = (
    "remove what you no longer need there (df -h, df -i and quota on that node show what is left), "
    "or ask an administrator for more; then run the same command again"
)
