"""The page and the metrics as services on the controller, for real."""

from __future__ import annotations

import asyncio
import json
import re
import time
import urllib.error
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.embedded.page_client import Page, use, values

from corral import api
from corral.errors import CorralError
from corral.hosts.quote import sh
from corral.spec.sections.services import Services

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

pytestmark = pytest.mark.slow
UNITS = ("corral-web", "corral-metrics", "prometheus", "corral-web-user-listen")


@pytest.fixture(scope="module")
def served(cluster: Live) -> Iterator[Live]:
    """The shared cluster with both services; without them again at the end."""
    spec = cluster.spec.model_copy(update={"services": Services(ui=True, metrics=True)})
    try:
        asyncio.run(api.up(spec))
    except CorralError as error:
        if error.command == "pip download":
            pytest.skip(f"no package index: {error}")
        raise
    yield replace(cluster, spec=spec)
    asyncio.run(api.up(cluster.spec))
    for unit in UNITS:
        asked = cluster.run(cluster.controller, sh("systemctl is-active {u}", u=unit))
        assert asked.stdout.strip() == "inactive", unit


def test_a_second_apply_has_nothing_to_do(served: Live) -> None:
    assert asyncio.run(api.plan(served.spec)).empty


def test_a_user_works_on_the_controllers_page(served: Live) -> None:
    put = sh("printf 'print(40 + 2)\\n' > /shared/answer.py")
    assert served.run(served.controller, put).ok

    def work(page: Page, code: str) -> None:
        with pytest.raises(urllib.error.HTTPError, match="401"):
            page.ask("nodes")
        me = page.ask("login/code", {"code": code})
        page.csrf = me["csrf"]
        assert me["owner"] is False
        assert len(page.ask("nodes")["rows"]) == 3
        with pytest.raises(urllib.error.HTTPError, match="403"):
            page.ask("corral/file")
        job = page.ask("jobs/spec", {"script": "/shared/answer.py"})["id"]
        assert "SBATCH" in page.ask(f"jobs/{job}/script")["script"]
        log = "".join(page.stream(f"jobs/{job}/log"))
        assert "42" in log
        again = page.ask(f"jobs/{job}/again")
        assert (again["mode"], again["form"]["script"]) == ("form", "/shared/answer.py")
        with pytest.raises(urllib.error.HTTPError, match="401"):
            Page(page.url).ask("login/code", {"code": code})

    use(served.spec, work)


def test_the_page_is_nobodys_root(served: Live) -> None:
    asked = served.run(
        served.controller,
        sh(
            "ps -o user= -C python | sort -u; stat -c %U:%a /etc/corral/web.json; "
            "ss -ltnH 'sport = :8765' | tr -s ' ' | cut -d' ' -f4; "
            "runuser -u corral -- python3 -c {p} 2>&1 | tail -n 1",
            p="import socket;socket.socket(socket.AF_UNIX).connect('/run/corral-web/user.sock')",
        ),
    ).stdout.split("\n")
    assert "root" not in asked
    assert "root:600" in asked
    assert "127.0.0.1:8765" in asked
    assert any("Permission denied" in line for line in asked)


def test_prometheus_scrapes_slurm_nodes_and_jobs(served: Live) -> None:
    up, gpus, load, slurm = values(
        served, "up", "sum(corral_node_gpus)", "count(node_load1)", "corral_slurm_up"
    )
    assert {sample["value"][1] for sample in up} == {"1"}
    assert len(up) == 4
    assert gpus[0]["value"][1] == "6"
    assert load[0]["value"][1] == "3"
    assert slurm[0]["value"][1] == "1"

    def work(page: Page, code: str) -> None:
        page.csrf = page.ask("login/code", {"code": code})["csrf"]
        script = (
            "#!/bin/sh\nexec python3 -c 'x = bytearray(200_000_000)\nimport time\ntime.sleep(300)'"
        )
        job = page.ask("jobs", {"script": script, "workdir": "/shared"})["id"]
        try:
            most, end = 0.0, time.monotonic() + 120
            while most < 2e8 and time.monotonic() < end:
                time.sleep(3)
                curves = page.ask(f"jobs/{job}/figures")["curves"]
                points = [p for c in curves if c["what"] == "memory" for p in c["points"]]
                most = max((p[1] for p in points), default=0.0)
            assert most >= 2e8
        finally:
            page.ask(f"jobs/{job}", {"do": "cancel"})

    use(served.spec, work)


# nvidia-smi of a machine without a GPU: its two answers as NVIDIA's manual has them, for the job's
# first process.
SMI = """\
#!/bin/sh
case $1 in
*compute-apps*) find /sys/fs/cgroup -path '*/job_*' -name cgroup.procs -exec cat {} + |
  head -n 1 | sed 's/^/GPU-a, /' ;;
*) echo '0, GPU-a, 93, 40000, 81559, 61, 402.5' ;;
esac
"""


