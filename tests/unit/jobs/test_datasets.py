"""A data set that a node makes: what it reports of its shards."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from corral.errors import Code, CorralError
from corral.events import ignore
from corral.hosts.transport import Result
from corral.jobs.datasets import shard_there

SHARD = {"file": "a-000000.tar", "bytes": 10, "samples": 2, "new": True, "plan": "x"}


class Node:
    """Prints these lines for whatever it runs."""

    def __init__(self, *lines: str) -> None:
        self._lines = lines

    async def run(
        self, node: str, script: object, *, on_line: Callable[[str], None], **more: Any
    ) -> Result:
        for line in self._lines:
            on_line(line)
        return Result(node, 0, "\n".join(self._lines), "")


def made(*lines: str) -> Any:
    fleet: Any = Node(*lines)
    place: dict[str, Any] = {"mount": "/shared", "folder": "/shared/raw", "name": "a"}
    work = shard_there(fleet, "node0", "kim", **place, size=1 << 20, labels=False, emit=ignore)
    return asyncio.run(work)


def test_a_shard_whose_report_is_broken_is_not_left_out_of_the_data_set() -> None:
    """The data set was called complete, with the shards that could be read."""
    total = json.dumps({"shards": 2})
    assert made("a module was loaded", total, json.dumps(SHARD), json.dumps(SHARD)).shards == 2
    for lines in ((total, json.dumps(SHARD), '{"file": "a-0'), (json.dumps(SHARD),)):
        with pytest.raises(CorralError, match=r"1 shards of .* were reported, of ") as caught:
            made(*lines)
        assert caught.value.code is Code.PARSE_FAILED
