"""MLflow's server for real: made, used by jobs, killed, kept, and stopped again."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from corral import api
from corral.errors import CorralError
from corral.hosts.fleet import Fleet
from corral.hosts.quote import sh
from corral.jobs import control
from corral.jobs.follow import as_user
from corral.jobs.model import parse_job
from corral.jobs.submit import submit
from corral.roles.services.mlflow import PORT, PROGRAM, UNIT
from corral.spec.nodes import digest
from corral.spec.sections.services import Services

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

    from corral.jobs.follow import Outcome
    from corral.jobs.handle import JobHandle

pytestmark = pytest.mark.slow

SCRIPT = """\
import os, sys
from corral import track
track.start_run()
track.log_params({"lr": 0.5})
for step in range(3):
    track.log_metrics({"loss": 3.0 - step}, step=step)
print("run", os.environ["MLFLOW_RUN_ID"])
sys.exit(int(sys.argv[1]))
"""
ASK = """\
import sys, urllib.request as u
data = sys.argv[3].encode() if len(sys.argv) > 3 else None
request = u.Request(sys.argv[1] + sys.argv[2], data, {"Content-Type": "application/json"})
print(u.urlopen(request, timeout=30).read().decode())
"""
ARTIFACT = """\
import mlflow, sys
mlflow.set_tracking_uri(sys.argv[1])
with mlflow.start_run(run_id=sys.argv[2]):
    mlflow.log_text("weights", "model.txt")
print(mlflow.artifacts.load_text(f"runs:/{sys.argv[2]}/model.txt"))
"""

# The clock of what is logged goes by the steps: one of 2 s, two with an evaluation.
TRAINED = """\
import types
from corral import track
now = [1700000000.0]
track.time = types.SimpleNamespace(time=lambda: now[0])
with track.start_run("measured"):
    for step in range(0, 200, 10):
        track.log_metrics({"loss": 1 / (step + 1)}, step=step)
        now[0] += 20.0 if step not in (50, 100) else 200.0
"""
OFFERS = Path(__file__).parents[1] / "recorded" / "offers"
TRAIN = """\
steps: 20000
parameters: 1.0e+9
measured: {gpu: H100 SXM, gpus: 8, history: steps.json}
links: [{gbps: 100}]
deadline: 12h
"""


@pytest.fixture(scope="module")
def tracked(cluster: Live) -> Iterator[Live]:
    """The shared cluster with a tracking server; without it again at the end."""
    spec = cluster.spec.model_copy(update={"services": Services(mlflow=True)})
    try:
        asyncio.run(api.up(spec))
    except CorralError as error:
        if error.command == "pip download":
            pytest.skip(f"no package index: {error}")
        raise
    yield replace(cluster, spec=spec)
    asyncio.run(api.up(cluster.spec))
    asked = cluster.run("node0", sh("systemctl is-enabled {u}; systemctl is-active {u}", u=UNIT))
    assert asked.stdout.split() == ["disabled", "inactive"]


def ask(live: Live, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    words = [f"http://node0:{PORT}", path, *([json.dumps(body)] if body is not None else [])]
    # From another node: jobs do so.
    done = live.run("node1", sh("python3 -c {p} {w}", p=ASK, w=words))
    assert done.ok, done.tail
    return json.loads(done.stdout)


def run(
    live: Live, script: Path, *args: str, env: dict[str, str] | None = None
) -> tuple[JobHandle, Outcome]:
    fields = {"script": str(script), "folder": "none", "nodes": 2, "args": args, "name": "tracked"}

    async def work(fleet: Fleet) -> tuple[JobHandle, Outcome]:
        job_spec = parse_job({**fields, "env": env or {}})
        job = await submit(fleet, live.controller, live.spec, job_spec)
        return job, await control.follow(fleet, job, on_line=lambda _: None)

    return live.with_fleet(work)


def runs(live: Live) -> list[dict[str, Any]]:
    name = "/api/2.0/mlflow/experiments/get-by-name?experiment_name=tracked"
    experiment = ask(live, name)["experiment"]["experiment_id"]
    body = {"experiment_ids": [experiment], "order_by": ["start_time DESC"]}
    return ask(live, "/api/2.0/mlflow/runs/search", body)["runs"]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "tracked.py"
    file.write_text(SCRIPT)
    return file


def test_the_second_apply_is_empty(tracked: Live) -> None:
    assert asyncio.run(api.plan(tracked.spec)).empty


def test_a_job_has_a_run_with_what_is_needed_to_repeat_it(tracked: Live, script: Path) -> None:
    job, outcome = run(tracked, script, "0")
    assert outcome.good
    record = runs(tracked)[0]
    assert record["info"]["status"] == "FINISHED"
    tags = {tag["key"]: tag["value"] for tag in record["data"]["tags"]}
    assert tags["corral.job_id"] == str(job.id)
    assert tags["corral.nodes"] == "node[0-1]"
    assert tags["corral.cluster"] == tracked.spec.name
    assert tags["corral.spec_digest"] == digest(tracked.spec)
    assert tags["mlflow.user"] == "corral"
    params = {p["key"]: p["value"] for p in record["data"]["params"]}
    assert params["lr"] == "0.5"
    assert params["corral.nodes"] == "2"
    metrics = {m["key"]: m["value"] for m in record["data"]["metrics"]}
    assert metrics["loss"] == 1.0


# It ends when what its nodes use is in its run.
SAMPLED = """\
import json, os, time, urllib.request
url = os.environ["MLFLOW_TRACKING_URI"] + "/api/2.0/mlflow/runs/get?run_id="
for _ in range(240):
    with urllib.request.urlopen(url + os.environ["MLFLOW_RUN_ID"], timeout=30) as answer:
        metrics = json.load(answer)["run"]["data"].get("metrics", [])
    if len({m["key"].split("/")[1] for m in metrics if m["key"].startswith("system/")}) == 2:
        break
    time.sleep(0.5)
