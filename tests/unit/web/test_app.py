from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import httpx
import pytest

from corral.spec.load import load_or_raise
from corral.web import app as app_module
from corral.web.slurm.search import KEYS, ORDERS
from corral.web.users.sessions import expiry, login_of
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
            ways = ("", "/code", "/code/new", "/handover", "/password", "/oidc", "/oidc/back")
            free = {f"/api/login{path}" for path in ways}
            tried = 0
            for method, path in paths_of(page):
                if path in free:
                    continue
                url = path.replace("{job_id}", "1").replace("{name}", "node0")
                reply = await page.http.request(method, url, json={})
                assert reply.status_code == 401, (method, path, reply.text)
                tried += 1
            assert tried > 20
            assert (await page.http.get("/api/openapi.json")).status_code == 401
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


def test_a_silent_slurm_does_not_use_up_a_code() -> None:
    async def work() -> None:
        rest = FakeRest()
        async with Page(rest) as page:
            code = page.app.state.corral.sessions.code(login_of(rest.login("kim")))
            rest.down = True
            assert (await page.post("login/code", {"code": code})).status_code >= 500
            rest.down = False
            tries = (page.post("login/code", {"code": code}) for _ in range(5))
            replies = await asyncio.gather(*tries)
            codes = sorted(reply.status_code for reply in replies)
            assert codes == [200, 401, 401, 401, 401], "one code, one session"

    run(work())


def test_a_used_code_is_followed_by_another_in_the_terminal(capfd: Any) -> None:
    """A page could be opened only once: after a logout the server had to be restarted."""

    def codes() -> list[str]:
        lines = capfd.readouterr().err.splitlines()
        return [line.split()[6] for line in lines if line.startswith("a new code for the page: ")]

    async def work() -> None:
        rest = FakeRest()
        login = rest.login("kim")
        spec = load_or_raise(EXAMPLES / "laptop.yaml").model_dump(mode="json")
        async with Page(rest, handover=("kim", login), spec=spec) as page:
            assert (await page.http.get("/api/login")).json() == {
                "codes": True,
                "header": "",
                "oidc": "",
                "password": False,
            }
            first = page.app.state.corral.sessions.code(login_of(login))
            # A code stays valid for the user who is about to type it.
            assert (await page.post("login/code/new", {})).status_code == 200
            assert codes() == []
            page.csrf = (await page.post("login/code", {"code": first})).json()["csrf"]
            assert (await page.post("logout", {})).status_code == 200
            (second,) = codes()
            reply = await page.post("login/code", {"code": second})
            assert reply.json()["owner"]
            assert (await page.post("login/code/new", {})).status_code == 200
            (third,) = codes()
            assert (await page.post("login/code", {"code": third})).status_code == 200
            statuses = [(await page.post("login/code/new", {})).status_code for _ in range(12)]
            assert statuses[-1] == 429
            assert len(codes()) == 1

    run(work())


def test_codes_are_shown_only_where_a_terminal_is() -> None:
    async def work() -> None:
        async with Page(FakeRest()) as page:
            assert (await page.http.get("/api/login")).json() == {
                "codes": False,
                "header": "",
                "oidc": "",
                "password": False,
            }
            assert (await page.post("login/code/new", {})).status_code == 404
        async with Page(FakeRest(), handover=("kim", token("kim", lasts=-5))) as page:
            reply = await page.post("login/code/new", {})
            assert reply.status_code == 401
            assert "corral ui again" in reply.text

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
            assert (await page.post("jobs/1", body, **{"x-csrf-token": "no"})).status_code == 401
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
            assert await ids("show=ended&down=false") == [3, 4, 7, 8]
            assert await ids("q=state=pend+user=kim") == [6, 5]
            assert await ids("q=user=ada") == [2]
            assert await ids("q=user!=kim") == [2]
            assert await ids("q=alert") == [2]
            assert await ids("limit=2&offset=1&by=id&down=false") == [2, 3]
            for wrong in ("q=colour=red", "by=token", "limit=5000"):
                assert (await page.get(f"jobs?{wrong}")).status_code in (400, 422)

    run(work())


def test_what_submit_sends_to_slurm() -> None:
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
            assert sent["job"]["standard_output"] == "/shared/slurm-%j.out"
            chosen = {"account": "vision", "qos": "high", "array": "0-9%4"}
            await page.post("jobs", {**body, **chosen, "output": "%A.txt"})
            sent = page.rest.sent[-1][2]["job"]
            assert {name: sent[name] for name in chosen} == chosen
            assert sent["standard_output"] == "%A.txt"
            for wrong in (
                {"workdir": "shared"},
                {"script": "true"},
                {"nodes": 0},
                {"name": "a\nb"},
                {"account": "a b"},
                {"array": "--hold"},
            ):
                assert (await page.post("jobs", {**body, **wrong})).status_code == 422
            spec = {"script": "/etc/shadow.py", "user": "root"}
            assert (await page.post("jobs/spec", spec)).status_code == 403

    run(work())