@pytest.fixture
def working(served: Live) -> Iterator[Live]:
    """Something to report of everything: jobs that run and wait, a drained node, a GPU."""
    begin = sh(
        "cd /shared && scontrol update nodename=node2 state=drain reason=fan && "
        "for n in 1 2; do runuser -u corral -- sbatch -J panel -N 1 -w node0 --exclusive "
        "-o /dev/null --gres=gpu:1 --wrap 'while :; do :; done'; done"
    )
    put = sh("printf %s {t} >{f}; chmod 755 {f}", t=SMI, f="/usr/local/bin/nvidia-smi")
    assert served.run("node0", put).ok
    assert served.run(served.controller, begin).ok
    yield served
    end = sh("scancel -n panel; scontrol update nodename=node2 state=resume; true")
    served.run(served.controller, end)
    served.run("node0", sh("rm -f /usr/local/bin/nvidia-smi"))


def test_every_panel_of_the_dashboard_shows_something(working: Live) -> None:
    """Each question of Grafana's dashboard, asked of a real Prometheus over a real cluster."""
    dashboard = json.loads(
        working.run(working.controller, sh("cat /etc/corral/grafana-dashboard.json")).stdout
    )
    exprs = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    # A variable whose choice is All stands for .*, and no alert fires here.
    asked = [re.sub(r"\$(cluster|node|user|job)\b", ".*", expr) for expr in exprs]
    asked = [expr for expr in asked if not expr.startswith("ALERTS")]
    assert len(asked) > 20
    end, empty = time.monotonic() + 240, set(asked)
    while empty and time.monotonic() < end:
        answers = values(working, *asked)
        empty = {expr for expr, result in zip(asked, answers, strict=True) if not result}
        # There is no DCGM without a GPU: the names are checked against NVIDIA's list elsewhere.
        empty = {expr for expr in empty if "DCGM" not in expr}
        time.sleep(3 if empty else 0)
    assert not empty


def test_promtool_has_no_complaint(working: Live) -> None:
    """Of all that this cluster exports, of Prometheus' configuration, and of the alert rules."""
    script = sh(
        "for url in {urls}; do python3 -c {get} $url | grep -E '^(# (HELP|TYPE) )?corral_' | "
        "promtool check metrics 2>&1; done; promtool check config {conf} 2>&1; "
        "python3 -c {get} {own}",
        urls=["http://127.0.0.1:9341/metrics", "http://node0:9100/metrics"],
        get="import sys,urllib.request as u;print(u.urlopen(sys.argv[1]).read().decode())",
        conf="/etc/corral/prometheus.yml",
        own="http://127.0.0.1:9341/metrics",
    )
    output = working.run(working.controller, script).stdout
    lint, _, text = output.partition("# HELP")
    assert "corral_" not in lint
    assert "SUCCESS: 1 rule files found" in lint
    assert "rules found" in lint
    for name in (
        "corral_scheduler_cycles_total",
        "corral_account_shares_ratio",
        "corral_user_fair_share_ratio",
        'corral_jobs_pending{reason="Resources"}',
        'corral_job_wait_seconds_bucket{partition="main",le="+Inf"}',
    ):
        assert name in text, name


def test_the_page_draws_heat_power_and_a_jobs_gpu(working: Live) -> None:
    """Out of the real Prometheus: each node's temperature and power, the curves of a job's GPU."""

    def work(page: Page, code: str) -> None:
        page.csrf = page.ask("login/code", {"code": code})["csrf"]
        seen: dict[str, Any] = {}
        curves: set[str] = set()
        end = time.monotonic() + 240
        while time.monotonic() < end:
            seen = page.ask("figures")["nodes"].get("node0", {})
            table = page.ask("jobs?show=running&q=panel")
            jobs = [row[table["columns"].index("id")] for row in table["rows"]]
            series = page.ask(f"jobs/{jobs[0]}/figures")["curves"] if jobs else []
            curves = {curve["what"] for curve in series if curve["points"]}
            if "celsius" in seen and {"gpu", "gpu_memory", "watts", "memory", "cpus"} <= curves:
                break
            time.sleep(4)
        assert (seen["celsius"], seen["watts"], seen["gpu"]) == (61.0, 402.5, 0.93)
        assert {"gpu", "gpu_memory", "watts", "memory", "cpus"} <= curves

    use(working.spec, work)


def test_a_dead_slurmctld_is_a_metric_and_no_gap(served: Live) -> None:
    served.run(served.controller, sh("systemctl stop slurmctld"))
    try:
        ask = (
            "import urllib.request as u;"
            "print(u.urlopen('http://127.0.0.1:9341/metrics').read().decode())"
        )
        end = time.monotonic() + 240
        text = ""
        while "corral_slurm_up 0" not in text and time.monotonic() < end:
            text = served.run(
                served.controller, sh("sleep 2; timeout 100 python3 -c {p}", p=ask)
            ).stdout
        assert "corral_slurm_up 0" in text
    finally:
        served.run(served.controller, sh("systemctl start slurmctld; sleep 3"))
