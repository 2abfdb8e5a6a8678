# Installed as: the job's folder; within proof-group.sh; an argument of python3 in the proof's jobs
# (api/evidence/collective_bench, api/evidence/node_bench, prove/checks/nccl,
# prove/fabric/corral_benchmark, roles/services/proof)
# Started by: srun, in a job of measurements or of the proof; corral-proof-round
# Runs as: the user who starts the benchmark; corral-proof
# pyright: basic, reportMissingImports=false
# It runs under the node's own PyTorch, which is not installed where Corral is checked.
"""Measures collectives with torch.distributed and writes what nccl-tests writes with -J.

One process per GPU (NCCL), or per node without GPUs (gloo), started by srun or torchrun. Sizes mean
what they mean in nccl-tests: bytes per rank for all_reduce, broadcast and sendrecv, bytes over all
ranks for all_gather, reduce_scatter and all_to_all. Results are compared, element by element, with
what they must be. What PyTorch cannot do (all_reduce out of place, all_to_all in place) is null.

Standard library and PyTorch >= 1.13 only; nothing of Corral, for the node does not have it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import socket
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

REPORT = os.environ.get("CORRAL_REPORT", "@@corral-")
MARK = f"{REPORT}bench "
ROW = f"{REPORT}row "
GROUP_S = 300  # a rank that never comes is an error after so long, and no hanging job
SHARE = 0.25  # of the free memory, at most, for one buffer: a workstation must not freeze
TILE = 1 << 22  # elements that are filled or compared at once


class Run:
    """One process's share of the benchmark."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.rank = int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")))
        self.ranks = int(os.environ.get("WORLD_SIZE", os.environ.get("SLURM_NTASKS", "1")))
        self.local = int(os.environ.get("LOCAL_RANK", os.environ.get("SLURM_LOCALID", "0")))
        self.gpu = torch.cuda.is_available()
        self.dtype = getattr(torch, options.type)
        self.width = torch.tensor([], dtype=self.dtype).element_size()
        if self.gpu:  # Slurm may show each task its own GPU only
            torch.cuda.set_device(self.local % torch.cuda.device_count())
        self.device = torch.device("cuda" if self.gpu else "cpu")
        self.kind = {"dtype": self.dtype, "device": self.device}
        os.environ.setdefault("RANK", str(self.rank))
        os.environ.setdefault("WORLD_SIZE", str(self.ranks))
        limit = datetime.timedelta(seconds=GROUP_S)
        dist.init_process_group("nccl" if self.gpu else "gloo", timeout=limit)

    def free(self) -> int:
        """Bytes that this rank may count on."""
        if self.gpu:
            return torch.cuda.mem_get_info()[0]
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        available = next(int(x.split()[1]) << 10 for x in lines if x.startswith("MemAvailable:"))
        granted = int(os.environ.get("SLURM_MEM_PER_NODE") or 0) << 20
        local_ranks = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        return min(available, granted or available) // local_ranks

    def reduced(self) -> tuple[list[int], list[int]]:
        """What ranks send to be added up, and the sum: one period of each.

        Eight ranks take part in each element, with the factors 1 to 8, and all in their turn: the
        sums are whole numbers up to 252, exact in every type however many ranks there are, and a
        rank that is lost, damaged or counted twice changes them.
        """
        few = min(self.ranks, 8)
        mine, total = [], []
        for place in range(7 * self.ranks):
            factor = (self.rank + place // 7) % self.ranks + 1
            mine.append((factor if factor <= few else 0) * (place % 7 + 1))
            total.append(few * (few + 1) // 2 * (place % 7 + 1))
        return mine, total

    def copied(self, rank: int) -> list[int]:
        """What ``rank`` sends to be copied: one period, another for each of 251 ranks."""
        return [(rank * 31 + place) % 251 for place in range(251)]

    def tile(self, period: list[int], start: int, count: int) -> torch.Tensor:
        """Complete periods, from element ``start`` on, about as many as are needed."""
        times = max(1, min(TILE, count) // len(period) + 1)
        values = torch.tensor(period, device=self.device).roll(-(start % len(period)))
        return values.to(self.dtype).repeat(times)

    def fill(self, out: torch.Tensor, period: list[int], start: int = 0) -> torch.Tensor:
        """Write a pattern, as it is from its element ``start`` on."""
        tile = self.tile(period, start, out.numel())
        for at in range(0, out.numel(), tile.numel()):
            piece = out[at : at + tile.numel()]
            piece.copy_(tile[: piece.numel()])
        return out

    def wrong(self, parts: list[tuple[torch.Tensor, list[int], int]]) -> int:
        """Elements that differ, on all ranks: what came, the expected pattern, its start."""
        if self.options.spoil == self.rank:
            got = parts[-1][0]
            got[got.numel() // 2] += 1
        count = torch.zeros(1, dtype=torch.int64, device=self.device)
        for got, period, start in parts:
            tile = self.tile(period, start, got.numel())
            for at in range(0, got.numel(), tile.numel()):
                piece = got[at : at + tile.numel()]
                count += (piece != tile[: piece.numel()]).sum()
        dist.all_reduce(count)
        return int(count.item())

    def timed(self, work, iterations: int) -> float:
        """Microseconds of one operation, the mean over all ranks."""
        for _ in range(self.options.warmup):
            work()
        if self.gpu:
            torch.cuda.synchronize()
        dist.barrier()
        if self.gpu:
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            for _ in range(iterations):
                work()
            end.record()
            end.synchronize()
            mine = begin.elapsed_time(end) * 1e3 / iterations
        else:
            start = time.perf_counter()
            for _ in range(iterations):
                work()
            mine = (time.perf_counter() - start) * 1e6 / iterations
        mean = torch.tensor([mine], dtype=torch.float64, device=self.device)
        dist.all_reduce(mean)
        return float(mean.item()) / self.ranks


def all_reduce(run: Run, size: int):
    """In place only: dist.all_reduce has no other form."""
    mine, total = run.reduced()
    data = run.fill(torch.empty(size // run.width, **run.kind), mine)
    dist.all_reduce(data)
    bad = run.wrong([(data, total, 0)])
    data.zero_()
    return {"in_place": (lambda: dist.all_reduce(data), bad)}


def all_gather(run: Run, size: int):
    """Chunks of all ranks, one after another, on every rank."""
    chunk = size // run.ranks // run.width
    out = torch.empty(chunk * run.ranks, **run.kind).zero_()
    mine = run.fill(torch.empty(chunk, **run.kind), run.copied(run.rank))
    pieces = out.split(chunk)
    expected = [(piece, run.copied(rank), 0) for rank, piece in enumerate(pieces)]
    dist.all_gather_into_tensor(out, mine)
    placements = {
        "out_of_place": (lambda: dist.all_gather_into_tensor(out, mine), run.wrong(expected))
    }
    if not run.gpu:  # gloo does not take a piece of its own output
        return placements
    own = pieces[run.rank]
    out.zero_()
    own.copy_(mine)
    dist.all_gather_into_tensor(out, own)
    placements["in_place"] = (lambda: dist.all_gather_into_tensor(out, own), run.wrong(expected))
    return placements


def reduce_scatter(run: Run, size: int):
    """Each rank ends with the sum of its own chunk."""
    chunk = size // run.ranks // run.width
    mine, total = run.reduced()
    data = run.fill(torch.empty(chunk * run.ranks, **run.kind), mine)
    out = torch.empty(chunk, **run.kind).zero_()
    dist.reduce_scatter_tensor(out, data)
    apart = run.wrong([(out, total, run.rank * chunk)])
    placements = {"out_of_place": (lambda: dist.reduce_scatter_tensor(out, data), apart)}
    if run.gpu:
        own = data.split(chunk)[run.rank]
        dist.reduce_scatter_tensor(own, data)
        within = run.wrong([(own, total, run.rank * chunk)])
        data.zero_()  # else the own chunk would grow with each turn
        placements["in_place"] = (lambda: dist.reduce_scatter_tensor(own, data), within)
    return placements


def broadcast(run: Run, size: int):
    """From rank 0 to all."""
    data = torch.empty(size // run.width, **run.kind)
    run.fill(data, run.copied(run.rank))
    dist.broadcast(data, 0)
    bad = run.wrong([(data, run.copied(0), 0)])
    return {"in_place": (lambda: dist.broadcast(data, 0), bad)}


def all_to_all(run: Run, size: int):
    """Rank i's chunk j goes to rank j's place i."""
    chunk = size // run.ranks // run.width
    data = run.fill(torch.empty(chunk * run.ranks, **run.kind), run.copied(run.rank))
    out = torch.zeros_like(data)
    sent, got = data.split(chunk), out.split(chunk)
    if run.gpu:

        def work() -> None:
            dist.all_to_all_single(out, data)
    else:  # gloo has no all_to_all: the same by messages

        def work() -> None:
            got[run.rank].copy_(sent[run.rank])
            # Each to one and from one at a time: all at once, three nodes reached two thirds of
            # a link of 1 Gb/s (gloo of PyTorch 2.6).
            for away in range(1, run.ranks):
                after, before = (run.rank + away) % run.ranks, (run.rank - away) % run.ranks
                pair = dist.isend(sent[after], after), dist.irecv(got[before], before)
                for request in pair:
                    request.wait()

    work()
    expected = [(piece, run.copied(rank), run.rank * chunk) for rank, piece in enumerate(got)]
    return {"out_of_place": (work, run.wrong(expected))}


def sendrecv(run: Run, size: int):
    """Each rank sends to the next and receives from the one before."""
    after, before = (run.rank + 1) % run.ranks, (run.rank - 1) % run.ranks
    data = run.fill(torch.empty(size // run.width, **run.kind), run.copied(run.rank))
    out = torch.zeros_like(data)

    def work() -> None:
        orders = [dist.P2POp(dist.isend, data, after), dist.P2POp(dist.irecv, out, before)]
        for request in dist.batch_isend_irecv(orders):
            request.wait()

    work()
    return {"out_of_place": (work, run.wrong([(out, run.copied(before), 0)]))}


# name: what makes it, busbw / algbw of n ranks, reduction, root
COLLECTIVES = {
    "all_reduce": (all_reduce, lambda n: 2 * (n - 1) / n, "sum", -1),
    "all_gather": (all_gather, lambda n: (n - 1) / n, "none", -1),
    "reduce_scatter": (reduce_scatter, lambda n: (n - 1) / n, "sum", -1),
    "all_to_all": (all_to_all, lambda n: (n - 1) / n, "none", -1),
    "broadcast": (broadcast, lambda n: 1.0, "none", 0),
    "sendrecv": (sendrecv, lambda n: 1.0, "none", -1),
}
TYPES = {"float32": "float", "float16": "half", "bfloat16": "bfloat16"}  # nccl-tests' words
CHUNKED = ("all_gather", "reduce_scatter", "all_to_all")


def measure(run: Run, name: str, size: int) -> dict:
    """One row."""
    make, factor, redop, root = COLLECTIVES[name]
    placements = make(run, size)
    row = {
        "size": size,
        "count": size // run.width // (run.ranks if name in CHUNKED else 1),
        "type": TYPES[run.options.type],
        "redop": redop,
        "root": str(root),
        "out_of_place": None,
        "in_place": None,
    }
    # As many as fit in the time: small ones need many, large ones take long.
    for placement, (work, wrong) in placements.items():
        once = run.timed(work, 2)
        count = max(3, min(run.options.iterations, int(run.options.seconds * 1e6 / max(once, 1))))
        shared = torch.tensor([count], device=run.device)
        dist.broadcast(shared, 0)
        us = run.timed(work, int(shared.item()))
        rate = size / us / 1e3
        bus = rate * factor(run.ranks)
        row[placement] = {"time": us, "alg_bw": rate, "bus_bw": bus, "nwrong": float(wrong)}
    return row


def sizes(run: Run, free: int) -> list[int]:
    """From the smallest to the largest by the factor, in multiples of an element on every rank."""
    unit = run.ranks * run.width * 4
    largest = min(run.options.largest, max(int(free * SHARE), run.options.smallest))
    multiples, size = [], run.options.smallest
    while size <= largest:
        multiples.append(max(size // unit, 1) * unit)
        size *= run.options.factor
    return list(dict.fromkeys(multiples))


def options() -> argparse.Namespace:
    """What was asked for."""
    # allow_abbrev: torchrun takes some options itself; the others must be written in full.
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--collectives", default="all_reduce")
    parser.add_argument("--smallest", type=int, default=1 << 20)
    parser.add_argument("--largest", type=int, default=1 << 30)
    parser.add_argument("--factor", type=int, default=2)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument(
        "--seconds", type=float, default=3.0, help="at most, for each size and placement"
    )
    parser.add_argument("--type", default="float32", choices=list(TYPES))
    parser.add_argument("--spoil", type=int, default=-1, help="rank that damages one element")
    parser.add_argument("--apart", type=int, default=0, help="bytes for pairs and halves of nodes")
    arguments = parser.parse_args()
    unknown = set(arguments.collectives.split(",")) - set(COLLECTIVES)
    if unknown:
        parser.error(f"no collective is called {', '.join(sorted(unknown))}")
    return arguments


def report(mark: str, record: dict) -> None:
    """One line for whoever reads."""
    sys.stdout.write(f"{mark}{json.dumps(record)}\n")
    sys.stdout.flush()


def table(run: Run, name: str, members: list, ranges: list[int]) -> None:
    """Measure one collective; rank 0 writes each row, and all of it at the end."""
    rows = []
    for size in ranges:
        rows.append(measure(run, name, size))
        if run.rank == 0:
            report(ROW, {"collective": name, "ranks": run.ranks, **rows[-1]})
    if run.rank != 0:
        return
    cells = [
        row[placement]
        for row in rows
        for placement in ("out_of_place", "in_place")
        if row[placement]
    ]
    mean = sum(c["bus_bw"] for c in cells) / len(cells)
    asked = run.options.largest
    record = {
        "version": 1,
        "args": [f"{name}_perf"],
        "program": f"torch {torch.__version__} {'nccl' if run.gpu else 'gloo'}",
        "config": {"maximum_bytes": ranges[-1], "asked_bytes": asked, "devices": members},
        "results": rows,
        "out_of_bounds": {"count": int(sum(c["nwrong"] for c in cells))},
        "average_bus_bandwidth": {"bandwidth": mean},
    }
    report(MARK, record)


def main() -> None:
    """Measure what was asked for."""
    run = Run(options())
    if run.ranks < 2:  # noqa: PLR2004
        sys.exit("collectives need two ranks at least")
    here = {
        "rank": run.rank,
        "hostname": os.environ.get("SLURMD_NODENAME", socket.gethostname()),
        "device_info": torch.cuda.get_device_name() if run.gpu else "cpu",
        "free": run.free(),
    }
    members: list = [None] * run.ranks
    dist.all_gather_object(members, here)
    ranges = sizes(run, min(member["free"] for member in members))
    for name in run.options.collectives.split(","):
        table(run, name, members, ranges)
    if run.options.apart:
        import halves  # noqa: PLC0415 - it is next to this file, and torchrun may start it elsewhere

        for mark, record in halves.marked_records(run, members):
            report(mark, record)
    dist.barrier()
    if not run.gpu:
        # gloo's own end can wait for ever for ranks that ended first (seen with PyTorch 2.6).
        os._exit(0)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
