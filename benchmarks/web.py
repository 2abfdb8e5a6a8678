"""The page at 10,000 nodes and 50,000 jobs: first view, news to 100 viewers, calls, memory.

    .venv/bin/python -m benchmarks.web [--nodes 10000] [--jobs 50000] [--viewers 100]
        [--rounds 9] [--turns 4] [--rest 30] [--settle 5] [--private 20] [--ended]

With ``--private`` Slurm hides users from each other (PrivateData): so many users look, each with an
own poller, and each is sent the own jobs. Only calls, news and memory are measured then.
With ``--ended`` slurmctld has not forgotten so many jobs that ended, and accounting has the 2,000
that the page keeps: filters of that list are measured alone.

A separate process plays slurmrestd: its nodes and jobs are complete copies of recorded ones
(24.11, v0.0.42), so that answers are as long as the real ones. The page's server is the real one.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from benchmarks.machine import required
from corral.testing.page import page

RECORDED = Path(__file__).parents[1] / "tests/recorded/rest/24.11/v0.0.42"
TURNS, REST_S, SETTLE_S = 4, 30.0, 5.0
NODE_STATES = (["IDLE"], ["MIXED"], ["ALLOCATED"], ["IDLE", "DRAIN"])
GROUPS = ("none", "partition", "island", "rack", "state", "feature")
CHANGED = (1, 200, 2000)
"""Nodes that get another state at once, as frames are measured. Of 2,000 the page fetches all."""
NODES = "/api/nodes?layout=columns"
SHORT_MS = 50
"""The browser reports frames from here on."""
MOST = 2000
"""Jobs out of accounting that the page keeps."""
STATES = ("RUNNING", "PENDING", "PENDING", "COMPLETED")
ALTERED_S = 330.0
"""Until then each of them must be seen."""
ALTERED: dict[str, Callable[[str], dict[str, Any]]] = {
    "name": lambda mark: {"name": mark},
    "priority": lambda mark: {"priority": _number(int(mark))},
    "held": lambda mark: {"priority": _number(9), "hold": False, "state_reason": "Priority"},
    "reason": lambda mark: {"state_reason": f"Resources{mark}"},
    "limit": lambda mark: {"time_limit": _number(int(mark))},
    "start_at": lambda mark: {"start_time": _number(1_900_000_000 + int(mark))},
}
"""What may change of a job without another state, by the page's column."""


def _number(value: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}


