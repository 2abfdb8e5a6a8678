"""Sets of a complete account: rules from words, and what is written."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from corral.api.rental.cloud_sets import rule_line, rule_of
from corral.errors import CorralError
from corral.providers.cloud.client.accounts import change


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("tcp:22:203.0.113.0/24", ("tcp", [22, 22], "203.0.113.0/24")),
        ("udp:41641-41645:0.0.0.0/0", ("udp", [41641, 41645], "0.0.0.0/0")),
        ("icmp:0.0.0.0/0", ("icmp", None, "0.0.0.0/0")),
    ],
)
def test_rules(text: str, rule: tuple[str, object, str]) -> None:
    made = rule_of(text)
    assert (made["protocol"], made.get("port_range"), made["source_network"]) == rule
    assert rule_line(made) == f"{text}  (corral)"


@pytest.mark.parametrize(
    "text", ["", "tcp:22", "tcp:0:0.0.0.0/0", "tcp:9-2:0.0.0.0/0", "tcp:70000:0.0.0.0/0",
             "tcp:22:10.0.0.1/8", "all:0.0.0.0/0", "tcp:22:0.0.0.0/0\n"],
)  # fmt: skip
def test_an_invalid_rule_is_refused(text: str) -> None:
    with pytest.raises(CorralError):
        rule_of(text)


def test_nothing_is_dropped_and_nothing_written_when_somebody_else_was_faster() -> None:
    held = ["a"]
    wrote: list[list[str]] = []

    async def read() -> Sequence[str]:
        return list(held)

    async def write(new: Sequence[str]) -> None:
        wrote.append([*new])
        held[:] = new

    def yes(before: Sequence[str], after: Sequence[str]) -> bool:
        return True

    def meanwhile(before: Sequence[str], after: Sequence[str]) -> bool:
        held.append("theirs")
        return True

    assert asyncio.run(change(read, write, ["b"], yes))
    assert held == ["a", "b"]
    assert asyncio.run(change(read, write, ["a"], yes)) and len(wrote) == 1
    with pytest.raises(CorralError):
        asyncio.run(change(read, write, ["c"], meanwhile))
    assert held == ["a", "b", "theirs"]
    assert not asyncio.run(change(read, write, ["c"], lambda b, a: False))
