# Installed as: lib/corral/track.py in the job's folder (jobs/submit)
# Started by: the job's script, which imports it; the batch script (begin, sample, end)
# Runs as: the job's user
"""Reports a job to an MLflow server with nothing but the standard library.

    from corral import track

    with track.start_run():                  # the job's own run, which `corral run` has made
        track.log_params({"lr": 1e-3})
        track.log_metric("loss", 0.3, step=10)

The functions are named as mlflow's own and do the same over its REST API, for nodes where the
package ``mlflow`` is not installed; where it is, use that: it finds the same run by MLFLOW_RUN_ID.
``corral run`` uploads this file with each job. Where the job is not tracked, they do nothing, and
the first call prints one line. In a job that is tracked the batch script makes the run
(``python3 -m corral.track begin``), samples each node (``sample``) and ends the run (``end``).
``history RUN METRIC`` prints the times of a run's steps for ``corral advise``.

It calls urllib itself, not by ``runtime/http_client``: it is one file, for the job's own Python
(docs/decisions/0010-typer-pydantic-ruamel.md).

Reads MLFLOW_TRACKING_URI, MLFLOW_RUN_ID, MLFLOW_EXPERIMENT_NAME, MLFLOW_TRACKING_TOKEN,
MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD as mlflow does.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import IO, Any, Final, cast

PATIENCE_S: Final = 20.0
"""Seconds for one request; a job is not held up by a server that does not answer."""
WITHIN_S: Final = 60.0
"""Seconds for a complete answer: a server could send single bytes for ever."""

_MOST_TEXT: Final = 6000  # characters of a parameter's or tag's value (MLflow's limit)
_MOST_WHY: Final = 500  # bytes that are shown of what a server writes about a refusal
_PAGE: Final = 25000  # entries of a metric's history in one answer (MLflow's limit)
_AT_ONCE: Final = 100  # parameters or tags in one request (MLflow's limit)
_ENDS: Final = {0: "FINISHED", 143: "KILLED", 137: "KILLED"}


class TrackingError(Exception):
    """The tracking server refused, or does not answer."""


class Run(str):
    """A run's id, "" where nothing is tracked; as a context manager it ends the run."""

    __slots__ = ()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            end_run()
            return
        with contextlib.suppress(TrackingError):  # the script's own error is what counts
            end_run("FAILED")


def start_run(run_name: str = "") -> Run:
    """Continue the job's run.

    As a context manager it ends the run, as FINISHED or FAILED.

    Args:
        run_name: shown in MLflow; "" leaves the one that the job's run has.

    Raises:
        TrackingError: the server does not know the run, or does not answer.
    """
    run = _run_id()
    if run:
        name = {"run_name": run_name} if run_name else {}
        _call("runs/update", {"run_id": run, "status": "RUNNING", **name})
    return Run(run)


def log_params(params: Mapping[str, Any]) -> None:
    """What does not change within a run, such as the learning rate.

    Raises:
        TrackingError: the server refused, such as another value of a known one.
    """
    _batch("params", [{"key": k, "value": str(v)[:_MOST_TEXT]} for k, v in params.items()])


def log_param(key: str, value: Any) -> None:
    """One thing that does not change within a run.

    Raises:
        TrackingError: as ``log_params``.
    """
    log_params({key: value})


def log_metrics(metrics: Mapping[str, float], step: int = 0) -> None:
    """Numbers of this moment.

    Raises:
        TrackingError: the server refused.
    """
    now = int(time.time() * 1000)
    entries = [
        {"key": key, "value": float(value), "timestamp": now, "step": step}
        for key, value in metrics.items()
    ]
    _batch("metrics", entries)


def log_metric(key: str, value: float, step: int = 0) -> None:
    """One number of this moment.

    Raises:
        TrackingError: the server refused.
    """
    log_metrics({key: value}, step)


