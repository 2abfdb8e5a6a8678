from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import httpx
import pytest

from corral.plan.model import MachineChange, Plan
from corral.spec.load import load_or_raise
from corral.web import app as app_module
from corral.web import routes_corral
from corral.web.sessions import login_of
from tests.unit.web.fake import FakeRest, Page, token

EXAMPLES = Path(__file__).parents[3] / "examples"
STATIC = Path(app_module.__file__).parent / "static"


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def paths_of(page: Page) -> list[tuple[str, str]]:
    spec = page.app.openapi()
    return [(method, path) for path, item in spec["paths"].items() for method in item]


def test_nothing_is_served_without_a_login() -> None:
    async def work() -> None:
        async with Page(FakeRest()) as page:
            free = {"/api/login", "/api/login/code"}
            tried = 0
            for method, path in paths_of(page):
                if path in free:
                    continue
                url = path.replace("{job_id}", "1").replace("{name}", "node0")
                reply = await page.http.request(method, url, json={})
                assert reply.status_code == 401, (method, path, reply.text)
                tried += 1
            assert tried > 20
            assert not page.rest.asked

    run(work())


def test_log_in_look_log_out() -> None:
    async def work() -> None:
        async with Page(FakeRest()) as page:
            reply = await page.login("kim", "Operator")
            assert reply.json()["role"] == "operator"
            cookie = reply.headers["set-cookie"].lower()
            assert "httponly" in cookie
            assert "samesite=strict" in cookie
            nodes = (await page.get("nodes")).json()
            assert len(nodes["rows"]) == 4
            assert (await page.get("cluster")).json()["counts"]["gpus"] == 8
            assert (await page.post("logout", {})).status_code == 200
            assert (await page.get("nodes")).status_code == 401

    run(work())


