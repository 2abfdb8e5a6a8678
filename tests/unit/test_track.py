"""The tracking client: what it asks MLflow's REST API, and what it samples of a node."""

from __future__ import annotations

import io
import json
import re
import urllib.error
import urllib.parse
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from corral import track
from tests.dripping import HEAD, dripping

STAT = "cpu  {user} 0 0 {idle} 0 0 0 0 0 0\ncpu0 1 2 3\n"
MEMINFO = "MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable:  250 kB\nHugePages_Total:  0\n"
NET = "a\nb\n    lo: 9 0 0 0 0 0 0 0 9 0\n  eth0: {rx} 0 0 0 0 0 0 0 {tx} 0 0 0 0 0 0 0\n"


class Server:
    """MLflow's REST API as far as jobs use it, with the limits of its documentation."""

    page = 25000

    def __init__(self) -> None:
        self.experiments: dict[str, str] = {}
        self.runs: dict[str, dict[str, Any]] = {}
        self.headers: list[dict[str, str]] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, request: Any, timeout: float) -> io.BytesIO:
        self.headers.append(dict(request.header_items()))
        path = request.full_url.partition("/api/2.0/mlflow/")[2]
        body = json.loads(request.data) if request.data else {}
        self.calls.append((path, body))
        return io.BytesIO(json.dumps(self.answer(path, body)).encode())

    def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        match path.partition("?")[0]:
            case "experiments/get-by-name":
                name = path.partition("=")[2]
                if name not in self.experiments:
                    raise refused(404, "RESOURCE_DOES_NOT_EXIST")
                return {"experiment": {"experiment_id": self.experiments[name]}}
            case "experiments/create":
                number = self.experiments[body["name"]] = str(len(self.experiments) + 1)
                return {"experiment_id": number}
            case "metrics/get-history":
                query = dict(urllib.parse.parse_qsl(path.partition("?")[2]))
                logged = [
                    entry
                    for entry in self.runs[query["run_id"]]["log"]
                    if entry["key"] == query["metric_key"]
                ]
                first = int(query.get("page_token", "0"))
                after = first + self.page
                more = {"next_page_token": str(after)} if after < len(logged) else {}
                return {"metrics": logged[first:after], **more}
            case "runs/create":
                run = f"r{len(self.runs)}"
                self.runs[run] = {**body, "status": "RUNNING", "tags": {}, "params": {}, "log": []}
                return {"run": {"info": {"run_id": run}}}
            case "runs/update":
                self.runs[body["run_id"]].update(status=body["status"])
            case "runs/log-batch":
                assert all(len(body.get(kind, [])) <= 100 for kind in ("params", "tags"))
                run = self.runs[body["run_id"]]
                for kind in ("params", "tags"):
                    run[kind] |= {entry["key"]: entry["value"] for entry in body.get(kind, [])}
                run["log"] += body.get("metrics", [])
            case other:
                raise AssertionError(other)
        return {}


def refused(status: int, word: str) -> urllib.error.HTTPError:
    body = io.BytesIO(json.dumps({"error_code": word}).encode())
    return urllib.error.HTTPError("http://m", status, word, Message(), body)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    fake = Server()
    monkeypatch.setattr(track.urllib.request, "urlopen", fake)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://node0:5000/")
    for name in ("MLFLOW_RUN_ID", "MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_USERNAME"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "digits")
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setenv("SLURM_JOB_NAME", "train")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "node[0-2]")
    return fake


