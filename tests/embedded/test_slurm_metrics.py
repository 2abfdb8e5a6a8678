"""Slurm's own metrics (25.11 and newer), scraped by the Prometheus that Corral set up."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.embedded.conftest import Live, named
from tests.embedded.newer import newer_debs

from corral.errors import CorralError
from corral.hosts.quote import sh
from corral.roles.services.metrics import SLURM_PATHS
from corral.spec.models import ClusterSpec, Slurm, SlurmSource
from corral.spec.sections.services import Services

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.environ.get("CORRAL_TEST_SLOW"), reason="fetches another Slurm: CORRAL_TEST_SLOW=1"
    ),
]

ASK = """
import json, sys, urllib.parse as p, urllib.request as u
base = "http://127.0.0.1:9090/api/v1/"
found = json.load(u.urlopen(base + "targets", timeout=20))["data"]["activeTargets"]
targets = {x["labels"]["job"]: [x["health"], x["scrapeUrl"], x["lastError"]] for x in found}
asked = {q: json.load(u.urlopen(base + "query?" + p.urlencode({"query": q}), timeout=20))
         ["data"]["result"] for q in sys.argv[1:]}
print(json.dumps({"targets": targets, "asked": asked}))
"""
CHECKED = """
import subprocess, sys, urllib.request as u
for url in sys.argv[1:]:
    text = u.urlopen(url, timeout=20).read()
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True)
    print(url.rpartition("/")[2], done.returncode, len(text) > 200, done.stderr.decode()[:300])
"""


@pytest.fixture(scope="module")
def scraped(
    fresh_cluster: Callable[[ClusterSpec], Live], tmp_path_factory: pytest.TempPathFactory
) -> Live:
    """A cluster that begins with the newer Slurm: its image has the distribution's."""
    debs = newer_debs(tmp_path_factory.mktemp("newer"))
    source = Slurm(source=SlurmSource(debs=str(debs)))
    spec = named(f"metrics-{os.getpid()}", slurm=source, services=Services(metrics=True))
    try:
        return fresh_cluster(spec)
    except CorralError as error:
        if error.command == "pip download":
            pytest.skip(f"no package index: {error}")
        raise


def prometheus(live: Live, *queries: str) -> dict[str, Any]:
    """Its targets, and what it answers now."""
    done = live.run(live.controller, sh("python3 -c {p} {q}", p=ASK, q=list(queries)))
    assert done.ok, done.tail
    return json.loads(done.stdout)


def test_every_path_is_scraped_and_valid(scraped: Live) -> None:
    until = time.monotonic() + 120
    while True:
        targets = prometheus(scraped)["targets"]
        own = {name: seen for name, seen in targets.items() if name.startswith("slurm-")}
        if {seen[0] for seen in own.values()} == {"up"} or time.monotonic() > until:
            break
        time.sleep(3)
    assert {n: seen[0] for n, seen in own.items()} == {f"slurm-{p}": "up" for p in SLURM_PATHS}
    script = sh("python3 -c {p} {urls}", p=CHECKED, urls=[seen[1] for seen in own.values()])
    output = scraped.run(scraped.controller, script).stdout
    assert {line.strip() for line in output.splitlines()} == {f"{p} 0 True" for p in SLURM_PATHS}


def test_slurms_figures_agree_with_corrals_and_keep_their_labels(scraped: Live) -> None:
    """A job that runs and one that waits, as both exporters report them."""
    begin = sh(
        "cd /tmp && for w in node0 node1 node0; do runuser -u corral -- sbatch -J metrics -w $w "
        "--gres=gpu:2 -o /dev/null --wrap 'sleep 600'; done"
    )
    queries = (
        'slurm_node_gpus_alloc{node="node1"}',
        "slurm_jobs_running",
        "slurm_jobs_pending",
        'sum(corral_jobs{state="running"})',
        'slurm_partition_jobs_running{partition="main"}',
        'count({exported_node!=""} or {exported_cluster!=""})',
    )
    assert scraped.run(scraped.controller, begin).ok
    try:
        until, seen = time.monotonic() + 180, dict[str, list[Any]]()
        expected = ["2", "2", "1", "2", "2", None]
        while time.monotonic() < until:
            seen = prometheus(scraped, *queries)["asked"]
            values = [samples[0]["value"][1] if samples else None for samples in seen.values()]
            if values == expected:
                break
            time.sleep(3)
        assert values == expected, seen
        (labels,) = (sample["metric"] for sample in seen[queries[0]])
        assert labels["cluster"] == scraped.spec.name
    finally:
        scraped.run(scraped.controller, sh("scancel -n metrics"))
