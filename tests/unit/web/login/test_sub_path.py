"""A page below a path of its proxy: cookies and addresses of the login stay below it."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from corral.spec.sections.page_login import OidcLogin, PageLogin
from corral.web.login.client import ProviderPlaces
from tests.unit.web.login.common import Site, known

__all__ = ["known"]
HERE = {"host": "hpc.example.org", "x-forwarded-prefix": "/corral"}
WAYS = PageLogin(oidc=OidcLogin(issuer="https://login.example.org", client="corral", logout=True))


def test_the_session_is_of_the_path_from_login_to_logout(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> list[str]:
        async with Site(monkeypatch, WAYS) as site:
            page, cookies = site.page, list[str]()
            origin = {"origin": "https://hpc.example.org", **HERE}
            body = {"token": page.rest.login("kim")}
            reply = await page.http.post("/api/login", json=body, headers=origin)
            cookies.append(reply.headers["set-cookie"])
            kept = {"cookie": cookies[0].partition(";")[0], "x-csrf-token": reply.json()["csrf"]}
            reply = await page.http.post("/api/logout", json={}, headers={**origin, **kept})
            cookies.append(reply.raise_for_status().headers["set-cookie"])
            return cookies

    for cookie in asyncio.run(work()):
        assert "; path=/corral/;" in f"{cookie.lower()};"


def test_a_provider_sends_the_browser_back_below_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    async def places(_: Any) -> ProviderPlaces:
        return ProviderPlaces("https://login.example.org/auth", "https://login.example.org/end")

    monkeypatch.setattr("corral.web.login.client.TokenProgram.provider", places)

    async def work() -> None:
        async with Site(monkeypatch, WAYS) as site:
            gone = await site.page.http.get("/api/login/oidc", headers=HERE)
            asked = parse_qs(urlsplit(gone.headers["location"]).query)
            back = "https://hpc.example.org/corral/api/login/oidc/back"
            assert asked["redirect_uri"] == [back]
            assert "path=/corral/api/login/oidc" in gone.headers["set-cookie"].lower()
            arrived = await site.page.http.get("/api/login/oidc/back?state=x", headers=HERE)
            assert arrived.headers["location"] == "/corral/#signed-in"
            for cookie in arrived.headers.get_list("set-cookie"):
                assert "path=/corral/api/login/oidc" in cookie.lower()

    asyncio.run(work())
