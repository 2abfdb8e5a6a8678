"""Enroot and Pyxis for real: containers over all nodes, from an image made on a node.

CORRAL_TEST_ENROOT names a folder with Enroot's .deb files, CORRAL_TEST_PYXIS the source archive of
Pyxis: neither is in a distribution's archive.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.embedded.conftest import Live, named

from corral import api
from corral.api.workload.queue import RankLine
from corral.errors import Code, CorralError
from corral.hosts.quote import Script, sh
from corral.hosts.transport import Result
from corral.prove.context import as_user
from corral.spec.models import ClusterSpec
from corral.spec.sections.software import EnrootPackage, Pyxis, PyxisSource, Software

IMAGE = "/shared/corral-test.sqsh"

MAKE = sh(
    "set -e; d=$(mktemp -d); cd $d; trap 'rm -rf $d' EXIT; mkdir -p i/bin i/etc i/proc i/sys i/dev "
    "i/tmp i/run i/usr i/var i/root; "
    "{{ apt-get download -q busybox-static || {{ apt-get update -q && "
    "apt-get download -q busybox-static; }}; }} >/dev/null; dpkg-deb -x busybox-static_*.deb b; "
    "cp $(find b -path '*bin/busybox' -type f) i/bin/busybox; "
    "for a in sh cat grep hostname id ls env; do ln -s busybox i/bin/$a; done; "
    "echo ID=corral-test-image > i/etc/os-release; echo root:x:0:0::/root:/bin/sh > i/etc/passwd; "
    "echo root:x:0: > i/etc/group; mksquashfs i {image} -noappend -quiet -all-root >/dev/null; "
    "chmod 644 {image}",
    image=IMAGE,
)


def artifact(path: Path) -> dict[str, str]:
    return {"file": str(path), "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def software() -> Software:
    folder, source = (os.environ.get(f"CORRAL_TEST_{n}", "") for n in ("ENROOT", "PYXIS"))
    if not folder or not source:
        pytest.skip("CORRAL_TEST_ENROOT and CORRAL_TEST_PYXIS name no files")
    debs = tuple(EnrootPackage(**artifact(p)) for p in sorted(Path(folder).glob("*.deb")))
    return Software(
        containers="pyxis", pyxis=Pyxis(enroot=debs, source=PyxisSource(**artifact(Path(source))))
    )


@pytest.fixture(scope="module")
def lab(request: pytest.FixtureRequest) -> Live:
    """A cluster for this file; CORRAL_TEST_CLUSTER=NAME makes it under that name and keeps it."""
    existing = os.environ.get("CORRAL_TEST_CLUSTER", "")
    spec = named(existing or f"pyxis-{os.getpid()}", software=software())
    if existing:
        asyncio.run(api.up(spec))
        live = Live(spec, {})
    else:
        bring_up: Callable[[ClusterSpec], Live] = request.getfixturevalue("fresh_cluster")
        live = bring_up(spec)
    made = live.run(live.controller, MAKE, timeout=300)
    assert made.ok, made.tail
    return live


def srun(lab: Live, *words: str) -> Result:
    script = sh("srun -Q -p main --mem=100M -t 5 {words}", words=words)
    return lab.run(lab.controller, as_user("corral", script), timeout=300)


def test_a_container_runs_on_every_node_as_the_user(lab: Live) -> None:
    command = "grep ID= /etc/os-release; hostname; id -u; ls -d /shared 2>/dev/null || echo fenced"
    done = srun(lab, "-N3", "-n3", "-l", f"--container-image={IMAGE}", "sh", "-c", command)
    assert done.ok, done.tail
    by_rank: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        rank, _, text = line.partition(": ")
        by_rank.setdefault(rank, []).append(text)
    hosts = {lines.pop(1) for lines in by_rank.values()}
    assert hosts == {"node0", "node1", "node2"}
    assert set(map(tuple, by_rank.values())) == {("ID=corral-test-image", "2000", "fenced")}


def test_what_is_mounted_is_there_and_gpus_stay_slurms(lab: Live) -> None:
    done = srun(
        lab,
        "-N1",
        "--gres=gpu:1",
        f"--container-image={IMAGE}",
        "--container-mounts=/shared:/shared",
        "sh",
        "-c",
        "ls /shared; env",
    )
    assert done.ok, done.tail
    assert IMAGE.rpartition("/")[2] in done.stdout
    assert "CUDA_VISIBLE_DEVICES=0" in done.stdout.splitlines()


def test_a_job_never_runs_outside_a_container_that_cannot_be_made(lab: Live) -> None:
    done = srun(lab, "-N1", "--container-image=/shared/none.sqsh", "echo", "outside")
    assert not done.ok
    assert "outside" not in done.stdout


def test_folders_are_the_users_and_containers_go_with_the_last_job(lab: Live) -> None:
    probe: Script = sh(
        "i=0; while ls /run/corral/jobs/*.* 2>/dev/null | grep -qv since || "
        "pgrep -f '^slurmstepd|/etc/slurm/epilog.sh' >/dev/null; do i=$((i + 1)); "
        "[ $i -lt 600 ] || exit 1; sleep 0.1; done; "
        "stat -c '%a %U' /var/lib/enroot/cache/user-2000; ls /var/lib/enroot/data"
    )
    done = lab.run("node1", probe, timeout=120)
    assert done.ok, done.tail
    assert done.stdout.split() == ["700", "corral"]


REGISTRY = sh(
    "set -e; export DEBIAN_FRONTEND=noninteractive; get() {{ apt-get install -y -q "
    "--no-install-recommends docker-registry apache2-utils >/dev/null; }}; "
    "get || {{ apt-get update -q >/dev/null; get; }}; systemctl stop docker-registry; "
    "mkdir -p /srv/registry; htpasswd -nbB anna the-Key_1 >/srv/registry/passwords; "
    "for port in 5000 5001; do "
    "printf 'version: 0.1\nstorage: {{filesystem: {{rootdirectory: /srv/registry}}}}\n"
    'http: {{addr: ":%s"}}\n\' $port >/srv/registry/$port.yml; done; '
    "printf 'auth: {{htpasswd: {{realm: lab, path: /srv/registry/passwords}}}}\n' "
    ">>/srv/registry/5001.yml; "
    "for port in 5000 5001; do systemctl is-active -q registry-$port || systemd-run -q "
    "--unit=registry-$port --collect docker-registry serve /srv/registry/$port.yml; i=0; "
    "until curl -s -o /dev/null http://localhost:$port/v2/; do i=$((i + 1)); "
    "[ $i -lt 300 ] || {{ journalctl -qu registry-$port -n 20; exit 1; }}; sleep 0.1; done; done"
)


@pytest.fixture(scope="module")
def registry(lab: Live, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A real registry on node0 with the image lab/box:1; on port 5001 it asks for a password."""
    done = lab.run("node0", REGISTRY, timeout=300)
    assert done.ok, done.tail
    address = lab.run("node0", sh("hostname -I")).stdout.split()[0]
    # The image's files, out of the squashfs that the fixture made.
    tar = sh(
        "unsquashfs -q -n -f -d /tmp/box {image} >/dev/null && tar -C /tmp/box -c . | base64",
        image=IMAGE,
    )
    rootfs = tmp_path_factory.mktemp("box") / "box.tar"
    rootfs.write_bytes(base64.b64decode(lab.run("node0", tar).stdout))
    there = f"docker://{address}:5000/lab/box:1"
    for words in (
        ("import", str(rootfs), "corral-test/box:1"),
        ("push", "-q", "--format=v2s2", "--tls-verify=false", "corral-test/box:1", there),
        ("rmi", "corral-test/box:1"),
    ):
        done = subprocess.run(["podman", *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return address


def test_an_image_of_a_registry_lands_on_shared_storage(lab: Live, registry: str) -> None:
    done = asyncio.run(
        api.import_image(lab.spec, f"docker://{registry}:5000/lab/box:1", name="box", http=True)
    )
    assert done.path == "/shared/images/box.sqsh"
    assert done.size > 100_000
    ran = srun(lab, "-N3", "-n3", f"--container-image={done.path}", "cat", "/etc/os-release")
    assert ran.stdout.splitlines() == ["ID=corral-test-image"] * 3, ran.tail


def test_each_node_imports_an_image_that_a_job_names(lab: Live, registry: str) -> None:
    # Pyxis hands none of the job's ENROOT_ variables on, so the machines' own configuration states
    # that it is plain http.
    plain = "/etc/enroot/enroot.conf.d/99-test.conf"
    try:
        for node in ("node0", "node1", "node2"):
            lab.run(node, sh("echo ENROOT_ALLOW_HTTP yes >{plain}", plain=plain))
        ran = srun(
            lab,
            "-N2",
            "-n2",
            f"--container-image={registry}:5000#lab/box:1",
            "cat",
            "/etc/os-release",
        )
        assert ran.stdout.splitlines() == ["ID=corral-test-image"] * 2, ran.tail
    finally:
        for node in ("node0", "node1", "node2"):
            lab.run(node, sh("rm -f {plain}", plain=plain))


def test_nodes_that_let_nobody_import_are_named(lab: Live, registry: str) -> None:
    """As without enroot+caps, which gives two programs their capabilities."""
    image = f"docker://{registry}:5000/lab/box:1"
    program = "/usr/bin/enroot-aufs2ovlfs"
    try:
        for node in ("node0", "node1", "node2"):
            assert lab.run(node, sh("setcap -r {program}", program=program)).ok
        with pytest.raises(CorralError, match="was not imported") as caught:
            asyncio.run(api.import_image(lab.spec, image, name="none", http=True))
        assert "enroot+caps" in caught.value.hint
    finally:
        for node in ("node0", "node1", "node2"):
            lab.run(node, sh("setcap cap_sys_admin,cap_mknod+pe {program}", program=program))


def test_a_key_opens_the_registry_and_stays_secret(
    lab: Live, registry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = f"docker://{registry}:5001/lab/box:1"
    monkeypatch.delenv("CORRAL_REGISTRY_KEY", raising=False)
    with pytest.raises(CorralError, match="was not imported") as caught:
        asyncio.run(api.import_image(lab.spec, image, name="closed", http=True))
    assert "the registry wants a login" in caught.value.hint
    monkeypatch.setenv("CORRAL_REGISTRY_KEY", "the-Key_1")
    with pytest.raises(CorralError, match="was not imported"):
        asyncio.run(api.import_image(lab.spec, image, name="closed", login="otto", http=True))
    done = asyncio.run(api.import_image(lab.spec, image, name="closed", login="anna", http=True))
    assert done.path == "/shared/images/closed.sqsh"
    probe = sh(
        "grep -rIl the-Key_1 /tmp /var/log /var/spool/slurmd /home /root /shared /etc "
        "2>/dev/null; grep -al the-Key_1 /proc/[0-9]*/cmdline 2>/dev/null; journalctl -q | "
        "grep -c the-Key_1"
    )
    for node in ("node0", "node1", "node2"):
        assert lab.run(node, probe).stdout.strip() == "0", node


def test_the_plan_is_empty_and_another_slurm_rebuilds_the_plugin(lab: Live) -> None:
    assert asyncio.run(api.plan(lab.spec)).empty
    stamp = "/usr/local/lib/slurm/spank_pyxis.made-from"
    lab.run("node2", sh("echo 0 slurm 23.11.1 > {stamp}", stamp=stamp))
    plan = asyncio.run(api.plan(lab.spec))
    changes = [(n, c.change.summary) for s in plan.stages for c in s.changes for n in c.nodes]
    assert ("node2", "compile Pyxis against this machine's Slurm again") in changes
    asyncio.run(api.up(lab.spec))
    assert "slurm" in lab.run("node2", sh("cat {stamp}", stamp=stamp)).stdout
    assert srun(lab, "-w", "node2", f"--container-image={IMAGE}", "id").ok


SHOW = """\
cat /etc/os-release
echo "rank $RANK of $WORLD_SIZE on $(hostname) in $(pwd)"
echo "note=$NOTE nic=$GLOO_SOCKET_IFNAME port=$MASTER_PORT gpu=$CUDA_VISIBLE_DEVICES"
ls /mnt
"""


def test_corral_run_puts_ranks_into_a_container(lab: Live, tmp_path: Path) -> None:
    """The rendezvous and the fabric's environment come along, and the user's values win."""
    (tmp_path / "show.sh").write_text(f"#!/bin/sh\n{SHOW}")
    lines: list[RankLine] = []
    job = api.job_spec(
        {
            "script": str(tmp_path / "show.sh"),
            "folder": "none",
            "nodes": 2,
            "gpus_per_node": 1,
            "container": IMAGE,
            "mounts": ["/etc/ssh:/mnt:ro"],
            "env": {"NOTE": "it's $HOME"},
        }
    )
    outcome = asyncio.run(api.run(lab.spec, job, on_line=lines.append))
    assert outcome.good, lines
    for rank in (0, 1):
        printed = [line.text for line in lines if line.rank == rank]
        assert "ID=corral-test-image" in printed
        assert any(
            text.startswith(f"rank {rank} of 2 on node{rank} in /shared/") for text in printed
        )
        facts = next(text for text in printed if text.startswith("note="))
        assert facts.startswith("note=it's $HOME nic=eth0 port=2")
        assert facts.rpartition("gpu=")[2] in {"0", "1"}
        assert "sshd_config" in printed
    both = {text.split("port=")[1][:5] for text in (line.text for line in lines) if "port=" in text}
    assert len(both) == 1, "ranks have two rendezvous"


def test_an_image_that_is_not_there_is_refused_before_submission(lab: Live, tmp_path: Path) -> None:
    (tmp_path / "show.sh").write_text("#!/bin/sh\n:\n")
    near = IMAGE.replace("corral-test", "coral-test")
    job = api.job_spec({"script": str(tmp_path / "show.sh"), "folder": "none", "container": near})
    with pytest.raises(CorralError) as caught:
        asyncio.run(api.submit(lab.spec, job))
    assert caught.value.code is Code.USAGE
    assert IMAGE in caught.value.hint
