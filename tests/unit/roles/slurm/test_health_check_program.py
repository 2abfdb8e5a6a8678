"""The node health program itself, with stand-ins for the machine's tools and Slurm's commands."""

from __future__ import annotations

import os
from pathlib import Path
from typing import get_args

import pytest

from corral.roles.slurm import health as role
from corral.roles.slurm.health import TAG, health_checks
from corral.spec.sections.services import HealthCheck
from tests.unit.roles.slurm.health_node import GPUS, RECORDED, Node


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_table_program_and_schema_hold_the_same_checks() -> None:
    ids = [check.id for check in health_checks().values()]
    named = next(line for line in role.program().splitlines() if line.startswith("checks="))
    assert tuple(ids) == get_args(HealthCheck)
    assert named == f"checks='{' '.join(i.removeprefix(TAG) for i in ids)}'"
    assert (
        f"twice=' {' '.join(k.id for k in health_checks().values() if k.twice)} '" in role.program()
    )
    assert "@XIDS@" not in role.program()


def test_a_good_node_passes_and_nothing_is_reported(node: Node) -> None:
    node.gpus(
        remap="00000000:07:00.0, 0, 0, No, No\n",
        nvlink="GPU 0: X (a)\n\t Link 0: 26.5 GB/s\nGPU 1: X (b)\n\t Link 0: 26.5 GB/s\n",
        kernel="[ 1.0] NVRM: Xid (PCI:0000:07:00): 31, pid=1, MMU Fault\n",
    )
    seen = node.run()
    assert {verdict for verdict, _ in seen.values()} == {"ok", "none"}
    assert seen["gpus"] == ("ok", "4 of 4 GPUs")
    assert seen["xid"][1].endswith("(1 of jobs)")
    assert node.updates == []
    assert "width.00000000:07:00.0 16" in (node.root / "kept" / "best").read_text()


def xid(number: int, words: str) -> str:
    return f"[9.5] NVRM: Xid (PCI:0000:07:00): {number}, {words}\n"


RECOVER = "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
OVER = "GPU recovery action changed from 0x2 (Node Reboot Required) to 0x0 (None)"
LINKS = "GPU 0: X\n\t Link 0: 26 GB/s\n\t Link 1: 26 GB/s\nGPU 1: X\n\t Link 0: 26 GB/s\n"
SCENES = {
    "faults": (
        {
            "gpus": GPUS.replace("P0, 16", "P0, 8", 1).replace("5, 0, 0\n2", "5, 0, 20000001\n2"),
            "remap": "07:00.0, 1, 9, No, Yes\n",
            "nvlink": f"{LINKS}\t Link 1: <inactive>\n",
            "kernel": xid(154, RECOVER),
        },
        {
            "gpus": ("ok", "4 of 4"),
            "ecc": ("fail", "GPU 1 (00000000:17:00.0): 20000001 corrected errors"),
            "pcie": ("fail", "GPU 0 (00000000:07:00.0) has 8 PCIe lanes, all others 16"),
            "remap": ("fail", "must be replaced"),
            "nvlink": ("fail", "GPU 1 has 1 NVLinks up, others 2"),
            "xid": ("fail", "Xid 154 on GPU 0000:07:00, the driver asks for"),
        },
    ),
    "no faults": (
        {
            "gpus": GPUS.replace("P0, 16", "P0, 8", 2).replace("5, 0, 0", "5, [N/A], [N/A]"),
            "remap": "07:00.0, 1, 10, No, No\n",
            "kernel": xid(154, RECOVER) + xid(154, OVER) + xid(149, "NETIR  Nonfatal  XC0 Link 06"),
        },
        {
            "ecc": ("none", "do not count"),
            "pcie": ("warn", "has 8 of 16 PCIe lanes, as always"),
            "remap": ("warn", "11 rows"),
            "nvlink": ("none", "no NVLink"),
            "xid": ("ok", ""),
        },
    ),
    "odd": (
        {
            "gpus": GPUS.replace("P0, 16, 16, 5", "P8, 16, 16, 1"),
            "remap.status": "2",
            "remap": "Field is not valid",
            "kernel": xid(149, "NETIR_LINK_EVT  Fatal   XC0 i0 Link 06") + xid(777, "new"),
        },
        {
            "pcie": ("ok", "all lanes"),
            "remap": ("none", "does not report it"),
            "xid": ("fail", "Xid 149 on GPU 0000:07:00, NVLink fault"),
        },
    ),
    "no driver": (
        {
            "gpus": "",
            "gpus.status": "9",
            "gpus.err": "NVIDIA-SMI has failed\n",
            "kernel": xid(777, ""),
        },
        {
            "gpus": ("fail", "0 of 4 GPUs answer: NVIDIA-SMI has failed"),
            "ecc": ("none", "does not report it"),
            "xid": ("warn", "777"),
        },
    ),
}


