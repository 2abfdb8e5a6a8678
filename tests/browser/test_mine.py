"""My work, and the tables of accounts, QOS, reservations, licences and the scheduler."""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from corral.hosts.quote import sh
from corral.web.slurm.efficiency import GpuUse
from tests.browser.conftest import FETCHED, OTHER, Served, patient, run_root, wait_until
from tests.browser.desk import Desk, DeskRest, pictures, served, tab, window
from tests.embedded.conftest import Live

__all__ = ["window"]
ENDED = (
    # number, name, state, CPUs, GPUs, seconds, CPU seconds, GiB used of 64
    (2101, "pretrain-7b", "COMPLETED", 64, 8, 36000, 64 * 36000 * 0.35, 51.0),
    (2102, "eval-mmlu", "COMPLETED", 16, 2, 5400, 16 * 5400 * 0.92, 30.0),
    (2103, "notebook", "TIMEOUT", 8, 4, 28800, 8 * 28800 * 0.01, 2.5),
    (2104, "tokenize", "COMPLETED", 64, 0, 7200, 64 * 7200 * 0.97, 60.0),
    (2105, "sweep", "FAILED", 8, 1, 12, 0, 0),
    (2106, "of-last-week", "COMPLETED", 64, 8, 36000, 64 * 36000 * 0.5, 30.0),
)
OLD = 2106
"""It ended ten days ago."""


def _count(kind: str, name: str, count: int) -> dict[str, Any]:
    return {"type": kind, "name": name, "id": 1, "count": count}


class Past:
    """Ended jobs like the recorded ones, that ended in the last hours."""

    def __init__(self, rest: DeskRest) -> None:
        self._like = copy.deepcopy(rest.bodies["past-measured"]["body"]["jobs"][0])
        body = rest.bodies["past-measured"]["body"]
        body["jobs"] = [self._job(n, row) for n, row in enumerate(ENDED)]
        rest.bodies["past-user"] = rest.bodies["past-measured"]

    def _job(self, place: int, row: tuple[Any, ...]) -> dict[str, Any]:
        number, name, state, cpus, gpus, seconds, used, memory = row
        job = copy.deepcopy(self._like)
        end = int(time.time()) - (864000 if number == OLD else 3600 * (place + 1))
        job |= {"job_id": number, "name": name, "array": {}}
        job["state"]["current"] = [state]
        job["time"] |= {"start": end - seconds, "end": end, "elapsed": seconds}
        gres = [_count("gres", "gpu", gpus)] if gpus else []
        job["tres"]["allocated"] = [
            _count("cpu", "", cpus),
            _count("mem", "", 64 << 10),
            _count("node", "", 1),
            *gres,
        ]
        step = job["steps"][0]
        step["time"]["total"] = {"seconds": int(used), "microseconds": 0}
        step["tres"]["requested"]["total"] = [_count("mem", "", int(memory * (1 << 30)))]
        if not used:
            job["steps"] = []
        return job


class Metrics:
    """Two of eight GPUs of a job do nothing; what ended jobs did is known of two."""

    async def nodes(self) -> dict[str, dict[str, float]]:
        return {}

    async def gpu_use(self, nodes: Any) -> GpuUse:
        shares = {(node, gpu): 0.9 for node in nodes for gpu in range(8)}
        return GpuUse(shares | {("gpu001", 6): 0.0, ("gpu001", 7): 0.01}, {}, 600.0)

    async def busy(self, jobs: Any, days: int) -> dict[int, float]:
        return {2101: 8 * 36000 * 0.81, 2103: 4 * 28800 * 0.02}

    async def close(self) -> None: ...


@pytest.fixture
def desk() -> Iterator[Desk]:
    rest = DeskRest()
    rest.nodes(8, gres="gpu:h200:8", gres_used="gpu:h200:8(IDX:0-7)")
    number = {"set": True, "infinite": False, "number": 1}
    given = {"node_count": number, "account": "vision", "tres_req_str": ""}
    rest.add(
        3001,
        nodes="gpu001",
        name="pretrain-7b",
        qos="high",
        gres_detail=["gpu:h200:8(IDX:0-7)"],
        tres_alloc_str="cpu=64,mem=512G,node=1,gres/gpu=8",
        cpus={**number, "number": 64},
        start_time={**number, "number": int(time.time()) - 7200},
        **given,
    )
    rest.add(
        3002,
        nodes="gpu002",
        name="<b>eval</b>",
        qos="normal",
        gres_detail=["gpu:h200:2(IDX:0-1)"],
        cpus={**number, "number": 16},
        tres_alloc_str="cpu=16,mem=64G,node=1,gres/gpu=2",
        **given,
    )
    rest.add(
        3003,
        name="big",
        job_state=["PENDING"],
        state_reason="AssocGrpGRES",
        qos="normal",
        nodes="",
        tres_alloc_str="",
        tres_req_str="cpu=64,node=1,gres/gpu=8",
        account="vision",
    )
    for entry in rest.bodies["associations"]["body"]["associations"]:
        if entry["user"] == "kim" and entry["account"] == "vision":
            entry["max"]["tres"]["total"] = [_count("cpu", "", 256), _count("gres", "gpu", 12)]
    Past(rest)
    with served(rest) as made:
        made.app.state.corral.figures = Metrics()
        yield made