def set_tags(tags: Mapping[str, Any]) -> None:
    """What a run can be found by.

    Raises:
        TrackingError: the server refused.
    """
    _batch("tags", [{"key": k, "value": str(v)[:_MOST_TEXT]} for k, v in tags.items()])


def set_tag(key: str, value: Any) -> None:
    """One tag.

    Raises:
        TrackingError: the server refused.
    """
    set_tags({key: value})


def end_run(status: str = "FINISHED") -> None:
    """End the run: FINISHED, FAILED, KILLED, or SCHEDULED for one that goes on later.

    Raises:
        TrackingError: the server refused.
    """
    run = _run_id()
    if run:
        end = int(time.time() * 1000)
        _call("runs/update", {"run_id": run, "status": status, "end_time": end})


@cache
def _untracked(why: str) -> None:
    print(f"corral: not tracked: {why}", file=sys.stderr, flush=True)


def _run_id() -> str:
    """The job's run, "" where it is not tracked; that is printed once."""
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID"):
        if not os.environ.get(name):
            _untracked(f"{name} is not set (services.mlflow in the cluster file turns it on)")
            return ""
    return os.environ["MLFLOW_RUN_ID"]


def _batch(kind: str, entries: list[dict[str, Any]]) -> None:
    run = _run_id()
    for first in range(0, len(entries), _AT_ONCE):
        part = entries[first : first + _AT_ONCE]
        if run:
            _call("runs/log-batch", {"run_id": run, kind: part})


def _call(name: str, body: Mapping[str, Any] | None = None, **query: str) -> dict[str, Any]:
    base = os.environ.get("MLFLOW_TRACKING_URI", "").rstrip("/")
    if not base.startswith(("http://", "https://")):
        raise TrackingError(f"MLFLOW_TRACKING_URI is {base or 'not set'}, not an http address")
    url = f"{base}/api/2.0/mlflow/{name}"
    if query:
        url += f"?{urllib.parse.urlencode(query)}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})  # noqa: S310
    for header in _authorization():
        request.add_header("Authorization", header)
    try:
        answer: Any = json.loads(_answered(request) or b"{}")
    except urllib.error.HTTPError as error:
        raise TrackingError(f"{name}: HTTP {error.code}: {error.reason}") from error
    except (urllib.error.URLError, TimeoutError, OSError, ValueError) as error:
        raise TrackingError(f"{base} does not answer: {error}") from error
    if not isinstance(answer, dict):
        raise TrackingError(f"{base} is not a tracking server: its answer is not an object")
    return cast("dict[str, Any]", answer)


def _answered(request: urllib.request.Request) -> bytes:
    """What a server answers, complete; in a thread, since a read has a limit and an answer none.

    Raises:
        urllib.error.HTTPError: it refused; the reason is what it wrote.
        OSError: it does not answer.
    """
    outcome: list[bytes | BaseException] = []

    def ask() -> None:
        try:
            outcome.append(_sent(request))
        except BaseException as error:  # raised below
            outcome.append(error)

    thread = threading.Thread(target=ask, daemon=True)
    try:
        thread.start()
    except RuntimeError:  # the interpreter ends (Python 3.12)
        ask()
    else:
        thread.join(WITHIN_S)
    if not outcome:
        raise TimeoutError(f"its answer is not complete after {WITHIN_S:g} s")
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]


def _sent(request: urllib.request.Request) -> bytes:
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:  # noqa: S310
            return answer.read()
    except urllib.error.HTTPError as error:
        reason = error.read(_MOST_WHY).decode("utf-8", "replace")
        url, code = request.full_url, error.code
        raise urllib.error.HTTPError(url, code, reason, error.headers, None) from error


def _authorization() -> list[str]:
    token = os.environ.get("MLFLOW_TRACKING_TOKEN", "")
    user = os.environ.get("MLFLOW_TRACKING_USERNAME", "")
    if token:
        return [f"Bearer {token}"]
    if user:
        pair = f"{user}:{os.environ.get('MLFLOW_TRACKING_PASSWORD', '')}"
        return [f"Basic {base64.b64encode(pair.encode()).decode()}"]
    return []