def test_a_requeued_job_goes_on_with_its_run(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = {"tags": {"corral.cluster": "lab"}, "params": {"corral.nodes": "3"}}
    (tmp_path / "track.json").write_text(json.dumps(about))
    first = track.begin(tmp_path)
    track.end_run("KILLED")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert track.begin(tmp_path) == first
    run = server.runs[first]
    assert len(server.runs) == 1
    assert run["status"] == "RUNNING"
    assert run["run_name"] == "train-12"
    assert run["tags"]["corral.nodes"] == "node[0-2]"
    assert run["tags"]["corral.cluster"] == "lab"
    assert run["tags"]["corral.restarts"] == "1"
    assert run["params"] == {"corral.nodes": "3"}


def test_parts_of_an_array_have_runs_of_their_own(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "track.json").write_text('{"tags": {"a": "b"}}')
    for number in ("0", "1"):
        folder = tmp_path / f"task-{number}"
        folder.mkdir()
        monkeypatch.setenv("SLURM_ARRAY_TASK_ID", number)
        track.begin(folder)
    assert [r["tags"]["corral.array_task_id"] for r in server.runs.values()] == ["0", "1"]
    assert all(r["tags"]["a"] == "b" for r in server.runs.values())


def test_an_experiment_that_another_job_makes_meanwhile(server: Server, tmp_path: Path) -> None:
    real, tries = server.answer, iter([True, False])

    def racing(path: str, body: dict[str, Any]) -> dict[str, Any]:
        if path == "experiments/create" and next(tries):
            real(path, body)
            raise refused(400, "RESOURCE_ALREADY_EXISTS")
        return real(path, body)

    server.answer = racing  # type: ignore[method-assign]
    track.begin(tmp_path)
    assert server.experiments == {"digits": "1"}


def test_more_than_a_request_may_hold_is_cut(server: Server, tmp_path: Path) -> None:
    run = track.begin(tmp_path)
    track.log_params({f"p{i}": "x" * 9000 for i in range(250)})
    assert len(server.runs[run]["params"]) == 250
    assert max(map(len, server.runs[run]["params"].values())) == 6000


def test_token_and_password_go_as_headers_only(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "me")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "secret")
    track.begin(tmp_path)
    assert server.headers[-1]["Authorization"] == "Basic bWU6c2VjcmV0"
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "t")
    track.end_run()
    assert server.headers[-1]["Authorization"] == "Bearer t"


