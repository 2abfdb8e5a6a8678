"""NVIDIA's errors of GPUs in the kernel's log (Xids): what each asks for. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Literal

from corral.tables import Row, read_table

Do = Literal["drain", "fatal", "derived", "job", "report"]


class Xid(Row):
    """What an Xid asks for.

    Attributes:
        numbers: the Xids.
        do: drain: the node is drained; fatal: when the line has the word Fatal; derived: when the
            line names what to do; job: the job's matter, or only counted; report: a warning.
        action: words for the reason.
        failure: the failure of the doctor's catalogue, "" where it has none.
    """

    numbers: tuple[int, ...]
    do: Do
    action: str = "none"
    failure: str = ""

    def takes_out(self, message: str) -> bool:
        """Whether the node of a GPU with this message takes no jobs until it is repaired.

        Args:
            message: what the kernel's line has behind the number.
        """
        if self.do == "derived":
            asks = "recovery action changed" in message
            return asks and not re.search(r"\(None\)[^(]*$", message)
        return self.do == "drain" or (
            self.do == "fatal" and re.search(r" Fatal( |$)", message) is not None
        )


@cache
def xids() -> tuple[Xid, ...]:
    """All Xids that are known, each in one row."""
    return read_table("corral.inspect", "xids.yaml", tuple[Xid, ...])


@cache
def job_xids() -> frozenset[int]:
    """Those that are the job's own matter, or only counted: no fault of the GPU."""
    return frozenset(number for row in xids() if row.do == "job" for number in row.numbers)


@cache
def xids_by_number() -> Mapping[int, Xid]:
    """The row of each number."""
    return MappingProxyType({number: row for row in xids() for number in row.numbers})
