"""Answers of machines as data: a healthy cluster of three, to be broken one answer at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from corral.doctor.machine_report import MachineReport
from corral.doctor.probes import Scene
from corral.errors import Code, CorralError

NAMES = ("node0", "node1", "node2")
ADDRESSES = {"node0": "10.9.0.10", "node1": "10.9.0.11", "node2": "10.9.0.12"}
SLURM_CONF = """\
ClusterName=lab
SlurmctldHost=node0(10.9.0.10)
AuthType=auth/slurm
TaskPlugin=task/affinity,task/cgroup
GresTypes=gpu
NodeName=node[0-2] NodeAddr=10.9.0.[10-12] CPUs=2 RealMemory=5845 Gres=gpu:slot:2
"""


def node_line(name: str, state: str = "IDLE", reason: str = "") -> str:
    """One node as ``scontrol show nodes -o`` shows it."""
    tail = f"Reason={reason} [slurm@2026-11-21T07:00:00]" if reason else ""
    return (
        f"NodeName={name} Arch=x86_64 CPUAlloc=0 CPUTot=2 Gres=gpu:slot:2 "
        f"NodeAddr={ADDRESSES[name]} Version=24.11.5 RealMemory=5845 AllocMem=0 State={state} "
        "Partitions=main CfgTRES=cpu=2,mem=5845M,billing=2,gres/gpu=2 AllocTRES= "
        f"CurrentWatts=0 AveWatts=0 {tail}"
    )


def sections(name: str) -> dict[str, str]:
    """What a healthy node answers."""
    lead = name == "node0"
    answers = {
        "names": "\n".join(f"{n} {a}" for n, a in ADDRESSES.items()),
        "units": "slurmd active" + ("\nslurmctld active\nmariadb active\nslurmdbd active" * lead),
        "keys": "/etc/slurm/slurm.key aaaa slurm:600",
        "uids": "slurm 64030\nmunge ",
        "versions": "slurmd 24.11.5" + ("\nslurmctld 24.11.5" if lead else ""),
        "conf": "/var/spool/slurmd/conf-cache/slurm.conf cccc"
        + ("\n/etc/slurm/slurm.conf cccc" if lead else ""),
        "room": "/ 9000000 20000000\n/:inodes 900000 1000000",
        "shared-mounts": "/shared mounted ext2/ext3",
        "devices": "/dev/nvidia0\n/dev/nvidia1",
        "limits": "LimitMEMLOCK infinity",
        "addresses": "1: lo    inet 127.0.0.1/8 scope host lo\n"
        f"2: eth0    inet {ADDRESSES[name]}/24 brd 10.9.0.255 scope global eth0",
        "links": "1: lo: <LOOPBACK,UP> mtu 65536 qdisc noqueue\n"
        "2: eth0@if7: <BROADCAST,UP> mtu 1500 qdisc noqueue",
    }
    if lead:
        answers |= {
            "state": "slurm 700",
            "ping": "Slurmctld(primary) at node0 is UP",
            "nodes": "\n".join(map(node_line, NAMES)),
            "slurmconf": SLURM_CONF,
            "cgroupconf": "ConstrainDevices=yes",
            "accounting": "lab",
        }
    return answers


def scene(changes: Mapping[str, Mapping[str, str]] | None = None) -> Scene:
    """A healthy cluster with these sections of these nodes put in the place of theirs."""
    machines = {n: MachineReport(n, {**sections(n), **(changes or {}).get(n, {})}) for n in NAMES}
    gpus = dict.fromkeys(NAMES, 2)
    return Scene("node0", NAMES, machines, ADDRESSES, gpus, auth="slurm")


def with_answers(base: Scene, machine: MachineReport) -> Scene:
    """The same with one node's entire answer replaced."""
    return replace(base, machines={**base.machines, machine.node: machine})


SILENT = CorralError(Code.UNREACHABLE, "no answer in 20 s", "node1")