@pytest.mark.parametrize(
    "bad",
    [
        "", "a.b.c", "x" * 5000, token("root"), token("slurm"), token("kim", lasts=-5),
        token("kim; rm"), token("kim"), "SLURM_JWT=", token(7),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_bad_tokens(bad: str) -> None:
    async def work() -> httpx.Response:
        async with Page(FakeRest()) as page:
            return await page.post("login", {"token": bad})

    reply = run(work())
    assert reply.status_code == 401
    assert "set-cookie" not in reply.headers
    assert bad not in reply.text or len(bad) < 40


def test_token_with_name_of_variable() -> None:
    text = token("kim")
    assert login_of(f" SLURM_JWT={text}\n").token == text
    assert text not in repr(login_of(text))


def test_code_opens_once() -> None:
    async def work() -> None:
        rest = FakeRest()
        async with Page(rest) as page:
            code = page.app.state.corral.sessions.code(login_of(rest.login("kim")))
            reply = await page.post("login/code", {"code": code})
            assert reply.status_code == 200
            assert not reply.json()["owner"]  # there is no cluster file here to own
            assert (await page.post("login/code", {"code": code})).status_code == 401
            assert (await page.post("login/code", {"code": "x"})).status_code == 401

    run(work())


def test_guessing_is_slowed_down() -> None:
    async def work() -> list[int]:
        async with Page(FakeRest()) as page:
            tries = [await page.post("login/code", {"code": str(n)}) for n in range(12)]
            return [reply.status_code for reply in tries]

    assert run(work()) == [401] * 10 + [429] * 2


def test_change_needs_token_of_the_page_and_its_origin() -> None:
    async def work() -> None:
        async with Page(FakeRest()) as page:
            await page.login("kim", "Operator")
            body = {"do": "cancel"}
            assert (await page.post("jobs/1", body, **{"x-csrf-token": "no"})).status_code == 403
            other = {"origin": "http://evil.example"}
            assert (await page.post("jobs/1", body, **other)).status_code == 403
            reply = await page.get("nodes", headers={"host": "evil.example"})
            assert reply.status_code == 421
            assert not page.rest.sent
            assert (await page.post("jobs/1", body)).status_code == 200
            assert page.rest.sent == [("DELETE", "job/1", None, "kim")]

    run(work())


def test_other_peoples_jobs() -> None:
    async def work() -> None:
        async with Page(FakeRest()) as page:
            await page.login("kim")
            reply = await page.post("jobs/2", {"do": "cancel"})
            assert reply.status_code == 403
            assert "ada" in reply.json()["error"]["message"]
            assert not page.rest.sent
            for part in ("script", "log"):
                assert (await page.get(f"jobs/2/{part}")).status_code == 403

    run(work())


def test_node_actions_are_slurms_to_refuse() -> None:
    async def work() -> None:
        async with Page(FakeRest()) as page:
            await page.login("kim")
            reply = await page.post("nodes/node1", {"do": "drain", "reason": "fan"})
            assert reply.status_code == 403
            assert "does not let you" in reply.json()["error"]["message"]
            assert page.rest.sent[-1][3] == "kim"
        async with Page(FakeRest()) as page:
            await page.login("ola", "Operator")
            body = {"do": "drain", "reason": "fan"}
            assert (await page.post("nodes/node1", body)).status_code == 200
            assert (await page.post("nodes/node1", {"do": "drain"})).status_code == 400
            assert (await page.post("nodes/nowhere", body)).status_code == 404
            sent = ("POST", "node/node1", {"state": ["DRAIN"], "reason": "fan"}, "ola")
            assert page.rest.sent == [sent]

    run(work())


def test_corral_itself_is_for_its_owner() -> None:
    async def work() -> None:
        async with Page(FakeRest()) as page:
            await page.login("kim", "Administrator")
            for path in ("file", "proof", "history", "work", "work/events"):
                assert (await page.get(f"corral/{path}")).status_code == 403, path
            for path in ("doctor", "prove", "plan", "lint", "apply"):
                body = {"text": "x", "code": "1"}
                reply = await page.post(f"corral/{path}", body)
                assert reply.status_code in (403, 422), path

    run(work())


def spec() -> dict[str, Any]:
    return load_or_raise(EXAMPLES / "laptop.yaml").model_dump(mode="json")


def test_token_never_makes_an_owner() -> None:
    async def work() -> None:
        async with Page(FakeRest(), spec=spec()) as page:
            await page.login("kim", "Administrator")
            for path in ("file", "proof", "history", "work"):
                assert (await page.get(f"corral/{path}")).status_code == 403
            assert (await page.post("corral/lint", {"text": "x"})).status_code == 403

    run(work())


def test_apply_needs_the_code_of_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    applied: list[Plan] = []

    async def plan(found: object, emit: object) -> Plan:
        return Plan("laptop", "a", "b", machines=(MachineChange("node0", "create", "x"),))

    async def apply(found: object, wanted: Plan, emit: object) -> None:
        applied.append(wanted)

    monkeypatch.setattr(routes_corral.api, "plan", plan, raising=False)
    monkeypatch.setattr(routes_corral.api, "apply", apply, raising=False)

    async def work() -> None:
        rest = FakeRest()
        async with Page(rest, spec=spec()) as page:
            code = page.app.state.corral.sessions.code(login_of(rest.login("kim")))
            page.csrf = (await page.post("login/code", {"code": code})).json()["csrf"]
            assert (await page.post("corral/apply", {"code": "123456"})).status_code == 409
            text = (EXAMPLES / "laptop.yaml").read_text()
            bad = await page.post("corral/plan", {"text": text.replace("laptop", "other")})
            assert bad.status_code == 400
            lint = await page.post("corral/lint", {"text": text.replace("count: 2", "count: x")})
            assert [f["line"] for f in lint.json()["findings"]]
            assert (await page.post("corral/plan", {"text": text})).status_code == 200
            background = page.app.state.corral.background
            await background._task
            assert "script" not in json.dumps(background.as_dict()["result"])
            terminal = capsys.readouterr().err.rpartition("type there: ")[2][:6]
            for _ in range(2):
                wrong = await page.post("corral/apply", {"code": "00000x"})
                assert wrong.status_code == 403
            assert not applied
            assert (await page.post("corral/apply", {"code": terminal})).status_code == 200
            await background._task
            assert len(applied) == 1
            again = await page.post("corral/apply", {"code": terminal})
            assert again.status_code == 409
            await page.post("corral/plan", {"text": text})
            await background._task
            for _ in range(5):
                await page.post("corral/apply", {"code": "00000x"})
            terminal = capsys.readouterr().err.rpartition("type there: ")[2][:6]
            assert (await page.post("corral/apply", {"code": terminal})).status_code == 409
            assert len(applied) == 1

    run(work())


def contrast(one: str, other: str) -> float:
    """WCAG 2.2, relative luminance and contrast ratio."""

    def light(colour: str) -> float:
        short = colour.lstrip("#")
        full = "".join(c * 2 for c in short) if len(short) == 3 else short
        parts = [int(full[at : at + 2], 16) / 255 for at in (0, 2, 4)]
        red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4
                            for p in parts)  # fmt: skip
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [":root", ':root[data-theme="dark"]'])
def test_colours_can_be_read(theme: str) -> None:
    css = (STATIC / "app.css").read_text()
    block = css.split(f"{theme} {{", 1)[1].split("}", 1)[0]
    colours = dict(re.findall(r"--([\w-]+): (#\w{3,6})", block))
    kinds = ("good", "busy", "mix", "warn", "bad", "off")
    pairs = [(kind, f"{kind}-bg") for kind in kinds]
    pairs += [(text, ground) for text in ("text", "dim", "accent", "warn", "bad", "good")
              for ground in ("bg", "card")]  # fmt: skip
    pairs += [("accent-text", "accent"), ("text", "code"), ("text", "hover"), ("dim", "code")]
    found = {pair: contrast(colours[pair[0]], colours[pair[1]]) for pair in pairs}
    assert not {pair: ratio for pair, ratio in found.items() if ratio < 4.5}
    for kind in kinds:  # the heat map's squares and the cards' edges
        assert contrast(colours[kind], colours["card"]) >= 3


