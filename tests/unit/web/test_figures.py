"""Figures over time, the exporter's text, and what a job's page shows next to its fields."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import httpx
import pytest

from corral.api.page.job_details import HIDDEN, extras_of
from corral.errors import CorralError
from corral.inspect.jobs import readings
from corral.slurm.records import Job
from corral.slurm.rest import read
from corral.slurm.text import parse_counted
from corral.web import figures, history
from corral.web.exposition import Family, families, text_of
from corral.web.figures import Prometheus, curves_of, of_job
from corral.web.settings import Declared
from tests.unit.web.fake import FakeRest

TEXT = """\
# HELP corral_job_memory_bytes x
corral_job_memory_bytes{jobid="12"} 2000000
corral_job_cpu_seconds_total{jobid="12"} 2.5
corral_job_memory_bytes{jobid="13"} 9
corral_gpu_utilization_ratio{gpu="0",uuid="GPU-a"} 0.93
corral_gpu_utilization_ratio{gpu="1",uuid="GPU-b"} 0.5
corral_gpu_job{gpu="0",uuid="GPU-a",jobid="12"} 1
what is this
corral_x{a="b"} one
"""


def test_a_jobs_share_of_what_its_nodes_report() -> None:
    values = of_job({"n1": readings(TEXT)}, 12)
    assert values == {
        ("memory", "n1"): 2000000,
        ("cpu_seconds", "n1"): 2.5,
        ("gpu", "n1 GPU 0"): 0.93,
    }


def test_processor_time_becomes_processors() -> None:
    samples = [(float(at), {("cpu_seconds", "n1"): spent}) for at, spent in ((0, 1.0), (10, 21.0))]
    assert curves_of(samples) == [{"what": "cpus", "name": "n1", "points": [[10.0, 2.0]]}]
    again = [*samples, (20.0, {("cpu_seconds", "n1"): 0.5})]
    assert len(curves_of(again)[0]["points"]) == 1, "a counter that restarts gives no rate"


def prometheus(answer: Any, seen: list[str] | None = None) -> Prometheus:
    def handle(request: httpx.Request) -> httpx.Response:
        if seen is not None:
            seen.append(request.url.params["query"])
        return httpx.Response(200, json=answer)

    return Prometheus("http://prometheus", httpx.MockTransport(handle))


def a_job() -> Any:
    body = FakeRest().bodies["jobs"]["body"]["jobs"][0]
    return replace(read.job(body, 42), id=12, state="RUNNING", start_at=1000.0)


def test_curves_out_of_prometheus() -> None:
    row = {"metric": {"node": "n1", "gpu": "0"}, "values": [[1000, "1.5"], [1015, "NaN"]]}
    seen: list[str] = []
    source = prometheus({"data": {"result": [row]}}, seen)
    figures = asyncio.run(source.job(a_job()))
    assert figures["curves"][0]["name"] == "n1 GPU 0"
    assert figures["curves"][0]["points"] == [[1000, 1.5]]
    assert all('jobid="12"' in query for query in seen)


def test_all_viewers_share_one_question_about_the_nodes() -> None:
    seen: list[str] = []
    row = {"metric": {"node": "n1"}, "value": [1, "61"]}
    source = prometheus({"data": {"result": [row]}}, seen)

    async def work() -> None:
        many = await asyncio.gather(*(source.nodes() for _ in range(20)))
        assert many[0]["n1"]["celsius"] == 61

    asyncio.run(work())
    assert len(seen) == 3


def test_a_silent_prometheus_is_an_error_in_words() -> None:
    with pytest.raises(CorralError, match="Prometheus does not answer"):
        asyncio.run(prometheus({"error": "x"}).nodes())


def test_the_exporters_text() -> None:
    body = FakeRest().bodies["nodes"]["body"]["nodes"]
    nodes = [read.node(node, 42) for node in body]
    lines = parse_counted(
        f"{'RUNNING':24}{'main':64}{'kim':64}{'cpu=2,mem=1G,node=1,gres/gpu=3':160}\n"
        f"{'PENDING':24}{'main':64}{'lee':64}{'cpu=1':160}\nshort\n"
        f"{'RUNNING':24}{'main':64}{'ada':64}{'cpu=1,gres/gpu:a=4,gres/gpu:b=2':400}\n"
    )
    assert [job.gpus for job in lines] == [3, 0, 6]
    assert lines[0] == Job(state="RUNNING", partition="main", user="kim", gpus=3)
    text = text_of(families(nodes, lines, ()))
    assert 'corral_jobs{state="running",partition="main"} 2' in text
    assert 'corral_user_gpus{user="kim"} 3' in text
    for line in text.splitlines():
        assert (
            line.startswith("# ") or line.rpartition(" ")[2].replace(".", "").lstrip("-").isdigit()
        )


def test_running_jobs_of_unknown_gpus_are_counted_as_such() -> None:
    jobs = [
        Job(state="RUNNING", partition="main", user="kim", gpus=3),
        Job(state="RUNNING", partition="main", user="ada", gpus_exact=False),
    ]
    text = text_of(families((), jobs, ()))
    assert 'corral_jobs_gpus{partition="main"} 3' in text
    assert 'corral_jobs_gpus_unknown{partition="main"} 1' in text


def test_labels_cannot_break_out() -> None:
    evil = 'a"} 1\ncorral_slurm_up 0\\'
    text = text_of([Family("x", "gauge", "y", {(("user", evil),): 1})])
    assert len(text.splitlines()) == 3
    assert r'user="a\"} 1\ncorral_slurm_up 0\\"' in text


def test_secrets_of_an_environment_are_hidden() -> None:
    text = (
        "run 0123456789abcdef0123456789abcdef\nrecording rank-0.json\nenv A=b=c\n"
        "env HF_TOKEN=hf_x\nenv DB=postgres://me:pw@host/x\nenv AWS_SECRET_ACCESS_KEY=y\n"
    )
    extras = extras_of(text, "http://node0:5000")
    assert extras.tracking == "http://node0:5000"
    assert extras.recordings == ("rank-0.json",)
    shown = dict(extras.environment)
    assert shown["A"] == "b=c"
    assert shown["HF_TOKEN"] == shown["AWS_SECRET_ACCESS_KEY"] == HIDDEN
    assert "pw" not in shown["DB"]
    assert extras_of("run <script>\n", "http://x").run == ""


def test_viewers_do_not_wait_one_after_the_other_for_a_prometheus_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """20 viewers queued on one lock, each for its own 30 s."""
    asked = 0

    async def hang(_: httpx.Request) -> httpx.Response:
        nonlocal asked
        asked += 1
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(figures, "ANSWER_S", 0.05)
    source = Prometheus("http://prometheus", httpx.MockTransport(hang))

    async def work() -> tuple[int, int]:
        async with asyncio.timeout(30):
            answers = [source.nodes() for _ in range(20)]
            failed = await asyncio.gather(*answers, return_exceptions=True)
            assert all(isinstance(error, CorralError) for error in failed)
            of_nodes = asked
            answers = [source.cluster("hour") for _ in range(20)]  # type: ignore[misc]
            failed = await asyncio.gather(*answers, return_exceptions=True)
            assert all("no answer" in str(getattr(error, "tail", "")) for error in failed)
            return of_nodes, asked - of_nodes

    of_nodes, of_cluster = asyncio.run(work())
    assert of_nodes == len(figures.OF_NODES)
    assert of_cluster == len(history.QUESTIONS)


def test_a_prometheus_that_answers_again_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now, down = 1000.0, True

    def answer(_: httpx.Request) -> httpx.Response:
        if down:
            raise httpx.ConnectError("nobody listens")
        return httpx.Response(200, json={"data": {"result": []}})

    monkeypatch.setattr(figures.time, "monotonic", lambda: now)
    source = Prometheus("http://prometheus", httpx.MockTransport(answer))

    async def work() -> None:
        nonlocal now, down
        for ask in (source.nodes, lambda: source.cluster("hour")):
            down = True
            with pytest.raises(CorralError):
                await ask()
            down = False
            with pytest.raises(CorralError):
                await ask()
            now += figures.TROUBLE_S
            await ask()

    asyncio.run(work())


def test_a_node_is_read_once_for_all_viewers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each viewer of its page had a separate connection by ssh."""
    asked: list[str] = []

    async def node_figures(_: Any, names: list[str]) -> dict[str, Any]:
        asked.extend(names)
        await asyncio.sleep(0)
        return {name: () for name in names}

    monkeypatch.setattr(figures.api, "node_figures", node_figures, raising=False)
    source = figures.BySsh(Declared(None))  # type: ignore[arg-type]

    async def work() -> None:
        both = [source.readings("n1") for _ in range(10)] + [source.readings("n2")]
        await asyncio.gather(*both)

    asyncio.run(work())
    assert sorted(asked) == ["n1", "n2"]
