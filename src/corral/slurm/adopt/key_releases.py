"""The keys of Slurm's files: which release knows which (``key_releases.yaml``)."""

from __future__ import annotations

from typing import Final

from corral.tables import Row, read_table


class KeyGroup(Row):
    """Keys of one kind of line that the same releases know.

    Attributes:
        file: the file.
        line: the first key of its lines; "" for a separate line.
        since: first release with them; "" for all that were read.
        until: first release without them; "" for none.
        dead: first release that reads them and ignores them with an error; "" for none.
        keys: with a mark behind a key: ``*`` may stand more than once, ``?`` is yes or no, ``#`` is
            a number.
    """

    file: str
    line: str = ""
    since: str = ""
    until: str = ""
    dead: str = ""
    keys: str


class KeyTable(Row):
    """All groups, and the oldest and the newest release that were read."""

    first: str
    last: str
    groups: tuple[KeyGroup, ...]


KNOWN: Final = read_table("corral.slurm.adopt", "key_releases.yaml", KeyTable)
FIRST: Final = KNOWN.first
LAST: Final = KNOWN.last
