"""Curves of hour, day and week: from recorded answers, and from a real Prometheus."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from corral.errors import CorralError
from corral.web import figures, history
from corral.web.figures import Prometheus
from corral.web.history import POINTS, QUESTIONS, SPANS, Grid, questions
from tests import prometheus_tools
from tests.unit.web.fake import FakeRest, Page

PROMETHEUS = prometheus_tools.find("prometheus")
PROMTOOL = prometheus_tools.find("promtool")
RECORDED = Path(__file__).parents[2] / "recorded" / "prometheus" / "range.json"
NOW = 1_795_900_000


class Answers:
    """Prometheus' side, and what it was asked."""

    def __init__(self, body: Any, *, status: int = 200) -> None:
        self.body, self.status = body, status
        self.asked: list[httpx.QueryParams] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.params)
        content = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        return httpx.Response(self.status, content=content)


def source(answers: Any) -> Prometheus:
    return Prometheus("http://prometheus", httpx.MockTransport(answers), cluster="lab")


def set_clock(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Of that module alone: patched in ``time`` itself, logins ended when NOW had passed."""
    clock = SimpleNamespace(time=lambda: seconds, monotonic=time.monotonic)
    monkeypatch.setattr(figures, "time", clock)


@pytest.fixture(autouse=True)
def fixed_time(monkeypatch: pytest.MonkeyPatch) -> None:
    set_clock(monkeypatch, float(NOW))


def test_all_spans_have_the_same_number_of_points() -> None:
    for span, seconds in SPANS.items():
        grid = Grid.of(span, NOW)
        assert len(grid.times) == POINTS + 1
        assert grid.end - grid.start == seconds
        assert grid.end <= NOW < grid.end + grid.step
        assert grid == Grid.of(span, grid.end), "the same for all who ask until the next point"


def test_questions_are_of_this_cluster_alone() -> None:
    for query in questions('a"b'):
        assert query.count("corral_") == query.count(r'{cluster="a\"b"')


def test_what_is_unknown_is_a_gap() -> None:
    """A recorded answer: slurmctld was down for a while, one value is not a number."""
    recorded = json.loads(RECORDED.read_text())
    grid = Grid(recorded["start"], recorded["end"], recorded["step"])
    answers = [recorded["body"]["data"]["result"]] + [[]] * (len(QUESTIONS) - 1)
    made = history.curves(grid, answers)
    (curve,) = made["curves"]
    assert (curve["what"], curve["name"]) == ("nodes", "take jobs")
    assert len(curve["values"]) == len(made["at"])
    known = [at for at, value in zip(made["at"], curve["values"], strict=True) if value is not None]
    assert len(known) == len(recorded["body"]["data"]["result"][0]["values"])
    assert None in curve["values"][1:-1]
    bad = [[{"metric": {}, "values": [[grid.start, "NaN"], [grid.end, "3"]]}]]
    values = history.curves(grid, bad + [[]] * (len(QUESTIONS) - 1))["curves"][0]["values"]
    assert values[0] is None
    assert values[-1] == 3


def series(state: str, *values: tuple[int, str]) -> dict[str, Any]:
    return {"metric": {"state": state}, "values": [list(value) for value in values]}


def test_states_are_curves_and_what_no_node_or_job_has_is_none_of_them() -> None:
    """Where Slurm answered a state without a value is 0, else it is a gap."""
    grid = Grid.of("hour", NOW)
    first, second = grid.times[:2]
    answers: list[Any] = [[] for _ in QUESTIONS]
    place = {(what, name): i for i, (what, name, _) in enumerate(QUESTIONS)}
    answers[place["nodes", "all"]] = [{"metric": {}, "values": [[first, "9"], [second, "9"]]}]
    answers[place["node_states", ""]] = [
        series("idle", (first, "4"), (second, "5")),
        series("idle+planned", (first, "2")),
        series("mixed+drain", (second, "1")),
        series("down+not_responding", (first, "1")),
        series("idle+powered_down", (first, "1")),
        series("of a later Slurm", (first, "1")),
    ]
    answers[place["job_states", ""]] = [series("out_of_memory", (second, "3"))]
    made = history.curves(grid, answers)["curves"]
    states = {(c["what"], c["name"]): c["values"][:3] for c in made if c["what"] != "nodes"}
    assert states == {
        ("node_states", "idle"): [6, 5, None],
        ("node_states", "draining"): [0, 1, None],
        ("node_states", "down"): [1, 0, None],
        ("node_states", "powered down"): [1, 0, None],
        ("node_states", "other"): [1, 0, None],
        ("job_states", "out of memory"): [0, 3, None],
    }


@pytest.mark.parametrize(
    ("state", "name"),
    [
        ("idle", "idle"), ("mixed", "mixed"), ("allocated", "allocated"),
        ("allocated+completing", "allocated"), ("idle+drain", "drained"),
        ("allocated+drain", "draining"), ("down+drain", "down"), ("future", "other"),
        ("idle+maintenance", "maintenance"), ("idle+powering_down", "powered down"),
        ("(others)", "other"),
    ],
)  # fmt: skip
def test_each_state_of_a_node_has_a_name_on_the_page(state: str, name: str) -> None:
    assert history.node_state_name(state) == name


def test_viewers_share_one_answer_until_the_next_point(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = Answers({"data": {"result": []}})

    async def work() -> None:
        prometheus = source(answers)
        await asyncio.gather(*(prometheus.cluster("day") for _ in range(50)))
        assert len(answers.asked) == len(QUESTIONS)
        step = SPANS["day"] // POINTS
        set_clock(monkeypatch, float(NOW + step))
        await prometheus.cluster("day")
        assert len(answers.asked) == 2 * len(QUESTIONS)

    asyncio.run(work())
    (asked,) = {(a["step"], a["timeout"]) for a in answers.asked}
    assert asked == ("360", "10s")


def test_a_long_answer_is_refused() -> None:
    long = b'{"data": {"result": [' + b" " * figures.ANSWER_BYTES
    with pytest.raises(CorralError) as refused:
        asyncio.run(source(Answers(long)).cluster("hour"))
    assert "16 MiB" in refused.value.tail


def test_a_slow_answer_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "ANSWER_S", 0.05)

    async def slow(request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(5)
        return httpx.Response(200)

    with pytest.raises(CorralError) as refused:
        asyncio.run(source(slow).cluster("hour"))
    assert "no answer within" in refused.value.tail


@pytest.mark.parametrize("body", [{"status": "error", "error": "x"}, b"<html>", {"data": []}])
def test_what_is_no_answer(body: Any) -> None:
    with pytest.raises(CorralError, match="Prometheus does not answer"):
        asyncio.run(source(Answers(body, status=503)).cluster("hour"))


def test_the_page_chooses_a_span_and_no_question() -> None:
    answers = Answers({"data": {"result": [{"metric": {}, "values": [[NOW, "4"]]}]}})

    async def work() -> None:
        async with Page(FakeRest()) as page:
            assert (await page.get("figures/history")).status_code == 401
            await page.login()
            assert (await page.get("figures/history")).json()["curves"] == []
            page.app.state.corral.figures = source(answers)
            for path in ("figures/history?span=year", "figures/history?span=hour&query=up"):
                reply = await page.get(path)
                assert reply.status_code in (200, 422)
            assert (await page.get("figures/history?span=year")).status_code == 422
            assert (await page.get("figures/history?span=week")).json()["from"] == "prometheus"

    asyncio.run(work())
    assert {asked["query"] for asked in answers.asked} == set(questions("lab"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A real Prometheus with two hours of a cluster, slurmctld away for ten minutes of them."""
    end = int(time.clock_gettime(time.CLOCK_REALTIME))
    lines = ["# TYPE corral_node_usable gauge", "# TYPE corral_node_gpus gauge",
             "# TYPE corral_gpu_watts gauge", "# TYPE corral_jobs gauge"]  # fmt: skip
    kept: dict[str, list[str]] = {}
    for at in range(end - 7200, end, 15):
        away = end - 1800 <= at < end - 1200
        for node in range(0 if away else 4):
            for cluster, value in (("lab", 1), ("other", 0)):
                labels = f'{{cluster="{cluster}",node="n{node}"}}'
                samples = {"usable": value, "cpus": 96, "cpus_used": 24, "gpus": 0, "gpus_used": 0}
                for name, sample in samples.items():
                    kept.setdefault(f"corral_node_{name}", []).append(
                        f"corral_node_{name}{labels} {sample} {at}"
                    )
        labels = '{cluster="lab",node="n0",gpu="0"}'
        kept.setdefault("corral_gpu_watts", []).append(f"corral_gpu_watts{labels} 400 {at}")
    lines = [line for name in kept for line in (f"# TYPE {name} gauge", *kept[name])]
    (tmp_path / "data.om").write_text("\n".join([*lines, "# EOF", ""]))
    blocks = ["tsdb", "create-blocks-from", "openmetrics", "data.om", "data"]
    subprocess.run([str(PROMTOOL), *blocks], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "empty.yml").write_text("{}\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    argv = [
        str(PROMETHEUS),
        "--config.file=empty.yml",
        "--storage.tsdb.path=data",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    ]
    with subprocess.Popen(argv, cwd=tmp_path) as running:
        try:
            until = time.monotonic() + 60
            while time.monotonic() < until:
                try:
                    httpx.get(
                        f"http://127.0.0.1:{port}/-/ready", trust_env=False
                    ).raise_for_status()
                    break
                except httpx.HTTPError:
                    time.sleep(0.2)
            yield f"http://127.0.0.1:{port}"
        finally:
            running.terminate()


@pytest.mark.enable_socket
@pytest.mark.skipif(
    PROMETHEUS is None or PROMTOOL is None,
    reason=prometheus_tools.missing("prometheus") or prometheus_tools.missing("promtool") or "-",
)
def test_a_real_prometheus(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "time", time)

    async def work() -> tuple[Any, Any]:
        prometheus = Prometheus(server, cluster="lab")
        try:
            return await prometheus.cluster("hour"), await prometheus.cluster("week")
        finally:
            await prometheus.close()

    hour, week = asyncio.run(work())
    curves = {(curve["what"], curve["name"]): curve["values"] for curve in hour["curves"]}
    usable = curves["nodes", "take jobs"]
    assert {value for value in usable if value is not None} == {4.0}, "of this cluster alone"
    # Prometheus takes a sample as known for five minutes.
    assert 15 <= usable.count(None) <= 40
    assert curves["nodes", "drained"].count(0.0) == usable.count(4.0), "a zero only where known"
    assert curves["queue", "pending"].count(0.0) == usable.count(4.0)
    assert {value for value in curves["cpus", "allocated"] if value is not None} == {4 * 24.0}
    assert {value for value in curves["cpus", "all"] if value is not None} == {4 * 96.0}
    assert not [key for key in curves if key[0] == "gpus"], "a cluster without GPUs has no plot"
    assert set(curves["power", "GPUs"]) == {400.0}
    assert ("power", "nodes") not in curves
    assert [c["name"] for c in week["curves"] if c["what"] == "power"] == ["GPUs"]
    assert week["curves"][0]["values"][:100] == [None] * 100, "before the first sample"
