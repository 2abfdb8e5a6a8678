# pyright: basic, reportMissingImports=false
# It runs under the node's own PyTorch, which is not installed where Corral is checked.
"""Measures collectives with torch.distributed and writes what nccl-tests writes with -J.

One process per GPU (NCCL), or per core on nodes without GPUs (gloo), started by srun or torchrun.
Sizes mean what they mean in nccl-tests: bytes per rank for all_reduce, broadcast and sendrecv,
bytes over all ranks for all_gather, reduce_scatter and all_to_all. Results are compared, element
by element, with what they must be. What PyTorch cannot do (all_reduce out of place, all_to_all in
place) is null.

Standard library and PyTorch >= 1.13 only; nothing of Corral, for the node does not have it.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import time

import torch
import torch.distributed as dist

MARK = "@@corral-bench "
GROUP_S = 300
PERIOD = 7  # values repeat after so many elements: small whole numbers, exact in every type


class Run:
    """One process's share of the benchmark."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.rank = int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")))
        self.ranks = int(os.environ.get("WORLD_SIZE", os.environ.get("SLURM_NTASKS", "1")))
        local = int(os.environ.get("LOCAL_RANK", os.environ.get("SLURM_LOCALID", "0")))
        self.gpu = torch.cuda.is_available()
        self.dtype = getattr(torch, options.type)
        self.width = torch.tensor([], dtype=self.dtype).element_size()
        if self.gpu:
            # Slurm may show each task its own GPU only.
            torch.cuda.set_device(local % torch.cuda.device_count())
        self.device = torch.device("cuda" if self.gpu else "cpu")
        os.environ.setdefault("RANK", str(self.rank))
        os.environ.setdefault("WORLD_SIZE", str(self.ranks))
        dist.init_process_group("nccl" if self.gpu else "gloo")

    def pattern(self, rank: int, count: int, start: int = 0) -> torch.Tensor:
        """What rank ``rank`` sends: element i is (rank + 1) x (1 + (start + i) % PERIOD)."""
        index = torch.arange(start, start + count, device=self.device)
        return (index.remainder_(PERIOD).add_(1).mul_(rank + 1)).to(self.dtype)

    def total(self, count: int, start: int = 0) -> torch.Tensor:
        """The sum of what all ranks send."""
        factor = self.ranks * (self.ranks + 1) // 2
        index = torch.arange(start, start + count, device=self.device)
        return (index.remainder_(PERIOD).add_(1).mul_(factor)).to(self.dtype)

    def wait(self) -> None:
        """Let the device finish."""
        if self.gpu:
            torch.cuda.synchronize()

    def timed(self, work, iterations: int) -> float:
        """Microseconds of one operation, the mean over all ranks."""
        for _ in range(self.options.warmup):
            work()
        self.wait()
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

    def wrong(self, got: torch.Tensor, due: torch.Tensor) -> int:
        """Elements that are not what they must be, on all ranks together."""
        if self.options.spoil == self.rank and got.numel():
            got.view(-1)[got.numel() // 2] += 1
        count = (got != due).sum().to(torch.int64).reshape(1)
        dist.all_reduce(count)
        return int(count.item())


def all_reduce(run: Run, size: int):
    """In place only: dist.all_reduce has no other form."""
    data = run.pattern(run.rank, size // run.width)
    due = run.total(data.numel())
    dist.all_reduce(data)
    bad = run.wrong(data, due)
    del due
    data.zero_()
    return {"in_place": (lambda: dist.all_reduce(data), bad)}


def all_gather(run: Run, size: int):
    """Chunks of all ranks, one after another, on every rank."""
    chunk = size // run.ranks // run.width
    out = torch.zeros(chunk * run.ranks, dtype=run.dtype, device=run.device)
    mine = run.pattern(run.rank, chunk)
    due = torch.cat([run.pattern(r, chunk) for r in range(run.ranks)])
    dist.all_gather_into_tensor(out, mine)
    apart = run.wrong(out, due)
    own = out[run.rank * chunk : (run.rank + 1) * chunk]
    out.zero_()
    own.copy_(mine)
    if not run.gpu:  # gloo does not take a piece of its own output
        return {"out_of_place": (lambda: dist.all_gather_into_tensor(out, mine), apart)}
    dist.all_gather_into_tensor(out, own)
    within = run.wrong(out, due)
    del due
    return {
        "out_of_place": (lambda: dist.all_gather_into_tensor(out, mine), apart),
        "in_place": (lambda: dist.all_gather_into_tensor(out, own), within),
    }


def reduce_scatter(run: Run, size: int):
    """Each rank ends with the sum of its own chunk."""
    chunk = size // run.ranks // run.width
    data = run.pattern(run.rank, chunk * run.ranks)
    out = torch.zeros(chunk, dtype=run.dtype, device=run.device)
    due = run.total(chunk, run.rank * chunk)
    dist.reduce_scatter_tensor(out, data)
    apart = run.wrong(out, due)
    found = {"out_of_place": (lambda: dist.reduce_scatter_tensor(out, data), apart)}
    if run.gpu:
        own = data[run.rank * chunk : (run.rank + 1) * chunk]
        dist.reduce_scatter_tensor(own, data)
        within = run.wrong(own, due)
        found["in_place"] = (lambda: dist.reduce_scatter_tensor(own, data), within)
    return found


def broadcast(run: Run, size: int):
    """From rank 0 to all."""
    count = size // run.width
    data = (
        run.pattern(0, count)
        if run.rank == 0
        else torch.zeros(count, dtype=run.dtype, device=run.device)
    )
    dist.broadcast(data, 0)
    bad = run.wrong(data, run.pattern(0, count))
    return {"in_place": (lambda: dist.broadcast(data, 0), bad)}


def all_to_all(run: Run, size: int):
    """Rank i's chunk j goes to rank j's place i."""
    chunk = size // run.ranks // run.width
    data = run.pattern(run.rank, chunk * run.ranks)
    out = torch.zeros_like(data)
    if run.gpu:

        def work() -> None:
            dist.all_to_all_single(out, data)
    else:  # gloo has no all_to_all: the same by messages

        def work() -> None:
            pairs = []
            for other in range(run.ranks):
                piece = slice(other * chunk, (other + 1) * chunk)
                if other == run.rank:
                    out[piece].copy_(data[piece])
                    continue
                pairs.append(dist.isend(data[piece], other))
                pairs.append(dist.irecv(out[piece], other))
            for one in pairs:
                one.wait()

    work()
    due = torch.cat([run.pattern(r, chunk, run.rank * chunk) for r in range(run.ranks)])
    return {"out_of_place": (work, run.wrong(out, due))}


def sendrecv(run: Run, size: int):
    """Each rank sends to the next and receives from the one before."""
    count = size // run.width
    after, before = (run.rank + 1) % run.ranks, (run.rank - 1) % run.ranks
    data = run.pattern(run.rank, count)
    out = torch.zeros_like(data)

    def work() -> None:
        orders = [dist.P2POp(dist.isend, data, after), dist.P2POp(dist.irecv, out, before)]
        for one in dist.batch_isend_irecv(orders):
            one.wait()

    work()
    return {"out_of_place": (work, run.wrong(out, run.pattern(before, count)))}


# name: what makes it, bytes in the size column per element sent, busbw / algbw, reduction, root
COLLECTIVES = {
    "all_reduce": (all_reduce, lambda n: 2 * (n - 1) / n, "sum", -1),
    "all_gather": (all_gather, lambda n: (n - 1) / n, "none", -1),
    "reduce_scatter": (reduce_scatter, lambda n: (n - 1) / n, "sum", -1),
    "all_to_all": (all_to_all, lambda n: (n - 1) / n, "none", -1),
    "broadcast": (broadcast, lambda n: 1.0, "none", 0),
    "sendrecv": (sendrecv, lambda n: 1.0, "none", -1),
}
CHUNKED = ("all_gather", "reduce_scatter", "all_to_all")


def measure(run: Run, name: str, size: int) -> dict:
    """One row."""
    make, factor, redop, root = COLLECTIVES[name]
    ways = make(run, size)
    row = {
        "size": size,
        "count": size // run.width // (run.ranks if name in CHUNKED else 1),
        "type": run.options.type.replace("float32", "float"),
        "redop": redop,
        "root": str(root),
        "out_of_place": None,
        "in_place": None,
    }
    # As many as fit in the time: small ones need many for a steady mean, large ones take long.
    for way, (work, wrong) in ways.items():
        once = run.timed(work, 2)
        count = max(3, min(run.options.iterations, int(run.options.seconds * 1e6 / max(once, 1))))
        shared = torch.tensor([count], device=run.device)
        dist.broadcast(shared, 0)
        us = run.timed(work, int(shared.item()))
        rate = size / us / 1e3
        row[way] = {
            "time": us,
            "alg_bw": rate,
            "bus_bw": rate * factor(run.ranks),
            "nwrong": float(wrong),
        }
    return row


def sizes(run: Run) -> list[int]:
    """From the smallest to the largest by the factor, in whole elements on every rank."""
    unit = run.ranks * run.width * 4
    found, size = [], run.options.smallest
    while size <= run.options.largest:
        found.append(max(size // unit, 1) * unit)
        size *= run.options.factor
    return list(dict.fromkeys(found))


def main() -> int:
    """Measure what was asked for; rank 0 writes one line of JSON per collective."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--collectives", default="all_reduce")
    parser.add_argument("--smallest", type=int, default=1 << 20)
    parser.add_argument("--largest", type=int, default=1 << 30)
    parser.add_argument("--factor", type=int, default=2)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=3.0, help="at most, for each size and way")
    parser.add_argument("--type", default="float32", choices=["float32", "float16", "bfloat16"])
    parser.add_argument("--spoil", type=int, default=-1, help="rank that damages one element")
    run = Run(parser.parse_args())
    here = {
        "rank": run.rank,
        "hostname": os.environ.get("SLURMD_NODENAME", socket.gethostname()),
        "device_info": torch.cuda.get_device_name() if run.gpu else "cpu",
    }
    members = [None] * run.ranks
    dist.all_gather_object(members, here)
    for name in run.options.collectives.split(","):
        rows = [measure(run, name, size) for size in sizes(run)]
        cells = [row[w] for row in rows for w in ("out_of_place", "in_place") if row[w]]
        if run.rank == 0:
            found = {
                "version": 1,
                "args": [f"{name}_perf"],
                "program": f"torch {torch.__version__} {'nccl' if run.gpu else 'gloo'}",
                "config": {"maximum_bytes": run.options.largest, "devices": members},
                "results": rows,
                "out_of_bounds": {"count": int(sum(c["nwrong"] for c in cells))},
                "average_bus_bandwidth": {
                    "bandwidth": sum(c["bus_bw"] for c in cells) / len(cells)
                },
            }
            sys.stdout.write(f"{MARK}{json.dumps(found)}\n")
            sys.stdout.flush()
    dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
