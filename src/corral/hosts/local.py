"""Scripts on this machine, through the same frame as everywhere else."""

from __future__ import annotations

import os
from typing import Final

from corral.errors import Code, CorralError
from corral.hosts import process, sudo
from corral.hosts.quote import Script
from corral.hosts.transport import REMOTE, Frame, Lines, OnLine, Result

_AS_ROOT: Final = (
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    *("HOME=/root", "USER=root", "LOGNAME=root", "SHELL=/bin/sh"),
)


class Local:
    """This machine as a node; scripts run as the user this process runs as.

    Args:
        node: the name it goes by.
        root: scripts run as root, by sudo where this process is not root.
    """

    def __init__(self, node: str, *, root: bool = False) -> None:
        self._node = node
        self._sudo = root and os.geteuid() != 0
        self._argv = ["/bin/sh", "-c", sudo.as_root(REMOTE) if self._sudo else REMOTE]
        if root and not self._sudo:
            # As sshd and sudo would: no virtual environment of Corral's, and no one's settings.
            self._argv = ["/usr/bin/env", "-i", *_AS_ROOT, *self._argv]

    @property
    def node(self) -> str:
        """The node's name."""
        return self._node

    async def run(
        self,
        script: Script,
        *,
        stdin: bytes = b"",
        timeout: float = 120.0,
        on_line: OnLine | None = None,
    ) -> Result:
        """Run a script; see ``transport.Transport``.

        Raises:
            CorralError: TIMED_OUT, UNREACHABLE (its shell was killed), COMMAND_FAILED (too much
                output) or FORBIDDEN (sudo refuses).
        """
        frame = Frame.of(script, stdin)
        lines = Lines(frame, on_line)
        try:
            ended = await process.run(
                self._argv,
                stdin=frame.payload,
                timeout=timeout,
                feed=lines.feed,
                caught=lines.behind,
                rolling=on_line is not None,
            )
        except TimeoutError as error:
            raise CorralError(
                Code.TIMED_OUT,
                f"the script took longer than {timeout:g} s and was killed",
                node=self._node,
                hint="give it more time or look at what it waits for",
            ) from error
        except CorralError as error:
            error.node = self._node
            raise
        if self._sudo and not lines.began and sudo.from_sudo(ended.err):
            raise CorralError(
                Code.FORBIDDEN,
                "sudo does not make this user root without a password",
                node=self._node,
                tail=ended.err.strip()[-500:],
                hint="run sudo -v first, or run corral as root",
            )
        return frame.read(self._node, ended.out, ended.err, ended.status)

    async def close(self) -> None:
        """Nothing is kept open."""
