from __future__ import annotations

import asyncio

import pytest

from corral.errors import Code, CorralError
from corral.hosts.fleet import Fleet
from corral.hosts.quote import Script, sh
from corral.hosts.transport import OnLine, Result
from tests.fakes import Answer, Recorded, UnknownScriptError

ASK = sh("echo {x}", x="who")
START = sh("systemctl start x")
STATE = sh("systemctl is-active x")


def fleet(**answers: Answer | CorralError) -> tuple[Fleet, dict[str, Recorded]]:
    nodes = {name: Recorded.of(name, {ASK: answer}) for name, answer in answers.items()}
    return Fleet(nodes), nodes


def test_each_answer_is_under_the_name_of_its_node() -> None:
    lost = CorralError(Code.UNREACHABLE, "lost", node="b")
    group, nodes = fleet(a=Answer("A\n"), b=lost, c=Answer("C\n", status=4))
    answers = asyncio.run(group.all(ASK))
    assert list(answers) == ["a", "b", "c"] == list(group.nodes)
    assert answers["a"] == Result("a", 0, "A\n", "")
    assert answers["b"] is lost
    assert answers["c"] == Result("c", 4, "C\n", "")
    assert asyncio.run(group.all(ASK, ["c"])).keys() == {"c"}
    asyncio.run(group.close())
    assert all(node.closed for node in nodes.values())


def test_an_unknown_node() -> None:
    group, _ = fleet(a=Answer())
    with pytest.raises(CorralError) as caught:
        asyncio.run(group.run("z", ASK))
    assert caught.value.code is Code.NOT_FOUND
    assert "a" in caught.value.hint


def test_what_travels_by_stdin_and_lines() -> None:
    group, nodes = fleet(a=Answer("1\n\n2"))
    seen: list[str] = []
    asyncio.run(group.run("a", ASK, stdin=b"key", on_line=seen.append))
    assert nodes["a"].calls == [(ASK, b"key")]
    assert seen == ["1", "", "2"]


class Counting:
    """A transport that knows how many of its kind run at once."""

    def __init__(self, name: str, busy: set[str], most: list[int]) -> None:
        self.node = name
        self._busy = busy
        self._most = most

    async def run(
        self,
        script: Script,
        *,
        stdin: bytes = b"",
        timeout: float = 1,
        on_line: OnLine | None = None,
    ) -> Result:
        self._busy.add(self.node)
        self._most.append(len(self._busy))
        await asyncio.sleep(0)
        self._busy.discard(self.node)
        return Result(self.node, 0, "", "")

    async def close(self) -> None:
        """Nothing to do."""


def test_no_more_at_once_than_the_fan_out() -> None:
    busy: set[str] = set()
    most: list[int] = []
    nodes = {f"n{i}": Counting(f"n{i}", busy, most) for i in range(50)}
    asyncio.run(Fleet(nodes, fan_out=7).all(ASK))
    assert len(most) == 50
    assert max(most) == 7


def test_recorded_is_a_state_machine() -> None:
    node = Recorded(
        "a",
        {
            "": {STATE: Answer("inactive\n", 3), START: Answer(then="up")},
            "up": {STATE: Answer("active\n")},
        },
    )

    async def scenario() -> list[str]:
        states = [(await node.run(STATE)).stdout]
        await node.run(START)
        states.append((await node.run(STATE)).stdout)
        return states

    assert asyncio.run(scenario()) == ["inactive\n", "active\n"]
    with pytest.raises(UnknownScriptError, match="state 'up'"):
        asyncio.run(node.run(START))


def test_recorded_rejects_what_it_does_not_know() -> None:
    node = Recorded.of("a", {ASK: Answer()})
    with pytest.raises(UnknownScriptError, match="unknown script"):
        asyncio.run(node.run(sh("echo other")))
    with pytest.raises(UnknownScriptError, match="not a Script"):
        asyncio.run(node.run(str(ASK)))  # type: ignore[arg-type]
    asyncio.run(node.close())
    with pytest.raises(UnknownScriptError, match="after close"):
        asyncio.run(node.run(ASK))
