"""A spot machine's last seconds on a real Slurm, by a simulated metadata server on the node.

Unit and program are those of the blueprint for spot machines. A job of ``corral run`` saves, leaves
and continues elsewhere; one that does not leave is requeued; the node is down, and takes jobs again
once its machine is back.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.embedded.test_jobs_resume import COUNT, Disturbed

from corral.elastic.marks import TAKEN_REASON
from corral.hosts.quote import Script, sh
from corral.providers.gcp.blueprint.modules import script
from corral.providers.gcp.figures import figures

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

pytestmark = pytest.mark.slow

LIB = "/usr/local/lib/corral"
METADATA = """\
import http.server, os

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        known = self.path == "/computeMetadata/v1/instance/preempted"
        good = known and self.headers["Metadata-Flavor"] == "Google"
        self.send_response(200 if good else 403 if known else 404)
        self.end_headers()
        if good:
            self.wfile.write(b"TRUE" if os.path.exists("/run/notice") else b"FALSE")

http.server.HTTPServer(("127.0.0.1", 8099), Handler).serve_forever()
"""
# The nodes' image has no curl; Google's have.
CURL = """\
#!/usr/bin/python3
import sys, urllib.request
assert sys.argv[1:5] == ["-s", "-m", "3", "-H"], sys.argv
name, _, value = sys.argv[5].partition(": ")
print(urllib.request.urlopen(urllib.request.Request(sys.argv[6], headers={name: value})).read().decode())
"""  # noqa: E501
JOURNAL = sh("journalctl -u corral-preemption -o cat")
REMOVE = sh(
    "systemctl stop corral-preemption corral-test-metadata; "
    "rm -f /run/notice /etc/systemd/system/corral-preemption.service /usr/local/bin/curl"
    " {lib}/preemption.sh {lib}/node-preemption.sh {lib}/metadata.py; systemctl daemon-reload",
    lib=LIB,
)


def put(path: str) -> Script:
    return sh("mkdir -p {lib}; cat >{path}; chmod 755 {path}", lib=LIB, path=path)


@pytest.fixture
def spot(cluster: Live) -> Iterator[Live]:
    """A cluster whose nodes watch for the notice."""
    notice = figures().notice
    url = notice.url.replace("metadata.google.internal", "127.0.0.1:8099")
    assert url != notice.url
    values = {"URL": url, "HEADER": notice.header, "TAKEN": notice.taken}
    files = {
        "/usr/local/bin/curl": CURL,
        f"{LIB}/metadata.py": METADATA,
        f"{LIB}/preemption.sh": script("preemption.sh"),
        f"{LIB}/node-preemption.sh": script(
            "node-preemption.sh", **values, SECONDS=str(notice.seconds)
        ),
    }
    start = sh(
        "systemd-run --quiet --unit=corral-test-metadata python3 {lib}/metadata.py; "
        "bash {lib}/node-preemption.sh",
        lib=LIB,
    )
    for node in cluster.facts:
        for path, text in files.items():
            assert cluster.run(node, put(path), stdin=text.encode()).ok
        assert cluster.run(node, start).ok
    yield cluster
    cluster.each((node, REMOVE) for node in cluster.facts)
    end = sh("scancel --name=wrap; scontrol update nodename=ALL state=resume || :")
    cluster.run(cluster.controller, end)


class Noticed(Disturbed):
    """Gives the notice on the node that the line names, where another job is sent first."""

    def __init__(self, cluster: Live) -> None:
        super().__init__(cluster)
        self.node = ""
        self.other = ""

    def disturb(self, command: str, line: str) -> None:
        self.node = line.rpartition(" ")[2]
        batch = ["sbatch", "--parsable", "--requeue", f"--nodelist={self.node}"]
        inside = ["podman", "exec", f"corral-{self.cluster.spec.name}-{self.cluster.controller}"]
        wrap = ["--wrap=sleep 600", "--output=/dev/null"]
        self.other = self.ran([*inside, *batch, *wrap])
        shown = [*inside, "squeue", "-h", "-j", self.other, "-o", "%T"]
        until = time.monotonic() + 60
        while self.ran(shown) != "RUNNING":
            assert time.monotonic() < until, f"job {self.other} does not run"
            time.sleep(0.2)
        super().disturb(f"podman exec corral-{self.cluster.spec.name}-{self.node} {command}", line)

    @staticmethod
    def ran(argv: list[str]) -> str:
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def node_state(spot: Live, node: str) -> str:
    return spot.run(spot.controller, sh("scontrol -o show node {n}", n=node)).stdout


def test_a_job_saves_and_goes_on_elsewhere_and_its_node_comes_back(
    spot: Live, tmp_path: Path
) -> None:
    script = tmp_path / "count.py"
    script.write_text(COUNT.replace('print("is at work"', 'print("is at work on", os.uname()[1]'))
    ran = Noticed(spot)
    log = "/var/log/slurm/slurmctld.log"
    before = int(spot.run(spot.controller, sh("wc -l <{log}", log=log)).stdout)
    outcome = asyncio.run(
        ran.run("is at work on ", ["touch /run/notice"], script=str(script), requeue=True)
    )
    assert outcome.good, ran.lines
    begins = [line.text for line in ran.lines if line.text.startswith("begins at ")]
    # It saved at the step at which the signal came, and nothing was done twice.
    assert begins[0] == "begins at 0" and len(begins) == 2
    assert int(begins[1].removeprefix("begins at ")) > 20
    assert any(line.text == f"total {sum(range(200))}" for line in ran.lines)
    assert ran.node not in outcome.nodes
    # The job may end before the cloud's time is over.
    until = time.monotonic() + 60
    while "requeued" not in (printed := spot.run(ran.node, JOURNAL).stdout):
        assert time.monotonic() < until, printed
        time.sleep(0.5)
    assert "SIGUSR1, to save and start again" in printed
    assert f"job {ran.other}: asked for no signal" in printed
    assert f"{ran.node}: down; what still ran is requeued" in printed
    lines = sh("tail -n +{n} {log}", n=before + 1, log=log)
    logged = spot.run(spot.controller, lines).stdout
    for text in ("state set to DRAINING", "state set to DOWN"):
        assert f"update_node: node {ran.node} {text}" in logged, logged
    assert f"requeue job JobId={ran.other} due to failure of node {ran.node}" in logged, logged
    # This machine did not go, so its slurmd has registered: drained it stays.
    record = node_state(spot, ran.node)
    assert re.search(r"State=\S*DRAIN", record) and f"Reason={TAKEN_REASON} [" in record, record
    waiting = spot.run(spot.controller, sh("scontrol -o show job {j}", j=ran.other)).stdout
    assert "JobState=PENDING" in waiting and "Restarts=1" in waiting, waiting
    # The machine is there again, and its unit starts.
    again = sh("rm /run/notice; systemctl restart corral-preemption")
    assert spot.run(ran.node, again).ok
    until = time.monotonic() + 60
    while "DRAIN" in (record := node_state(spot, ran.node)) or "DOWN" in record.split("Reason=")[0]:
        assert time.monotonic() < until, record
        time.sleep(0.5)
    assert spot.run(spot.controller, sh("scancel {j}", j=ran.other)).ok