def card(page: Any, title: str) -> Any:
    return page.locator(".card", has=page.locator(f"h2:text-is('{title}')"))


def test_my_work_against_its_limits(window: Any, desk: Desk) -> None:
    with tab(window, desk) as page:
        page.keyboard.press("m")
        limits = card(page, "Limits")
        row = limits.locator("tr[data-key='user vision vision']")
        row.wait_for()
        words = row.inner_text()
        assert "10 of 12" in words
        assert "80 of 256" in words
        assert "2 of 15" in words
        assert "3 of 16" in words
        idle = limits.locator("tr[data-key='user idle idle']").inner_text()
        assert "0, unlimited" in idle
        running = card(page, "Running now")
        first = running.locator("tbody tr").first
        assert "90 %" not in first.inner_text()
        assert "2 of 8 idle" in first.inner_text()
        assert "gpu001 GPU 6" in first.inner_text()
        assert "<b>eval</b>" in running.inner_text(), "a name is never markup"
        ended = card(page, "Asked for and used, by ended jobs")
        ended.locator("tbody tr").first.wait_for()
        order = ended.locator("tbody tr td:nth-child(2)").all_inner_texts()
        assert order[:2] == ["notebook", "pretrain-7b"], "those that wasted most GPU hours first"
        lines = dict(zip(order, ended.locator("tbody tr").all_inner_texts(), strict=True))
        assert "2 % of 4" in lines["notebook"]
        assert "31.4" in lines["notebook"]
        assert lines["sweep"].count("unknown") == 5, "a job too short to be measured wasted unknown"
        ended.locator("button[data-key='by cpu_waste']").click()
        assert "by=cpu_waste" in page.url
        ended.locator("button[data-key='30']").click()
        assert "days=30" in page.url
        page.reload()
        ended.locator("th[aria-sort=descending] >> text=unused CPU hours").wait_for()
        pictures(page, "mine")
        ended.locator("tbody tr").first.focus()
        page.keyboard.press("Enter")
        assert re.search(r"#job/\d+$", page.url)
        page.go_back()
        limits.locator("a:text-is('kim in QOS high')").wait_for()
        limits.locator("tr[data-key='qos-user high ']").focus()
        page.keyboard.press("Enter")
        page.locator("tr[data-key=high]").wait_for()
        assert page.url.endswith("#policy/qos?q=high")


def test_hours_of_7_and_30_days_and_why_no_cost_is_known(window: Any, desk: Desk) -> None:
    """80 + 3 + 32 GPU hours ended, 16 and a third of one run; 80 more ended ten days ago."""
    with tab(window, desk) as page:
        page.goto(f"{desk.url}#mine")
        tiles = page.locator(".tile")
        tiles.locator("text=GPU hours in 7 days").wait_for()
        words = [" ".join(text.split()) for text in tiles.all_inner_texts()]
        week, month, cost = words[-3:]
        assert re.match(r"131 GPU hours in 7 days; [\d,.]+ CPU hours, 7 jobs$", week), week
        assert re.match(r"211 GPU hours in 30 days; [\d,.]+ CPU hours, 8 jobs$", month), month
        assert cost == ("unknown cost of 7 and 30 days: no price is known without the cluster file")
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_idle_gpus_are_on_the_jobs_page_and_in_the_list(window: Any, desk: Desk) -> None:
    with tab(window, desk) as page:
        page.goto(f"{desk.url}#jobs/running")
        row = page.locator("tr[data-job='3001']")
        row.locator(".state.warn:text('2 idle')").wait_for()
        assert "gpu001 GPU 6, gpu001 GPU 7" in row.locator(".state.warn[title]").get_attribute(
            "title"
        )
        assert page.locator("tr[data-job='3002'] .state.warn").count() == 0
        pictures(page, "jobs-idle")
        page.goto(f"{desk.url}#job/3001")
        words = page.locator("dt:text-is('use of GPUs') + dd")
        words.wait_for()
        assert "2 of 8 idle" in words.inner_text()
        assert "gpu001 GPU 6, gpu001 GPU 7" in words.inner_text()
        pictures(page, "job-idle")
    with tab(window, desk, "zoe") as page:
        page.goto(f"{desk.url}#jobs/running")
        page.locator("tr[data-job='3001']").wait_for()
        page.wait_for_timeout(1000)
        assert page.locator("text=2 idle").count() == 0, "it is somebody else's"


