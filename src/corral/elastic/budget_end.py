"""When the end of a spent budget began: next to the ledger, so that a new driver continues it."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from corral.errors import BAD_JSON
from corral.state_dir import state_dir


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of what runs, of one limit.

    Attributes:
        total: the limit; an end of another one is over.
        rate: dollars an hour, the highest since the end began.
        since: Unix time at which jobs were given their end; None while nothing runs.
    """

    total: float
    rate: float
    since: float | None = None


class EndingFile:
    """Where it is kept; a file that is lost or cannot be written only begins the grace again.

    Args:
        cluster: its name.
    """

    def __init__(self, cluster: str) -> None:
        self._path: Path = state_dir() / "clouds" / f"{cluster}.ending.json"

    def read(self, total: float) -> Ending | None:
        """The end that has begun of this limit; None: none has."""
        try:
            kept: Any = json.loads(self._path.read_bytes())
            since = None if kept["since"] is None else float(kept["since"])
            ending = Ending(float(kept["total"]), float(kept["rate"]), since)
        except (OSError, *BAD_JSON):
            return None
        return ending if ending.total == total else None

    def write(self, ending: Ending) -> None:
        """Keep it, also over a power cut that tears the file."""
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            new = self._path.with_name(self._path.name + ".new")
            new.write_text(json.dumps(asdict(ending)))
            new.replace(self._path)

    def remove(self) -> None:
        """The limit was raised: nothing ends."""
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