@pytest.mark.parametrize("scene", SCENES)
def test_output_of_the_driver(node: Node, scene: str) -> None:
    files, expected = SCENES[scene]
    node.gpus(**files)
    seen = node.run("--look")
    assert {k: v for k, (v, _) in seen.items() if k in expected} == {
        k: v for k, (v, _) in expected.items()
    }
    assert {k: words in seen[k][1] for k, (_, words) in expected.items()} == dict.fromkeys(
        expected, True
    )


@pytest.mark.parametrize(("auth", "verdict"), [("munge", "fail"), ("slurm", "none")])
def test_munge_is_a_service_only_where_it_is_slurms_key(
    node: Node, auth: str, verdict: str
) -> None:
    """Enabled and never started: so Debian's package leaves it on a machine with auth/slurm."""
    cases = 'case "$1 $2" in "is-enabled munge") echo enabled ;; *) echo inactive; exit 3 ;; esac'
    node.tool("systemctl", f"#!/bin/sh\n{cases}\n")
    node.settings = {"auth": auth}
    assert node.run("--look")["services"][0] == verdict


def test_a_real_machine_is_healthy(node: Node) -> None:
    """Two H200 with driver 580.159, recorded on 2026-11-22; a third one that is missing is seen."""
    node.settings = {"gpus": "2"}
    node.gpus(**{p.name: p.read_text() for p in (RECORDED / "h200").iterdir()})
    seen = node.run("--look")
    checks = ("gpus", "ecc", "remap", "pcie", "xid", "nvlink")
    assert {seen[check][0] for check in checks} == {"ok"}
    assert seen["nvlink"][1].startswith("18 NVLinks up")
    node.settings = {"gpus": "3"}
    assert node.run("--look")["gpus"] == ("fail", "2 of 3 GPUs answer")


def test_ports_are_held_to_what_they_once_were(node: Node) -> None:
    node.settings = {"gpus": "0", "fabric": "infiniband"}
    assert node.run("--look")["ib"] == ("fail", "InfiniBand is declared and no port is up")
    port = node.root / "class/infiniband/mlx5_0/ports/1"
    (port / "counters").mkdir(parents=True)

    def port_is(state: str, rate: str, downed: int) -> None:
        (port / "state").write_text(f"{state}\n")
        (port / "rate").write_text(f"{rate} Gb/sec (4X NDR)\n")
        (port / "counters/link_downed").write_text(f"{downed}\n")

    port_is("4: ACTIVE", "400", 1)
    assert node.run()["ib"] == ("ok", "1 ports up")
    port_is("4: ACTIVE", "200", 1)
    assert "runs at 200 Gb/s, once at 400" in node.run("--look")["ib"][1]
    port_is("1: DOWN", "10", 1)
    assert "is DOWN, once it was up" in node.run("--look")["ib"][1]
    port_is("4: ACTIVE", "400", 6)
    assert "lost its link 5 times within 24 hours" in node.run("--look")["ib"][1]


def test_a_port_needs_a_subnet_manager_and_few_errors(node: Node) -> None:
    """Files and values as the kernel's mlx5_ib shows them (Documentation/ABI/stable/sysfs-...)."""
    node.settings = {"gpus": "0", "fabric": "infiniband"}
    port = node.root / "class/infiniband/mlx5_0/ports/1"
    (port / "counters").mkdir(parents=True)
    for name, text in {
        "state": "4: ACTIVE",
        "rate": "400 Gb/sec (4X NDR)",
        "sm_lid": "0x1",
        "link_layer": "InfiniBand",
        "counters/symbol_error": "7",
        "counters/port_rcv_errors": "0",
    }.items():
        (port / name).write_text(f"{text}\n")
    assert node.run()["ib"] == ("ok", "1 ports up")
    (port / "counters/symbol_error").write_text("90\n")
    assert node.run()["ib"][0] == "ok"
    (port / "counters/symbol_error").write_text("7007\n")
    assert node.run("--look")["ib"] == (
        "warn",
        "mlx5_0.1: 7000 more symbol_error within 24 hours",
    )
    (port / "sm_lid").write_text("0x0\n")
    assert node.run("--look")["ib"] == ("fail", "mlx5_0.1 sees no subnet manager")
    (port / "link_layer").write_text("Ethernet\n")  # RoCE has none
    assert node.run("--look")["ib"][0] == "warn"


