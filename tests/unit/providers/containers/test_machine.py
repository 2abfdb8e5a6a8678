"""Reading the machine that carries the nodes, and what podman left after a reboot of it."""

from __future__ import annotations

import ipaddress
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.errors import Code, CorralError
from corral.inspect import cpu, system
from corral.providers.containers import machine, stale_objects
from corral.providers.containers.stale_objects import Places

V1 = "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n"
V2 = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"
IDENTITY = "ab" * 32


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The kernel's file of inotify instances, as Linux starts."""
    file = tmp_path / "max_user_instances"
    file.write_text("128\n")
    monkeypatch.setattr(machine, "WATCHES", file)
    return file


def test_inotify_is_raised_for_many_nodes_and_never_lowered(limit: Path) -> None:
    assert "from 128 to 1536" in machine.let_watch(64)
    assert limit.read_text() == "1536"
    assert machine.let_watch(3) == ""
    assert limit.read_text() == "1536"


def test_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.runtime_options("v2") == ()
    assert machine.runtime_options("none") == ()
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert machine.runtime_options("hybrid") == ("--runtime", "runc")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(Path, "exists", lambda self: False)
    with pytest.raises(CorralError) as caught:
        machine.runtime_options("v1")
    assert caught.value.code is Code.MISSING_TOOL


V2_MOUNTS = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n"
HYBRID_MOUNTS = (
    "tmpfs /sys/fs/cgroup tmpfs ro,nosuid 0 0\n"
    "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n"
    "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n"
)