def test_headers() -> None:
    async def work() -> None:
        async with Page(FakeRest()) as page:
            for path in ("/", "/js/app.js", "/api/me", "/nothing"):
                headers = (await page.http.get(path)).headers
                policy = headers["content-security-policy"]
                assert "unsafe" not in policy
                assert "default-src 'none'" in policy
                assert headers["x-content-type-options"] == "nosniff"
                assert headers["x-frame-options"] == "DENY"
            assert (await page.http.get("/api/me")).headers["cache-control"] == "no-store"

    run(work())


def test_jobs_page() -> None:
    async def work() -> None:
        async with Page(FakeRest()) as page:
            await page.login()

            async def ids(query: str) -> list[int]:
                data = (await page.get(f"jobs?{query}")).json()
                return [row[data["columns"].index("id")] for row in data["rows"]]

            assert await ids("show=running") == [2, 1]
            assert await ids("show=waiting&down=false") == [5, 6]
            assert await ids("q=state=pend+user=kim") == [6, 5]
            assert await ids("q=user=ada") == [2]
            assert await ids("q=user!=kim") == [2]
            assert await ids("q=alert") == [2]
            assert await ids("limit=2&offset=1&by=id&down=false") == [2, 3]
            for wrong in ("q=colour=red", "by=token", "limit=5000"):
                assert (await page.get(f"jobs?{wrong}")).status_code in (400, 422)

    run(work())


