"""The words that keys of slurm.conf take: which release knows which (``word_releases.yaml``)."""

from __future__ import annotations

from typing import Final

from corral.tables import Row, read_table


class WordGroup(Row):
    """Words of a key that the same releases know.

    Attributes:
        key: the key.
        since: first release with them; "" for all that were read.
        until: first release without them; "" for none.
        words: plugins or flags.
    """

    key: str
    since: str = ""
    until: str = ""
    words: str


class WordTable(Row):
    """All groups, and the keys whose words are plugins, such as select/cons_tres."""

    plugins: str
    groups: tuple[WordGroup, ...]


VALUES: Final = read_table("corral.slurm.adopt", "word_releases.yaml", WordTable)
