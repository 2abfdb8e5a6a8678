"""Bearer tokens: digests only, one scope for each operation, ended at once."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from corral.api.page.token_store import MOST_OF_USER, Bearers, Scope, Wish
from corral.api.page.tokens import wished_token
from corral.cli.main import load_verb
from corral.errors import Code, CorralError
from corral.spec.load import load_or_raise
from corral.web import app as app_module
from corral.web import schemas
from corral.web.listener.admission import Admission
from corral.web.users.scopes import NEEDED, SESSION_ONLY, needed
from corral.web.users.sessions import Sessions
from tests.unit.web.fake import FakeRest, Page, token

EXAMPLES = Path(__file__).parents[4] / "examples"


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def wish(name: str = "ci", login: str = "", *scopes: Scope, **more: Any) -> Wish:
    fields = {"ends": time.time() + 600, "user": "kim", **more}
    return Wish(name=name, login=login, scopes=scopes or (Scope.READ,), **fields)


async def asked(page: Page, secret: str, path: str, method: str = "GET", **more: Any) -> Any:
    headers = {"authorization": f"Bearer {secret}"}
    return await page.http.request(method, f"/api/{path}", headers=headers, **more)


def test_the_file_has_neither_token_nor_login(tmp_path: Path) -> None:
    bearers = Bearers(tmp_path / "tokens.json")
    login = token("kim")
    secret, bearer = bearers.make(wish("ci", login))
    text = (tmp_path / "tokens.json").read_text()
    for hidden in (secret, secret.removeprefix("corral_"), login, login.split(".")[1]):
        assert hidden not in text
        assert hidden.encode().hex() not in text
    assert (tmp_path / "tokens.json").stat().st_mode & 0o777 == 0o600
    assert bearers.find(secret) == (bearer, login)
    assert login not in repr(wish("ci", login))
    assert Bearers(tmp_path / "tokens.json").find(secret) == (bearer, login)
    assert bearers.find(secret[:-1] + ("A" if secret[-1] != "A" else "B")) is None


def test_a_changed_entry_opens_nothing(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    bearers = Bearers(path)
    secret, _ = bearers.make(wish("a", token("kim")))
    other, _ = bearers.make(wish("b", token("ada"), user="ada"))
    rows = json.loads(path.read_text())["tokens"]
    rows[0]["sealed"], rows[1]["sealed"] = rows[1]["sealed"], rows[0]["sealed"]
    path.write_text(json.dumps({"tokens": rows}))
    assert bearers.find(secret) is None
    assert bearers.find(other) is None
    path.write_text("{")
    with pytest.raises(CorralError, match="cannot be read"):
        bearers.find(secret)
    assert bearers.knows(secret) == ""


def test_names_are_unique_and_revoked_by_name_or_id(tmp_path: Path) -> None:
    bearers = Bearers(tmp_path / "tokens.json")
    first, mine = bearers.make(wish())
    with pytest.raises(CorralError, match="already"):
        bearers.make(wish())
    second, hers = bearers.make(wish(user="ada"))
    with pytest.raises(CorralError, match="2 tokens have the name"):
        bearers.revoke("ci")
    with pytest.raises(CorralError, match="no token"):
        bearers.revoke(mine.id, lambda b: b.user == "ada")
    assert bearers.revoke("ci", lambda b: b.user == "ada") == hers
    assert bearers.find(second) is None
    Bearers(tmp_path / "tokens.json").revoke(mine.id)  # another process
    assert bearers.find(first) is None
    assert not bearers.listed()


def test_an_expired_token_is_none(tmp_path: Path) -> None:
    now = 1000.0
    bearers = Bearers(tmp_path / "tokens.json", lambda: now)
    secret, bearer = bearers.make(wish(ends=1100.0))
    assert bearers.knows(secret) == bearer.id
    now = 1100.0
    assert bearers.find(secret) is None
    assert not bearers.knows(secret)
    assert not bearers.listed()


def test_a_user_fills_no_room_of_others(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    users = [f"user{n}" for n in range(5)]
    Bearers(path).make(wish("first"))
    row = json.loads(path.read_text())["tokens"][0]
    # Each entry as the file has it: fifty of each user, without as many writes.
    full = [
        {**row, "id": f"{user}.{n}", "name": str(n), "user": user, "digest": f"{user}.{n}"}
        for user in users
        for n in range(MOST_OF_USER)
    ]
    path.write_text(json.dumps({"tokens": full}))
    bearers = Bearers(path)
    bearers.make(wish(user="ada"))
    with pytest.raises(CorralError, match="too many tokens"):
        bearers.make(wish(user="user0"))
    bearers.make(wish(user="user0", owner=True))  # who runs Corral is that user too


def operations(page: Page) -> list[tuple[str, str]]:
    """All of the application's own, those that the description leaves out too."""
    known: list[tuple[str, str]] = []
    routers = [part.router.routes for part in app_module.ROUTES]
    for route in [*page.app.routes, *(r for routes in routers for r in routes)]:
        path = getattr(route, "path", "")
        methods: set[str] = getattr(route, "methods", None) or set()
        if path.startswith("/api/"):
            known += [(method, path) for method in methods if method != "HEAD"]
    return known