"""


def test_a_run_has_the_commit_and_what_its_nodes_use(tracked: Live, tmp_path: Path) -> None:
    file = tmp_path / "sampled.py"
    file.write_text(SAMPLED)

    def git(*words: str) -> str:
        who = ("-c", "user.name=n", "-c", "user.email=n@n.test", "-c", "commit.gpgsign=false")
        done = subprocess.run(
            ["git", "-C", str(tmp_path), *who, *words], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    git("init", "--quiet")
    git("add", "sampled.py")
    git("commit", "--quiet", "--message", "one")
    assert run(tracked, file, env={"CORRAL_SAMPLE_S": "0.5"})[1].good
    data = runs(tracked)[0]["data"]
    tags = {tag["key"]: tag["value"] for tag in data["tags"]}
    assert tags["mlflow.source.git.commit"] == git("rev-parse", "HEAD")
    assert tags["corral.git_dirty"] == "false"
    used = {m["key"]: m["value"] for m in data["metrics"]}
    for node in ("node0", "node1"):
        assert any(name.startswith(f"system/{node}/") and used[name] > 0 for name in used), used
    file.write_text(f"{SAMPLED}# changed\n")
    assert run(tracked, file, env={"CORRAL_SAMPLE_S": "0.5"})[1].good
    tags = {tag["key"]: tag["value"] for tag in runs(tracked)[0]["data"]["tags"]}
    assert tags["corral.git_dirty"] == "true"


def test_a_job_that_fails_has_a_failed_run(tracked: Live, script: Path) -> None:
    _, outcome = run(tracked, script, "3")
    assert not outcome.good
    assert runs(tracked)[0]["info"]["status"] == "FAILED"


def test_a_job_that_is_cancelled_has_a_killed_run(tracked: Live, script: Path) -> None:
    script.write_text("from corral import track; track.start_run(); import time; time.sleep(300)")

    async def work(fleet: Fleet) -> Outcome:
        job_spec = parse_job({"script": str(script), "folder": "none", "name": "tracked"})
        job = await submit(fleet, tracked.controller, tracked.spec, job_spec)
        begun = sh(
            "i=0; until [ -s {f}/mlflow-run ] && [ -e {f}/rank-0.log ]; do i=$((i + 1)); "
            "[ $i -lt 600 ] || exit 1; sleep 0.2; done",
            f=job.folder,
        )
        assert (await fleet.run(job.controller, begun, timeout=150)).ok
        await control.cancel(fleet, job)
        return await control.wait(fleet, job, timeout=120)

    assert not tracked.with_fleet(work).good
    status = "KILLED"
    for _ in range(60):  # the batch shell reports it when its ranks have ended
        if runs(tracked)[0]["info"]["status"] == status:
            break
    assert runs(tracked)[0]["info"]["status"] == status


def test_artifacts_of_a_user_go_through_the_server_to_shared_storage(
    tracked: Live, script: Path
) -> None:
    run(tracked, script, "0")
    run_id = runs(tracked)[0]["info"]["run_id"]
    uri = f"http://node0:{PORT}"
    words = [f"{PROGRAM}/bin/python", "-W", "ignore", "-c", ARTIFACT, uri, run_id]
    done = tracked.run("node0", as_user("corral", sh("HOME=/tmp {w}", w=words)), timeout=180)
    assert done.ok, done.tail
    assert "weights" in done.stdout.splitlines()
    place = sh("find /shared/corral/mlflow -path {p} -name model.txt", p=f"*{run_id}*")
    assert tracked.run("node0", place).stdout.strip().endswith("/artifacts/model.txt")
    peek = as_user("corral", sh("ls /shared/corral/mlflow"))
    assert not tracked.run("node0", peek).ok, "others read artifacts past the server"


def test_a_killed_server_comes_back_with_what_it_knew(tracked: Live) -> None:
    before = ask(tracked, "/api/2.0/mlflow/experiments/search?max_results=100")
    kill = sh(
        "p=$(systemctl show -P MainPID {u}) && kill -9 $p && "
        "i=0; until q=$(systemctl show -P MainPID {u}); [ $q != $p ] && [ $q != 0 ] && "
        "python3 -c {ask} http://node0:{port} /health 2>/dev/null; do i=$((i + 1)); "
        "[ $i -lt 600 ] || exit 1; sleep 0.3; done; systemctl show -P NRestarts {u}",
        u=UNIT,
        ask=ASK,
        port=PORT,
    )
    done = tracked.run("node0", kill, timeout=300)
    assert done.ok, done.tail
    assert int(done.stdout.split()[-1]) >= 1
    assert ask(tracked, "/api/2.0/mlflow/experiments/search?max_results=100") == before


def test_a_server_that_is_away_does_not_stop_jobs(tracked: Live, script: Path) -> None:
    plain = script.with_name("plain.py")
    plain.write_text("print('done')\n")
    tracked.run("node0", sh("systemctl stop {u}", u=UNIT))
    try:
        _, outcome = run(tracked, plain)
    finally:
        assert asyncio.run(api.up(tracked.spec))
    assert outcome.good


def test_it_listens_on_the_cluster_network_only_as_its_own_user(tracked: Live) -> None:
    done = tracked.run("node0", sh("ss -ltnH {f} | awk '{{print $4}}'", f=f"sport = :{PORT}"))
    address = tracked.facts["node0"].address
    assert done.stdout.split() == [f"{address}:{PORT}"]
    who = tracked.run("node0", sh("ps -o user:32= -p $(systemctl show -P MainPID {u})", u=UNIT))
    assert who.stdout.strip() == UNIT
    # A name that is not its own: what a page in a browser would come by (DNS rebinding).
    text = (
        "import http.client as h, sys; c = h.HTTPConnection(sys.argv[1], int(sys.argv[2])); "
        "c.request('GET', '/api/2.0/mlflow/experiments/search?max_results=1', "
        "headers={'Host': 'evil.test'}); print(c.getresponse().status)"
    )
    answer = tracked.run("node1", sh("python3 -c {t} {a} {p}", t=text, a=address, p=PORT))
    assert answer.stdout.strip() == "403", answer.tail


def test_a_server_that_is_there_already_is_used(tracked: Live, script: Path) -> None:
    name = f"elsewhere-{secrets.token_hex(3)}"
    services = Services(mlflow_uri=f"http://node0:{PORT}")
    other = replace(tracked, spec=tracked.spec.model_copy(update={"services": services}))

    async def work(fleet: Fleet) -> Outcome:
        job_spec = parse_job({"script": str(script), "folder": "none", "args": ["0"], "name": name})
        job = await submit(fleet, other.controller, other.spec, job_spec)
        return await control.follow(fleet, job, on_line=lambda _: None)

    assert other.with_fleet(work).good
    reply = ask(tracked, f"/api/2.0/mlflow/experiments/get-by-name?experiment_name={name}")
    assert reply["experiment"]["name"] == name


def test_the_pages_are_reached_through_a_tunnel(tracked: Live) -> None:
    def get(url: str) -> bytes:
        with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310  # our own tunnel
            return answer.read()

    async def observed() -> tuple[bytes, bytes]:
        async with api.tracking_page(tracked.spec) as (url, _):
            return (
                await asyncio.to_thread(get, f"{url}/health"),
                await asyncio.to_thread(get, f"{url}/"),
            )

    health, page = asyncio.run(observed())
    assert health == b"OK"
    assert b"MLflow" in page
    bare = tracked.spec.model_copy(update={"services": Services()})

    async def refused() -> None:
        async with api.tracking_page(bare):
            pass

    with pytest.raises(CorralError) as caught:
        asyncio.run(refused())
    assert "mlflow: true" in caught.value.hint


def test_a_measured_run_leads_to_an_advice(tracked: Live, tmp_path: Path) -> None:
    """The commands of the guide (What would it cost to train this?), over the tunnel."""
    script = tmp_path / "train.py"
    script.write_text(TRAINED)
    (tmp_path / "train.yaml").write_text(TRAIN)
    assert run(tracked, script)[1].good
    run_id = runs(tracked)[0]["info"]["run_id"]

    def called(*words: str, uri: str) -> str:
        env = {**os.environ, "MLFLOW_TRACKING_URI": uri}
        ran = subprocess.run(
            [sys.executable, *words], cwd=tmp_path, env=env, capture_output=True, text=True
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    async def measured() -> str:
        async with api.tracking_page(tracked.spec) as (url, _):
            words = ("-m", "corral.track", "history", run_id, "loss")
            return await asyncio.to_thread(lambda: called(*words, uri=url))

    (tmp_path / "steps.json").write_text(asyncio.run(measured()))
    prices = ("--offers", f"{OFFERS}/singly.json", "--offers", f"{OFFERS}/together.json")
    printed = called("-m", "corral", "advise", "train.yaml", *prices, "--json", uri="")
    advice = json.loads(printed)
    assert "a step takes 2 s: the median of a run's logged steps" in advice["notes"]
    best = advice["options"][0]
    assert best["meets"] and best["sale"]["offer"]["type"] in advice["excerpt"]
    alone = [o for o in advice["options"] if o["nodes"] == 1 and o["sale"]["offer"]["gpus"] == 8]
    assert any(option["step"] == 2.0 for option in alone), alone


def test_runs_are_kept_in_postgresql(tracked: Live, script: Path) -> None:
    """Last in this file: another store, and then the first one again with what it held."""
    before = len(runs(tracked))
    services = Services(mlflow=True, mlflow_store="postgresql")
    other = replace(tracked, spec=tracked.spec.model_copy(update={"services": services}))
    asyncio.run(api.up(other.spec))
    try:
        assert asyncio.run(api.plan(other.spec)).empty
        assert run(other, script, "0")[1].good
        (kept,) = runs(other)
        assert kept["info"]["status"] == "FINISHED"
        count = "SELECT count(*) FROM runs"
        ask_it = sh("runuser -u {u} -- psql -X -Atqc {q} -d {d}", u=UNIT, q=count, d=UNIT)
        assert other.run("node0", ask_it).stdout.strip() == "1"
        foreign = sh("runuser -u corral -- psql -X -Atqc {q} -d {d}", q=count, d=UNIT)
        assert not other.run("node0", foreign).ok, "a job user reads the store"
    finally:
        asyncio.run(api.up(tracked.spec))
    assert len(runs(tracked)) == before
