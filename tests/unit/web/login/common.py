"""A page behind a reverse proxy, and the program that makes tokens, without root and sockets."""

from __future__ import annotations

import grp
import os
import pwd
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from corral.errors import CorralError
from corral.spec.sections.page_login import PageLogin
from corral.web.listener.peers import Peer
from corral.web.login import helper, proxy
from corral.web.login.helper import answer, refusal
from corral.web.login.question import Question
from corral.web.slurm.slurmrest import Login
from corral.web.users.sessions import login_of
from corral.web.users.user_commands import error_of
from tests.unit.web.fake import FakeRest, Page
from tests.unit.web.users.test_owner import spec

PROXY = 33
PEOPLE = {"kim": 2077, "lee": 2078, "root": 0, "munge": 110, "corral-web": 64036, "shut": 2079}
SHELLS = {"shut": "/usr/sbin/nologin"}
GROUPS = {"hpc": (3000, ("kim",)), "wheel": (3001, ())}


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Users and groups of the controller, whatever this machine has."""

    def user(name: str) -> pwd.struct_passwd:
        if name == "www-data":
            return pwd.struct_passwd((name, "x", PROXY, PROXY, "", "/", "/usr/sbin/nologin"))
        if name == "KIM":  # as a directory that does not look at case
            name = "kim"
        uid = PEOPLE[name]
        return pwd.struct_passwd((name, "x", uid, uid, "", "/", SHELLS.get(name, "/bin/sh")))

    def group(name: str) -> grp.struct_group:
        number, members = GROUPS[name]
        return grp.struct_group((name, "x", number, list(members)))

    def groups(name: str, first: int) -> list[int]:
        return [first, *(number for number, people in GROUPS.values() if name in people)]

    monkeypatch.setattr(helper.pam, "check_account", lambda _, *, by_password: None)
    proxy._known_number.cache_clear()  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(pwd, "getpwnam", user)
    monkeypatch.setattr(grp, "getgrnam", group)
    monkeypatch.setattr(os, "getgrouplist", groups)


@dataclass
class Program:
    """``TokenProgram`` without a socket: what the page asks goes through the real answers.

    Attributes:
        asked: the questions.
        made: users who got a token.
    """

    rest: FakeRest
    ways: PageLogin
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    made: list[str] = field(default_factory=list[str])

    async def mint(self, user: str, seconds: int) -> Login:
        self.made.append(user)
        return login_of(self.rest.login(user, lasts=seconds))

    async def replies(self, path: str, unit: str, request: dict[str, Any]) -> Any:
        self.asked.append(request)
        try:
            question = Question.model_validate(request)
            yield await answer(question, self.ways, 28800, self.mint)
        except CorralError as error:
            raise error_of(refusal(error)["error"]) from error


class Site:
    """A page, its program, and at whose connection requests come."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ways: PageLogin, **more: Any) -> None:
        rest = FakeRest()
        made = spec()
        made["services"] = {
            "ui": True,
            "page": {"names": ["hpc.example.org"], "login": ways.model_dump(mode="json")},
        }
        self.peer = Peer(f"loopback uid {PROXY}", PROXY)
        self.program = Program(rest, ways)
        monkeypatch.setattr("corral.web.login.client.helper_replies", self.program.replies)
        fields = {"token_program": "/nowhere", "service": True, "names": ("hpc.example.org",)}
        self.page = Page(rest, spec=made, **{**fields, **more})

    async def __aenter__(self) -> Site:
        app: Any = self.page.app

        async def connected(scope: Any, receive: Any, send: Any) -> None:
            scope.setdefault("state", {})["connection"] = SimpleNamespace(peer=self.peer)
            await app(scope, receive, send)

        await self.page.__aenter__()
        transport = httpx.ASGITransport(connected, raise_app_exceptions=False)
        self.page.http = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080")
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.page.http.aclose()
        await self.page.__aexit__(*raised)