def _experiment(name: str) -> str:
    """The id of an experiment, made when it is not there; two jobs may make it at once."""
    for _ in range(2):
        try:
            answer = _call("experiments/get-by-name", experiment_name=name)
            return str(answer["experiment"]["experiment_id"])
        except TrackingError as missing:
            if "RESOURCE_DOES_NOT_EXIST" not in str(missing):
                raise
        try:
            return str(_call("experiments/create", {"name": name})["experiment_id"])
        except TrackingError as there:
            if "RESOURCE_ALREADY_EXISTS" not in str(there):
                raise
    raise TrackingError(f"experiment {name}: not found, and creating it failed")


def history(run: str, key: str) -> list[dict[str, Any]]:
    """All that a run has logged of a metric: value, step and time in milliseconds.

    Args:
        run: its id.
        key: the metric's name.

    Raises:
        TrackingError: the server does not know the run, or does not answer.
    """
    logged: list[dict[str, Any]] = []
    page = {"run_id": run, "metric_key": key, "max_results": str(_PAGE)}
    while True:
        answer = _call("metrics/get-history", None, **page)
        logged += answer.get("metrics", [])
        if not answer.get("next_page_token"):
            return logged
        page["page_token"] = str(answer["next_page_token"])


def begin(folder: Path) -> str:
    """The job's run: made at its first start, the same one after a requeue.

    Args:
        folder: the job's own; ``track.json`` next to it or in it lists what the run carries.

    Raises:
        TrackingError: the server does not answer, or refused.
    """
    kept = folder / "mlflow-run"
    about = _about(folder)
    env = os.environ
    tags = dict(about.get("tags", {}))
    tags["corral.job_id"] = env.get("SLURM_JOB_ID", "")
    tags["corral.nodes"] = env.get("SLURM_JOB_NODELIST", "")
    tags["corral.restarts"] = env.get("SLURM_RESTART_COUNT", "0")
    tags["corral.partition"] = env.get("SLURM_JOB_PARTITION", "")
    tags["corral.job_folder"] = str(folder)
    if env.get("SLURM_ARRAY_TASK_ID"):
        tags["corral.array_job_id"] = env.get("SLURM_ARRAY_JOB_ID", "")
        tags["corral.array_task_id"] = env["SLURM_ARRAY_TASK_ID"]
    if kept.is_file():
        run = kept.read_text().strip()
        os.environ["MLFLOW_RUN_ID"] = run
        start_run()
    else:
        name = env.get("SLURM_JOB_NAME", "job")
        experiment = _experiment(env.get("MLFLOW_EXPERIMENT_NAME") or name)
        made = _call(
            "runs/create",
            {
                "experiment_id": experiment,
                "run_name": f"{name}-{env.get('SLURM_JOB_ID', '0')}",
                "start_time": int(time.time() * 1000),
            },
        )
        run = str(made["run"]["info"]["run_id"])
        os.environ["MLFLOW_RUN_ID"] = run
        kept.write_text(f"{run}\n")
        log_params(about.get("params", {}))
    set_tags({key: value for key, value in tags.items() if value})
    return run


def _about(folder: Path) -> dict[str, Any]:
    for place in (folder, folder.parent):
        try:
            return json.loads((place / "track.json").read_text())
        except (OSError, ValueError):
            continue
    return {}


