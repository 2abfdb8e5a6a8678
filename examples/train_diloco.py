"""Train a small byte model over slow links: DDP, local SGD or DiLoCo, and what each sends.

    python3 examples/train_diloco.py --data /data/text                  # alone: what a step takes
    srun -N2 --ntasks-per-node=1 python3 train_diloco.py --data /data/text --method ddp
    srun -N2 --ntasks-per-node=1 python3 train_diloco.py --data /data/text --method diloco

DDP adds up the gradients in each step. Local SGD averages the weights every --inner steps. DiLoCo
(Douillard and others, 2023) takes the mean change of --inner steps of AdamW as the gradient of an
outer SGD with Nesterov's momentum. All see the same bytes in the same steps. The last line is
RESULT and JSON: milliseconds and bytes of a step, loss on text that no rank has seen.

Each rank reads its node's own copy of the folder (corral data sync): nothing is shared.
"""

import os
import sys
import time

# Of corral run and torchrun, else of srun.
RANK = int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")))
WORLD_SIZE = int(os.environ.get("WORLD_SIZE", os.environ.get("SLURM_NTASKS", "1")))
print(f"rank {RANK} of {WORLD_SIZE} on {os.uname().nodename}", flush=True)

import argparse  # noqa: E402
import hashlib  # noqa: E402
import json  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any, NoReturn  # noqa: E402

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

SEED = 20
TEST_SHARE = 10  # the last tenth of the text is kept for the test
TEST_BATCHES = 8


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--data", type=Path, required=True, help="folder of text files, the same on each node")
    add("--method", choices=("ddp", "local-sgd", "diloco"), default="ddp")
    add("--steps", type=int, default=64)
    add("--inner", type=int, default=16, help="steps between two exchanges; not of ddp")
    add("--batch", type=int, default=8, help="texts of each rank in a step")
    add("--context", type=int, default=24, help="bytes the model looks back")
    add("--width", type=int, default=256)
    add("--lr", type=float, default=2e-3)
    add("--outer-lr", type=float, default=0.7, help="of DiLoCo's outer optimizer")
    add("--outer-momentum", type=float, default=0.6)
    options = parser.parse_args()
    if options.method != "ddp" and options.steps % options.inner:
        parser.error(f"--steps {options.steps} is not a multiple of --inner {options.inner}")
    return options


class Text:
    """All files of a folder as one row of bytes; each rank and step has its own pieces of it."""

    def __init__(self, folder: Path, context: int, batch: int) -> None:
        files = sorted(file for file in folder.rglob("*") if file.is_file())
        raw = b"".join(file.read_bytes() for file in files)
        if len(raw) < 100 * context:
            sys.exit(f"rank {RANK}: {folder} has {len(raw)} bytes on this node: too few to learn")
        self.digest = hashlib.sha256(raw).hexdigest()
        self.bytes = torch.frombuffer(bytearray(raw), dtype=torch.uint8).long()
        self.kept = len(raw) - len(raw) // TEST_SHARE
        self.context, self.batch = context, batch

    def rows(self, first: int, end: int, seed: int) -> torch.Tensor:
        """Pieces between two places of the text, each one byte longer than the context."""
        chosen = torch.Generator().manual_seed(seed)
        starts = torch.randint(first, end - self.context - 1, (self.batch,), generator=chosen)
        return self.bytes[starts[:, None] + torch.arange(self.context + 1)]

    def train(self, step: int) -> torch.Tensor:
        """Of this rank in a step."""
        return self.rows(0, self.kept, SEED + 1 + step * WORLD_SIZE + RANK)

    def test(self, number: int) -> torch.Tensor:
        """Of text that no step uses, the same on all ranks."""
        return self.rows(self.kept, len(self.bytes), number)


class Model(nn.Module):
    """Bytes to the next byte's scores: an embedding, two GRU layers, a linear layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(256, width)
        self.layers = nn.GRU(width, width, num_layers=2, batch_first=True)
        self.scores = nn.Linear(width, 256)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Mean loss of the bytes that follow."""
        hidden, _ = self.layers(self.embedding(rows[:, :-1]))
        return nn.functional.cross_entropy(self.scores(hidden).flatten(0, 1), rows[:, 1:].flatten())