@pytest.mark.parametrize("uri", ["file:///etc", "sqlite:///x.db", "databricks"])
def test_only_http_is_opened(server: Server, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("MLFLOW_RUN_ID", "r0")
    with pytest.raises(track.TrackingError):
        track.log_metric("loss", 1.0)
    assert server.headers == []


def test_a_server_that_is_away_is_one_line_and_status_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def away(request: object, timeout: float) -> None:
        raise urllib.error.URLError("Connection refused")

    monkeypatch.setattr(track.urllib.request, "urlopen", away)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://node0:5000")
    assert track.main(["begin", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("corral: not tracked: ")
    assert len(printed.err.splitlines()) == 1


@pytest.mark.enable_socket
@pytest.mark.parametrize("first", [HEAD, b"HTTP/1.1 500 No\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: "])
def test_a_server_that_sends_single_bytes_holds_no_job(
    first: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(track, "WITHIN_S", 0.4)
    monkeypatch.setenv("MLFLOW_RUN_ID", "r1")
    monkeypatch.delenv("http_proxy", raising=False)
    with dripping(first) as port:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{port}")
        with pytest.raises(track.TrackingError, match="not complete after"):
            track.log_params({"lr": 1})


def test_another_server_is_not_taken_for_one_without_a_history(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(track.urllib.request, "urlopen", lambda *_, **__: io.BytesIO(b"[]"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://node0:5000")
    with pytest.raises(track.TrackingError, match="is not a tracking server"):
        track.history("r1", "loss")


def proc(folder: Path, *, user: int, idle: int, rx: int, tx: int) -> Path:
    (folder / "net").mkdir(exist_ok=True)
    (folder / "stat").write_text(STAT.format(user=user, idle=idle))
    (folder / "meminfo").write_text(MEMINFO)
    (folder / "net" / "dev").write_text(NET.format(rx=rx, tx=tx))
    return folder


def test_samples_are_differences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    sampler = track.Sampler(proc(tmp_path, user=100, idle=100, rx=0, tx=0))
    proc(tmp_path, user=175, idle=125, rx=2_000_000, tx=1_000_000)
    figures = sampler.sample()
    assert figures == {
        "cpu_utilization_percentage": 75.0,
        "system_memory_usage_megabytes": 0.768,
        "system_memory_usage_percentage": 75.0,
        "network_receive_megabytes": 2.0,
        "network_transmit_megabytes": 1.0,
    }
    assert sampler.sample()["network_receive_megabytes"] == 0


def test_gpus_as_nvidia_smi_prints_them() -> None:
    figures = track.gpu_sample("0, 97, 1000, 32607, 310.52\n1, [N/A], 0, 32607, [N/A]\n")
    assert figures == {
        "gpu_0_utilization_percentage": 97.0,
        "gpu_0_memory_usage_megabytes": 1048.576,
        "gpu_0_power_usage_watts": 310.52,
        "gpu_1_memory_usage_megabytes": 0.0,
    }


def run_guide() -> None:
    """Run the guide's own lines."""
    text = (Path(__file__).parents[2] / "docs/guide/tracking.md").read_text()
    [example] = re.findall(r"```python\n(from corral import track.*?)```", text, re.DOTALL)
    exec(compile(example, "guide", "exec"), {"loss": 0.5, "step": 3})  # noqa: S102


def a_run(server: Server) -> str:
    return str(server.answer("runs/create", {})["run"]["info"]["run_id"])


def test_the_guides_example_runs_as_it_is(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_RUN_ID", a_run(server))
    run_guide()
    assert [name for name, _ in server.calls] == ["runs/update", "runs/log-batch", "runs/update"]
    assert server.calls[-1][1]["status"] == "FINISHED"


def test_a_run_that_fails_ends_so(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_RUN_ID", a_run(server))
    with pytest.raises(ValueError, match="boom"), track.start_run(run_name="mine") as run:
        assert run == "r0"
        raise ValueError("boom")
    assert server.calls[0][1]["run_name"] == "mine"
    assert server.calls[-1][1]["status"] == "FAILED"


@pytest.mark.parametrize("missing", ["MLFLOW_RUN_ID", "MLFLOW_TRACKING_URI"])
def test_without_tracking_all_of_it_does_nothing_and_reports_that_once(
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    missing: str,
) -> None:
    monkeypatch.setenv("MLFLOW_RUN_ID", "r1")
    monkeypatch.delenv(missing)
    track._untracked.cache_clear()
    run_guide()
    with track.start_run() as run:
        track.log_params({"a": 1})
        track.log_param("b", 2)
        track.log_metrics({"c": 3})
        track.set_tags({"d": 4})
        track.set_tag("e", 5)
    assert (run, server.calls) == ("", [])
    assert capsys.readouterr().err.count("not tracked") == 1


def test_the_history_of_a_metric_comes_in_pages(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server.runs["r0"] = {"log": [], "params": {}, "tags": {}}
    server.page = 2
    monkeypatch.setenv("MLFLOW_RUN_ID", "r0")
    for step in range(5):
        track.log_metrics({"loss": 3.0 - step, "other": 1.0}, step=step)
    assert track.main(["history", "r0", "loss"]) == 0
    logged = json.loads(capsys.readouterr().out)["metrics"]
    assert [(entry["step"], entry["value"]) for entry in logged] == [
        (step, 3.0 - step) for step in range(5)
    ]
    assert all(entry["timestamp"] > 1.7e12 for entry in logged)


@pytest.mark.parametrize("words", [[], ["history"], ["history", "r0"], ["history", "r0", "a", "b"]])
def test_a_history_without_its_metric_prints_the_usage(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert track.main(words) == 2
    assert capsys.readouterr().err == "usage: python -m corral.track history RUN METRIC\n"
