"""Train a small ResNet on images of handwritten digits, in a container, over all ranks of a job.

    corral run train_resnet.py --nodes 2 --container torch.sqsh -- --data /shared/digits.csv.gz

Residual blocks with batch normalisation (He and others, 2015) in three stages. The data is
scikit-learn's digits.csv.gz: 1797 images of 8 x 8 pixels. It ends with status 1 when the accuracy
on images that it never saw is too low.
"""

import argparse
import csv
import gzip
import json
import sys
import time
from pathlib import Path

import torch
from ranks import RANK, WORLD_SIZE, ended, joined, mean
from torch import nn
from torch.nn.functional import cross_entropy, relu
from torch.nn.parallel import DistributedDataParallel

SEED = 20
TEST_EVERY = 5  # each fifth image is kept for the test


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--data", type=Path, required=True, help="scikit-learn's digits.csv.gz")
    add("--epochs", type=int, default=4)
    add("--batch", type=int, default=64, help="images of a step, of all ranks together")
    add("--width", type=int, default=16)
    add("--lr", type=float, default=0.05)
    add("--min-accuracy", type=float, default=0.9)
    return parser.parse_args()


class Block(nn.Module):
    """Two convolutions, and the input added to what they give."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.second = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(after) for _ in range(2))
        self.short = nn.Identity()
        if stride != 1 or before != after:
            self.short = nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        inner = relu(self.norms[0](self.first(images)))
        return relu(self.norms[1](self.second(inner)) + self.short(images))


def resnet(width: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        Block(width, width, 1),
        Block(width, 2 * width, 2),
        Block(2 * width, 4 * width, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4 * width, 10),
    )


def digits(file: Path, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """The images as N x 1 x 8 x 8 in 0..1, and their labels."""
    with gzip.open(file, "rt") as lines:
        rows = torch.tensor([[float(cell) for cell in row] for row in csv.reader(lines)])
    return rows[:, :-1].reshape(-1, 1, 8, 8).to(device) / 16, rows[:, -1].long().to(device)


@torch.no_grad()
def accuracy(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    model.eval()
    return float((model(images).argmax(1) == labels).double().mean())


def main() -> int:
    options, device = arguments(), joined()
    images, labels = digits(options.data, device)
    test = torch.arange(len(labels), device=device) % TEST_EVERY == 0
    rows = (~test).nonzero().flatten()
    torch.manual_seed(SEED)
    plain = resnet(options.width).to(device)
    model = DistributedDataParallel(plain, device_ids=[device] if device.type == "cuda" else None)
    optimizer = torch.optim.SGD(plain.parameters(), options.lr, momentum=0.9, weight_decay=1e-4)
    each = options.batch // WORLD_SIZE
    steps = len(rows) // options.batch
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 4 * options.lr, options.epochs * steps
    )
    began, score = time.perf_counter(), 0.0
    for epoch in range(options.epochs):
        model.train()
        order = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(epoch))]
        for step in range(steps):
            mine = order[step * options.batch + RANK * each :][:each]
            optimizer.zero_grad(set_to_none=True)
            cross_entropy(model(images[mine]), labels[mine]).backward()
            optimizer.step()
            schedule.step()
        score = mean(accuracy(plain, images[test], labels[test]), device)
        if RANK == 0:
            print(f"epoch {epoch + 1}/{options.epochs} accuracy {score:.4f}", flush=True)
    if RANK == 0:
        result = {
            "model": "resnet",
            "torch": torch.__version__,
            "world_size": WORLD_SIZE,
            "parameters": sum(p.numel() for p in plain.parameters()),
            "images_per_second": round(
                options.epochs * steps * options.batch / (time.perf_counter() - began)
            ),
            "accuracy": round(score, 4),
        }
        print(f"RESULT {json.dumps(result)}", flush=True)
    if score < options.min_accuracy:
        print(f"accuracy {score:.4f} is below {options.min_accuracy}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    ended(main)
