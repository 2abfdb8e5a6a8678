"""Scripts on this machine, through the same frame as everywhere else."""

from __future__ import annotations

from corral.errors import Code, CorralError
from corral.hosts import process
from corral.hosts.quote import Script
from corral.hosts.transport import REMOTE, Frame, Lines, OnLine, Result


class Local:
    """This machine as a node; scripts run as the user this process runs as.

    Args:
        node: the name it goes by.
    """

    def __init__(self, node: str) -> None:
        self._node = node

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
            CorralError: TIMED_OUT, UNREACHABLE (its shell was killed) or COMMAND_FAILED (too much
                output).
        """
        frame = Frame.of(script, stdin)
        lines = Lines(frame, on_line)
        try:
            ended = await process.run(
                ["/bin/sh", "-c", REMOTE],
                stdin=frame.payload,
                timeout=timeout,
                feed=lines.feed,
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
        return frame.read(self._node, ended.out, ended.err, ended.status)

    async def close(self) -> None:
        """Nothing is kept open."""