@pytest.mark.parametrize(
    ("mounts", "closed", "words"),
    [
        (V2_MOUNTS, "", ""),
        (HYBRID_MOUNTS, "sys/fs/cgroup", ""),  # the tmpfs, in which nothing is made
        (V2_MOUNTS, "sys/fs/cgroup", "/sys/fs/cgroup is not writable"),
        (HYBRID_MOUNTS, "sys/fs/cgroup/memory", "/sys/fs/cgroup/memory is not writable"),
        ("tmpfs /sys tmpfs rw 0 0\n", "", "none are mounted below /sys/fs/cgroup"),
    ],
)
def test_permission_for_cgroups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounts: str, closed: str, words: str
) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/mounts").write_text(mounts)
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path / closed)
    refusal = machine.cgroup_refusal(tmp_path)
    assert bool(refusal) is bool(words)
    if refusal is not None:
        assert refusal.code is Code.FORBIDDEN
        assert refusal.message.endswith(f"root may make none here: {words}")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_cgroups_as_a_container_without_privileges_has_them() -> None:
    """In a mount namespace whose cgroups are read-only, as docker and podman mount them."""
    probe = "from corral.providers.containers import machine as m; print(m.cgroup_refusal())"
    ask = 'exec "$0" -c "$1"'
    close = "grep ' /sys/fs/cgroup' /proc/mounts | grep ' cgroup' | cut -d' ' -f2 |"
    close += " while read -r f; do mount -o remount,bind,ro $f || exit 9; done"
    argv = ["unshare", "--mount", "--propagation=private", "sh", "-euc", f"{close}; {ask}"]
    done = subprocess.run(
        [*argv, sys.executable, probe], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "root may make none here" in done.stdout


@pytest.mark.parametrize(
    ("hard", "want"),
    [
        ((20000, 96365, 32768), {"nofile": 20000, "nproc": 32768}),
        ((1048576, 96365, 4194304), {"nofile": 524288, "nproc": 32768}),
        (
            (resource.RLIM_INFINITY, resource.RLIM_INFINITY, 4194304),
            {"nofile": 524288, "nproc": 32768},
        ),
        ((1024, 500, 4194304), {"nofile": 1024, "nproc": 500}),
    ],
)
def test_limits(hard: tuple[int, int, int], want: dict[str, int]) -> None:
    assert machine.limits(*hard) == want


@given(st.integers(512, 10**7), st.integers(1, 500))
def test_shares_leave_the_host_a_quarter(total: int, nodes: int) -> None:
    share = machine.memory_share(total, nodes)
    assert share >= machine.LEAST_MIB
    assert share == machine.LEAST_MIB or share * nodes <= total * machine.SHARED_PART


def test_the_host_is_read_as_its_nodes_are(tmp_path: Path) -> None:
    """An ARM machine: /proc/cpuinfo names no sockets, and a user's mount looks like a cgroup."""
    files = {
        "proc/meminfo": "MemTotal:        8388608 kB\nMemAvailable:    2097152 kB\n",
        "proc/mounts": "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\nx /srv/m cgroup rw 0 0\n",
        **{
            f"sys/devices/system/cpu/cpu{n}/topology/{name}": f"{value}\n"
            for n in range(4)
            for name, value in (("physical_package_id", n // 2), ("core_id", n))
        },
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    answers = machine.host_answers(tmp_path)
    assert cpu.layout(answers) == cpu.Layout(4, 2, 2, 1, 8192)
    assert system.CGROUP.read(answers) == "v2"
    assert cpu.memory_mib(answers["memory"], "MemAvailable") == 2048


def places(folder: Path) -> Places:
    folders = Places(
        root=folder / "root",
        runroot=folder / "runroot",
        tmpdir=folder / "tmpdir",
        ipam=folder / "ipam.db",
        runtimes=(folder / "runc",),
    )
    (folders.root / "overlay-containers" / IDENTITY).mkdir(parents=True)
    (folders.runroot / "overlay").mkdir(parents=True)
    (folders.tmpdir / "exits").mkdir(parents=True)
    (folder / "runc" / IDENTITY).mkdir(parents=True)
    (folder / "runc" / "theirs").mkdir(parents=True)
    folders.ipam.touch()
    return folders


# Recorded on Debian 12: /run/netns with one of podman's namespaces and one that a user made.
MOUNTED = """\
399 311 0:87 / /run/netns rw,relatime shared:99 - tmpfs tmpfs rw
400 399 0:4 net:[4026532479] /run/netns/probe rw shared:129 - nsfs nsfs rw
"""
OF_PODMAN = "netns-b9ab781f-56ef-71ad-eef0-f4e6511c327e"
PODMANS = f"401 399 0:4 net:[4026532551] /run/netns/{OF_PODMAN} rw shared:130 - nsfs nsfs rw\n"


def process(
    proc: Path,
    *,
    cgroup: str = "0::/",
    cmdline: bytes = b"sleep\0",
    state: str = "S",
    mounts: str = MOUNTED,
) -> None:
    (proc / "17").mkdir(parents=True)
    (proc / "17" / "cgroup").write_text(cgroup)
    (proc / "17" / "cmdline").write_bytes(cmdline)
    (proc / "17" / "stat").write_text(f"17 (a) name) {state} 1 17 17 0 -1 4228364 0 0\n")
    (proc / "self").mkdir()
    (proc / "self" / "mountinfo").write_text(mounts)


def test_after_a_reboot_the_runtime_state_goes(tmp_path: Path) -> None:
    folders = places(tmp_path)
    process(tmp_path / "proc")
    assert stale_objects.clear(folders, tmp_path / "proc")
    assert not folders.tmpdir.exists()
    assert not folders.runroot.exists()
    assert [p.name for p in (tmp_path / "runc").iterdir()] == ["theirs"]
    assert (folders.root / "overlay-containers" / IDENTITY).exists()
    assert folders.ipam.exists(), "another podman's addresses may be in it"
    assert not stale_objects.clear(folders, tmp_path / "proc"), "nothing more to do"


def test_nothing_goes_while_a_container_or_conmon_lives(tmp_path: Path) -> None:
    folders = places(tmp_path)
    process(tmp_path / "a", cgroup=f"0::/machine.slice/libpod-{IDENTITY}.scope/init.scope")
    exits = str(folders.tmpdir / "exits").encode()
    process(tmp_path / "b", cmdline=b"conmon\0--exit-dir\0" + exits + b"\0")
    for proc in ("a", "b"):
        assert not stale_objects.clear(folders, tmp_path / proc)
    assert (tmp_path / "runc" / IDENTITY).exists()
    assert folders.tmpdir.exists()


def test_what_is_of_this_boot_is_left_to_podman(tmp_path: Path) -> None:
    """All processes were killed: without its state podman does not find the network namespaces."""
    assert stale_objects.mounted(MOUNTED + PODMANS) == {OF_PODMAN}
    podman = places(tmp_path)
    process(tmp_path / "proc", mounts=MOUNTED + PODMANS)
    assert not stale_objects.clear(podman, tmp_path / "proc")
    assert podman.tmpdir.exists()


def test_a_zombie_is_not_alive(tmp_path: Path) -> None:
    """PID 1 of a container that runs Corral may reap nobody: "sleep" does not."""
    podman = places(tmp_path)
    process(tmp_path / "proc", cgroup=f"0::/libpod-{IDENTITY}", cmdline=b"", state="Z")
    stale_objects.bury(podman, IDENTITY, tmp_path / "proc")
    assert (podman.tmpdir / "exits" / IDENTITY).read_text() == "137"


def test_a_dead_container_is_buried_and_a_living_one_not(tmp_path: Path) -> None:
    folders = places(tmp_path)
    process(tmp_path / "alive", cgroup=f"4:memory:/libpod_parent/libpod-{IDENTITY}")
    stale_objects.bury(folders, IDENTITY, tmp_path / "alive")
    assert not (folders.tmpdir / "exits" / IDENTITY).exists()
    process(tmp_path / "dead")
    stale_objects.bury(folders, IDENTITY, tmp_path / "dead")
    assert (folders.tmpdir / "exits" / IDENTITY).read_text() == "137"


def test_places_follow_podmans_options() -> None:
    assert Places.of(("podman", "--runtime", "runc")) == Places()
    given_ = Places.of(("podman", "--root", "/a", "--runroot", "/b", "--tmpdir", "/c"))
    assert (given_.root, given_.runroot, given_.tmpdir) == (Path("/a"), Path("/b"), Path("/c"))


def test_a_process_is_matched_by_its_cgroup() -> None:
    assert not machine.carries(1, IDENTITY)
    assert not machine.carries(2**22 + 1, IDENTITY)
    assert isinstance(machine.host_routes(), tuple)
    assert all(isinstance(r, ipaddress.IPv4Network) for r in machine.host_routes())
