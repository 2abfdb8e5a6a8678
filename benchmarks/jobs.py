"""Jobs on a real embedded cluster: what a submission, a follower, a sweep and a resend cost.

    .venv/bin/python -m benchmarks.jobs CLUSTER [--only first,overhead,...] [--share 1]

CLUSTER is up already (`corral up` of examples/laptop.yaml under another name).
--share takes this share of the files, lines, points and rounds.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.machine import machine, sh
from corral import Cluster, agents, api

CORRAL = Path(sys.executable).with_name("corral")
Row = tuple[str, str]


def some(count: int, share: float) -> int:
    """This share of so many, one at least."""
    return max(1, round(count * share))


def on(opened: Cluster, script: str, nodes: str = "node0") -> str:
    """What a script prints on nodes, as root.

    Raises:
        SystemExit: it failed.
    """
    results = opened.exec(["sh", "-c", script], nodes)
    for each in results:
        if not each.ok:
            raise SystemExit(each.stderr or str(each.error))
    return "".join(each.stdout for each in results)


def timed(work: Callable[[], object], times: int) -> list[float]:
    seconds: list[float] = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return seconds


def spread(seconds: list[float]) -> str:
    """Median, and least and most."""
    least, most = min(seconds), max(seconds)
    return f"{statistics.median(seconds):.2f} s ({least:.2f} to {most:.2f})"


def first(opened: Cluster, folder: Path, share: float) -> list[Row]:
    """From the start of the process to the first rank's first line, on an idle cluster."""
    script = folder / "hello.sh"
    script.write_text("#!/bin/sh\necho hello\nsleep 0.5\n")

    def once() -> None:
        argv = [CORRAL, "run", str(script), "-c", opened.name, "--nodes", "3", "-G", "1"]
        with subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as job:
            if "hello" not in next(iter(job.stdout or ()), ""):
                raise SystemExit("no first line")
            once.at = time.perf_counter()  # type: ignore[attr-defined]
            job.communicate()

    seconds: list[float] = []
    for _ in range(some(5, share)):
        begin = time.perf_counter()
        once()
        seconds.append(once.at - begin)  # type: ignore[attr-defined]
    return [("start of `corral run` to the first line, 3 nodes", spread(seconds))]


TRAIN = """\
import os, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.ones(1 << 18)
dist.all_reduce(x)
begin = time.perf_counter()
for _ in range(60):
    dist.all_reduce(x)
    (torch.randn(256, 256) @ torch.randn(256, 256)).sum()
if dist.get_rank() == 0:
    print("LOOP %.4f" % (time.perf_counter() - begin), flush=True)
os._exit(0)
"""

BARE = """\
cd {folder} && exec setpriv --reuid=corral --regid=corral --init-groups --reset-env sh -c {inner}"""

SRUN = """\
export MASTER_ADDR=$(scontrol -o show node node0 | sed -n 's/.* NodeAddr=\\([^ ]*\\) .*/\\1/p')
export MASTER_PORT=29777 OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=eth0 USE_LIBUV=0
srun -N 2 --ntasks-per-node=1 --cpus-per-task={cpus} --gres=gpu:1 --input=none \\
  sh -c 'RANK=$SLURM_PROCID WORLD_SIZE=2 exec python3 train.py'"""

# As a person types it in a shell on each node; no Slurm at all. torchrun.py is what corral run
# sends for --launcher torchrun: Debian's PyTorch has no libuv, and its torchrun ends there.
TORCHRUN = """\
export OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=eth0 USE_LIBUV=0
exec python3 torchrun.py --nnodes=2 --node-rank="${{HOSTNAME#node}}" \\
  --nproc-per-node=1 --master-addr={address} --master-port=29778 train.py"""

LAUNCHERS = ("corral run", "corral run --launcher torchrun", "bare torchrun", "bare srun")
PAIRS = (
    ("corral run --launcher torchrun", "bare torchrun"),
    ("corral run", "bare torchrun"),
    ("corral run", "bare srun"),
)
ROUNDS = 7
# All of a node's: embedded nodes share the machine's, and Slurm would bind both ranks to the same
# one, where bare torchrun is bound to none.
CPUS = 2