class Exchange:
    """What ranks send each other: its seconds and bytes."""

    def __init__(self) -> None:
        self.seconds, self.bytes, self.count = 0.0, 0.0, 0

    def sent(self, size: float) -> None:
        """An all_reduce: of a ring, each rank sends 2(n-1)/n of the bytes."""
        self.bytes += 2 * (WORLD_SIZE - 1) / WORLD_SIZE * size

    def mean(self, values: torch.Tensor) -> torch.Tensor:
        """The mean over all ranks, in place."""
        began = time.perf_counter()
        dist.all_reduce(values)
        self.seconds += time.perf_counter() - began
        self.sent(values.numel() * values.element_size())
        self.count += 1
        return values.div_(WORLD_SIZE)

    def hook(self, _: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """DDP's own exchange of a bucket, counted."""
        gradients = bucket.buffer()
        self.sent(gradients.numel() * gradients.element_size())
        self.count += 1
        done = dist.all_reduce(gradients, async_op=True).get_future()
        return done.then(lambda end: end.value()[0].div_(WORLD_SIZE))


class Outer:
    """The weights that all ranks agreed on last, and how the next ones are made of all changes."""

    def __init__(self, model: nn.Module, options: argparse.Namespace, exchange: Exchange) -> None:
        self.model, self.options, self.exchange = model, options, exchange
        self.weights = nn.utils.parameters_to_vector(model.parameters()).detach().clone()
        self.momentum = torch.zeros_like(self.weights)

    @torch.no_grad()
    def agree(self) -> None:
        """All ranks go on from the same weights."""
        mine = nn.utils.parameters_to_vector(self.model.parameters())
        change = self.exchange.mean(self.weights - mine)
        if self.options.method == "diloco":
            self.momentum.mul_(self.options.outer_momentum).add_(change)
            change = change.add(self.momentum, alpha=self.options.outer_momentum)
            change.mul_(self.options.outer_lr)
        self.weights -= change
        # A copy: parameters become views of it, and the optimizer writes into them.
        nn.utils.vector_to_parameters(self.weights.clone(), self.model.parameters())


def interface_bytes() -> int:
    """Bytes that this node has sent by the ranks' interface; 0 where none is named."""
    name = os.environ.get("GLOO_SOCKET_IFNAME", "")
    counter = Path(f"/sys/class/net/{name}/statistics/tx_bytes")
    return int(counter.read_text()) if name and counter.exists() else 0


def checked(values: object, what: str) -> None:
    """All ranks must have the same."""
    ranks: list[object] = [None] * WORLD_SIZE
    dist.all_gather_object(ranks, values)
    if len(set(map(str, ranks))) != 1:
        sys.exit(f"rank {RANK}: {what} differs between ranks: {ranks}")


@torch.no_grad()
def test_loss(model: nn.Module, text: Text) -> float:
    return sum(float(model(text.test(number))) for number in range(TEST_BATCHES)) / TEST_BATCHES


def train(options: argparse.Namespace, text: Text) -> dict[str, Any]:
    torch.manual_seed(SEED)
    plain, exchange = Model(options.width), Exchange()
    first = test_loss(plain, text)
    optimizer = torch.optim.AdamW(plain.parameters(), lr=options.lr)
    together = WORLD_SIZE > 1
    model: nn.Module = plain
    if together and options.method == "ddp":
        model = DistributedDataParallel(plain)
        model.register_comm_hook(None, exchange.hook)
    outer = Outer(plain, options, exchange) if together and options.method != "ddp" else None
    dist.barrier()
    sent, began = interface_bytes(), time.perf_counter()
    for step in range(options.steps):
        optimizer.zero_grad(set_to_none=True)
        model(text.train(step)).backward()
        optimizer.step()
        if outer and (step + 1) % options.inner == 0:
            outer.agree()
    dist.barrier()
    seconds, sent = time.perf_counter() - began, interface_bytes() - sent
    weights = nn.utils.parameters_to_vector(plain.parameters()).detach()
    checked(hashlib.sha256(weights.numpy().tobytes()).hexdigest(), "the model")
    return {
        "method": options.method,
        "world_size": WORLD_SIZE,
        "parameters": weights.numel(),
        "steps": options.steps,
        "inner": options.inner if outer else 1,
        "step_ms": round(seconds / options.steps * 1e3, 2),
        "exchange_ms": round(exchange.seconds / exchange.count * 1e3, 2) if outer else None,
        "bytes_per_step": round(exchange.bytes / options.steps),
        "interface_bytes_per_step": round(sent / options.steps),
        "first_loss": round(first, 4),
        "test_loss": round(test_loss(plain, text), 4),
    }


def main() -> int:
    options = arguments()
    torch.set_num_threads(max(1, int(os.environ.get("OMP_NUM_THREADS", "1"))))
    if WORLD_SIZE > 1:
        os.environ.setdefault("MASTER_PORT", "29512")  # of srun: corral env knows the address alone
        dist.init_process_group("gloo", rank=RANK, world_size=WORLD_SIZE)
    else:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    text = Text(options.data, options.context, options.batch)
    checked(text.digest, f"the text of {options.data}")
    result = train(options, text)
    if RANK == 0:
        print(f"RESULT {json.dumps(result)}", flush=True)
    if result["test_loss"] >= result["first_loss"]:
        print("the model has learned nothing", file=sys.stderr)
        return 1
    return 0


def leave(status: int) -> NoReturn:
    """End at once: threads of DDP's gloo group can kill Python 3.13's own clearing up."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    leave(main())
