"""A3 Mega: corral drives gcluster over a simulated Google Cloud, and uses what came of it.

CORRAL_TEST_GCLUSTER_V1_95_0 and _V1_39_0 name real gcluster programs, which then take the place
of the simulated one; below them Terraform and Packer stay simulated. CORRAL_TEST_RXDM names
slurm-gcp's own receive-data-path-manager-mega (toolkit.PROLOGS_COMMIT), then the nodes' prolog.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.embedded.conftest import needs
from tests.embedded.mega import world as worlds
from tests.embedded.mega.google import TOKEN, Server

from corral import api
from corral.errors import Code, CorralError
from corral.events import Event, Kind
from corral.prove.model import Verdict
from corral.providers.gcp import GcpProvider
from corral.providers.gcp.making import Making
from corral.providers.toolkit import PROLOGS
from corral.roles import tcpxo
from corral.spec.models import ClusterSpec

HERE = Path(__file__).parents[2]
RELEASES = ("v1.95.0", "v1.39.0")
FILE = """\
corral: v1
name: mega
controller: mega-controller
groups:
  - {{name: controller, provider: gcp, nodes: mega-controller, ssh: {ssh}}}
  - name: a3mega
    provider: gcp
    machine: a3-megagpu-8g
    nodes: mega-a3mega-[0-1]
    gpu: {{type: h100, count: 8}}
    ssh: {ssh}
