"""A3 Mega machines: by corral up over a simulated Google Cloud, embedded nodes in disguise.

Jobs, the proof, the page and the traps are for real. CORRAL_TEST_RXDM names slurm-gcp's own
receive-data-path-manager-mega (blueprint/releases.yaml), then the nodes' prolog; with
CORRAL_TEST_ENROOT and CORRAL_TEST_PYXIS (test_containers.py) the speed check runs in a container.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.embedded.conftest import needs
from tests.embedded.mega import project
from tests.embedded.mega.project import Mega, mega_at, server
from tests.embedded.test_containers import software
from tests.hung_process import ended

from corral import api
from corral.jobs.follow import Outcome
from corral.prove.model import CheckResult, Verdict
from corral.providers.gcp.blueprint.releases import known_releases
from corral.roles.machine.nccl_plugin import TCPXO
from corral.spec.models import ClusterSpec

__all__ = ["server"]

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
NODE = "mega-a3mega-1"
NCCL = "/shared/nccl-tests"
IMAGE = "/shared/mega.sqsh"


class Machines:
    """A cluster that corral up made, and its nodes from outside."""

    def __init__(self, mega: Mega, spec: ClusterSpec, name: str) -> None:
        self.mega, self.spec, self.name = mega, spec, name

    def on_node(self, text: str, node: str = NODE) -> str:
        return subprocess.run(
            ["podman", "exec", "-i", f"corral-{self.name}-{node}", "sh", "-s"],
            input=text,
            text=True,
            check=True,
            stdout=subprocess.PIPE,
            timeout=300,
        ).stdout

    def proof(self, *names: str, spec: ClusterSpec | None = None) -> dict[str, CheckResult]:
        proof = asyncio.run(api.prove(spec or self.spec, only=names))
        return {r.check: r for r in proof.results}


@pytest.fixture(scope="module")
def machines(
    server: project.Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Machines]:
    if not os.environ.get("CORRAL_TEST_SLOW"):
        pytest.skip("slow: CORRAL_TEST_SLOW=1")
    if reason := needs():
        pytest.skip(reason)
    rxdm = os.environ.get("CORRAL_TEST_RXDM", "")
    if rxdm:
        digest = hashlib.sha256(Path(rxdm).read_bytes()).hexdigest()
        assert digest == known_releases().prologs.digests["receive-data-path-manager-mega"]
    with pytest.MonkeyPatch.context() as patch:
        mega = mega_at(tmp_path_factory.mktemp("mega"), patch, "v1.95.0", server)
        key = mega.folder / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        name = f"mega-{os.getpid()}"
        mega.change(
            boot={
                "name": name,
                "state": str(mega.folder / "machines"),
                "rxdm": rxdm,
                "key": f"{key}.pub",
                "software": containers(),
            }
        )
        spec = mega.spec(ssh=f"{{user: ops, key: {key}}}", tests=NCCL)
        try:
            asyncio.run(api.up(spec))
            yield Machines(mega, spec, name)
        finally:
            gone = asyncio.run(api.down(spec))
        assert gone[0] == "deployment mega"
        left = subprocess.run(
            ["podman", "ps", "-aq", "--filter", f"name=corral-{name}-"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert left == ""


def containers() -> str:
    """The machines' part of the cluster file for Enroot and Pyxis, "" where there are none."""
    try:
        return f"software: {json.dumps(software().model_dump(mode='json'))}\n"
    except pytest.skip.Exception:
        return ""


@pytest.fixture
def benchmark(machines: Machines) -> Iterator[Path]:
    """A stand-in for nccl-tests' sources; what it built and ran goes at the end."""
    program = (HERE / "mega/all_gather_perf.sh").read_text()
    table = (HERE.parent / "recorded/nccl/a3-mega-all-gather.txt").read_text()
    make = (
        "src.build:\n"
        '\ttest "$(MPI) $(CC) $(CXX)" = "1 mpicc mpicxx"\n\tmkdir -p build\n'
        "\tcp all_gather_perf.sh build/all_gather_perf\n\tchmod 755 build/all_gather_perf\n"
        "\tcat /etc/os-release >build/made-in\n"
    )
    files = {"all_gather_perf.sh": program, "build/table.txt": table, "Makefile": make}
    machines.on_node(f"mkdir -p {NCCL}/build")
    for name, text in files.items():
        machines.on_node(f"cat >{NCCL}/{name} <<'END-OF'\n{text}\nEND-OF\n")
    machines.on_node(f"chown -R ops {NCCL}")
    yield Path(NCCL)
    machines.on_node(f"rm -rf {NCCL}")


