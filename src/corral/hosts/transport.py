"""How a script reaches a machine: the Transport protocol and the framing all transports share.

Framing. The remote command is a fixed line (``REMOTE``); the script, and after it the bytes meant
for the script's own standard input (secrets), travel by stdin, so that nothing of either stands in
an argument list on any machine. The script runs in a subshell; then a sentinel line with a random
token and the exit status is printed. No sentinel means the connection broke: a transport error,
never success (OpenSSH's exit status 255 cannot tell the two apart).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from corral.errors import Code, CorralError
from corral.hosts.quote import Script

# read(1) of dash takes one byte at a time and GNU and busybox head -c take exactly N bytes, so what
# follows the script on stdin is left for the script.
REMOTE: Final = 'IFS= read -r n && s=$(head -c "$n") && eval "$s"'
TAIL_LINES: Final = 20

OnLine = Callable[[str], None]


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
            CorralError: UNREACHABLE, HOST_KEY_CHANGED or TIMED_OUT.
        """
        ...

    async def close(self) -> None:
        """Give up connections that are kept open."""
        ...


@dataclass(frozen=True, slots=True)
class Frame:
    """One script made ready to travel: what goes to stdin, and the sentinel to wait for."""

    payload: bytes
    token: str

    @classmethod
    def of(cls, script: Script, stdin: bytes = b"") -> Frame:
        """Wrap a script so that its end and its status can be told from the output."""
        token = f"@@corral-end-{secrets.token_hex(8)}"
        wrapped = f"(\n{script}\n)\nprintf '\\n%s %d\\n' {token} $?".encode()
        return cls(b"%d\n%b%b" % (len(wrapped), wrapped, stdin), token)

    def read(self, node: str, stdout: str, stderr: str, exit_status: int | None) -> Result:
        """Take the sentinel off ``stdout``.

        Raises:
            CorralError: UNREACHABLE, the sentinel is missing.
        """
        body, found, rest = stdout.rpartition(f"\n{self.token} ")
        if not found:
            raise CorralError(
                Code.UNREACHABLE,
                "the connection broke before the script ended",
                node=node,
                status=exit_status,
                tail="\n".join(stderr.strip().splitlines()[-TAIL_LINES:]),
                hint="check the machine and the network, then run the same command again",
            )
        return Result(node, int(rest.split()[0]), body, stderr)


def check(result: Result, what: str, *, hint: str = "") -> Result:
    """Give the result back when its status is 0.

    Raises:
        CorralError: COMMAND_FAILED, with the node, status and last lines.
    """
    if result.ok:
        return result
    raise CorralError(
        Code.COMMAND_FAILED,
        f"{what} failed",
        node=result.node,
        command=what,
        status=result.status,
        tail=result.tail,
        hint=hint,
    )