class Slurm:
    """slurmrestd with many nodes and jobs; ``POST /change`` changes one of each."""

    def __init__(
        self, nodes: int, jobs: int, *, private: bool = False, ended: bool = False
    ) -> None:
        self.private = private
        kept = {
            w: json.loads((RECORDED / f"{w}.json").read_text())["body"]
            for w in ("nodes", "jobs", "partitions", "ping", "job")
        }
        self.kept, self.calls = kept, 0
        self.at = {"nodes": int(time.time()), "jobs": int(time.time())}
        node = next(n for n in kept["nodes"]["nodes"] if n["name"] == "node0")
        job = next(j for j in kept["jobs"]["jobs"] if j["job_id"] == 1)
        wait = next(j for j in kept["jobs"]["jobs"] if j["job_id"] == 5)
        self.nodes = []
        for number in range(nodes):
            record = {
                **node,
                "name": f"node{number:05}",
                "address": f"10.0.{number // 250}.{number % 250}",
            }
            record["state"] = NODE_STATES[number % 50 % 4]
            marks = [f"island-{number // 1000}", f"rack-{number // 40}"]
            record["features"] = record["active_features"] = marks
            self.nodes.append(json.dumps(record, indent=2))
        self.jobs, self.states, self.listing = [], [], b""
        self.of_user: dict[str, list[int]] = {}
        self.past = self.recalled(jobs) if ended else {}
        for number in range(1, jobs + 1):
            state = "COMPLETED" if ended else STATES[number % 4]
            record = {
                **(job if state != "PENDING" else wait),
                "job_id": number,
                "job_state": [state],
                "user_name": f"user{number % 200}",
                "name": f"train-{number}",
                **({"end_time": _number(int(time.time()) - number)} if ended else {}),
            }
            self.jobs.append(json.dumps(record, indent=2))
            self.states.append(state)
            self.of_user.setdefault(str(record["user_name"]), []).append(number - 1)

    def recalled(self, jobs: int) -> dict[str, Any]:
        """What accounting has: jobs that ended before those that slurmctld knows."""
        kept: dict[str, Any] = json.loads((RECORDED / "past.json").read_text())["body"]
        job, end = kept["jobs"][0], int(time.time()) - jobs
        numbers = range(jobs + 1, jobs + 1 + MOST)
        past = ({"job_id": number, "name": f"train-{number}"} for number in numbers)
        times = {**job["time"], "end": end}
        return {**kept, "jobs": [{**job, **each, "time": times} for each in past]}

    async def ended(self, request: Request) -> Response:
        """Jobs out of accounting, all of the newest part of a period."""
        if not self.past:
            return Response(status_code=404)
        newest = request.query_params["end_time"] == "now"
        return JSONResponse(self.past if newest else {**self.past, "jobs": []})

    async def list(self, request: Request) -> Response:
        """All nodes, jobs or partitions."""
        self.calls += 1
        what = request.path_params["what"]
        if what not in ("nodes", "jobs"):
            return JSONResponse(self.kept[what])
        if int(request.query_params.get("update_time", 0)) >= self.at[what]:
            return Response(status_code=304)
        user = request.headers.get("x-slurm-user-name", "")
        meta = {k: v for k, v in self.kept[what].items() if k not in (what, "last_update")}
        stamp = {"set": True, "infinite": False, "number": self.at[what]}
        end = json.dumps({"last_update": stamp, **meta})[1:]

        async def body() -> AsyncIterator[bytes]:
            yield f'{{"{what}": ['.encode()
            rows = self.nodes if what == "nodes" else self.seen_by(user)
            for at in range(0, len(rows), 50):
                yield (("," if at else "") + ",".join(rows[at : at + 50])).encode()
            yield f"], {end}".encode()

        return StreamingResponse(body(), media_type="application/json")

    def seen_by(self, user: str) -> list[str]:
        """The jobs that a user is sent."""
        if not self.private:
            return self.jobs
        return [self.jobs[place] for place in self.of_user.get(user, ())]

    async def state(self, request: Request) -> Response:
        """State of each job."""
        self.calls += 1
        if not self.listing:  # slurmctld has a table in C; rebuilt each time it takes 0.2 s
            rows = [{"job_id": str(n), "state": [s]} for n, s in enumerate(self.states, 1)]
            self.listing = json.dumps({"jobs": rows, "errors": []}).encode()
        return Response(self.listing, media_type="application/json")

    async def job(self, request: Request) -> Response:
        """One job."""
        self.calls += 1
        record = json.loads(self.jobs[request.path_params["id"] - 1])
        return JSONResponse({**self.kept["jobs"], "jobs": [record]})

    async def user(self, request: Request) -> Response:
        """A user without rights."""
        name = request.path_params["n"]
        return JSONResponse({"users": [{"name": name, "administrator_level": ["None"]}]})

    async def alter(self, request: Request) -> Response:
        """Change one column of a pending job, whose state stays."""
        place = int(request.query_params["job"]) - 1
        job = json.loads(self.jobs[place])
        job |= ALTERED[request.query_params["column"]](request.query_params["mark"])
        self.jobs[place] = json.dumps(job, indent=2)
        self.at["jobs"] += 1
        return Response()

    async def change(self, request: Request) -> Response:
        """Change a node and a job."""
        node, job = json.loads(self.nodes[7]), json.loads(self.jobs[3])
        mark = request.query_params["mark"]
        node["reason"], job["name"] = f"node-{mark}", f"job-{mark}"
        state = "COMPLETED" if self.states[3] != "COMPLETED" else "RUNNING"
        job["job_state"], self.states[3], self.listing = [state], state, b""
        self.nodes[7], self.jobs[3] = json.dumps(node, indent=2), json.dumps(job, indent=2)
        self.at = {"nodes": self.at["nodes"] + 1, "jobs": self.at["jobs"] + 1}
        return Response()

    async def shift(self, request: Request) -> Response:
        """Give nodes all over the cluster another state."""
        turn, many = (int(request.query_params[name]) for name in ("turn", "nodes"))
        for number in range(turn % 5, len(self.nodes), max(1, len(self.nodes) // many)):
            node = json.loads(self.nodes[number])
            node["state"] = NODE_STATES[(NODE_STATES.index(node["state"]) + 1) % 4]
            self.nodes[number] = json.dumps(node, indent=2)
        self.at["nodes"] += 1
        return Response()

    async def count(self, request: Request) -> Response:
        """Calls so far."""
        return JSONResponse(self.calls)

    def app(self) -> Starlette:
        """The application."""
        base = "/slurm/v0.0.42"
        return Starlette(
            routes=[
                Route(f"{base}/jobs/state/", self.state),
                Route(f"{base}/job/{{id:int}}", self.job),
                Route(f"{base}/{{what}}", self.list),
                Route("/slurmdb/v0.0.42/user/{n}", self.user),
                Route("/slurmdb/v0.0.42/jobs", self.ended),
                Route("/change", self.change, methods=["POST"]),
                Route("/alter", self.alter, methods=["POST"]),
                Route("/shift", self.shift, methods=["POST"]),
                Route("/count", self.count),
            ]
        )


def serve(nodes: int, jobs: int, *, private: bool, ended: bool) -> None:
    """Play slurmrestd on a free port, which is printed when all of it is made."""
    app = Slurm(nodes, jobs, private=private, ended=ended).app()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(listening.getsockname()[1], flush=True)
        config = uvicorn.Config(app, log_level="error")
        uvicorn.Server(config).run(sockets=[listening])


@contextmanager
def player(nodes: int, jobs: int, *, private: bool = False, ended: bool = False) -> Iterator[str]:
    """A process that plays slurmrestd; its address."""
    argv = [sys.executable, "-m", "benchmarks.web", "--serve"]
    argv += [f"--nodes={nodes}", f"--jobs={jobs}", f"--private={int(private)}"]
    argv += ["--ended"] if ended else []
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            port = process.stdout.readline().strip() if process.stdout else ""
            if not port:
                raise SystemExit("the player of slurmrestd ended")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def session_headers(reply: httpx.Response) -> dict[str, str]:
    """What each further request of a session has, besides its cookie: the answer to a login.

    The page takes a cookie for a session only with it (401 without).
    """
    reply.raise_for_status()
    return {"x-csrf-token": reply.json()["csrf"]}


def token(user: str = "user1") -> str:
    claims = {"exp": int(time.time()) + 36000, "sun": user}
    parts = [
        base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=")
        for p in ({"alg": "HS256"}, claims)
    ]
    return ".".join([*parts, "c2ln"])


def memory(pid: int, what: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(what):
            return int(line.split()[1]) / 1024
    return 0.0


async def view(  # one call site each
    http: httpx.AsyncClient,
    mark: str,
    ready: asyncio.Event,
    seen: list[float],
    awaited: Collection[str] = ("node", "job"),
) -> None:
    """Read events until the changed node and the changed job have both arrived."""
    missing = {*awaited}
    async with http.stream("GET", "/api/events", timeout=120) as reply:
        async for line in reply.aiter_lines():
            ready.set()
            missing -= {what for what in missing if f"{what}-{mark}" in line}
            if not missing:
                seen.append(time.monotonic())
                return


@dataclass(frozen=True)
class Size:
    """How much is measured: viewers at once, rounds in a browser, turns, and seconds between."""

    viewers: int
    rounds: int
    turns: int
    rest: float
    settle: float


async def watched(
    http: httpx.AsyncClient, slurm: httpx.AsyncClient, many: int, size: Size
) -> dict[str, Any]:
    """Calls a minute while so many look at a cluster at rest, and when they see what is new."""
    delays, calls = list[float](), 0.0
    turns = size.turns
    for turn in range(turns):
        ready = [asyncio.Event() for _ in range(many)]
        seen = list[float]()
        mark = f"mark-{many}-{turn}-"
        views = [asyncio.create_task(view(http, mark, event, seen)) for event in ready]
        await asyncio.gather(*(event.wait() for event in ready))
        await asyncio.sleep(
            size.settle + turn / turns
        )  # not always at the same time of the poller's pause
        if not turn:
            before, begin = (await slurm.get("/count")).json(), time.monotonic()
            await asyncio.sleep(size.rest * turns / TURNS)
            took = time.monotonic() - begin
            calls = ((await slurm.get("/count")).json() - before) / took * 60
        changed = time.monotonic()
        await slurm.post(f"/change?mark={mark}")
        await asyncio.gather(*views)
        delays.append(max(seen) - changed)
    return {
        f"calls a minute, {many} viewers": round(calls, 1),
        f"news seen by all of {many}, median of {turns}, s": round(median(delays), 2),
        f"news seen by all of {many}, worst of {turns}, s": round(max(delays), 2),
    }


QUERIES = ("user=user3", "train-31", "train", "nodes=node0")
"""What is typed: a key, a word of few jobs, one of all jobs, a node."""


async def filtered(http: httpx.AsyncClient, *, ended: bool = False) -> dict[str, Any]:
    """The page's own question for the first page of a filter: arrays are one row. None is kept."""
    figures = dict[str, Any]()
    path, what = ("/api/past", "ended") if ended else ("/api/jobs", "all")
    tab = {"days": "7", "by": "end_at"} if ended else {"show": "all", "by": "id"}
    for query in QUERIES:
        took = list[float]()
        for limit in range(100, 95, -1):
            asked = {**tab, "q": query, "down": "true", "arrays": "true"}
            begin = time.monotonic()
            reply = await http.get(path, params={**asked, "offset": 0, "limit": limit})
            reply.raise_for_status()
            took.append(time.monotonic() - begin)
        words = f"a page of {what} jobs, {query}, median / worst of 5, s"
        figures[words] = f"{median(took):.3f} / {max(took):.3f}"
    return figures


async def of_ended(url: str, jobs: int) -> dict[str, Any]:
    """Filters of the jobs that ended."""
    async with httpx.AsyncClient(base_url=url, timeout=120) as http:
        reply = await http.post("/api/login", json={"token": token()})
        http.headers.update(session_headers(reply))
        (await http.get("/api/cluster")).raise_for_status()  # has read all jobs
        reply = await http.get("/api/past", params={"days": "7"})
        listed = reply.raise_for_status().json()
        if (listed["total"], listed["why"]) != (jobs + MOST, ""):
            raise SystemExit(f"{listed['total']} jobs ended: {listed['why']}")
        return {"jobs that ended": listed["total"], **await filtered(http, ended=True)}


async def altered(http: httpx.AsyncClient, slurm: httpx.AsyncClient) -> dict[str, Any]:
    """When a viewer sees what changes of jobs whose states stay: each column, of another job."""
    jobs = {column: 5 + 4 * number for number, column in enumerate(ALTERED)}  # each is pending
    before = {column: await row_of(http, job) for column, job in jobs.items()}
    ready, seen = asyncio.Event(), dict[int, float]()

    async def watch() -> None:
        async with http.stream("GET", "/api/events", timeout=ALTERED_S) as reply:
            async for line in reply.aiter_lines():
                ready.set()
                event = json.loads(line[6:]) if line.startswith("data: ") else {}
                for row in event.get("jobs", ()):
                    seen.setdefault(row[0], time.monotonic())
                if seen.keys() >= {*jobs.values()}:
                    return

    watching = asyncio.create_task(watch())
    await ready.wait()
    begin = time.monotonic()
    for number, (column, job) in enumerate(jobs.items()):
        asked = {"job": job, "column": column, "mark": 700 + number}
        (await slurm.post("/alter", params=asked)).raise_for_status()
    await asyncio.wait_for(watching, ALTERED_S)
    for column, job in jobs.items():
        if (await row_of(http, job))[column] == before[column][column]:
            raise SystemExit(f"{column} of job {job} is as before")
    words = f"{', '.join(jobs)} of jobs whose states stay, all seen after, s"
    return {words: round(max(seen.values()) - begin, 1)}


async def row_of(http: httpx.AsyncClient, job: int) -> dict[str, Any]:
    """A job as the list has it."""
    answer = (await http.get("/api/jobs", params={"q": f"id={job}"})).raise_for_status().json()
    return dict(zip(answer["columns"], answer["rows"][0], strict=True))


async def private(url: str, slurm: str, pid: int, size: Size, users: int) -> dict[str, Any]:
    """Calls, news and memory where each user has an own poller."""
    figures: dict[str, Any] = {}
    # The server closes what is quiet for 5 s, and the logins of many users take longer.
    limits = httpx.Limits(max_connections=20, keepalive_expiry=2)
    sessions = [httpx.AsyncClient(base_url=url, limits=limits, timeout=120) for _ in range(users)]
    begin = time.monotonic()
    for number, http in enumerate(sessions):
        # Job 4, which /change changes, is user4's; all others see the node alone.
        reply = await http.post("/api/login", json={"token": token(f"user{number + 4}")})
        http.headers.update(session_headers(reply))
        (await http.get("/api/cluster")).raise_for_status()
    figures[f"first polls of {users} users, s"] = round(time.monotonic() - begin, 2)
    async with httpx.AsyncClient(base_url=slurm) as control:
        delays = list[float]()
        for turn in range(size.turns):
            ready, seen = [asyncio.Event() for _ in sessions], list[float]()
            mark = f"mark-{turn}-"
            awaited = [{"node", "job"} if not at else {"node"} for at in range(users)]
            each = zip(sessions, ready, awaited, strict=True)
            views = [asyncio.create_task(view(h, mark, e, seen, w)) for h, e, w in each]
            await asyncio.gather(*(event.wait() for event in ready))
            await asyncio.sleep(size.settle)
            if not turn:
                before, begin = (await control.get("/count")).json(), time.monotonic()
                await asyncio.sleep(size.rest)
                took = time.monotonic() - begin
                calls = ((await control.get("/count")).json() - before) / took * 60
                figures[f"calls a minute, {users} users"] = round(calls, 1)
            changed = time.monotonic()
            await control.post(f"/change?mark={mark}")
            await asyncio.gather(*views)
            delays.append(max(seen) - changed)
    words = f"news seen by all of {users} users, median / worst of {size.turns}, s"
    figures[words] = f"{median(delays):.2f} / {max(delays):.2f}"
    figures["server memory, MiB"] = round(memory(pid, "VmRSS"))
    figures["server memory at most, MiB"] = round(memory(pid, "VmHWM"))
    for http in sessions:
        await http.aclose()
    return figures


async def measure(url: str, slurm: str, pid: int, size: Size) -> dict[str, Any]:
    limits = httpx.Limits(max_connections=size.viewers + 20)
    figures: dict[str, Any] = {}
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=120) as http:
        begin = time.monotonic()
        reply = await http.post("/api/login", json={"token": token()})
        http.headers.update(session_headers(reply))
        secret = reply.json()["csrf"]
        await http.get(NODES)
        figures["nodes of the first view ever, s"] = round(time.monotonic() - begin, 2)
        await http.get("/api/cluster")
        figures["first poll of Slurm with all jobs, s"] = round(time.monotonic() - begin, 2)
        begin, weight = time.monotonic(), 0
        needs = re.findall(r'(?:href|src)="([\w./]+)"', (await http.get("/")).text)
        for path in ("/", *dict.fromkeys(needs), "/api/me", "/api/cluster", NODES):
            reply = await http.get(path)
            reply.raise_for_status()
            weight += reply.num_bytes_downloaded
        figures["first view by HTTP, s"] = round(time.monotonic() - begin, 3)
        figures["its weight as transferred, kB"] = round(weight / 1000)
        figures |= await filtered(http)
        async with httpx.AsyncClient(base_url=slurm) as control:
            for many in (1, size.viewers):
                figures |= await watched(http, control, many, size)
            figures |= await altered(http, control)
        cookies = [{"name": c.name, "value": c.value, "url": url} for c in http.cookies.jar]
        took, weights = await asyncio.to_thread(in_browser, url, cookies, secret, size.rounds)
        figures["its weight in Chromium, kB"] = round(max(weights) / 1000) if weights else "-"
        figures |= await asyncio.to_thread(frames, url, slurm, cookies, secret, size.turns)
        figures |= await asyncio.to_thread(typed, url, cookies, secret)
        for word, pick in (("best", min), ("median", median), ("worst", max)):
            figures[f"in Chromium, {word} of {len(took)}, s"] = (
                round(pick(took), 2) if took else "-"
            )
    figures["server memory, MiB"] = round(memory(pid, "VmRSS"))
    figures["server memory at most, MiB"] = round(memory(pid, "VmHWM"))
    return figures


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser; None where there is no Chromium."""
    program = shutil.which("chromium")
    if program is None:
        yield None
        return
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    with sync_playwright() as playwright:
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=program, args=flags)
        yield browser
        browser.close()


@contextmanager
def tab(browser: Any, cookies: list[dict[str, Any]], secret: str) -> Iterator[Any]:
    """A tab of a session, in a profile without a cache."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-US")
    context.add_cookies(cookies)
    context.add_init_script(f"localStorage.setItem('session', {json.dumps(secret)})")
    yield context.new_page()
    context.close()


TRANSFERRED = """() => performance.getEntriesByType("navigation")
    .concat(performance.getEntriesByType("resource"))
    .reduce((sum, entry) => sum + (entry.transferSize || 0), 0)"""


def in_browser(
    url: str, cookies: list[dict[str, Any]], secret: str, rounds: int
) -> tuple[list[float], list[float]]:
    """Seconds from the address to the drawn heat map, and the bytes of all that came until then."""
    took, weights = list[float](), list[float]()
    with chromium() as browser:
        for _ in range(rounds if browser else 0):
            with tab(browser, cookies, secret) as page:
                begin = time.monotonic()
                page.goto(url)
                page.wait_for_selector("canvas.heat, div.nodes")  # cards where nodes are few
                took.append(time.monotonic() - begin)
                weights.append(page.evaluate(TRANSFERRED))
    return took, weights


ROW_MS = """async (word) => {
    const row = () => document.querySelector("tr[data-job], tr.array");
    const before = row()?.textContent;
    const box = document.querySelector("[aria-label='Filter jobs']");
    const drawn = new Promise((done) => new MutationObserver(() => {
        if (row() && row().textContent !== before) done(performance.now());
    }).observe(document.querySelector("main") ?? document.body,
        { childList: true, subtree: true, characterData: true }));
    const begin = performance.now();
    box.value = word;
    box.dispatchEvent(new Event("input", { bubbles: true }));
    const late = new Promise((_, fail) => setTimeout(() => fail(new Error("no row")), 20000));
    return await Promise.race([drawn, late]) - begin;
}"""


def typed(url: str, cookies: list[dict[str, Any]], secret: str) -> dict[str, Any]:
    """Milliseconds from the last key of a word to the first row of its list, in a browser."""
    took = list[float]()
    with chromium() as browser:
        if browser is None:
            return {}
        with tab(browser, cookies, secret) as page:
            page.goto(f"{url}/#jobs")
            page.wait_for_selector("tr[data-job]")
            for number in (31, 39, 42, 27, 5):
                took.append(page.evaluate(ROW_MS, f"train-{number}"))
                page.wait_for_timeout(300)
    word = "from a key to the first row, a word, median / worst of 5, ms"
    return {word: f"{median(took):.0f} / {max(took):.0f}"}


WATCH = """async () => {
    window.frames = []; window.news = 0;
    const seen = (list) => window.frames.push(...list.getEntries().map((f) => f.duration));
    new PerformanceObserver(seen).observe({ type: "long-animation-frame" });
    new PerformanceObserver(seen).observe({ type: "longtask" });
    const { listen } = await import("./js/lib/event_stream.js");
    listen("nodes", () => { window.news += 1; });
}"""


def longest(page: Any) -> str:
    """The longest frame since this was asked last."""
    long = page.evaluate("() => window.frames.splice(0)")
    return f"{max(long):.0f}" if long else f"below {SHORT_MS}"


def frames(
    url: str, slurm: str, cookies: list[dict[str, Any]], secret: str, turns: int
) -> dict[str, Any]:
    """The longest frame in milliseconds while nodes change, in each grouping.

    Of it the browser counts scripts, layout and paint of the page's own thread.
    """
    figures: dict[str, Any] = {}
    with chromium() as browser:
        if browser is None:
            return figures
        with tab(browser, cookies, secret) as page:
            page.goto(url)
            page.wait_for_selector("canvas.heat, div.nodes")
            page.evaluate(WATCH)
            for grouping in GROUPS:
                page.select_option("[aria-label='Group nodes by']", grouping)
                page.wait_for_timeout(2000)
                figures[f"longest frame, by {grouping}, as it is chosen, ms"] = longest(page)
                for many in CHANGED:
                    for turn in range(turns):
                        before = page.evaluate("window.news")
                        asked = {"turn": turn, "nodes": many}
                        httpx.post(f"{slurm}/shift", params=asked).raise_for_status()
                        page.wait_for_function("(n) => window.news > n", arg=before, timeout=60_000)
                        page.wait_for_timeout(600)  # it is drawn after a quarter of a second
                    what = f"longest frame, by {grouping}, {many} nodes change, ms"
                    figures[what] = longest(page)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, value in (
        ("nodes", 10000),
        ("jobs", 50000),
        ("viewers", 100),
        ("rounds", 9),
        ("turns", TURNS),
    ):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--rest", type=float, default=REST_S)
    parser.add_argument("--settle", type=float, default=SETTLE_S)
    parser.add_argument(
        "--private", type=int, default=0, help="users that are hidden from each other"
    )
    parser.add_argument("--ended", action="store_true", help="filters of jobs that ended, alone")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.nodes, args.jobs, private=bool(args.private), ended=args.ended)
        return
    if shutil.which("chromium"):
        required("playwright")
    size = Size(args.viewers, args.rounds, args.turns, args.rest, args.settle)
    hidden = bool(args.private)
    with (
        player(args.nodes, args.jobs, private=hidden, ended=args.ended) as slurm,
        page(slurm, private={"jobs"} if hidden else ()) as (server, url),
    ):
        print(f"{'load before':50} {Path('/proc/loadavg').read_text().split()[0]}")
        if args.ended:
            work = of_ended(url, args.jobs)
        elif hidden:
            work = private(url, slurm, server.pid, size, args.private)
        else:
            work = measure(url, slurm, server.pid, size)
        for what, figure in asyncio.run(work).items():
            print(f"{what:50} {figure}")


if __name__ == "__main__":
    main()
