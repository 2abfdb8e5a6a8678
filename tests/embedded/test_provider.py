"""Provider embedded on the real podman: machines, keys, crashes, reboots, and what is left."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.embedded.traces import containers_of, out, traces

from corral.errors import CorralError
from corral.events import ignore
from corral.hosts.openssh import OpenSSH
from corral.hosts.quote import sh
from corral.hosts.transport import Result
from corral.providers.base import Action
from corral.providers.containers import archive, machine
from corral.providers.containers.image import Images
from corral.providers.containers.podman import Podman
from corral.providers.embedded.provider import EmbeddedProvider
from corral.spec.models import ClusterSpec
from corral.state_dir import cluster_dir

pytestmark = [
    pytest.mark.embedded,
    pytest.mark.skipif(os.geteuid() != 0, reason="embedded nodes need root"),
    pytest.mark.skipif(not shutil.which("podman"), reason="needs podman"),
]
SEED = 7
KILLS = 12 if os.environ.get("CORRAL_TEST_SLOW") else 4


def spec(name: str, nodes: str = "node[0-1]", **group: object) -> ClusterSpec:
    fields = {"name": "cpu", "provider": "embedded", "nodes": nodes, "memory_mib": 1024}
    return ClusterSpec.model_validate(
        {
            "corral": "v1",
            "name": name,
            "groups": [fields | {"gpu": {"type": "slot", "count": 2}} | group],
            "storage": [{"mount": "/shared", "kind": "provider"}],
        }
    )


@pytest.fixture
def name(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """A cluster name and a state folder of this process's own; both removed at the end."""
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path / "state"))
    chosen = f"pv{os.getpid()}-{abs(hash(request.node.name)) % 10**6}"
    yield chosen
    asyncio.run(EmbeddedProvider(spec(chosen)).destroy(ignore))


def up(embedded: EmbeddedProvider) -> list[Action]:
    async def run() -> list[Action]:
        actions = embedded.plan(await embedded.read_machines())
        await embedded.apply(actions, ignore)
        assert embedded.plan(await embedded.read_machines()) == ()
        return [a.action for a in actions]

    return asyncio.run(run())


def on(embedded: EmbeddedProvider, node: str, script: str, **values: str) -> Result:
    async def run() -> Result:
        with tempfile.TemporaryDirectory(prefix="pv") as control:
            transport = OpenSSH(node, embedded.ssh_target(node), Path(control))
            try:
                # A machine whose start was cut short may run without its sshd yet.
                await transport.connect(within=30)
                return await transport.run(sh(script, **values), timeout=60)  # type: ignore[arg-type]
            finally:
                await transport.close()

    return asyncio.run(run())


def test_life_of_machines(name: str) -> None:
    embedded = EmbeddedProvider(spec(name))
    assert up(embedded) == [Action.CREATE, Action.CREATE]

    same = on(
        embedded, "node1", "hostname; hostname -I; systemctl is-system-running; ls /dev/nvidia*"
    )
    assert same.stdout.split() == [
        "node1",
        embedded.address("node1"),
        "running",
        "/dev/nvidia0",
        "/dev/nvidia1",
    ]
    assert on(embedded, "node0", "setpriv --reuid 65534 touch /shared/from-nobody").ok
    assert on(embedded, "node1", "stat -c %u /shared/from-nobody").stdout.strip() == "65534"
    hosts = (
        "echo 192.0.2.9 far > /etc/hosts.new && mv /etc/hosts.new /etc/hosts && getent hosts far"
    )
    assert on(embedded, "node0", hosts).ok, "/etc/hosts is an ordinary file"
    limit = out("podman", "inspect", "--format", "{{.HostConfig.Memory}}", f"corral-{name}-node0")
    assert int(limit) == 1024 * 1024 * 1024
    assert embedded.traits("node0").memory_mib == 1024
    quiet = (
        "for s in slurmctld slurmd slurmdbd munge mariadb; do systemctl is-enabled $s; done; true"
    )
    assert on(embedded, "node0", quiet).stdout.split() == ["disabled"] * 5
    assert not on(embedded, "node0", "journalctl -b -k --no-pager -q | grep .").ok, (
        "the host's kernel log"
    )
    train = (
        "python3 -c 'import torch.distributed, sklearn.datasets, numpy, scipy.stats' && slurmd -V"
    )
    assert on(embedded, "node0", train).ok

    keys = [
        line.split()[2] for line in (cluster_dir(name) / "known_hosts").read_text().splitlines()
    ]
    assert len(set(keys)) == 2, "each node made its own host key"

    ids = containers_of(name)
    gateway = embedded.address("node0").rpartition(".")[0] + ".1"
    while_up = traces(name, ids, gateway)
    assert all(while_up.values()), f"each place is really looked at: {while_up}"
    gone = asyncio.run(embedded.destroy(ignore))
    assert len(gone) == 2 + 1 + 1 + 3
    assert not any(traces(name, ids, gateway).values())
    assert asyncio.run(embedded.leftovers()) == []
    assert asyncio.run(embedded.destroy(ignore)) == ()