def test_each_operation_needs_its_scope(tmp_path: Path) -> None:
    """All routes: a token with the two other scopes is refused, whatever the request holds."""

    async def work() -> None:
        path = tmp_path / "tokens.json"
        rest = FakeRest()
        login = rest.login("kim", "Administrator")
        spec = load_or_raise(EXAMPLES / "laptop.yaml").model_dump(mode="json")
        async with Page(rest, tokens=path, spec=spec) as page:
            bearers: Bearers = page.app.state.corral.bearers
            known = operations(page)
            assert {f"{m} {p}" for m, p in known} == NEEDED.keys() | SESSION_ONLY
            secrets = {
                scope: bearers.make(wish(scope.value, login, *(s for s in Scope if s != scope)))[0]
                for scope in Scope
            }
            everything, _ = bearers.make(wish("all", login, *Scope, owner=True))
            for method, template in known:
                scope = needed(method, template)
                url = template.removeprefix("/api/").replace("{job_id}", "1")
                url = url.replace("{name}", "node0").replace("{identity}", "x")
                if template.startswith("/api/login"):
                    continue
                page.app.state.corral.actions._seen.clear()
                secret = everything if scope is None else secrets[scope]
                reply = await asked(page, secret, url, method, json={})
                assert reply.status_code == 403, (method, template, reply.text)
                expected = "no API token" if scope is None else f"no scope {scope.value}"
                assert expected in reply.json()["error"]["message"], (method, template)
            assert not rest.sent

    run(work())


def test_a_token_reads_submits_and_changes_nodes(tmp_path: Path) -> None:
    async def work() -> None:
        rest = FakeRest()
        login = rest.login("kim", "Administrator")
        async with Page(rest, tokens=tmp_path / "tokens.json") as page:
            secret, _ = page.app.state.corral.bearers.make(wish("x", login, *Scope))
            assert (await asked(page, secret, "me")).json()["role"] == "administrator"
            assert len((await asked(page, secret, "nodes")).json()["rows"]) == 4
            assert (await asked(page, secret, "jobs")).json()["total"] >= 6
            assert (await asked(page, secret, "openapi.json")).status_code == 200
            # No header against forged requests, no cookie, no origin.
            cancel = {"do": "cancel"}
            assert (await asked(page, secret, "jobs/1", "POST", json=cancel)).status_code == 200
            drain = {"do": "drain", "reason": "fan"}
            assert (await asked(page, secret, "nodes/node1", "POST", json=drain)).is_success
            assert [sent[3] for sent in rest.sent] == ["kim", "kim"]
            # Made without Corral's host: Corral itself stays closed.
            assert (await asked(page, secret, "corral/history")).status_code == 403

    run(work())


def test_revocation_and_expiry_count_at_once(tmp_path: Path) -> None:
    async def work() -> None:
        rest = FakeRest()
        path = tmp_path / "tokens.json"
        async with Page(rest, tokens=path) as page:
            login = rest.login("kim")
            secret, bearer = page.app.state.corral.bearers.make(wish("x", login))
            assert (await asked(page, secret, "me")).status_code == 200
            assert page.app.state.corral.by_token.logins()[0].user == "kim"
            Bearers(path).revoke(bearer.id)
            reply = await asked(page, secret, "me")
            assert reply.status_code == 401
            assert reply.headers["www-authenticate"].startswith("Bearer")
            assert not page.app.state.corral.by_token.logins()
            short, _ = page.app.state.corral.bearers.make(wish("y", login, ends=time.time() + 0.2))
            assert (await asked(page, short, "me")).status_code == 200
            await asyncio.sleep(0.25)
            assert (await asked(page, short, "me")).status_code == 401

    run(work())


def test_slurm_ends_a_token_too(tmp_path: Path) -> None:
    async def work() -> None:
        rest = FakeRest()
        async with Page(rest, tokens=tmp_path / "tokens.json") as page:
            login = rest.login("kim")
            secret, _ = page.app.state.corral.bearers.make(wish("x", login))
            assert (await asked(page, secret, "me")).status_code == 200
            rest.good.clear()
            for used in page.app.state.corral.by_token._used.values():
                used.checked -= 61
            reply = await asked(page, secret, "me")
            assert reply.status_code == 401
            assert "Slurm does not accept" in reply.text

    run(work())