partitions: [{{name: a3mega, groups: [a3mega], default: true}}]
gcp:
  project: my-project
  zone: us-central1-c
  state_bucket: my-terraform-state
  reservation: my-reservation
  toolkit: {release}
  storage: [{{mount: /shared, kind: {kind}}}]
{nccl}"""


class Mega:
    """A project at the simulated Google, and a cluster file."""

    def __init__(
        self, folder: Path, patch: pytest.MonkeyPatch, release: str, server: Server
    ) -> None:
        self.folder, self.release, self.server = folder, release, server
        worlds.create(folder)
        (folder / "calls").touch()
        programs = folder / "bin"
        programs.mkdir()
        for name in ("gcluster", "terraform", "packer", "gcloud"):
            line = f'exec {shlex.quote(sys.executable)} -m tests.embedded.mega.{name} "$@"\n'
            self.program(name, line)
        for name, value in {
            worlds.VARIABLE: str(folder),
            "CORRAL_TEST_MEGA_RELEASE": release,
            "CORRAL_STATE_DIR": str(folder / "state"),
            "GOOGLE_COMPUTE_CUSTOM_ENDPOINT": server.url,
            "PYTHONPATH": str(HERE),
            "PATH": f"{programs}:{os.environ['PATH']}",
        }.items():
            patch.setenv(name, value)
        patch.delenv("GOOGLE_OAUTH_ACCESS_TOKEN", raising=False)

    def program(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}")
        path.chmod(0o755)

    def real(self) -> None:
        """Put the real gcluster of this release in place of the simulated one."""
        variable = "CORRAL_TEST_GCLUSTER_" + self.release.replace(".", "_").upper()
        program = os.environ.get(variable, "")
        if not program:
            pytest.skip(f"{variable} names no gcluster")
        # Google is asked nothing: no validators, and machine types are given.
        mock = '{"gpus": {"g": {"count": 8, "type": "nvidia-h100-mega-80gb"}}}'
        self.program(
            "gcluster",
            f"export GHPC_MOCK_MACHINE_CONFIG={shlex.quote(mock)}\n"
            f'case $1 in create | deploy) exec {shlex.quote(program)} "$@" -l IGNORE ;; esac\n'
            f'exec {shlex.quote(program)} "$@"\n',
        )

    def spec(self, ssh: str = "{user: ops}", nccl: str = "") -> ClusterSpec:
        path = self.folder / "mega.yaml"
        kind = "exascaler" if self.release == "v1.39.0" else "lustre"
        path.write_text(
            FILE.format(
                release=self.release,
                kind=kind,
                ssh=ssh,
                nccl=f"  nccl_tests: {nccl}\n" if nccl else "",
            )
        )
        return api.load(path)

    def calls(self, program: str) -> list[str]:
        lines = (self.folder / "calls").read_text().splitlines()
        return [one.removeprefix(f"{program} ") for one in lines if one.startswith(f"{program} ")]

    def world(self) -> dict[str, object]:
        return worlds.read(self.folder)

    def change(self, **values: object) -> None:
        with worlds.changing(self.folder) as world:
            world.update(values)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    found = Server(tmp_path_factory.mktemp("google"))
    threading.Thread(target=found.serve_forever, daemon=True).start()
    yield found
    found.shutdown()


def mega_at(tmp_path: Path, patch: pytest.MonkeyPatch, release: str, server: Server) -> Mega:
    server.folder = tmp_path
    return Mega(tmp_path, patch, release, server)


@pytest.fixture
def mega(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server) -> Mega:
    return mega_at(tmp_path, monkeypatch, "v1.95.0", server)


async def no_image(family: str) -> bool:
    return False


@pytest.mark.parametrize("program", ["simulated", "real"])
@pytest.mark.parametrize("release", RELEASES)
def test_phases_in_order_and_back(
    release: str, program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    mega = mega_at(tmp_path, monkeypatch, release, server)
    if program == "real":
        mega.real()
    spec = mega.spec()
    events: list[Event] = []
    making = Making(spec, release)
    asyncio.run(making.make(no_image, events.append))
    done = [e.node for e in events if e.kind is Kind.NODE_DONE]
    notes = [e.message for e in events if e.kind is Kind.NOTE]
    assert any("added, 0 changed" in n for n in notes)
    assert "image made in 25 minutes 3 seconds" in notes
    world = worlds.read(tmp_path)
    assert set(world["instances"]) >= {"mega-controller", "mega-a3mega-0", "mega-a3mega-1"}
    assert len(world["networks"]) == 9
    if release == "v1.39.0":
        assert done == ["mega-base/primary", "mega-image/build-script", "mega-image/slurm-build",
                        "mega-cluster/cluster"]  # fmt: skip
        # The base's Lustre got its address only then, and the cluster's phase mounts it there.
        assert "sharedfs is at 172.16.0.7: written into the next phases" in notes
        text = (making.folder / "deployment-image-cluster.yaml").read_text()
        assert "server_ip_sharedfs: 172.16.0.7" in text
        assert "0.0.0.0" not in text  # noqa: S104
        expanded = making.folder / "mega-cluster/.ghpc/artifacts/expanded_blueprint.yaml"
        assert "172.16.0.7" in expanded.read_text()
    else:
        assert done == [f"mega/{g}" for g in ("primary", "build-script", "slurm-build", "cluster")]
    assert not making.changed
    events.clear()
    gone = asyncio.run(making.remove(events.append))
    world = worlds.read(tmp_path)
    assert not world["instances"]
    assert not world["networks"]
    back = [e.node for e in events if e.kind is Kind.NODE_DONE]
    assert back == [one for one in reversed(done) if not one.endswith("slurm-build")]
    names = ["mega-cluster", "mega-image", "mega-base"] if release == "v1.39.0" else ["mega"]
    assert list(gone) == [f"deployment {name}" for name in names]


def test_a_failure_keeps_what_was_made_and_the_same_goes_on(mega: Mega) -> None:
    spec = mega.spec()
    making = Making(spec, mega.release)
    message = (
        "Error waiting for instance to create: The zone 'projects/my-project/zones/us-central1-c' "
        "does not have enough resources available to fulfill the request."
    )
    mega.change(fail={"mega/cluster": message})
    with pytest.raises(CorralError, match="does not have enough resources") as caught:
        asyncio.run(making.make(no_image, lambda _: None))
    assert caught.value.code is Code.PROVIDER_FAILED
    assert "in mega/cluster" in caught.value.message
    assert "a reservation, flex-start, or another zone" in caught.value.hint
    assert "mega-sys-net" in worlds.read(mega.folder)["networks"]
    built = len(worlds.read(mega.folder)["images"])
    mega.change(fail={})

    async def has_image(family: str) -> bool:
        return family in worlds.read(mega.folder)["images"].values()

    # The failed phase is the only one there is, so its image is made again; then it is kept.
    asyncio.run(making.make(has_image, lambda _: None))
    assert len(worlds.read(mega.folder)["images"]) == built + 1
    asyncio.run(making.make(has_image, lambda _: None))
    assert len(worlds.read(mega.folder)["images"]) == built + 1
    assert "--skip build-script,slurm-build" in mega.calls("gcluster")[-1]


def test_another_release_on_path_is_refused(mega: Mega, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORRAL_TEST_MEGA_RELEASE", "v1.96.1")
    with pytest.raises(CorralError, match=r"v1\.96\.1, and the cluster file is for v1\.95\.0"):
        asyncio.run(api.up(mega.spec()))
    (mega.folder / "bin" / "gcluster").unlink()
    monkeypatch.setenv("PATH", f"{mega.folder / 'bin'}:/usr/bin:/bin")
    with pytest.raises(CorralError) as caught:
        asyncio.run(api.up(mega.spec()))
    assert caught.value.code is Code.MISSING_TOOL
    assert not mega.calls("terraform")


@pytest.mark.parametrize(
    ("world", "said"),
    [
        ({"zones": {"us-central1-c": ["c2-standard-8"]}}, "does not offer a3-megagpu-8g"),
        ({"zones": {}}, "there is no zone us-central1-c"),
        ({"project": "another"}, "there is no project my-project"),
        ({"reservations": {}}, "there is no reservation my-reservation"),
        ({"reservations": {"my-reservation": {"machine": "a3-highgpu-8g", "count": 2, "used": 0,
                                              "status": "READY"}}}, "holds a3-highgpu-8g"),
        ({"reservations": {"my-reservation": {"machine": worlds.MACHINE, "count": 2, "used": 1,
                                              "status": "READY"}}}, "has 1 machines left, 2 are"),
        ({"quotas": {"NETWORKS": 5, "SUBNETWORKS": 100}}, "NETWORKS of the project: 5 of 5 left"),
        ({"region_quotas": {"C2_CPUS": 8}}, "C2_CPUS of us-central1: 8 of 8 left, 20"),
        ({"nobody": True}, "no credentials for Google Cloud"),
    ],
)  # fmt: skip
def test_google_is_asked_first_and_nothing_is_made(
    mega: Mega, world: dict[str, object], said: str
) -> None:
    mega.change(**world)
    with pytest.raises(CorralError, match=said):
        asyncio.run(api.up(mega.spec()))
    assert not mega.calls("terraform")
    assert mega.server.methods <= {"GET"}
    if "nobody" not in world:
        plan = asyncio.run(api.plan(mega.spec()))
        assert said.replace("\\", "") in plan.machines[0].summary


def test_what_is_left_is_listed(mega: Mega) -> None:
    asyncio.run(Making(mega.spec(), mega.release).make(no_image, lambda _: None))
    mega.change(sticky=["mega-gpunet-3"], disks={"mega-controller-save": "mega"})
    with pytest.raises(CorralError, match="2 things of mega are left") as caught:
        asyncio.run(api.down(mega.spec()))
    assert caught.value.tail == "disk mega-controller-save\nnetwork mega-gpunet-3"
    mega.change(sticky=[], disks={}, networks={})
    gone = asyncio.run(api.down(mega.spec()))
    assert gone[0] == "deployment mega"
    assert gone[1].startswith("mega: kept image slurm-mega-")


def test_an_interrupt_reaches_terraform_and_is_waited_for(mega: Mega) -> None:
    """Killed, it would keep its lock on the state and forget what it was making."""
    told, ended = mega.folder / "began", mega.folder / "ended"
    mega.program("gcluster", f"""\
