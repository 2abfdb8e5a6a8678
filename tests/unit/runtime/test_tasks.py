"""Several awaitables at once: a failure leaves none of them going on."""

from __future__ import annotations

import ast
import asyncio
from pathlib import Path

import pytest

from corral.hosts import process
from corral.runtime.tasks import concurrently


async def failing() -> None:
    raise LookupError


def test_results_are_in_order() -> None:
    async def number(value: int) -> int:
        await asyncio.sleep(0.01 / (1 + value))
        return value

    async def all_of() -> list[int]:
        return await concurrently(*(number(value) for value in range(4)))

    assert asyncio.run(all_of()) == [0, 1, 2, 3]


def test_a_failure_ends_the_others_before_it_is_raised() -> None:
    events: list[str] = []

    async def other() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            events.append("cleaned up")

    async def both() -> None:
        try:
            await concurrently(other(), failing())
        finally:
            events.append("raised")

    with pytest.raises(LookupError):
        asyncio.run(both())
    assert events == ["cleaned up", "raised"]


def test_a_program_that_just_starts_does_not_hold_up_the_end() -> None:
    """As long as a failed ``corral jobs`` did: until the time limit of its second question."""

    async def both() -> None:
        await concurrently(failing(), process.run(["sleep", "100"], timeout=100))

    with pytest.raises(LookupError):
        asyncio.run(both())


def test_nothing_goes_on_alone(repo: Path) -> None:
    source = repo / "src/corral"
    alone: list[str] = []
    for file in source.rglob("*.py"):
        if "agents" in file.parts or file == source / "runtime/tasks.py":
            continue  # an agent's program is sent alone
        alone += [
            f"{file.relative_to(source)}:{call.lineno}"
            for call in ast.walk(ast.parse(file.read_text()))
            if isinstance(call, ast.Call)
            and ast.unparse(call.func).endswith("gather")
            and "return_exceptions" not in {word.arg for word in call.keywords}
        ]
    assert not alone, "asyncio.gather lets the others go on: corral.runtime.tasks.concurrently"