def test_a_comment_is_no_state(node: Node) -> None:
    comment = "Comment=x State=IDLE+DRAIN x Reason=health.gpus: of long ago"
    node.slurm(own=f"NodeName=n1 State=IDLE Foo=1 {comment}\n")
    node.run()
    assert node.updates == []
    forged = "".join(f"NodeName=o{i} State=IDLE Foo=1 {comment} [root@1]\n" for i in range(3))
    node.slurm(own="NodeName=n1 State=IDLE Foo=1\n", all=f"NodeName=n1 State=IDLE Foo=1\n{forged}")
    node.gpus(gpus=GPUS.replace("16, 5, 5, 0", "16, 5, 5, 3"))
    node.run()
    assert any("state=drain" in line for line in node.updates)


def test_it_drains_and_takes_back_its_own_only(node: Node) -> None:
    bad = GPUS.replace("5, 0, 0", "5, 3, 0", 1)
    node.gpus(gpus=bad)
    node.run()
    assert node.updates == [
        "nodename=n1|state=drain|reason=health.ecc: GPU 0 (00000000:07:00.0): 3 uncorrected errors|"
    ]
    node.run()
    assert node.updates == []  # it is out already
    node.gpus(gpus=GPUS)
    node.run()
    assert node.updates == ["nodename=n1|state=undrain|"]
    hand = (
        "NodeName=n1 State=IDLE+DRAIN Foo=1 Reason=health of the fan [root@2026-11-21T10:00:00]\n"
    )
    node.slurm(own=hand)
    node.run()
    node.gpus(gpus=bad)
    node.run()
    assert node.updates == []


def test_it_keeps_within_its_share(node: Node) -> None:
    node.gpus(gpus=GPUS.replace("5, 0, 0", "5, 3, 0", 1))
    out = "NodeName={n} State=IDLE+DRAIN Reason=health.disk: full [root@2026-11-21T10:00:0{s}]\n"
    healthy = "NodeName=n{i} State=IDLE Foo=1\n"
    # One of four is out already: no more.
    node.slurm(all=out.format(n="n9", s=1) + "".join(healthy.format(i=i) for i in range(1, 4)))
    node.run()
    assert node.updates == []
    # Another one drained itself a second before, unseen: this one resumes.
    four = "".join(healthy.format(i=i) for i in range(1, 5))
    node.slurm(all=four, all_more=out.format(n="n0", s=4))
    node.run()
    assert [update.split("|")[1] for update in node.updates] == ["state=drain", "state=undrain"]


def test_an_xid_counts_no_longer_once_a_person_resumed_the_node(node: Node) -> None:
    node.gpus(kernel="[7.5] NVRM: Xid (PCI:0000:07:00): 79, pid=1, GPU has fallen off the bus.\n")
    node.run()
    assert "reason=health.xid: Xid 79 on GPU 0000:07:00" in node.updates[0]
    node.slurm(own="NodeName=n1 State=IDLE Foo=1\n")
    node.run()
    assert node.run()["xid"][0] == "ok"
    assert node.updates == []


def test_what_hangs_does_not_hang_it(node: Node) -> None:
    (node.root / "gpus" / "hang").touch()
    node.program.write_text(node.program.read_text().replace("KILL 4 ", "KILL 0.3 "))
    assert node.run()["gpus"] == ("fail", "nvidia-smi gives no answer in 4 s")
    assert node.updates == []  # the first time: a driver that is slow once takes no node out
    node.run()
    assert len(node.updates) == 1


def test_hostile_words_stay_words(node: Node) -> None:
    node.gpus(gpus="", **{"gpus.status": "1", "gpus.err": '$(touch pwned) "; `id` \x1b[31m\n'})
    node.run()
    (update,) = node.updates
    assert update == (
        "nodename=n1|state=drain|reason=health.gpus: 0 of 4 GPUs answer: "
        "$(touch pwned) '; `id`  [31m|"
    )
    assert not list(node.root.rglob("pwned"))


def test_meanings_are_complete() -> None:
    for kind in health_checks().values():
        assert all((kind.title, kind.reads, kind.fails, kind.fix, kind.source, kind.failure))