def by_corral(opened: Cluster, script: Path, launcher: str) -> str:
    """Both ranks by `corral run`; gives what they printed."""
    lines: list[str] = []
    outcome = opened.run(
        str(script),
        nodes=2,
        gpus_per_node=1,
        cpus_per_rank=CPUS,
        folder="none",
        launcher=launcher,
        env={"OMP_NUM_THREADS": "1"},
        on_line=lambda line: lines.append(line.text),
    )
    if not outcome.good:
        raise SystemExit("\n".join(lines))
    return "\n".join(lines)


def overhead(opened: Cluster, folder: Path, share: float) -> list[Row]:
    """The same two ranks on the same two nodes by `corral run`, bare torchrun and bare srun.

    In turns, so that what the machine does meanwhile meets all of them; the bare ones are typed
    over the same ssh. Bare torchrun is started on both nodes by hand, without Slurm.
    """
    script = folder / "train.py"
    script.write_text(TRAIN)
    place = "/shared/corral-bench"
    agent = agents.program("jobs/torchrun.py")
    put = sh("mkdir -p {p} && printf %s {t} > {p}/train.py", p=place, t=TRAIN)
    also = sh("printf %s {t} > {p}/torchrun.py && chmod -R a+rX {p}", p=place, t=agent)
    on(opened, f"{put} && {also}")
    ask = "scontrol -o show node node0 | sed -n 's/.* NodeAddr=\\([^ ]*\\) .*/\\1/p'"
    address = on(opened, ask).strip()
    srun = sh(BARE, folder=place, inner=sh(SRUN, cpus=CPUS))
    torchrun = sh(
        BARE,
        folder=place,
        inner="export HOSTNAME=$(uname -n)\n" + sh(TORCHRUN, address=address),
    )
    work: dict[str, Callable[[], str]] = {
        "corral run": lambda: by_corral(opened, script, "srun"),
        "corral run --launcher torchrun": lambda: by_corral(opened, script, "torchrun"),
        "bare torchrun": lambda: on(opened, torchrun, "node[0-1]"),
        "bare srun": lambda: on(opened, srun),
    }
    loops: dict[str, list[float]] = {launcher: [] for launcher in LAUNCHERS}
    totals: dict[str, list[float]] = {launcher: [] for launcher in LAUNCHERS}
    for number in range(some(ROUNDS, share)):
        for launcher in LAUNCHERS[number % len(LAUNCHERS) :] + LAUNCHERS[: number % len(LAUNCHERS)]:
            begin = time.perf_counter()
            output = work[launcher]()
            totals[launcher].append(time.perf_counter() - begin)
            loops[launcher].append(_loop(output))
    on(opened, sh("rm -rf {p}", p=place))
    return [
        *(
            (f"60 iterations of 2 ranks, {launcher}", spread(loops[launcher]))
            for launcher in LAUNCHERS
        ),
        *(
            (f"total, from here to its end, {launcher}", spread(totals[launcher]))
            for launcher in LAUNCHERS
        ),
        *(
            (f"{name} by `{launcher}` against {other}", against(times[launcher], times[other]))
            for name, times in (("iterations", loops), ("total", totals))
            for launcher, other in PAIRS
        ),
    ]


def against(measured: list[float], other: list[float]) -> str:
    """Median of the ratios of each round, and least and most: a round's two met the same load."""
    ratios = sorted(a / b for a, b in zip(measured, other, strict=True))
    return f"{statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})"


def _loop(text: str) -> float:
    match = re.search(r"LOOP ([0-9.]+)", text)
    if match is None:
        raise SystemExit(text)
    return float(match[1])


def files(opened: Cluster, folder: Path, share: float) -> list[Row]:
    """A project of 10,000 files of about 1 kB: all new, none new, one new."""
    count = some(10_000, share)
    root = folder / "project"
    for n in range(count):
        file = root / f"d{n % 100}" / f"{n}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{folder} {n} {'x' * 900}\n")
    (root / ".corralignore").write_text("")
    script = root / "run.sh"
    script.write_text("#!/bin/sh\n:\n")

    def send() -> None:
        opened.submit(str(script))

    new = timed(send, 1)
    same = timed(send, 3)
    (root / "d0/0.txt").write_text(str(time.time()))
    changed = timed(send, 1)
    return [
        (f"{count:,} new files to sbatch's answer", spread(new)),
        (f"{count:,} unchanged files", spread(same)),
        (f"one of {count:,} changed", spread(changed)),
    ]