def test_the_first_job_of_all_nodes_has_been_run(machines: Machines) -> None:
    """First of all: the nodes have what a job's prolog installs, and no test has run a job yet."""
    for node in ("mega-a3mega-0", NODE):
        assert "nccl-env-profile.sh" in machines.on_node("ls /var/lib/tcpxo/lib64", node)
    controller = "mega-controller"
    assert machines.on_node("squeue --noheader", controller) == ""


def test_a_second_apply_is_empty(machines: Machines) -> None:
    assert asyncio.run(api.plan(machines.spec)).empty


def test_the_proof(machines: Machines, benchmark: Path) -> None:
    names = ("smoke", "multinode.mpi", "multinode.tcpxo", "multinode.tcpxo-speed", "storage")
    results = machines.proof(*names)
    assert not {c: r.summary for c, r in results.items() if r.verdict is not Verdict.PASS}
    speed = results["multinode.tcpxo-speed"]
    assert speed.summary.startswith("188.3 GB/s at 8 GiB by FasTrak (8 NICs)")


MAKE_IMAGE = """\
set -e; d=$(mktemp -d); cd $d; trap 'rm -rf $d' EXIT
mkdir -p i/bin i/etc i/proc i/sys i/dev i/tmp i/run i/var/tmp i/var/lib i/root i/lib64
{ apt-get download -q busybox-static || { apt-get update -q && apt-get download -q busybox-static
}; } >/dev/null 2>&1
dpkg-deb -x busybox-static_*.deb b
cp $(find b -path '*bin/busybox' -type f) i/bin/busybox
for a in sh cat ls tr uname env mkdir cp chmod test; do ln -s busybox i/bin/$a; done
cp /usr/bin/make i/bin/
for f in $(ldd /usr/bin/make | grep -o '/[^ ]*'); do mkdir -p i/${f%/*}; cp -L $f i/$f; done
echo ID=corral-mega-image >i/etc/os-release
echo root:x:0:0::/root:/bin/sh >i/etc/passwd
rm -f IMAGE; mksquashfs i IMAGE -noappend -quiet -all-root >/dev/null; chmod 644 IMAGE
"""


def test_nccl_tests_are_built_and_run_in_a_container(machines: Machines, benchmark: Path) -> None:
    software()  # skips where neither Enroot nor Pyxis is at hand
    machines.on_node(MAKE_IMAGE.replace("IMAGE", IMAGE))
    machines.on_node(
        f"cat >{NCCL}/all_gather_perf.sh <<'END-OF'\n#!/bin/sh\n"
        f"cat /etc/os-release >>{NCCL}/ran-in\n. {NCCL}/program.sh\nEND-OF\n"
        f"cat >{NCCL}/program.sh <<'END-OF'\n{(HERE / 'mega/all_gather_perf.sh').read_text()}\n"
        f"END-OF\nchown ops {NCCL}/*"
    )
    ssh = machines.spec.groups[0].ssh
    inside = machines.mega.spec(
        ssh=f"{{user: {ssh.user}, key: {ssh.key}}}", tests=NCCL, image=IMAGE
    )
    result = machines.proof("multinode.tcpxo-speed", spec=inside)["multinode.tcpxo-speed"]
    assert result.verdict is Verdict.PASS, (result.summary, result.evidence)
    assert result.summary.startswith("188.3 GB/s at 8 GiB by FasTrak (8 NICs)")
    os_ids = machines.on_node(f"cat {NCCL}/build/made-in; sort -u {NCCL}/ran-in")
    assert os_ids == "ID=corral-mega-image\n" * 2
    # Never outside of a container that cannot be made.
    machines.on_node(f"mv {IMAGE} {IMAGE}.away; rm {NCCL}/ran-in")
    result = machines.proof("multinode.tcpxo-speed", spec=inside)["multinode.tcpxo-speed"]
    assert (result.verdict, result.summary) == (Verdict.FAIL, "nccl-tests failed")
    machines.on_node(f"test ! -e {NCCL}/ran-in")


def submitted(machines: Machines) -> tuple[api.JobSpec, Path]:
    script = machines.mega.folder / "job.sh"
    script.write_text("#!/bin/sh\nenv | grep -E '^(NCCL|GLOO|LD_)'\n")
    fields = {"script": str(script), "nodes": 2, "gpus_per_node": 8, "ranks_per_node": 1}
    return api.job_spec(fields), script