def test_submit_says_what_slurm_gets() -> None:
    async def work() -> None:
        async with Page(FakeRest()) as page:
            await page.login()
            body = {"script": "#!/bin/sh\ntrue\n", "workdir": "/shared", "name": "<b>x</b>"}
            assert (await page.post("jobs", {**body, "nodes": 2, "minutes": 5})).json()["id"] > 6
            method, path, sent, user = page.rest.sent[-1]
            assert (method, path, user) == ("POST", "job/submit", "kim")
            assert sent["job"]["name"] == "<b>x</b>"
            assert sent["job"]["minimum_nodes"] == 2
            assert sent["job"]["time_limit"]["number"] == 5
            for wrong in (
                {"workdir": "shared"},
                {"script": "true"},
                {"nodes": 0},
                {"name": "a\nb"},
            ):
                assert (await page.post("jobs", {**body, **wrong})).status_code == 422
            wanted = {"script": "/etc/shadow.py", "user": "root"}
            assert (await page.post("jobs/spec", wanted)).status_code == 403

    run(work())


def test_dead_controller_shows_the_last_known_state() -> None:
    async def work() -> None:
        async with Page(FakeRest(), poll_s=0.01) as page:
            await page.login()
            await page.get("nodes")
            page.rest.down = True
            poller = page.app.state.corral.pollers.of("kim")
            await poller.look()
            head = (await page.get("cluster")).json()
            assert "does not answer" in head["trouble"]
            assert head["seen_at"] > 0
            assert len((await page.get("nodes")).json()["rows"]) == 4

    run(work())


def test_calls_do_not_grow_with_viewers() -> None:
    async def work(viewers: int) -> int:
        rest = FakeRest()
        async with Page(rest) as page:
            await page.login()
            poller = page.app.state.corral.pollers.of("kim")
            async with asyncio.TaskGroup() as group:
                for _ in range(viewers):
                    group.create_task(page.get("nodes"))
            before = sum(rest.asked.values())
            queues: list[asyncio.Queue[bytes]] = []

            async def view() -> None:
                async with poller.watching() as queue:
                    queues.append(queue)
                    await queue.get()

            views = [asyncio.create_task(view()) for _ in range(viewers)]
            while len(queues) < viewers:  # noqa: ASYNC110  # a few turns of the loop
                await asyncio.sleep(0)
            rest.bodies["nodes"]["body"]["nodes"][0]["reason"] = "changed"
            rest.touch("nodes")
            poller.nudge()
            await asyncio.gather(*views)
            return sum(rest.asked.values()) - before

    assert run(work(40)) <= run(work(1)) + 2


def test_event_tells_what_changed_and_no_more() -> None:
    async def work() -> None:
        rest = FakeRest()
        async with Page(rest) as page:
            await page.login()
            await page.get("nodes")
            poller = page.app.state.corral.pollers.of("kim")
            queue: asyncio.Queue[bytes] = asyncio.Queue(4)
            poller._viewers.add(queue)
            await poller.look()
            assert queue.empty()
            rest.bodies["nodes"]["body"]["nodes"][1]["state"] = ["DOWN"]
            rest.touch("nodes")
            await poller.look()
            told = json.loads(queue.get_nowait())
            assert [row[0] for row in told["nodes"]] == ["node0"]
            assert "jobs" not in told

    run(work())


@pytest.mark.parametrize(("release", "api"), [("22.05", 38), ("24.11", 42), ("26.05", 45)])
def test_version_is_picked_by_asking(release: str, api: int) -> None:
    async def work() -> None:
        async with Page(FakeRest(release, api)) as page:
            assert (await page.login()).status_code == 200
            assert (await page.get("cluster")).json()["release"].startswith(release)
            assert (await page.get("jobs")).json()["total"] >= 6
            assert (await page.get("jobs/999999")).status_code == 404

    run(work())


def test_front_end_is_small_and_calls_nobody() -> None:
    files = [path for path in STATIC.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 500_000
    for path in files:
        if path.parent.name == "vendor":
            continue
        text = path.read_text()
        found = re.findall(r"https?://[^\s\"'`)]+", text)
        assert set(found) <= {"http://www.w3.org/2000/svg"}, path
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert word not in text, (path, word)
        assert not re.search(r"<script(?![^>]*src=)|style=\"|onclick=\"", text), path
