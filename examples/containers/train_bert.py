"""Train a small BERT on text, in a container, over all ranks of a job.

    corral run train_bert.py --nodes 2 --container torch.sqsh -- --data /shared/text

A transformer encoder that fills in masked bytes (Devlin and others, 2018): 15 % of the places are
to be predicted, of which 80 % are masked, 10 % hold another byte and 10 % stay. It ends with
status 1 when it knows no more than how often each byte comes: then it has learned nothing.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import torch
from ranks import RANK, WORLD_SIZE, ended, joined, mean
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

SEED = 20
MASK = 256  # behind all bytes
CHOSEN, MASKED, OTHER = 0.15, 0.8, 0.1
TEST_SHARE = 10  # the last tenth of the text is kept for the test
TEST_BATCHES = 8


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--data", type=Path, required=True, help="folder of text files")
    add("--steps", type=int, default=120)
    add("--batch", type=int, default=16, help="texts of each rank in a step")
    add("--length", type=int, default=32, help="bytes of a text")
    add("--width", type=int, default=64)
    add("--heads", type=int, default=4)
    add("--layers", type=int, default=2)
    add("--lr", type=float, default=4e-3)
    return parser.parse_args()


class Bert(nn.Module):
    """Bytes with some masked to scores of the byte at each place."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__()
        width = options.width
        self.bytes = nn.Embedding(MASK + 1, width)
        self.places = nn.Embedding(options.length, width)
        layer = nn.TransformerEncoderLayer(
            width,
            options.heads,
            4 * width,
            dropout=0.0,
            activation="gelu",
            batch_first=True,
            norm_first=True,
        )
        self.layers = nn.TransformerEncoder(layer, options.layers, enable_nested_tensor=False)
        self.scores = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, MASK))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        places = torch.arange(rows.shape[1], device=rows.device)
        return self.scores(self.layers(self.bytes(rows) + self.places(places)))


class Text:
    """All files of a folder as one row of bytes."""

    def __init__(self, options: argparse.Namespace, device: torch.device) -> None:
        files = sorted(file for file in options.data.rglob("*") if file.is_file())
        raw = bytearray(b"".join(file.read_bytes() for file in files))
        if len(raw) < 100 * options.length:
            sys.exit(f"rank {RANK}: {options.data} has {len(raw)} bytes: too few to learn")
        self.all = torch.frombuffer(raw, dtype=torch.uint8).long()
        self.kept = len(raw) - len(raw) // TEST_SHARE
        self.batch, self.length, self.device = options.batch, options.length, device

    def pieces(self, seed: int, *, test: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Texts with masks, the texts themselves, and which places are to be predicted."""
        chance = torch.Generator().manual_seed(seed)
        first, end = (self.kept, len(self.all)) if test else (0, self.kept)
        starts = torch.randint(first, end - self.length, (self.batch,), generator=chance)
        rows = self.all[starts[:, None] + torch.arange(self.length)]
        chosen = torch.rand(rows.shape, generator=chance) < CHOSEN
        how = torch.rand(rows.shape, generator=chance)
        seen = rows.masked_fill(chosen & (how < MASKED), MASK)
        others = torch.randint(MASK, rows.shape, generator=chance)
        other = chosen & (how >= MASKED) & (how < MASKED + OTHER)
        seen = torch.where(other, others, seen)
        return seen.to(self.device), rows.to(self.device), chosen.to(self.device)

    def guess_loss(self) -> float:
        """Of who knows only how often each byte comes in the training's text."""
        often = torch.bincount(self.all[: self.kept], minlength=MASK) + 1.0
        return float(-(often / often.sum()).log()[self.all[self.kept :]].double().mean())


@torch.no_grad()
def test_loss(model: nn.Module, text: Text) -> float:
    """Of bytes that are to be predicted, in text that no step used."""
    model.eval()
    total = 0.0
    for number in range(TEST_BATCHES):
        seen, rows, chosen = text.pieces(number, test=True)
        total += float(cross_entropy(model(seen)[chosen], rows[chosen]))
    return total / TEST_BATCHES


def main() -> int:
    options, device = arguments(), joined()
    text = Text(options, device)
    torch.manual_seed(SEED)
    plain = Bert(options).to(device)
    model = DistributedDataParallel(plain, device_ids=[device] if device.type == "cuda" else None)
    optimizer = torch.optim.AdamW(plain.parameters(), lr=options.lr, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, options.lr, options.steps)
    began, loss = time.perf_counter(), torch.zeros(())
    for step in range(options.steps):
        seen, rows, chosen = text.pieces(SEED + 1 + step * WORLD_SIZE + RANK, test=False)
        optimizer.zero_grad(set_to_none=True)
        loss = cross_entropy(model(seen)[chosen], rows[chosen])
        loss.backward()
        optimizer.step()
        schedule.step()
        if RANK == 0 and (step + 1) % 20 == 0:
            print(f"step {step + 1}/{options.steps} loss {float(loss):.4f}", flush=True)
    loss_mean, guess = mean(test_loss(plain, text), device), text.guess_loss()
    if RANK == 0:
        result = {
            "model": "bert",
            "torch": torch.__version__,
            "world_size": WORLD_SIZE,
            "parameters": sum(p.numel() for p in plain.parameters()),
            "texts_per_second": round(
                options.steps * options.batch * WORLD_SIZE / (time.perf_counter() - began)
            ),
            "test_loss": round(loss_mean, 4),
            "guess_loss": round(guess, 4),
        }
        print(f"RESULT {json.dumps(result)}", flush=True)
    if loss_mean >= guess:
        print(f"test loss {loss_mean:.3f}, and {guess:.3f} needs no model", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    ended(main)
