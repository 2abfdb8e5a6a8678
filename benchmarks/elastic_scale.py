"""A thousand nodes come and go in one Slurm: how long Slurm takes, and how long Corral.

    .venv/bin/python -m benchmarks.elastic_scale [NODES] [--idle 20] [--end 30]

Needs root and podman, prints JSON.

One container with a real slurmctld whose file has Corral's own keys for elastic nodes. A machine is
a real slurmd with its own port; "renting" it is starting it. Corral reads Slurm's marks, decides,
sets addresses in Slurm, and ends what Slurm has powered down, by the code that ``corral elastic``
runs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import time
from typing import Any

from corral.testing import elastic

NAME = f"corral-bench-elastic-{os.getpid()}"
CONF = """\
ClusterName=scale
SlurmctldHost=desk(127.0.0.1)
SlurmUser=root
AuthType=auth/slurm
CredType=cred/slurm
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SlurmdSpoolDir=/run/s/%n
SlurmdPidFile=/run/s/%n.pid
SlurmdLogFile=/run/s/%n.log
SlurmctldLogFile=/run/ctld.log
StateSaveLocation=/run/state
MpiDefault=none
ReturnToService=2
SlurmdTimeout=600
MessageTimeout=60
{power}
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE
"""


def podman(*words: str, stdin: str = "", check: bool = True, timeout: float = 900) -> str:
    done = subprocess.run(
        [*elastic.podman(), *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    if check and done.returncode:
        raise RuntimeError(f"{words[:4]}: {done.stderr[-1500:]} {done.stdout[-500:]}")
    return done.stdout


def inside(script: str, timeout: float = 900) -> str:
    return podman("exec", "--interactive", NAME, "sh", "-s", stdin=script, timeout=timeout)


class Timed:
    """Seconds of each part, and calls to Slurm."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def __call__(self, what: str, begin: float) -> None:
        """Add what has passed since ``begin`` to a part."""
        self.seconds[what] = round(self.seconds.get(what, 0.0) + time.perf_counter() - begin, 2)


def times_of(timed: Timed, rented: set[str], joined: set[str], names: tuple[str, ...]) -> Any:
    begin = time.perf_counter()
    text = inside(elastic.READ)
    timed("Slurm: scontrol show nodes, all polls", begin)
    begin = time.perf_counter()
    marks = elastic.decided(text, rented, joined, names)
    timed("Corral: reading and deciding, all polls", begin)
    return marks


def come(timed: Timed, names: tuple[str, ...], rented: set[str], joined: set[str]) -> None:
    """Until Slurm has marked all of them; then machines, addresses."""
    begin = time.perf_counter()
    marks = times_of(timed, rented, joined, names)
    while len(marks.come) < len(names):
        time.sleep(1)
        marks = times_of(timed, rented, joined, names)
    timed("Slurm: all marked, from the submission", begin)
    begin = time.perf_counter()
    groups = elastic.groups(marks.come, inside(elastic.READ_JOBS))
    timed("Corral: which come together", begin)
    if len(groups) != 1:
        raise RuntimeError(f"one job is pending, and there are {len(groups)} groups")
    begin = time.perf_counter()
    addresses = ",".join("127.0.0.1" for _ in marks.come)
    inside(
        f"scontrol update nodename={','.join(marks.come)} nodeaddr={addresses} "
        f"nodehostname={','.join(marks.come)}"
    )
    timed("Slurm: all addresses set, one call", begin)
    begin = time.perf_counter()
    start = "slurmd -N n$n -b >/dev/null 2>&1 </dev/null"
    inside(f"for n in $(seq 0 {len(names) - 1}); do {start}; done")
    timed("machines start (slurmd on this machine)", begin)
    rented |= set(names)
    joined |= set(names)


def go(timed: Timed, names: tuple[str, ...], rented: set[str], idle: int) -> None:
    """Until Slurm has powered all of them down, and none is rented."""
    begin = time.perf_counter()
    while rented:
        marks = times_of(timed, rented, set(), names)
        if marks.go:
            kill_begin = time.perf_counter()
            inside(f"for n in {' '.join(marks.go)}; do kill -9 $(cat /run/s/$n.pid); done")
            timed("machines end", kill_begin)
            rented -= set(marks.go)
        time.sleep(1)
    timed(f"all ended, from the job's end (idle {idle} s)", begin)
    while "POWERED_DOWN" not in (text := inside(elastic.READ)) or "POWERING_DOWN" in text:
        time.sleep(1)
    timed("all powered down, from the job's end", begin)


def measure(nodes: int, idle: int, end: int) -> dict[str, object]:
    names = tuple(f"n{i}" for i in range(nodes))
    subprocess.run(asyncio.run(elastic.container(NAME)), check=True, capture_output=True)
    power = elastic.power_lines(idle=idle, boot=1800, end=end)
    lines = "\n".join(f"NodeName={n} Port={20000 + int(n[1:])} CPUs=1 State=CLOUD" for n in names)
    conf = CONF.format(power=power, nodes=lines)
    inside(
        # getaddrinfo (AI_ADDRCONFIG) knows no IPv4 while only lo has an address.
        "ip link set lo up; ip link add d0 type bridge; ip addr add 10.9.9.1/24 dev d0; "
        "ip link set d0 up; mkdir -p /run/s /run/state; umask 077\n"
        "head -c 1024 /dev/urandom > /etc/slurm/slurm.key; umask 022\n"
        f"cat > /etc/slurm/slurm.conf <<'END'\n{conf}\nEND\nslurmctld; sleep 3; scontrol ping"
    )
    timed, rented, joined = Timed(), set[str](), set[str]()
    begin = time.perf_counter()
    inside(f"cd /tmp && sbatch -N{nodes} --wrap 'sleep 1'")
    come(timed, names, rented, joined)
    while "R" not in inside("squeue -h -o %t; sacct 2>/dev/null; true") and inside("squeue -h"):
        time.sleep(1)
    while inside("squeue -h"):
        time.sleep(1)
    timed("job on all nodes done, from its submission", begin)
    memory = inside("ps -o rss= -C slurmctld")
    go(timed, names, rented, idle)
    mib = max(map(int, memory.split())) >> 10
    return {"nodes": nodes, "slurmctld MiB": mib, "seconds": timed.seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("nodes", type=int, nargs="?", default=1000)
    parser.add_argument("--idle", type=int, default=20, help="seconds until Slurm suspends a node")
    parser.add_argument("--end", type=int, default=30, help="seconds that it waits for its end")
    args = parser.parse_args()
    try:
        print(json.dumps(measure(args.nodes, args.idle, args.end), indent=1))
    finally:
        podman("rm", "--force", "--time", "0", "--ignore", NAME, check=False)


if __name__ == "__main__":
    main()