def left(node: Node, pid: int, *, job: int = 0, ending: bool = False) -> None:
    """A user's process on a GPU, in a job's cgroup or in none; one that ends has no memory left."""
    folder = node.root / "proc" / str(pid)
    folder.mkdir()
    if os.geteuid() == 0:
        os.chown(folder, 2000, 2000)
    step = f"/system.slice/gpu0_slurmstepd.scope/job_{job}/step_0/user/task_0"
    (folder / "cgroup").write_text(f"0::{step if job else '/user.slice'}\n")
    (folder / "statm").write_text("0 0 0 0 0 0 0\n" if ending else "54086 2289 1979 45 0 1685 0\n")
    node.gpus(apps=f"{pid}, 00000000:07:00.0\n")


@pytest.mark.parametrize(
    ("queue", "verdict"),
    [
        ("12 COMPLETED $now", "ok"),  # seen on H200: gone a second later
        ("12 COMPLETED $((now - 100))", "fail"),
        ("12 PENDING N/A", "fail"),  # requeued
        ("12 COMPLETING $((now - 100))", "ok"),
        ("13 RUNNING $now", "fail"),  # slurmctld has forgotten it (MinJobAge)
    ],
)
def test_processes_of_a_job_have_a_minute_to_go(node: Node, queue: str, verdict: str) -> None:
    # Like squeue, which with -w leaves out jobs that are COMPLETING on other nodes.
    node.tool(
        "squeue",
        "#!/bin/sh\ncase $* in *-w*) exit 0 ;; esac\n"
        f'[ "$SLURM_TIME_FORMAT" = %s ] && now=$(date +%s); echo "{queue}"\n',
    )
    left(node, 71, job=12)
    result, words = node.run("--look")["leftover"]
    assert result == verdict
    assert ("71 (job 12)" in words) is (verdict == "fail")


@pytest.mark.parametrize(("ending", "verdict"), [(True, "ok"), (False, "fail")])
def test_one_that_gives_its_gpu_back_is_no_leftover(node: Node, ending: bool, verdict: str) -> None:
    left(node, 72, ending=ending)
    assert node.run("--look")["leftover"][0] == verdict


@pytest.mark.parametrize("name", ["job_12", "slurmstepd.scope/job_12/step_0"])
def test_a_cgroup_of_a_users_own_is_no_job(node: Node, name: str) -> None:
    """systemd delegates a cgroup to each user: one of such a name drained the node."""
    node.tool("squeue", "#!/bin/sh\n")  # no such job
    left(node, 71, ending=True)
    group = f"0::/user.slice/user-2000.slice/user@2000.service/app.slice/{name}\n"
    (node.root / "proc/71/cgroup").write_text(group)
    assert node.run("--look")["leftover"] == ("ok", "none")


@pytest.mark.parametrize("kind", ["link", "fifo"])
def test_what_users_put_into_tmp_is_not_written_to(node: Node, kind: str) -> None:
    """A name that they know beforehand: a link lost another file's content, a FIFO hung the check.

    With the kernel's fs.protected_symlinks and fs.protected_fifos the node was drained.
    """
    victim = node.root / "victim"
    victim.write_text("kept\n")
    make = f"ln -s {victim}" if kind == "link" else "mkfifo"
    text = node.program.read_text()
    node.program.write_text(f'{make} "{node.root}/spool/.corral-health.$$"\n{text}')
    assert node.run("--look")["spool"][0] == "ok"
    assert victim.read_text() == "kept\n"
    assert len(list((node.root / "spool").iterdir())) == 1


@pytest.mark.parametrize("at", ["[    9.5] ", "[    9.5] [  T42] ", "[    9.5][  T42] ", ""])
def test_a_file_that_is_called_as_an_error_of_a_gpu_drains_nothing(node: Node, at: str) -> None:
    """The kernel prints names of users' files in which programs crashed, line ends too."""
    xid = "NVRM: Xid (PCI:0000:07:00): 79, pid=1, GPU has fallen off the bus."
    crash = f"{at}x[42]: segfault at 0 ip 0 sp 0 error 4 in {xid}[7f+1]\n           {xid}\n"
    node.gpus(kernel=crash)
    assert node.run("--look")["xid"][0] == "ok"
    node.gpus(kernel=f"{crash}{at}{xid}\n")
    assert node.run("--look")["xid"][0] == ("fail" if at else "ok")
