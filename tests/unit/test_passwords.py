"""Who can be asked for a password, and how often."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from corral.errors import Code, CorralError
from corral.passwords import FILES, LOGIN, SUDO, Person, accompanied, person


def test_many_nodes_ask_once() -> None:
    asked: list[str] = []

    async def ask(words: str) -> str:
        asked.append(words)
        await asyncio.sleep(0)
        return "pw"

    async def scenario() -> list[str | None]:
        return await asyncio.gather(*(person().password(SUDO, "sudo password") for _ in range(20)))

    with accompanied(Person(ask)):
        assert asyncio.run(scenario()) == ["pw"] * 20
        assert asyncio.run(scenario()) == ["pw"] * 20, "another loop, the same command"
    assert asked == ["sudo password"]


def test_without_anybody_nothing_is_known_or_shown() -> None:
    assert asyncio.run(person().password(SUDO, "x")) is None
    person().show("node0", "x")


def test_files_come_first_and_only_their_first_line_counts(tmp_path: Path) -> None:
    (tmp_path / "pw").write_text(" p w \nrest")
    somebody = Person(
        environ={FILES[SUDO]: str(tmp_path / "pw"), FILES[LOGIN]: str(tmp_path / "no")}
    )
    assert asyncio.run(somebody.password(SUDO, "x")) == " p w "
    with pytest.raises(CorralError) as caught:
        asyncio.run(somebody.password(LOGIN, "x"))
    assert caught.value.code is Code.USAGE
    assert FILES[LOGIN] in caught.value.message


@pytest.mark.parametrize("typed", ["a\nb", "a\0b", "a\rb"])
def test_passwords_that_are_no_line(typed: str) -> None:
    async def ask(_: str) -> str:
        return typed

    with pytest.raises(CorralError, match="one line"):
        asyncio.run(Person(ask).password(SUDO, "x"))


def test_a_password_is_in_no_representation() -> None:
    async def ask(_: str) -> str:
        return "s3cret"

    somebody = Person(ask)
    asyncio.run(somebody.password(SUDO, "x"))
    assert "s3cret" not in repr(somebody)


def test_what_is_known_without_asking() -> None:
    async def ask(_: str) -> str:
        return "pw"

    somebody = Person(ask)
    assert somebody.known(SUDO) is None
    asyncio.run(somebody.password(SUDO, "x"))
    assert somebody.known(SUDO) == "pw"