def test_guessing_is_limited_and_right_tokens_are_not(tmp_path: Path) -> None:
    async def work() -> None:
        rest = FakeRest()
        async with Page(rest, tokens=tmp_path / "tokens.json") as page:
            secret, _ = page.app.state.corral.bearers.make(wish("x", rest.login("kim")))
            wrong = ["x", "", "corral_" + "a" * 43] * 4
            tries = [(await asked(page, guess, "me")).status_code for guess in wrong]
            assert tries == [401] * 10 + [429] * 2
            assert (await asked(page, secret, "me")).status_code == 200
            reply = await page.http.get("/api/me", headers={"authorization": "Basic eDp5"})
            assert reply.status_code == 401  # a reverse proxy's; nobody is logged in

    run(work())


def test_tokens_are_made_with_a_token_of_slurms_and_one_session(tmp_path: Path) -> None:
    async def work() -> None:
        rest = FakeRest()
        async with Page(rest, tokens=tmp_path / "tokens.json") as page:
            await page.login("kim")
            body = {"name": "ci", "scopes": ["read"], "days": 1}
            stolen = await page.post("tokens", {**body, "token": rest.login("ada")})
            assert stolen.status_code == 403
            assert (
                await page.post("tokens", {**body, "token": token("kim", lasts=77)})
            ).status_code == 401
            login = rest.login("kim", lasts=600)
            made = (await page.post("tokens", {**body, "token": login})).json()
            assert made["ends"] <= time.time() + 600
            listed = (await page.get("tokens")).json()
            TypeAdapter(schemas.ApiTokens).validate_json(
                json.dumps(listed), strict=True, extra="forbid"
            )
            assert [row["name"] for row in listed["tokens"]] == ["ci"]
            assert "token" not in listed["tokens"][0]
            assert (await asked(page, made["token"], "me")).json()["user"] == "kim"
            await page.login("ada")
            assert not (await page.get("tokens")).json()["tokens"]
            headers = {"x-csrf-token": page.csrf}
            path = f"/api/tokens/{made['id']}"
            assert (await page.http.delete(path, headers=headers)).status_code == 404
            await page.login("root2", "Administrator")
            headers = {"x-csrf-token": page.csrf}
            assert (await page.http.delete(path, headers=headers)).status_code == 200
            assert (await asked(page, made["token"], "me")).status_code == 401

    run(work())


def test_a_page_without_a_file_has_no_tokens() -> None:
    async def work() -> None:
        rest = FakeRest()
        async with Page(rest) as page:
            await page.login("kim")
            body = {"name": "ci", "scopes": ["read"], "token": rest.login("kim")}
            assert (await page.post("tokens", body)).status_code == 404
            assert (await asked(page, "corral_" + "a" * 43, "me")).status_code == 401

    run(work())


def test_a_token_has_the_room_of_a_session(tmp_path: Path) -> None:
    bearers = Bearers(tmp_path / "tokens.json")
    secret, _ = bearers.make(wish())
    admission = Admission(Sessions(60, 60), bearers=bearers)
    assert admission.viewer(f"Authorization: Bearer {secret}\r\n".encode()) is True
    assert admission.viewer(f"bearer {secret[:-1]}_".encode()) in (None, True)
    assert admission.viewer(b"Bearer corral_" + b"a" * 43) is None
    assert admission.viewer(f"Bearer {secret}x".encode()) is None


def test_the_description_has_both_ways_to_log_in() -> None:
    async def work() -> dict[str, Any]:
        async with Page(FakeRest()) as page:
            return page.app.openapi()

    made = run(work())
    assert set(made["components"]["securitySchemes"]) == {"token", "cookie", "csrf"}
    security = {
        f"{method.upper()} {path}": operation["security"]
        for path, item in made["paths"].items()
        for method, operation in item.items()
    }
    assert security["POST /api/jobs"][0] == {"token": ["submit"]}
    assert security["POST /api/tokens"] == [{"cookie": [], "csrf": []}]
    assert security["POST /api/login"] == []


def test_words_of_the_command_line() -> None:
    asked_for = wished_token("ci", "kim", ["submit", "read", "submit"], 7)
    assert asked_for.scopes == (Scope.SUBMIT, Scope.READ)
    assert wished_token("ci", "", [], 7).scopes == (Scope.READ,)
    for name, scopes, days in (("ci", ["root"], 7), ("a\nb", [], 7), ("", [], 7), ("ci", [], 400)):
        with pytest.raises(CorralError) as raised:
            wished_token(name, "", scopes, days)
        assert raised.value.code is Code.USAGE


def test_the_verb_has_a_group_below_it() -> None:
    ui = load_verb("ui")
    below = ui.make_context("ui", ["token", "list"], resilient_parsing=True)
    assert below.info_name == "ui token"
    assert ui.make_context("ui", ["lab.yaml"]).params["targets"] == ["lab.yaml"]


def test_each_command_of_tokens_takes_json() -> None:
    group = load_verb("ui").below["token"]
    assert set(group.commands) == {"create", "list", "revoke"}
    for command in group.commands.values():
        assert any("--json" in parameter.opts for parameter in command.params), command.name
