"""The file of what happened to nodes, which outlasts the page's server.

It is written soon after an event, complete and under its name at once, so a server that is killed
loses a second. Only the newest events are kept: of a node ``node_events.KEPT``, of all together
``MOST``. A file that cannot be read is none: Slurm's own records have the last reason and boot.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from corral.runtime.private_file import write_private
from corral.web.slurm.node_events import NodeEvent, NodeEvents

MOST: Final = 20_000
"""Events of all nodes together: some 4 MB."""
MOST_BYTES: Final = 64 << 20
"""A longer file is not one of these."""
LATER_S: Final = 1.0
"""Events that come together are written once."""
LONGEST: Final = 500
"""Characters of a reason."""

log = logging.getLogger(__name__)


class _Kept(BaseModel):
    """One event of a node, as the file has it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    node: str = Field(max_length=256)
    at: float = Field(allow_inf_nan=False)
    what: str = Field(max_length=64)
    by: str = Field(default="", max_length=256)
    why: str = Field(default="", max_length=LONGEST)


class _File(BaseModel):
    """The file. since: when the record begins, unix seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    since: float = Field(allow_inf_nan=False)
    events: tuple[_Kept, ...]


class NodeEventFile:
    """Keeps the events of one server's nodes.

    Args:
        path: the file; None: nothing is kept.
        events: what the server saw; what the file has is added to it.
    """

    def __init__(self, path: Path | None, events: NodeEvents) -> None:
        self._path = path
        self._events = events
        self._written = events.count
        self._task: asyncio.Task[None] | None = None
        self._add(self._read())
        self._written = events.count

    def changed(self) -> None:
        """Write soon, where there is something new."""
        if self._path is None or self._events.count == self._written:
            return
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._later(), name="node events")

    async def close(self) -> None:
        """Write what is not written yet."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._path is not None and self._events.count != self._written:
            await self._write(self._path)

    async def _later(self) -> None:
        await asyncio.sleep(LATER_S)
        if self._path is not None:
            await self._write(self._path)

    async def _write(self, path: Path) -> None:
        # Another server of this cluster, on this machine, has perhaps written meanwhile.
        self._add(await asyncio.to_thread(self._read))
        self._written = self._events.count
        rows = sorted(self._events.kept(), key=lambda row: -row[1].at)[:MOST]
        since = self._events.since
        try:
            await asyncio.to_thread(_replace, path, since, rows)
        except OSError as error:
            log.warning("events of nodes are not kept: %s: %s", path, error)

    def _add(self, file: _File | None) -> None:
        if file is None:
            return
        for row in sorted(file.events, key=lambda row: row.at):
            self._events.add(row.node, NodeEvent(row.at, row.what, row.by, row.why))
        self._events.since = min(self._events.since, file.since)

    def _read(self) -> _File | None:
        try:
            if self._path is None or self._path.stat().st_size > MOST_BYTES:
                return None
            return _File.model_validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            log.warning("events of nodes cannot be read: %s: %s", self._path, type(error).__name__)
            return None


def _replace(path: Path, since: float, rows: list[tuple[str, NodeEvent]]) -> None:
    kept = tuple(
        _Kept(node=name[:256], at=e.at, what=e.what[:64], by=e.by[:256], why=e.why[:LONGEST])
        for name, e in rows
    )
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(path, _File(since=since, events=kept).model_dump_json() + "\n")
