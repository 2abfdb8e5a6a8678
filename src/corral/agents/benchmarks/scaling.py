# Installed as: the job's folder (api/evidence/collective_bench, api/evidence/node_bench)
# Started by: srun, in a job of measurements
# Runs as: the user who starts the benchmark
# pyright: basic, reportMissingImports=false
# It runs under the node's own PyTorch, which is not installed where Corral is checked.
"""Trains a small GPT on 1 to N nodes, plainly and with less traffic, and measures each method.

The first seconds measure a step and the link; ``scaling_plan.py`` chooses what fits into the time.
All counts of nodes are measured in one job, so that what disturbs a machine disturbs all of them.
For each step that talks to other ranks a twin of the model does the same work without them, and a
third one does the method's own work as well (PowerSGD's products, an outer optimizer) with nobody
to talk to: the difference is what the network costs. The text is the source of Python's own
library, which every node has: the loss falls, as in any training.

One process per GPU, or per node (gloo) without GPUs, started by srun. Standard library and
PyTorch >= 2.0 only.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import statistics
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.distributed as dist
from scaling_plan import LATE, LEAST, METHODS, WARM, Method, Plan, Speed, points, reduces, share_of
from torch import nn
from torch.nn.parallel import DistributedDataParallel

MARK = os.environ.get("CORRAL_REPORT", "@@corral-")
GROUP_S = 600
VOCABULARY = 256  # bytes
RANK = 4  # of PowerSGD's matrices
PROBES = 1 << 12, 1 << 21  # bytes of the first all_reduces: latency and rate
# DiLoCo's outer optimizer (arXiv 2311.08105).
OUTER = {"lr": 0.7, "momentum": 0.9, "nesterov": True}


class Gpt(nn.Module):
    """A decoder of bytes."""

    def __init__(self, width: int, layers: int, length: int) -> None:
        super().__init__()
        self.places = nn.Embedding(length, width)
        self.words = nn.Embedding(VOCABULARY, width)
        heads = max(1, width // 64)
        options = {"batch_first": True, "norm_first": True, "dropout": 0.0, "activation": "gelu"}
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 4 * width, **options) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, text, target):
        """The mean loss of each next byte."""
        count = text.shape[1]
        x = self.words(text) + self.places(torch.arange(count, device=text.device))
        for block in self.blocks:
            x = block(x, src_mask=self.mask[:count, :count], is_causal=True)
        out = self.head(self.norm(x))
        return nn.functional.cross_entropy(out.flatten(0, 1).float(), target.flatten())


def shape(parameters: int) -> tuple:
    """Width and layers of about so many parameters: 12 x width^2 each, width about 64 x layers."""
    best, nearest = math.inf, (64, 1)
    for width in range(64, 8193, 64):
        layers = max(1, round((parameters - 512 * width) / (12 * width * width)))
        off = abs(12 * width * width * layers + 512 * width - parameters) / parameters
        skew = abs(math.log(max(width / (64 * layers), 1e-9))) / 20
        if off + skew < best:
            best, nearest = off + skew, (width, layers)
    return nearest


class Run:
    """One process's share."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.rank, self.ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.local = int(os.environ.get("LOCAL_RANK", "0"))
        self.local_ranks = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        self.gpu = torch.cuda.is_available()
        if self.gpu:
            torch.cuda.set_device(self.local % torch.cuda.device_count())
        self.device = torch.device("cuda" if self.gpu else "cpu")
        limit = datetime.timedelta(seconds=GROUP_S)
        dist.init_process_group("nccl" if self.gpu else "gloo", timeout=limit)
        # A group of each rank alone; every rank makes all of them, in one order.
        self.lonely = [dist.new_group([rank]) for rank in range(self.ranks)][self.rank]
        self.begun = time.monotonic()
        self.parameters = options.parameters
        text = b"".join(p.read_bytes() for p in sorted(Path(os.__file__).parent.glob("*.py"))[:60])
        self.text = torch.frombuffer(bytearray(text), dtype=torch.uint8).long().to(self.device)

    def settle(self) -> None:
        """Wait for the GPU."""
        if self.gpu:
            torch.cuda.synchronize()

    def model(self):
        """A fresh model, the same on every rank, and its optimizer."""
        torch.manual_seed(7)
        width, layers = shape(self.parameters)
        made = Gpt(width, layers, self.options.length).to(self.device)
        return made, torch.optim.AdamW(made.parameters(), lr=3e-4)

    def batch(self, turn: int):
        """This rank's text of a turn; ranks see different ones."""
        size, length = self.options.batch, self.options.length
        draw = torch.Generator().manual_seed(turn * 1009 + self.rank)
        at = torch.randint(0, len(self.text) - length - 1, (size,), generator=draw).tolist()
        pieces = torch.stack([self.text[a : a + length + 1] for a in at])
        return pieces[:, :-1], pieces[:, 1:]

    def mixed(self):
        """bfloat16 products on GPUs, as people train."""
        return torch.autocast("cuda", torch.bfloat16) if self.gpu else nullcontext()

    def report(self, kind: str, record: dict) -> None:
        """One line of the result, from rank 0."""
        if self.rank == 0:
            sys.stdout.write(f"{MARK}{kind} {json.dumps(record)}\n")
            sys.stdout.flush()

    def reduced(self, group, size: int, turns: int) -> list:
        """Seconds of all_reduces of a size, the first of them left out."""
        data = torch.zeros(size // 4, device=self.device)
        spent = []
        for _ in range(turns + WARM):
            dist.barrier(group=group)
            self.settle()
            begun = time.perf_counter()
            dist.all_reduce(data, group=group)
            self.settle()
            spent.append(time.perf_counter() - begun)
        return spent[WARM:]

    def collective(self, group, ranks: int, todo: list) -> None:
        """Time of all_reduce by size: what the cost model is fitted to."""
        for size, turns in todo:
            seconds = quiet(self.reduced(group, size, turns))
            self.report("reduce", {"ranks": ranks, "bytes": size, "seconds": seconds})

    def largest(self, value: float) -> float:
        """A number's maximum over all ranks."""
        every: list = [None] * self.ranks
        dist.all_gather_object(every, value)
        return max(every)

    def agreed(self, value):
        """What rank 0 sends, on every rank."""
        box = [value]
        dist.broadcast_object_list(box, src=0)
        return box[0]

    def speed(self) -> Speed:
        """The first measurement: a step with all nodes and with one, and the link."""
        model, optimizer = self.model()
        weights = list(model.parameters())
        size = sum(p.numel() * p.element_size() for p in weights)
        thin = sum(small(p) for p in weights)
        step = self.largest(self.step(model, optimizer))
        # The other nodes wait: on nodes that share a machine's processors a step is shorter then.
        first = self.step(model, optimizer) if self.rank < self.local_ranks else 0.0
        alone = min(step, self.largest(first))
        few, many = PROBES
        short = self.largest(min(self.reduced(None, few, 3)))
        turns = 2 * (self.ranks - 1)
        alpha = short / turns if turns else 0.0
        beta = 0.0
        if turns:
            long = self.largest(min(self.reduced(None, many, 1)))
            beta = max(0.0, long - short) / (turns / self.ranks * many)
        return Speed(step, alpha, beta, size, thin, alone=alone)

    def step(self, model, optimizer) -> float:
        """Seconds of a micro-batch without traffic."""
        seconds = []
        for turn in range(3):  # the first allocates memory
            times = self.turn(model, optimizer, [turn], model)
            seconds.append(times["forward"] + times["backward"] + times["update"])
        return min(seconds[1:])

    def joined(self, method: Method, group, count: int) -> tuple:
        """A model that meets the others of its group: with its optimizer, and the outer one."""
        model, optimizer = self.model()
        if not method.local:
            # PowerSGD reduces several times for each bucket. gloo has no order among buckets: their
            # messages met the wrong ones (PyTorch 2.6). With one bucket there is one order.
            cap = 1 << 20 if method.hook == "powersgd" and not self.gpu else None
            model = DistributedDataParallel(model, process_group=group, bucket_cap_mb=cap)
            hooked(model, method, group)
        return model, optimizer, Outer(model) if method.name == "diloco" else None, group, count

    def cycle(self, method: Method, parts: tuple, steps, twin) -> tuple:
        """One cycle of a method: seconds of a micro-batch, and the loss."""
        model, optimizer, outer, group, count = parts
        begun = time.perf_counter()
        times = self.turn(model, optimizer, steps, twin)
        if method.local and group is not None:
            average(model, group, count, outer)
        self.settle()
        return (time.perf_counter() - begun) / method.cycle, times["loss"]

    def late(self, group, begun: float, limit: float) -> bool:
        """Whether rank 0 finds that a point takes too long; the same on every rank of it."""
        late = torch.tensor([float(time.monotonic() - begun > limit)], device=self.device)
        if group:
            dist.broadcast(late, src=0, group=group)
        return bool(late.item())

    def train(self, method: Method, group, count: int, cycles: int, limit: float) -> None:
        """One method of training over the first ``count`` ranks, for so many seconds at most."""
        started = time.monotonic()
        group = group if count > 1 else None
        lone = [self.joined(method, self.lonely, 1)] if group else []
        together = self.joined(method, group, count) if group else (*self.model(), None, None, 1)
        twin, other = self.model()
        apart, seen, own, losses = [], [], [], []
        for turn in range(cycles + WARM):
            if turn >= WARM + LEAST and limit and self.late(group, started, limit):
                break
            if group:
                dist.barrier(group=group)
            first = turn * method.cycle
            # The twin does as much, step by step: a mean over a cycle is another than over one.
            steps = range(first, first + method.cycle)
            ones = [self.turn(twin, other, [step], twin) for step in steps]
            apart.append({k: statistics.fmean(times[k] for times in ones) for k in ones[0]})
            for parts, spent in [*((trainer, own) for trainer in lone), (together, seen)]:
                if group:
                    dist.barrier(group=group)
                seconds, loss = self.cycle(method, parts, steps, twin)
                spent.append(seconds)
            losses.append(loss)
        apart, seen, own = apart[WARM:], seen[WARM:], own[WARM:]
        record = {
            "way": method.name,
            "ranks": count,
            "cycle": method.cycle,
            "seconds": quiet(seen),
            "spread": spread(seen),
            "loss": statistics.fmean(losses[-max(1, 16 // method.cycle) :]),
            "batches": len(losses) * method.cycle,
        }
        mine = {"apart": apart, "own": own, "seconds": record["seconds"]}
        every: list = [mine]
        if count > 1:
            every = [None] * count
            dist.all_gather_object(every, mine, group=group)
        for part in ("forward", "backward", "update"):
            values = [times[part] for rank in every for times in rank["apart"]]
            record[part] = quiet(values)
        totals = [[o["forward"] + o["backward"] + o["update"] for o in r["apart"]] for r in every]
        record["alone"] = quiet(total for rank in totals for total in rank)
        # Who meets others waits for the slowest of that cycle, whatever the network does.
        record["slowest"] = quiet(max(turn) for turn in zip(*totals))  # noqa: B905
        if own:
            turns = zip(*(rank["own"] for rank in every))  # noqa: B905
            record["own"] = quiet(max(turn) for turn in turns)
        record["seconds"] = max(rank["seconds"] for rank in every)
        self.report("train", record)

    def turn(self, model, optimizer, turns, twin) -> dict:
        """Micro-batches and one update; times of its parts."""
        optimizer.zero_grad(set_to_none=True)
        forward = backward = 0.0
        turns = list(turns)
        local = not isinstance(model, DistributedDataParallel) and model is not twin
        for n, turn in enumerate(turns):
            text, target = self.batch(turn)
            quiet = isinstance(model, DistributedDataParallel) and n < len(turns) - 1
            with model.no_sync() if quiet else nullcontext():
                self.settle()
                a = time.perf_counter()
                with self.mixed():
                    loss = model(text, target)
                self.settle()
                b = time.perf_counter()
                (loss / (1 if local else len(turns))).backward()
                self.settle()
                c = time.perf_counter()
            forward, backward = forward + b - a, backward + c - b
            if local:  # each rank goes on alone until they meet
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
        begun = time.perf_counter()
        if not local:
            optimizer.step()
        self.settle()
        update = time.perf_counter() - begun
        return {
            "forward": forward,
            "backward": backward,
            "update": update,
            "loss": float(loss.item()),
        }


def quiet(values) -> float:
    """The lower quartile: what disturbs a machine only slows it down, and never the other way."""
    values = sorted(values)
    return values[len(values) // 4]


def spread(values: list) -> float:
    """Distance of the quartiles, as a share of the median."""
    if len(values) < 4:  # noqa: PLR2004
        return 0.0
    low, middle, high = statistics.quantiles(values, n=4)
    return (high - low) / middle


def hooked(model, method: Method, group) -> None:
    """What travels in place of the gradients."""
    # Imported only where it is needed: it writes 20 lines of warnings (PyTorch 2.6, Python 3.13).
    if method.hook == "bf16":
        model.register_comm_hook(group, halved)
    if method.hook == "powersgd":
        from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook  # noqa: PLC0415

        state = powerSGD_hook.PowerSGDState(
            process_group=group, matrix_approximation_rank=RANK, start_powerSGD_iter=2
        )
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)


def halved(group, bucket):
    """Send gradients as bfloat16, as PyTorch's own hook does, which refuses gloo."""
    full = bucket.buffer()
    small = full.to(torch.bfloat16).div_(group.size())
    done = dist.all_reduce(small, group=group, async_op=True).get_future()
    return done.then(lambda future: full.copy_(future.value()[0]))


class Outer:
    """DiLoCo's outer optimizer: it takes the mean change of the ranks' weights as a gradient."""

    def __init__(self, model) -> None:
        self.model = model
        self.start = [p.detach().clone() for p in model.parameters()]
        self.optimizer = torch.optim.SGD(self.start, **OUTER)

    def go(self) -> None:
        """From where the ranks started towards where they are on average."""
        for begun, now in zip(self.start, self.model.parameters()):  # noqa: B905
            begun.grad = begun - now.detach()
        self.optimizer.step()
        for begun, now in zip(self.start, self.model.parameters()):  # noqa: B905
            now.data.copy_(begun)


def average(model, group, count: int, outer) -> None:
    """The mean of all ranks' weights, in one piece."""
    weights = [p.data for p in model.parameters()]
    flat = torch.cat([w.flatten() for w in weights])
    dist.all_reduce(flat, group=group)
    flat /= count
    at = 0
    for weight in weights:
        weight.copy_(flat[at : at + weight.numel()].view_as(weight))
        at += weight.numel()
    if outer is not None:
        outer.go()


def numbers(text: str) -> list:
    """``1,2,4`` as numbers."""
    return [int(number) for number in text.split(",") if number]


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--parameters", type=int, default=1_000_000)
    parser.add_argument("--smaller", action="store_true", help="model, where time is short")
    parser.add_argument("--batch", type=int, default=8, help="texts of each rank in a micro-batch")
    parser.add_argument("--length", type=int, default=64, help="bytes of a text")
    parser.add_argument("--batches", type=int, default=32, help="micro-batches of each, at most")
    parser.add_argument("--turns", type=int, default=10, help="of each all_reduce, at most")
    parser.add_argument("--nodes", type=numbers, default=[], help="counts; left out: 1, 2, all")
    parser.add_argument("--ways", default=",".join(METHODS))
    parser.add_argument("--sizes", type=numbers, default=[1 << n for n in (16, 18, 20, 22, 24)])
    parser.add_argument("--seconds", type=float, default=0.0, help="for all of it; 0: no limit")
    return parser.parse_args()


def sized(run: Run, counts: list) -> Speed:
    """Choose the model's size, and measure a step of it and the link."""
    speed = run.speed()
    share = 1.0
    if run.options.smaller:
        share = share_of(speed, counts, run.options.seconds, run.parameters)
        share = run.agreed(share)
    if share < 1:
        run.parameters = int(run.parameters * share)
        speed = run.speed()
    run.report(
        "model",
        {
            "parameters": sum(p.numel() for p in run.model()[0].parameters()),
            "smaller": share < 1,
            "bytes": speed.size,
            "batch": run.options.batch,
            "length": run.options.length,
            "ranks_per_node": run.local_ranks,
            "device": torch.cuda.get_device_name() if run.gpu else "cpu",
            "rank": RANK,
            "small_bytes": speed.small,
        },
    )
    measured = {"ranks": run.ranks, "step": speed.step, "alone": speed.alone}
    run.report("speed", {**measured, "alpha": speed.alpha, "beta": speed.beta})
    return speed


def announce(run: Run, plan: Plan) -> None:
    """The estimate, and what does not fit."""
    spent = time.monotonic() - run.begun
    rest = plan.rest(spent)
    short = [{"way": name, "ranks": ranks} for name, ranks in plan.todo[len(rest) :]]
    named = [{"way": name, "ranks": n, "seconds": took} for name, n, _, took in rest]
    seconds = sum(point["seconds"] for point in named)
    limit = run.options.seconds
    progress = {
        "done": plan.size - len(plan.todo),
        "spent": spent,
        "seconds": seconds,
        "limit": limit,
    }
    run.report("plan", {**progress, "points": named, "left_out": short})


def main() -> None:
    """Measure what was asked for, the most important first."""
    options = read_options()
    run = Run(options)
    nodes = run.ranks // run.local_ranks
    counts = sorted({n for n in options.nodes or (1, 2, nodes) if 1 <= n <= nodes})
    ranks = [count * run.local_ranks for count in counts]
    groups = {count: dist.new_group(list(range(count))) for count in ranks}
    speed = sized(run, ranks)
    plan = Plan(points(options.ways.split(","), ranks), speed, options.seconds, options.batches)
    announce(run, plan)
    timed = {1}
    while True:
        # Rank 0 has the clock.
        point = run.agreed(plan.next(time.monotonic() - run.begun) if run.rank == 0 else None)
        if point is None:
            break
        name, count, cycles, estimate = point
        begun = time.monotonic()
        if run.rank < count:
            if count not in timed:
                todo = reduces(options.sizes, speed, count, options.seconds, options.turns)
                run.collective(groups[count], count, todo)
            begun = time.monotonic()
            limit = LATE * estimate if options.seconds else 0.0
            run.train(METHODS[name], groups[count], count, cycles, limit)
        timed.add(count)
        plan.took(estimate, time.monotonic() - begun)
        announce(run, plan)
    if not run.gpu:
        # gloo's own end can wait for ever for ranks that ended first (seen with PyTorch 2.6).
        os._exit(0)
    dist.destroy_process_group()


def small(weight) -> int:
    """Bytes of a gradient as PowerSGD sends it: two thin matrices, or itself when it is thin."""
    if weight.dim() < 2:  # noqa: PLR2004
        return weight.numel() * 4
    rows, columns = weight.shape[0], weight.numel() // weight.shape[0]
    thin = (rows + columns) * min(RANK, rows, columns)
    # PowerSGD's own rule: compress only what becomes half as large at least.
    return (thin if thin * 2 < rows * columns else rows * columns) * 4


if __name__ == "__main__":
    main()