def test_image_holds_no_secret(name: str) -> None:
    reference = asyncio.run(Images(Podman(machine.host_runtime())).ensure("auto", ignore))
    root = out("podman", "image", "mount", reference).strip()
    try:
        assert not list(Path(root, "etc/ssh").glob("ssh_host_*"))
        assert not Path(root, "etc/munge/munge.key").exists()
        assert not Path(root, "root/.ssh/authorized_keys").exists()
        assert Path(root, "etc/machine-id").read_text() == ""
    finally:
        out("podman", "image", "umount", reference)


def test_stopped_node_starts_with_its_address_and_host_key(name: str) -> None:
    embedded = EmbeddedProvider(spec(name))
    up(embedded)
    before = (cluster_dir(name) / "known_hosts").read_text(), embedded.address("node1")
    assert on(embedded, "node1", "echo kept > /root/kept").ok
    out("podman", "stop", "--time", "0", f"corral-{name}-node1")
    assert up(embedded) == [Action.START]
    assert on(embedded, "node1", "cat /root/kept; ls /dev/nvidia*").stdout.split()[0] == "kept"
    assert sorted(before[0].splitlines()) == sorted(
        (cluster_dir(name) / "known_hosts").read_text().splitlines()
    )
    assert embedded.address("node1") == before[1]


def test_node_killed_together_with_its_conmon(name: str) -> None:
    embedded = EmbeddedProvider(spec(name))
    up(embedded)
    identity = out("podman", "inspect", "--format", "{{.Id}}", f"corral-{name}-node0").strip()
    kill(identity)
    assert up(embedded) == [Action.START]


def kill(*identities: str) -> None:
    """SIGKILL every process of containers, and their conmon: nobody reports the end to podman."""

    def of_them(process: Path) -> bool:
        with suppress(FileNotFoundError, ProcessLookupError):  # others come and go meanwhile
            words, pid = (process / "cmdline").read_bytes(), int(process.name)
            return any(i.encode() in words or machine.carries(pid, i) for i in identities)
        return False

    victims = [int(p.name) for p in Path("/proc").glob("[0-9]*") if of_them(p)]
    for pid in sorted(victims):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 120
    while any(machine.carries(pid, i) for pid in victims for i in identities):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_two_clusters_side_by_side(name: str) -> None:
    first, second = EmbeddedProvider(spec(name)), EmbeddedProvider(spec(f"{name}b", "node0"))
    try:
        up(first)
        up(second)
        assert first.address("node0") != second.address("node0")
        assert on(first, "node0", "echo one > /shared/who").ok
        assert not on(second, "node0", "cat /shared/who").ok
    finally:
        asyncio.run(second.destroy(ignore))
    assert on(first, "node0", "cat /shared/who").stdout.strip() == "one"


def test_lost_state_folder_is_enrolled_again(name: str) -> None:
    embedded = EmbeddedProvider(spec(name, "node0"))
    up(embedded)
    shutil.rmtree(cluster_dir(name))
    assert up(embedded) == [Action.ENROL]
    assert on(embedded, "node0", "true").ok


def test_node_that_cannot_boot_reports_why(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "corral.providers.containers.container.entry",
        lambda gpus: sh("echo the disk is on fire; sleep 1; exit 7"),
    )
    embedded = EmbeddedProvider(spec(name, "node0"))
    with pytest.raises(CorralError) as caught:
        up(embedded)
    assert caught.value.node == "node0"
    assert "podman logs" in caught.value.hint
    assert "the disk is on fire" in caught.value.tail


WORKER = """
import asyncio, sys
from corral.events import ignore
from corral.providers.embedded.provider import EmbeddedProvider
from corral.spec.models import ClusterSpec

async def main():
    one = EmbeddedProvider(ClusterSpec.model_validate_json(sys.stdin.read()))
    actions = one.plan(await one.read_machines())
    await one.apply(actions, ignore)
    print(",".join(a.action for a in actions), one.plan(await one.read_machines()), flush=True)

asyncio.run(main())
"""