[ "$1" = --version ] && {{ echo gcluster version {mega.release}; exit; }}
trap 'sleep 0.3; echo whole >{ended}; exit 130' INT
echo 2026-11-22T03:57:33Z: Running terraform apply on deployment group /x/mega/primary
: >{told}
while :; do sleep 0.1; done
""")  # fmt: skip

    async def interrupted() -> None:
        making = asyncio.create_task(
            Making(mega.spec(), mega.release).make(no_image, lambda _: None)
        )
        while not told.exists():  # noqa: ASYNC110  # another process makes it
            await asyncio.sleep(0.02)
        making.cancel()
        await making

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(interrupted())
    assert ended.read_text() == "whole\n"


def test_the_token_stands_nowhere(mega: Mega) -> None:
    asyncio.run(Making(mega.spec(), mega.release).make(no_image, lambda _: None))
    asyncio.run(GcpProvider(mega.spec()).observe())
    for path in (p for p in mega.folder.rglob("*") if p.is_file()):
        assert TOKEN not in path.read_text(errors="replace"), path


@pytest.mark.slow
def test_a_whole_life_with_jobs_proof_and_doctor(mega: Mega) -> None:
    """Made by gcluster, its machines embedded nodes; the job, the proof and the traps for real."""
    if reason := needs():
        pytest.skip(reason)
    rxdm = os.environ.get("CORRAL_TEST_RXDM", "")
    if rxdm:
        digest = hashlib.sha256(Path(rxdm).read_bytes()).hexdigest()
        assert digest == PROLOGS["RXDM_SHA256"]
    key = mega.folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    boot = {"name": f"mega-{os.getpid()}", "state": str(mega.folder / "machines"),
            "key": f"{key}.pub", "rxdm": rxdm}  # fmt: skip
    mega.change(boot=boot)
    spec = mega.spec(ssh=f"{{user: ops, key: {key}}}", nccl="/shared/nccl-tests")
    try:
        asyncio.run(api.up(spec))
        _used(mega, spec, boot["name"])
    finally:
        gone = asyncio.run(api.down(spec))
    assert gone[0] == "deployment mega"
    left = subprocess.run(["podman", "ps", "-aq", "--filter", f"name=corral-{boot['name']}-"],
                          capture_output=True, text=True, check=True).stdout  # fmt: skip
    assert left == ""


def _used(mega: Mega, spec: ClusterSpec, name: str) -> None:
    assert asyncio.run(api.plan(spec)).empty
    node = f"corral-{name}-mega-a3mega-1"

    def on_node(text: str) -> None:
        subprocess.run(
            ["podman", "exec", "-i", node, "sh", "-s"], input=text, text=True, check=True
        )

    here = Path(__file__).parent
    program = (here / "mega/all_gather_perf.sh").read_text()
    table = (here.parent / "recorded/nccl/a3-mega-all-gather.txt").read_text()
    on_node(
        "mkdir -p /shared/nccl-tests/build && cd /shared/nccl-tests/build\n"
        f"cat >all_gather_perf <<'END-OF'\n{program}\nEND-OF\nchmod 755 all_gather_perf\n"
        f"cat >table.txt <<'END-OF'\n{table}\nEND-OF\n"
    )
    names = ("smoke", "multinode.mpi", "multinode.tcpxo", "multinode.tcpxo-speed", "storage")
    proof = asyncio.run(api.prove(spec, only=names))
    bad = {r.check: r.summary for r in proof.results if r.verdict is not Verdict.PASS}
    assert not bad
    speed = next(r for r in proof.results if r.check == "multinode.tcpxo-speed")
    assert speed.summary.startswith("188.3 GB/s at 8 GiB by FasTrak (8 NICs)")
    # The job's environment, by construction, as each rank of an ordinary job sees it.
    script = mega.folder / "job.sh"
    script.write_text("#!/bin/sh\nenv | grep -E '^(NCCL|GLOO|LD_)'\n")
    job = api.job_spec({"script": str(script), "nodes": 2, "gpus_per_node": 8, "ranks_per_node": 1})
    said: list[str] = []
    outcome = asyncio.run(api.run(spec, job, on_line=lambda line: said.append(line.text)))
    assert outcome.state == "COMPLETED", said
    seen = dict(line.split("=", 1) for line in said if "=" in line)
    assert tcpxo.mistakes(seen) == ()
    # A rail away, aperture devices away: named, and well again.
    on_node("ip link set enp135s0 mtu 1500; mv /dev/aperture_devices /dev/away")
    found = asyncio.run(api.prove(spec, only=("multinode.tcpxo",))).results[-1]
    assert "no aperture devices" in found.summary
    on_node("mv /dev/away /dev/aperture_devices")
    found = asyncio.run(api.prove(spec, only=("multinode.tcpxo",))).results[-1]
    assert found.summary == "mega-a3mega-1: enp135s0 has an MTU of 1500 instead of 8244"
    on_node("ip link set enp135s0 mtu 8244")
    # RxDM does not come up: the prolog fails, the node drains with its name, the doctor knows it.
    on_node("touch /run/fake-docker/broken; printf '#!/bin/sh\\n' >/usr/local/bin/sleep; "
            "chmod 755 /usr/local/bin/sleep")  # fmt: skip
    asyncio.run(api.submit(spec, job))
    until = time.monotonic() + 120
    while time.monotonic() < until:
        why = asyncio.run(api.explain_drained(spec, "mega-a3mega-1"))
        if "70-rxdm" in str(why):
            break
        time.sleep(1)
    assert "FAILED to restart rxdm" in str(why)