class Sampler:
    """What a node does: CPUs, memory, network, GPUs; named as mlflow's own system metrics.

    Counts of CPU time and bytes mean something only as a difference: the first sample has none.
    """

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._cpu = self._cpu_times()
        self._net = self._bytes()

    def sample(self) -> dict[str, float]:
        """One sample since the last one: percent, and MB (1e6 bytes)."""
        sample: dict[str, float] = {}
        busy, total = self._cpu_times()
        spent = total - self._cpu[1]
        if spent > 0:
            sample["cpu_utilization_percentage"] = 100 * (busy - self._cpu[0]) / spent
        self._cpu = (busy, total)
        memory = self._memory()
        used = memory["MemTotal"] - memory["MemAvailable"]
        sample["system_memory_usage_megabytes"] = used / 1e6
        sample["system_memory_usage_percentage"] = 100 * used / memory["MemTotal"]
        received, sent = self._bytes()
        sample["network_receive_megabytes"] = (received - self._net[0]) / 1e6
        sample["network_transmit_megabytes"] = (sent - self._net[1]) / 1e6
        self._net = (received, sent)
        return sample | gpu_sample()

    def _cpu_times(self) -> tuple[int, int]:
        # proc(5): user nice system idle iowait irq softirq steal; guest is a part of user.
        times = [int(n) for n in (self._proc / "stat").read_text().split("\n", 1)[0].split()[1:9]]
        return sum(times) - times[3] - times[4], sum(times)

    def _memory(self) -> dict[str, int]:
        lines = (self._proc / "meminfo").read_text().splitlines()
        pairs = (line.split(":") for line in lines)
        return {name: int(rest.split()[0]) * 1024 for name, rest in pairs}

    def _bytes(self) -> tuple[int, int]:
        received = sent = 0
        for line in (self._proc / "net" / "dev").read_text().splitlines()[2:]:
            name, _, rest = line.partition(":")
            if name.strip() != "lo":
                numbers = rest.split()
                received += int(numbers[0])
                sent += int(numbers[8])
        return received, sent


def gpu_sample(text: str | None = None) -> dict[str, float]:
    """Use and memory of each GPU the job sees, by nvidia-smi; nothing where there is none."""
    if text is None:
        query = "index,utilization.gpu,memory.used,memory.total,power.draw"
        command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return {}
        text = done.stdout if done.returncode == 0 else ""
    sample: dict[str, float] = {}
    names = ("utilization_percentage", "memory_usage_megabytes", "", "power_usage_watts")
    for line in text.splitlines():
        gpu, *values = (part.strip() for part in line.split(","))
        for name, value in zip(names, values, strict=False):
            try:
                number = float(value)  # "[N/A]" where a GPU has no such sensor
            except ValueError:
                continue
            if name == "memory_usage_megabytes":
                number *= 1.048576  # MiB
            if name:
                sample[f"gpu_{gpu}_{name}"] = number
    return sample


def watch(rank: IO[bytes], seconds: float) -> None:
    """Sample this node until a pipe ends: its other end is the rank's (rank-end.sh)."""
    node, sampler, step = os.uname().nodename.partition(".")[0], Sampler(), 0
    while not select.select([rank], [], [], seconds)[0]:
        metrics = {f"system/{node}/{name}": value for name, value in sampler.sample().items()}
        with contextlib.suppress(TrackingError):  # the next one may come through
            log_metrics(metrics, step)
        step += 1


def main(words: list[str]) -> int:
    """``begin FOLDER``, ``sample <PIPE`` and ``end STATUS``, as the batch script calls them.

    ``history RUN METRIC`` is for people: it prints what ``corral advise`` reads.
    """
    if not words or (words[0] == "history" and len(words) != 3):  # noqa: PLR2004
        print("usage: python -m corral.track history RUN METRIC", file=sys.stderr)
        return 2
    try:
        if words[0] == "begin":
            print(begin(Path(words[1])))
        elif words[0] == "sample":
            watch(sys.stdin.buffer, float(os.environ.get("CORRAL_SAMPLE_S", "10")))
        elif words[0] == "history":
            print(json.dumps({"metrics": history(words[1], words[2])}))
        else:
            end_run(_ENDS.get(int(words[1]), "FAILED"))
    except TrackingError as error:
        print(f"corral: not tracked: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