NOISE = """\
import sys, time
begin = time.time()
for n in range({turns}):
    sys.stdout.write("".join(f"line {{n * 1000 + i}} {{time.time():.3f}}\\n" for i in range(1000)))
    sys.stdout.flush()
    time.sleep(max(0.0, begin + (n + 1) * 0.1 - time.time()))
"""


def follow(opened: Cluster, folder: Path, share: float) -> list[Row]:
    """A rank that prints 10,000 lines a second for 20 s: all come, and how late."""
    script = folder / "noise.py"
    turns = some(200, share)
    script.write_text(NOISE.format(turns=turns))
    late: list[float] = []
    count = 0

    def line(rank_line: api.RankLine) -> None:
        nonlocal count
        if rank_line.rank == 0:
            count += 1
            if count % 1000 == 0:
                late.append(time.time() - float(rank_line.text.split()[2]))

    outcome = opened.run(str(script), folder="none", on_line=line)
    if not outcome.good or count != turns * 1000:
        raise SystemExit(f"{count} of {turns * 1000:,} lines came")
    late.sort()
    return [
        (f"{turns * 1000:,} lines at 10,000 a second: came", f"{count}"),
        ("how late a line is", f"median {late[len(late) // 2]:.2f} s, most {late[-1]:.2f} s"),
    ]


def calls(opened: Cluster) -> dict[str, int]:
    """Slurmctld's own count of calls, by kind."""
    text = on(opened, sh("sdiag"))
    part = text.partition("Remote Procedure Call statistics by message type")[2]
    part = part.partition("Remote Procedure Call statistics by user")[0]
    return {m[1]: int(m[2]) for m in re.finditer(r"(\w+)\s*\(\s*\d+\) count:(\d+)", part)}


def sweep(opened: Cluster, folder: Path, share: float) -> list[Row]:
    """1,000 points of one sweep: submission, and all of it to its end."""
    points = some(1000, share)
    script = folder / "point.sh"
    script.write_text('#!/bin/sh\necho "$@"\n')
    before = calls(opened)
    begin = time.perf_counter()
    job = opened.submit(
        str(script), sweep={"n": tuple(map(str, range(points)))}, folder="none", gpus_per_node=0
    )
    submitted = time.perf_counter() - begin
    at_submit = {k: v - before.get(k, 0) for k, v in calls(opened).items() if v > before.get(k, 0)}
    outcome = job.wait()
    ended = time.perf_counter() - begin
    after = {k: v - before.get(k, 0) for k, v in calls(opened).items() if v > before.get(k, 0)}
    asked = {k: v for k, v in after.items() if k in ("REQUEST_JOB_INFO_SINGLE", "REQUEST_JOB_INFO")}
    good = sum(part.good for part in getattr(outcome, "parts", ()))
    batch = at_submit.get("REQUEST_SUBMIT_BATCH_JOB", 0)
    return [
        (f"{points:,} points submitted in", f"{submitted:.2f} s, {points / submitted:.0f} jobs/s"),
        ("calls of sbatch to slurmctld for them", str(batch)),
        ("all ended", f"{good} good in {ended:.0f} s"),
        ("calls of squeue to slurmctld meanwhile", str(sum(asked.values()))),
    ]


PARTS = {"first": first, "overhead": overhead, "files": files, "follow": follow, "sweep": sweep}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cluster")
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--share", type=float, default=1.0)
    args = parser.parse_args()
    opened = Cluster(api.spec_of(args.cluster))
    table = Table("what", "measured", title=machine())
    for name in args.only.split(","):
        with tempfile.TemporaryDirectory(prefix="corral-jobs-") as folder:
            for row in PARTS[name](opened, Path(folder), args.share):
                table.add_row(*row)
                print(*row, sep=": ", flush=True)
    Console().print(table)


if __name__ == "__main__":
    main()