def test_accounts_and_the_other_tables_are_read(window: Any, desk: Desk) -> None:
    with tab(window, desk) as page:
        page.keyboard.press("a")
        vision = page.locator("tr[data-key='vision  ']")
        vision.wait_for()
        assert "together: 31 CPUs, 32 GPUs" in vision.inner_text()
        assert "MaxJobs" not in vision.inner_text()
        page.fill("input[type=search]", "kim idle")
        page.locator("tr[data-key='vision  ']").wait_for(state="detached")
        page.locator("tr[data-key='idle kim ']").wait_for()
        assert page.url.endswith("#policy/accounts?q=kim+idle")
        assert page.locator("tr[data-key='research  ']").count() == 1, "the accounts above stay"
        assert page.locator("text=This page changes nothing here").count() == 1
        page.fill("input[type=search]", "")
        pictures(page, "accounts")
        for name, words in (
            ("QOS", "each user: 62 CPUs, 63 GPUs"),
            ("Reservations", "accounts research"),
            ("Licences", "matlab"),
            ("Scheduler", "4 submitted, 4 started"),
        ):
            page.locator(f"a.chip:text-is('{name}')").click()
            page.locator(f"text={words.replace('accounts r', 'account r')}").first.wait_for()
            pictures(page, name.lower())
        page.set_viewport_size({"width": 390, "height": 844})
        for path in ("policy/accounts", "policy/scheduler", "mine"):
            page.goto(f"{desk.url}#{path}")
            page.locator(".card").first.wait_for()
            page.wait_for_timeout(500)
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= 390, f"{path} scrolls sideways"


def test_what_cannot_be_read_is_unknown(window: Any, desk: Desk) -> None:
    desk.rest.accounting = False
    with tab(window, desk) as page:
        page.goto(f"{desk.url}#mine")
        limits = card(page, "Limits")
        limits.locator("text=The limits are unknown").wait_for()
        page.locator(".tile", has_text="no accounting").locator("text=unknown").wait_for()
        page.goto(f"{desk.url}#policy/accounts")
        page.locator("text=Unknown: slurmrestd has no accounting").wait_for()


LIMITED = sh(
    "sacctmgr -i -Q modify user {u} set GrpTRES=cpu=7 MaxJobs=5 && "
    "sacctmgr -i -Q add qos urgent set Priority=77 MaxTRESPerUser=cpu=6 && "
    "sacctmgr -i -Q modify user {u} set qos+=urgent",
    u=OTHER,
)
UNLIMITED = sh(
    "sacctmgr -i -Q modify user {u} set GrpTRES=cpu=-1 MaxJobs=-1 qos-=urgent; "
    "sacctmgr -i -Q delete qos urgent; scontrol delete reservationname=seminar; true",
    u=OTHER,
)
BURN = sh(
    "scontrol create reservation reservationname=seminar starttime=now+2hours duration=60 "
    "users={u} nodes=ALL >/dev/null; "
    "runuser -u {u} -- sbatch --parsable -D /tmp -o /dev/null -n1 -t 20 --wrap "
    "'end=$(($(date +%s) + 6)); while [ $(date +%s) -lt $end ]; do :; done'; "
    "runuser -u {u} -- sbatch --parsable -D /tmp -o /dev/null -n1 -t 20 --wrap 'sleep 900'",
    u=OTHER,
)


@pytest.mark.slow
def test_a_real_slurms_limits_and_efficiency(
    served: Served, cluster: Live, people: Callable[..., str], chromium: Any
) -> None:
    lead = cluster.controller
    token = people(OTHER)
    run_root(cluster, lead, LIMITED)
    burn, _ = run_root(cluster, lead, BURN).split()
    context = patient(chromium, viewport={"width": 1440, "height": 900}, locale="en-US")
    try:
        page = context.new_page()
        page.goto(served.url)
        page.fill("input[name=token]", token.removeprefix("SLURM_JWT="))
        page.click("button:text-is('Log in with the token')")
        page.wait_for_selector(".node")
        wait_until(
            page,
            "async (job) => (await (" + FETCHED + ")('mine/efficiency?days=1')).body.jobs"
            ".some((row) => row.id === job && row.cpu !== null)",
            int(burn),
        )
        page.goto(f"{served.url}#mine")
        row = card(page, "Limits").locator("tr[data-key^='user corral']")
        row.wait_for()
        assert re.search(r"\b[12] of 7\b", row.inner_text()), "a core, with one or two threads"
        assert "1 of 5" in row.inner_text()
        mine = card(page, "Limits").locator("tr[data-key='qos-user urgent ']")
        assert "0 of 6" in mine.inner_text()
        ended = card(page, "Asked for and used, by ended jobs").locator(f"tr[data-job='{burn}']")
        ended.wait_for()
        assert re.search(r"\d+ % of [12]\b", ended.inner_text())
        page.goto(f"{served.url}#policy/qos")
        urgent = page.locator("tr[data-key=urgent]")
        urgent.wait_for()
        assert "each user: 6 CPUs" in urgent.inner_text()
        page.goto(f"{served.url}#policy/accounts")
        page.locator(f"tr[data-key^='corral {OTHER}']").wait_for()
        page.goto(f"{served.url}#policy/reservations")
        page.locator("tr[data-key=seminar]").wait_for()
        page.goto(f"{served.url}#policy/scheduler")
        page.locator("text=counted since").wait_for()
    finally:
        context.close()
        run_root(cluster, lead, UNLIMITED)
