"""What a change does to a live cluster: the words of tables, of the cluster file and of plans."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Literal, get_args

ImpactWord = Literal["none", "reload", "restart", "drain", "reboot", "recreate"]
FieldImpact = ImpactWord | Literal["refused"]
"""What changing a field does: some cannot be changed on a live cluster."""

IMPACTS: Final[tuple[ImpactWord, ...]] = get_args(ImpactWord)
"""Mildest first."""


class Impact(IntEnum):
    """What a change does to the node's work, mildest first."""

    NONE = 0
    RELOAD = 1
    RESTART = 2
    DRAIN = 3
    REBOOT = 4
    RECREATE = 5

    @property
    def word(self) -> ImpactWord:
        """The impact as people and JSON read it."""
        return IMPACTS[self]
