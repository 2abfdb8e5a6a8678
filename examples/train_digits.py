"""Train a small network on scikit-learn's handwritten digits, over all ranks of a job.

    corral run examples/train_digits.py --nodes 3 --gpus-per-node 1
    corral run examples/train_digits.py --nodes 2 --time 1h --requeue    # survives a node's death
    python3 examples/train_digits.py                      # alone, without Slurm

1797 real images of 8 x 8 pixels come with scikit-learn. PyTorch DDP over gloo on CPUs, over NCCL
where there are GPUs. It ends with status 1 when the accuracy on images it never saw is too low.
"""

import os
import sys
import time

RANK = int(os.environ.get("RANK", "0"))
LOCAL_RANK = int(os.environ.get("LOCAL_RANK", "0"))
WORLD_SIZE = int(os.environ.get("WORLD_SIZE", "1"))
# Before torch is imported, which takes seconds on a small machine: it shows that the rank runs.
print(f"rank {RANK} of {WORLD_SIZE} on {os.uname().nodename}", flush=True)

import argparse  # noqa: E402
import csv  # noqa: E402
import gzip  # noqa: E402
import hashlib  # noqa: E402
import json  # noqa: E402
from importlib.util import find_spec  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import NoReturn  # noqa: E402

if find_spec("torch") is None:
    sys.exit("this node has no PyTorch: see docs/guide/rehearse.md, On Ubuntu")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402
from torch.utils.data.distributed import DistributedSampler  # noqa: E402

try:
    from corral.checkpoint import Checkpoints  # sent with every job of corral run
except ImportError:
    Checkpoints = None