def test_a_scripts_lines_are_read_for_the_form() -> None:
    """An array with GPUs became one job without: options without a field are listed, or refused."""
    script = (
        "#!/bin/bash\n#SBATCH -J train -N 2\n#SBATCH --array=1-3\n#SBATCH --gres=gpu:2\n"
        "#SBATCH --time=90\n#SBATCH --no-such\n#SBATCH --nodes=2-4\nsrun x\n#SBATCH --hold\n"
    )

    async def work() -> None:
        async with Page(FakeRest()) as page:
            await page.login()
            read = (await page.post("jobs/directives", {"script": script})).json()
            assert {name: (f["line"], f["value"]) for name, f in read["fields"].items()} == {
                "name": (2, "train"),
                "gpus": (4, "2"),
                "minutes": (5, "90"),
                "array": (3, "1-3"),
            }
            assert [line["text"] for line in read["others"]] == ["--nodes=2-4"]
            assert [line["line"] for line in read["faults"]] == [6]
            both = "#!/bin/sh\n#SBATCH --gres=gpu:1\n#SBATCH --gpus-per-node=1\n"
            read = (await page.post("jobs/directives", {"script": both})).json()
            assert not read["fields"]
            assert len(read["others"]) == 2

    run(work())


@pytest.mark.parametrize(
    ("line", "field", "jobs", "at_once"),
    [
        ("0-9999%8", "", 10_000, 8), ("", "0-9:2", 5, None), ("0-9", "1-3", 3, None),
        ("", "", 1, None), ("", "5,1-3", 4, None), ("", "1-5,3-8", 8, None), ("", "1-", None, None),
        ("", "0-3999999,5", None, None), ("", "0-4000000", 4_000_001, None),
        # A line may have 5,000 digits, of which int() takes 4,300, and as many spans.
        pytest.param("1-2%" + "9" * 5000, "", 2, None, id="many digits"),
        pytest.param("0-99999," * 8000 + "1", "", None, None, id="many spans"),
    ],
)  # fmt: skip
def test_the_number_of_a_scripts_jobs_is_known_before_they_go(
    line: str, field: str, jobs: int | None, at_once: int | None
) -> None:
    script = "#!/bin/sh\n" + (f"#SBATCH --array={line}\n" if line else "") + "srun x\n"

    async def work() -> None:
        async with Page(FakeRest()) as page:
            await page.login()
            asked = {"script": script, "array": field}
            read = (await page.post("jobs/directives", asked)).json()
            assert (read["jobs"], read["at_once"]) == (jobs, at_once)

    run(work())


def test_a_filter_is_offered_its_keys_and_the_values_that_jobs_have() -> None:
    async def work() -> None:
        async with Page(FakeRest()) as page:
            await page.login()
            words = (await page.get("jobs/words")).json()["words"]
            assert tuple(words) == KEYS
            assert {"pending", "out_of_memory"} <= set(words["state"])
            listed = (await page.get("jobs")).json()
            at = listed["columns"].index
            for key in ("user", "account", "partition"):
                assert set(words[key]) == {row[at(key)] for row in listed["rows"]} - {""}
            for key, values in words.items():
                for value in values[:2]:
                    assert (await page.get(f"jobs?q={key}={value}")).status_code == 200

    run(work())


def test_the_list_is_ordered_by_each_column_that_the_page_offers() -> None:
    source = (STATIC / "js/jobs/columns.js").read_text()
    offered = set(re.findall(r'by: "(\w+)"', source))
    assert {"partition", "account", "qos", "priority", "node_count"} <= offered
    assert offered <= set(ORDERS)


def test_dead_controller_shows_the_last_known_state() -> None:
    async def work() -> None:
        async with Page(FakeRest(), poll_s=0.01) as page:
            await page.login()
            await page.get("nodes")
            page.rest.down = True
            poller = page.app.state.corral.pollers.of("kim")
            await poller.poll()
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


def test_jobs_in_view_are_kept_new() -> None:
    """Those of a page of a list, also where its answer was made before; the job of a job's page."""

    async def work() -> tuple[set[int], set[int], set[int]]:
        async with Page(FakeRest()) as page:
            await page.login()
            poller = page.app.state.corral.pollers.of("kim")
            listed = (await page.get("jobs?limit=2")).json()
            rows = {row[0] for row in listed["rows"]}
            first = {*poller._jobs._looked}
            poller._jobs._looked.clear()
            await page.get("jobs?limit=2")
            again = {*poller._jobs._looked}
            poller._jobs._looked.clear()
            await page.get("jobs/5")
            assert {*poller._jobs._looked} == {5}
            return rows, first, again

    rows, first, again = run(work())
    assert len(rows) == 2
    assert first == again == rows


def test_an_event_holds_what_changed_and_no_more() -> None:
    async def work() -> None:
        rest = FakeRest()
        async with Page(rest) as page:
            await page.login()
            await page.get("cluster")
            poller = page.app.state.corral.pollers.of("kim")
            queue: asyncio.Queue[bytes] = asyncio.Queue(4)
            poller._viewers.add(queue)
            await poller.poll()
            assert queue.empty()
            rest.bodies["nodes"]["body"]["nodes"][1]["state"] = ["DOWN"]
            rest.touch("nodes")
            await poller.poll()
            event = json.loads(queue.get_nowait())
            assert [row[0] for row in event["nodes"]] == ["node0"]
            assert "jobs" not in event

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


@pytest.mark.parametrize("exp", [10**400, -(10**400), True, "soon", None])
def test_an_expiry_that_no_clock_has_is_none(exp: object) -> None:
    assert expiry(token(exp=exp)) is None
