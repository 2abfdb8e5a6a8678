"""What `corral ui` passes to the page: nothing if no sudo wants a password, no node of root's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from corral.api.page.page_server import sudo_of
from corral.errors import Code, CorralError
from corral.hosts.target import SshTarget
from corral.passwords import SUDO, Person, accompanied, person

ROOT, KIM = SshTarget("10.0.0.4"), SshTarget("10.0.0.5", user="kim")


class Machines:
    """A session, and the fleet in it: some machines want a password, some do not answer."""

    def __init__(self, wants: Iterable[str] = (), dead: Iterable[str] = ()) -> None:
        self.wants, self.dead = set(wants), set(dead)
        self.asked: list[str] = []
        self.fleet = self

    def targets(self) -> dict[str, SshTarget]:
        return {"n0": ROOT, "n1": KIM, "n2": KIM}

    async def all(self, script: str, nodes: Iterable[str], *, timeout: float) -> dict[str, Any]:
        self.asked = [*nodes]
        if self.wants:
            await person().password(SUDO, "sudo password of kim", KIM.place("n1"))
        return {n: CorralError(Code.TIMED_OUT, "no word", node=n) for n in self.dead}


def handed(session: Machines) -> tuple[dict[str, Any] | None, list[str], list[str]]:
    asked: list[str] = []
    remarks: list[str] = []

    async def ask(words: str) -> str:
        asked.append(words)
        return "pw"

    with accompanied(Person(ask, lambda node, what: remarks.append(f"{node}: {what}"))):
        return asyncio.run(sudo_of(session)), asked, remarks  # type: ignore[arg-type]


def test_no_password_is_sent_where_no_machine_wants_it() -> None:
    session = Machines(dead=("n1", "n2"))
    assert handed(session) == (None, [], ["n[1-2]: no word"])
    assert session.asked == ["n1", "n2"], "root needs no sudo"


def test_the_password_and_the_machines_that_may_have_it() -> None:
    received, asked, _ = handed(Machines(wants=("n2",)))
    assert received == {"password": "pw", "machines": [KIM.place("n1"), KIM.place("n2")]}
    assert asked == ["sudo password of kim"]