SEED = 20
TEST_EVERY = 5  # each fifth image is kept for the test


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=64, help="images per step, all ranks")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--min-accuracy", type=float, default=0.93)
    return parser.parse_args()


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """The images as N x 1 x 8 x 8 in 0..1, and their labels.

    The file is the one that sklearn.datasets.load_digits reads. Importing sklearn for it alone
    costs each rank over a second (it imports SciPy).
    """
    spec = find_spec("sklearn")
    if spec is None or spec.origin is None:
        sys.exit("scikit-learn is not installed: its digits are the data")
    file = Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"
    with gzip.open(file, "rt") as lines:
        rows = torch.tensor([[float(cell) for cell in row] for row in csv.reader(lines)])
    return rows[:, :-1].reshape(-1, 1, 8, 8) / 16.0, rows[:, -1].long()


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def checksum(model: nn.Module) -> str:
    """Equal on two ranks only if each bit of all weights is."""
    digest = hashlib.sha256()
    for weight in model.state_dict().values():
        digest.update(weight.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def check_world() -> None:
    """PyTorch's world must be the one that Slurm gave, each rank once."""
    ranks: list[object] = [None] * dist.get_world_size()
    dist.all_gather_object(ranks, dist.get_rank())
    if ranks != list(range(WORLD_SIZE)):
        sys.exit(f"world is {ranks}, not {WORLD_SIZE} ranks")
    given = os.environ.get("SLURM_STEP_NUM_TASKS")
    if given is not None and "TORCHELASTIC_RUN_ID" not in os.environ and int(given) != WORLD_SIZE:
        sys.exit(f"Slurm started {given} ranks, PyTorch sees {WORLD_SIZE}")


def check_weights(model: nn.Module) -> str:
    """All ranks must hold the same weights at the end; gives their checksum."""
    sums: list[object] = [None] * dist.get_world_size()
    mine = checksum(model)
    dist.all_gather_object(sums, mine)
    if set(sums) != {mine}:
        sys.exit(f"rank {RANK}: weights differ between ranks: {sums}")
    return mine


@torch.no_grad()
def accuracy(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    """Right answers of all ranks together; each evaluates its own share of the images."""
    model.eval()
    mine = slice(dist.get_rank(), None, dist.get_world_size())
    right = (model(images[mine]).argmax(1) == labels[mine]).sum().double()
    dist.all_reduce(right)
    return float(right) / len(labels)


def train(options: argparse.Namespace, device: torch.device) -> float:
    images, labels = (part.to(device) for part in digits())
    test = torch.arange(len(labels), device=device) % TEST_EVERY == 0
    torch.manual_seed(SEED)
    plain = network().to(device)
    model = DistributedDataParallel(plain, device_ids=[device] if device.type == "cuda" else None)
    data = TensorDataset(images[~test], labels[~test])
    sampler = DistributedSampler(data, seed=SEED)
    loader = DataLoader(data, batch_size=max(1, options.batch_size // WORLD_SIZE), sampler=sampler)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)
    saved = Checkpoints(keep=2) if Checkpoints and "CORRAL_CHECKPOINTS" in os.environ else None
    checkpoint = saved.load() if saved else None
    if checkpoint:
        plain.load_state_dict(checkpoint.state["model"])
        optimizer.load_state_dict(checkpoint.state["optimizer"])
        print(f"goes on after epoch {checkpoint.number}", flush=True)
    began = time.perf_counter()
    score = accuracy(plain, images[test], labels[test]) if checkpoint else 0.0
    for epoch in range(checkpoint.number + 1 if checkpoint else 1, options.epochs + 1):
        model.train()
        sampler.set_epoch(epoch)
        total = torch.zeros((), dtype=torch.float64, device=device)
        for batch, target in loader:
            optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(model(batch), target)
            loss.backward()
            optimizer.step()
            total += loss.detach()
        dist.all_reduce(total)
        loss_mean = float(total) / len(loader) / WORLD_SIZE
        score = accuracy(plain, images[test], labels[test])
        if RANK == 0:
            print(
                f"epoch {epoch}/{options.epochs} loss {loss_mean:.4f} accuracy {score:.4f}",
                flush=True,
            )
        if saved:
            saved.save(epoch, {"model": plain.state_dict(), "optimizer": optimizer.state_dict()})
            if saved.leaving():
                saved.leave()
    weights = check_weights(plain)
    if RANK == 0:
        report(score, weights, time.perf_counter() - began, options)
    return score


def report(score: float, weights: str, seconds: float, options: argparse.Namespace) -> None:
    print(f"accuracy: {score:.4f}")
    result = {
        "accuracy": round(score, 4),
        "world_size": WORLD_SIZE,
        "epochs": options.epochs,
        "seconds": round(seconds, 3),
        "weights": weights,
        "backend": dist.get_backend(),
        "torch": torch.__version__,
    }
    print(f"RESULT {json.dumps(result)}", flush=True)


def main() -> int:
    options = arguments()
    torch.set_num_threads(max(1, int(os.environ.get("OMP_NUM_THREADS", "1"))))
    torch.use_deterministic_algorithms(mode=True)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only so
    if torch.cuda.is_available():
        device = torch.device("cuda", LOCAL_RANK % torch.cuda.device_count())
        torch.cuda.set_device(device)
    else:
        device = torch.device("cpu")
    backend = "nccl" if device.type == "cuda" else "gloo"
    if "MASTER_ADDR" in os.environ:
        dist.init_process_group(backend)
    else:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    check_world()
    score = train(options, device)
    dist.destroy_process_group()  # not after an error: NCCL's would wait for the other ranks
    if score < options.min_accuracy:
        print(f"accuracy {score:.4f} is below {options.min_accuracy}", file=sys.stderr)
        return 1
    return 0


def leave(status: int) -> NoReturn:
    """End the process at once, without the interpreter's own clearing up.

    PyTorch 2.6 keeps threads of DDP's gloo group after destroy_process_group(). One of them that
    drops its last tensor while Python 3.13 shuts down kills the process ("terminate called without
    an active exception"): two ranks of a hundred on a busy machine, after all work was done.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    leave(main())