def test_each_rank_has_the_environment_by_construction(machines: Machines) -> None:
    printed: list[str] = []
    job, _ = submitted(machines)
    outcome = asyncio.run(
        api.run(machines.spec, job, on_line=lambda line: printed.append(line.text))
    )
    assert isinstance(outcome, Outcome)
    assert outcome.state == "COMPLETED", printed
    seen = dict(line.split("=", 1) for line in printed if "=" in line)
    assert TCPXO.mistakes(seen) == ()


PLAIN = """\
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --output=/shared/plain.out
. /shared/env.sh
srun sh -c 'env | grep -E "^(NCCL|GLOO|LD_|CORRAL_)"'
"""


def test_plain_sbatch_has_the_environment_by_the_file_of_corral_env(machines: Machines) -> None:
    text = api.group_environment(machines.spec, "a3mega")
    machines.on_node(f"cat >/shared/env.sh <<'END-OF'\n{text}END-OF\n")
    machines.on_node(f"cat >/shared/plain.sh <<'END-OF'\n{PLAIN}END-OF\n")
    try:
        machines.on_node("sbatch --wait /shared/plain.sh")
    finally:
        printed = machines.on_node("cat /shared/plain.out; rm -f /shared/plain.* /shared/env.sh")
    seen = dict(line.split("=", 1) for line in printed.splitlines() if "=" in line)
    assert TCPXO.mistakes(seen) == (), printed
    assert "/dev/aperture_devices:/dev/aperture_devices" in seen["CORRAL_CONTAINER_MOUNTS"]


def test_the_page_by_ssh(machines: Machines) -> None:
    """Through the simulated IAP tunnel, without slurmrestd: slurm-gcp's controller runs none."""
    page = subprocess.Popen(
        [sys.executable, "-m", "corral", "ui", "-c", "mega", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        assert page.stdout is not None
        access = json.loads(page.stdout.readline())
        with httpx.Client(base_url=access["url"], timeout=60) as browser:
            me = browser.post("/api/login/code", json={"code": access["code"]})
            assert me.json()["user"] == "ops", me.text
            rows = nodes_of(browser)
            assert set(rows) == {"mega-a3mega-0", "mega-a3mega-1"}
            assert {row["gpus"] for row in rows.values()} == {8}, rows
            jobs = browser.get("/api/jobs").json()
            assert "rows" in jobs, jobs
    finally:
        page.send_signal(signal.SIGINT)
        ended(page)


def nodes_of(browser: httpx.Client) -> dict[str, dict[str, Any]]:
    """The page's nodes, once it has looked."""
    until = time.monotonic() + 120
    while True:
        reply = browser.get("/api/nodes").json()
        rows = [dict(zip(reply["columns"], row, strict=True)) for row in reply.get("rows", ())]
        if rows or time.monotonic() > until:
            return {row["name"]: row for row in rows}
        time.sleep(0.5)


def test_a_rail_or_the_aperture_devices_away_are_named(machines: Machines) -> None:
    machines.on_node("ip link set enp135s0 mtu 1500; mv /dev/aperture_devices /dev/away")
    try:
        result = machines.proof("multinode.tcpxo")["multinode.tcpxo"]
        assert "no aperture devices" in result.summary
        machines.on_node("mv /dev/away /dev/aperture_devices")
        result = machines.proof("multinode.tcpxo")["multinode.tcpxo"]
        assert result.summary == f"{NODE}: enp135s0 has an MTU of 1500 instead of 8244"
    finally:
        machines.on_node(
            "[ ! -e /dev/away ] || mv /dev/away /dev/aperture_devices; "
            "ip link set enp135s0 mtu 8244"
        )


def test_rxdm_that_does_not_come_up_drains_with_its_words(machines: Machines) -> None:
    """Last: the node stays drained."""
    machines.on_node(
        "touch /run/fake-docker/broken; printf '#!/bin/sh\\n' >/usr/local/bin/sleep; "
        "chmod 755 /usr/local/bin/sleep"
    )
    asyncio.run(api.submit(machines.spec, submitted(machines)[0]))
    until = time.monotonic() + 180
    while True:
        why = str(asyncio.run(api.explain_drained(machines.spec, NODE)))
        if "70-rxdm" in why or time.monotonic() > until:
            break
        time.sleep(1)
    assert "FAILED to restart rxdm" in why
    assert "F96" in why