def test_killed_at_any_moment_it_converges_and_leaves_nothing(name: str) -> None:
    declared = spec(name)
    asyncio.run(EmbeddedProvider(declared).prepare(ignore))
    chance = random.Random(SEED)
    for _ in range(KILLS):
        child = subprocess.Popen(
            [sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
        assert child.stdin is not None
        child.stdin.write(declared.model_dump_json().encode())
        child.stdin.close()
        try:
            child.wait(timeout=chance.uniform(0.2, 3.0))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        embedded = EmbeddedProvider(declared)
        if chance.random() < 0.5:
            up(embedded)
            assert on(embedded, "node1", "true").ok
        settle(name)
        asyncio.run(embedded.destroy(ignore))
        assert asyncio.run(embedded.leftovers()) == []


def settle(cluster: str) -> None:
    """Wait for podmans that a killed Corral had begun; they end on their own."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        lines = out("ps", "-eo", "args").splitlines()
        if not any(v.startswith("podman ") and f"corral-{cluster}" in v for v in lines):
            return
        time.sleep(0.1)
    raise AssertionError("a podman of the killed process never ended")


# "A machine": its own processes, mounts and network; when its first process is killed all of
# them are gone at once, like in a power cut. Its disk stays, /run as far as it is not a tmpfs.
BOX = """
set -eu
t=$1; run=$2; shift 2
mount --make-rprivate /
mkdir -p $t/disk/containers $t/disk/run $t/real
mount --bind /var/lib/containers $t/real
for m in $(grep -E ' (/var/lib/containers|/run/netns)' /proc/mounts | cut -d' ' -f2 | sort -r); do
  umount -l $m
done
mount --bind $t/disk/containers /var/lib/containers
for d in libpod containers runc crun netns; do
  mkdir -p /run/$d $t/disk/run/$d
  if [ $run = tmpfs ]; then mount -t tmpfs tmpfs /run/$d
  else mount --bind $t/disk/run/$d /run/$d; fi
done
export CONTAINERS_STORAGE_CONF=$t/storage.conf
ip link set lo up
"$@"
"""
BOOTS = """
podman exec $CONTAINER sh -c 'cat /root/boots 2>/dev/null; echo boot >> /root/boots'
podman exec $CONTAINER sh -c 'cat /shared/boots 2>/dev/null; echo shared >> /shared/boots'
"""


def in_box(
    folder: Path, run: str, *argv: str, name: str, then: str = "exit 0", stdin: str = ""
) -> str:
    """Run a program in "a machine" whose disk is in the folder, and give what it printed."""
    (folder / "storage.conf").write_text(
        textwrap.dedent(f"""\
        [storage]
        driver = "overlay"
        graphroot = "/var/lib/containers/storage"
        runroot = "/run/containers/storage"
        [storage.options]
        additionalimagestores = ["{folder}/real/storage"]
        """)
    )
    done = subprocess.run(
        [
            *("unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc"),
            *("--kill-child=KILL", "sh", "-c", BOX + then, "sh", str(folder), run),
            *argv,
        ],
        input=stdin,
        env=os.environ | {"CONTAINER": f"corral-{name}-node1"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# runc: "stat /sys/fs/cgroup/systemd/libpod-...: no such file", seen with cgroup v1 mounts.
boxed = pytest.mark.skipif(
    Path("/run/.containerenv").exists(), reason="in a container runc finds no cgroups"
)


# As a container without --privileged has them.
CLOSED = """
grep -o '/sys/fs/cgroup[^ ]* cgroup2* ' /proc/mounts | cut -d' ' -f1 |
  while read -r f; do mount -o remount,bind,ro $f || exit 9; done
exec "$@"
"""


def test_read_only_cgroups_are_refused_before_anything_is_made(name: str, tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(spec(name).model_dump_json(exclude_unset=True))
    closed = ("unshare", "--mount", "--propagation=private", "sh", "-c", CLOSED, "sh")
    for verb in (("plan",), ("up", "--yes")):
        done = subprocess.run(
            [*closed, sys.executable, "-m", "corral", verb[0], file, *verb[1:]],
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 3, done.stderr
        assert "nodes in containers need cgroups, and root may make none here" in done.stderr
        assert not containers_of(name)
    assert f"corral-{name}" not in out("podman", "network", "ls")


@boxed
@pytest.mark.parametrize("run", ["tmpfs", "disk"])
def test_power_cut(name: str, run: str, tmp_path: Path) -> None:
    declared = spec(name)
    asyncio.run(EmbeddedProvider(declared).prepare(ignore))

    def boot() -> str:
        worker = (sys.executable, "-c", WORKER)
        stdin = declared.model_dump_json()
        return in_box(tmp_path, run, *worker, name=name, then=BOOTS, stdin=stdin)

    try:
        assert boot().split() == ["create,create", "()"]
        assert boot().split() == ["start,start", "()", "boot", "shared"]
        assert boot().split() == ["start,start", "()", "boot", "boot", "shared", "shared"]
    finally:
        shutil.rmtree(tmp_path / "disk", ignore_errors=True)


@boxed
def test_everything_is_killed_from_outside(name: str, tmp_path: Path) -> None:
    asyncio.run(EmbeddedProvider(spec(name)).prepare(ignore))
    call = "import sys, tests.embedded.test_provider as t; t.killed_from_outside(sys.argv[1])"
    try:
        in_box(tmp_path, "tmpfs", sys.executable, "-c", call, name, name=name)
    finally:
        shutil.rmtree(tmp_path / "disk", ignore_errors=True)


def killed_from_outside(name: str) -> None:
    """No process of podman's is left, and its state is there, lost, or lost and written again."""
    provider = EmbeddedProvider(spec(name))
    runtime = machine.host_runtime()
    image = asyncio.run(Images(Podman(runtime)).reference("auto"))
    own = ["run", "--detach", "--pull=never", "--name", "theirs", "--entrypoint", "sleep"]
    out("podman", *runtime, *own, image, "3600")
    (theirs,) = namespaces_here()
    up(provider)
    bridge = json.loads(out("podman", "network", "inspect", f"corral-{name}"))
    interface, gateway = bridge[0]["network_interface"], bridge[0]["subnets"][0]["gateway"]
    # What a user attached by hand.
    out("ip", "netns", "add", "probe")
    out("ip", "link", "add", "probe0", "type", "veth", "peer", "name", "eth0", "netns", "probe")
    out("ip", "link", "set", "probe0", "master", interface)
    mine = {theirs, "probe"}

    def only_two_nodes() -> bool:
        ports = json.loads(out("ip", "-json", "link", "show", "master", interface))
        return len(ports) == 2 + 1 and len(namespaces_here() - mine) == 2

    names = [f"corral-{name}-node{i}" for i in range(2)]
    assert only_two_nodes()
    kill(*everything())
    assert up(provider) == [Action.START, Action.START]
    assert only_two_nodes()

    kill(*everything())
    forget()
    assert up(provider) == [Action.START, Action.START]
    assert only_two_nodes()

    kill(*everything())
    forget()
    out("podman", *runtime, "start", *names)
    assert not only_two_nodes(), "two machines have one address"
    assert up(provider) == [Action.RELEASE_ADDRESS, Action.RELEASE_ADDRESS]
    assert only_two_nodes()
    assert on(provider, "node1", "hostname").stdout.split() == ["node1"]

    out("ip", "netns", "delete", "probe")
    kill(*everything())
    asyncio.run(provider.destroy(ignore))
    assert not any(traces(name, [], gateway).values())
    assert interface not in out("ip", "link")
    assert namespaces_here() == {theirs}, "the user's own container is podman's to clean"


def everything() -> list[str]:
    """Ids of all containers of the machine."""
    return out("podman", "ps", "--all", "--quiet", "--no-trunc").split()


def namespaces_here() -> set[str]:
    return {path.name for path in Path("/run/netns").iterdir()}


def forget() -> None:
    """Remove podman's runtime state, as Corral did when no process was left."""
    for folder in ("/run/libpod", "/run/containers", "/run/runc", "/run/crun"):
        for path in Path(folder).iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("CORRAL_TEST_SLOW"), reason="CORRAL_TEST_SLOW is not set")
def test_own_image(name: str, tmp_path: Path) -> None:
    release = archive.host_release()
    suite = "trixie" if release["ID"] == "debian" else "noble"
    sources = archive.for_suite(
        archive.host_sources(), release["VERSION_CODENAME"], suite, {"": ("main",)}
    )
    own = f"localhost/{name}:own"
    tar = tmp_path / "own.tar"
    keyring = [f"--keyring={s.signed_by}" for s in sources if s.signed_by.startswith("/")]
    out_args = ["mmdebstrap", "--variant=minbase", "--mode=root", "--include=apt", *keyring]
    subprocess.run(
        [*out_args, suite, str(tar), *(s.line() for s in sources)],
        check=True,
        timeout=300,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    out("podman", "import", "--quiet", str(tar), own)
    images = Images(Podman(machine.host_runtime()))
    try:
        embedded = EmbeddedProvider(spec(name, "node0", image=own))
        assert up(embedded) == [Action.CREATE]
        assert embedded.predict("node0").os_id == release["ID"]
        seen = on(
            embedded, "node0", "systemctl is-system-running; cat /etc/hosts; apt-get -q update"
        )
        assert seen.ok
        assert seen.stdout.startswith("running")
        assert "localhost" in seen.stdout
        asyncio.run(embedded.destroy(ignore))
        (derived,) = (i for i in asyncio.run(images.listed()) if i.base and not i.used_by)
        assert asyncio.run(images.remove(derived.reference)) == (derived.reference,)
    finally:
        asyncio.run(EmbeddedProvider(spec(name)).destroy(ignore))
        subprocess.run(["podman", "rmi", "--force", own], check=False, capture_output=True)
