"""Train a small GPT on real text over all ranks of a job, so that nothing is lost when it is cut.

    corral run examples/train_gpt/train.py --nodes 3 -- --steps 200
    python3 examples/train_gpt/train.py --steps 100           # alone, without Slurm

Mixed precision, gradient accumulation, gradient compression, checkpoints and requeue, MLflow where
MLFLOW_TRACKING_URI is set. Ends with status 1 when the model knows no more than how often each
byte comes: then it has learned nothing.
"""

import os
import sys
import time

RANK = int(os.environ.get("RANK", "0"))
LOCAL_RANK = int(os.environ.get("LOCAL_RANK", "0"))
WORLD_SIZE = int(os.environ.get("WORLD_SIZE", "1"))

import argparse  # noqa: E402
import contextlib  # noqa: E402
import hashlib  # noqa: E402
import json  # noqa: E402
import math  # noqa: E402
import signal  # noqa: E402
import warnings  # noqa: E402
from dataclasses import dataclass, field  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any, NoReturn  # noqa: E402

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from corpus import Corpus  # noqa: E402
from model import Gpt  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402
from tracking import Tracking  # noqa: E402

try:
    from corral.checkpoint import Checkpoints
except ImportError:
    sys.exit("corral.checkpoint is not there: `corral run` sends it along; else pip install corral")
with warnings.catch_warnings():  # PyTorch 2.6 under Python 3.13 has ten of them for each rank
    warnings.simplefilter("ignore", FutureWarning)
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

TEST_BATCHES = 4


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--corpus", default="", help="file or folder of text; left out: Python's standard library")
    add("--folder", type=Path, default=None, help="for data and checkpoints, shared by all nodes")
    add("--steps", type=int, default=200)
    add("--layers", type=int, default=4)
    add("--heads", type=int, default=4)
    add("--width", type=int, default=128)
    add("--context", type=int, default=128, help="bytes the model looks back")
    add("--batch", type=int, default=8, help="rows of each rank and micro-batch")
    add("--accumulate", type=int, default=2, help="micro-batches of each step")
    add("--lr", type=float, default=2e-3)
    add("--precision", choices=("bf16", "fp32"), default="bf16")
    add("--compress", choices=("none", "bf16", "powersgd"), default="none")
    add("--checkpoint-every", type=int, default=50, help="steps")
    add("--report-every", type=int, default=10, help="steps")
    add("--seed", type=int, default=20)
    add("--profile", type=Path, default=None, help="folder for a trace of steps 3 to 6")
    return parser.parse_args()


@dataclass
class Meter:
    """Tokens per second, without the first steps of each start."""

    warm_up: int = 2
    steps: int = 0
    tokens: int = 0
    began: float = 0.0
    losses: list[float] = field(default_factory=list)

    def step(self, tokens: int, loss: float) -> None:
        """A step is done."""
        self.losses.append(loss)
        self.steps += 1
        if self.steps == self.warm_up:
            self.began = time.perf_counter()
        elif self.steps > self.warm_up:
            self.tokens += tokens

    @property
    def tokens_per_second(self) -> float:
        """Of all ranks; 0 while it warms up."""
        spent = time.perf_counter() - self.began
        return self.tokens / spent if self.tokens else 0.0


def rate(step: int, options: argparse.Namespace) -> float:
    """Up for a tenth of the steps, then down along a cosine to a tenth of it."""
    warm_up = max(1, options.steps // 10)
    if step < warm_up:
        return options.lr * (step + 1) / warm_up
    part = (step - warm_up) / max(1, options.steps - warm_up)
    return options.lr * (0.1 + 0.45 * (1 + math.cos(math.pi * part)))


def halved(_: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Gradients travel as bf16: half the bytes. PyTorch's own hook refuses gloo, which can it."""
    gradients = bucket.buffer()
    sent = gradients.to(torch.bfloat16).div_(WORLD_SIZE)
    done = dist.all_reduce(sent, async_op=True).get_future()
    return done.then(lambda end: gradients.copy_(end.value()[0]))


class Training:
    """The model over all ranks, with everything a checkpoint must hold."""

    def __init__(self, options: argparse.Namespace, folder: Path, device: torch.device) -> None:
        self.options, self.device = options, device
        self.corpus = Corpus(folder / "data", options.corpus, options.context, options.seed)
        torch.manual_seed(options.seed)
        self.plain = Gpt(options.layers, options.heads, options.width, options.context).to(device)
        self.optimizer = torch.optim.AdamW(self.plain.parameters(), weight_decay=0.1)
        self.step = 0
        self.saved = Checkpoints(options.folder and options.folder / "checkpoints", keep=2)
        # SIGUSR1 comes before the time limit; SIGTERM before preemption and from `corral cancel`.
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGUSR1))
        self._resume()
        self.model = DistributedDataParallel(
            self.plain, device_ids=[device] if device.type == "cuda" else None
        )
        self._compress()

    def _resume(self) -> None:
        checkpoint = self.saved.load()
        if checkpoint is not None:
            self.plain.load_state_dict(checkpoint.state["model"])
            self.optimizer.load_state_dict(checkpoint.state["optimizer"])
            self.step = checkpoint.number
            if RANK == 0:
                print(f"resumed at step {self.step}", flush=True)

    def _compress(self) -> None:
        if self.options.compress == "bf16":
            self.model.register_comm_hook(None, halved)
        elif self.options.compress == "powersgd":
            # Its memory of what was not sent is per rank and starts over after a restart.
            state = powerSGD_hook.PowerSGDState(
                process_group=None, matrix_approximation_rank=4, start_powerSGD_iter=10
            )
            self.model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)

    def save(self) -> None:
        """Rank 0 writes it; the numbers of all data come from the step, so they need no state."""
        model, optimizer = self.plain.state_dict(), self.optimizer.state_dict()
        self.saved.save(self.step, {"model": model, "optimizer": optimizer})

    def _precision(self) -> contextlib.AbstractContextManager[Any]:
        on = self.options.precision == "bf16"
        return torch.autocast(self.device.type, torch.bfloat16, enabled=on)

    def _loss(self, batch: tuple[Any, Any]) -> torch.Tensor:
        tokens, targets = (torch.from_numpy(part.copy()).to(self.device) for part in batch)
        with self._precision():
            return self.model(tokens, targets)

    def one_step(self) -> float:
        """Forward, backward and update; gives the mean loss of all ranks."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate(self.step, self.options)
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device=self.device)
        for micro in range(self.options.accumulate):
            last = micro == self.options.accumulate - 1
            # Gradients travel once a step, with the last micro-batch.
            with contextlib.nullcontext() if last else self.model.no_sync():
                batch = self.corpus.batch(self.options.batch, self.step, micro, RANK)
                loss = self._loss(batch) / self.options.accumulate
                loss.backward()
            total += loss.detach()
        torch.nn.utils.clip_grad_norm_(self.plain.parameters(), 1.0)
        self.optimizer.step()
        self.step += 1
        dist.all_reduce(total)
        return float(total) / WORLD_SIZE

    @torch.no_grad()
    def test_loss(self) -> float:
        """Mean loss on text held back; each rank takes its share of the batches."""
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        for number in range(RANK, TEST_BATCHES * WORLD_SIZE, WORLD_SIZE):
            tokens, targets = self.corpus.test_batch(number, self.options.batch)
            with self._precision():
                rows = (torch.from_numpy(p.copy()).to(self.device) for p in (tokens, targets))
                total += self.plain(*rows).double()
        dist.all_reduce(total)
        return float(total) / TEST_BATCHES / WORLD_SIZE

    def weights(self) -> str:
        """Equal on two ranks only if each bit of all weights is."""
        digest = hashlib.sha256()
        for weight in self.plain.state_dict().values():
            digest.update(weight.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()


def trace(folder: Path | None) -> contextlib.AbstractContextManager[Any]:
    """PyTorch's profiler over a few steps; `corral run --profile torch` needs none of this."""
    if folder is None:
        return contextlib.nullcontext()
    folder.mkdir(parents=True, exist_ok=True)
    return torch.profiler.profile(
        schedule=torch.profiler.schedule(wait=1, warmup=1, active=4, repeat=1),
        on_trace_ready=lambda p: p.export_chrome_trace(str(folder / f"rank{RANK}.json")),
    )


def train(run: Training, tracking: Tracking) -> Meter:
    """To the last step; a signal makes a checkpoint and ends the rank with "start me again"."""
    options, meter = run.options, Meter()
    tokens = options.batch * options.accumulate * options.context * WORLD_SIZE
    with trace(options.profile) as profiler:
        while run.step < options.steps:
            loss = run.one_step()
            meter.step(tokens, loss)
            if profiler is not None:
                profiler.step()
            if RANK == 0 and (run.step % options.report_every == 0 or run.step == options.steps):
                speed = meter.tokens_per_second
                print(f"step {run.step}/{options.steps} loss {loss:.4f} {speed:.0f} tokens/s")
                tracking.log({"loss": loss, "tokens_per_second": speed}, run.step)
            leaving = run.saved.leaving()
            if leaving or run.step % options.checkpoint_every == 0:
                run.save()
            if leaving:
                tracking.pause()
                run.saved.leave()
    return meter


def finish(run: Training, meter: Meter, tracking: Tracking) -> int:
    speed = meter.tokens_per_second  # before the weights' digest and the test: neither is training
    sums: list[Any] = [None] * WORLD_SIZE
    mine = run.weights()
    dist.all_gather_object(sums, mine)
    if set(sums) != {mine}:
        sys.exit(f"rank {RANK}: weights differ between ranks: {sums}")
    guess, loss = run.corpus.guess_loss(), run.test_loss()
    if RANK == 0:
        result = {
            "test_loss": round(loss, 4),
            "guess_loss": round(guess, 4),
            "first_loss": round(meter.losses[0], 4) if meter.losses else None,
            "tokens_per_second": round(speed),
            "parameters": sum(p.numel() for p in run.plain.parameters()),
            "steps": run.step,
            "world_size": WORLD_SIZE,
            "weights": mine,
        }
        tracking.log({"test_loss": loss}, run.step)
        print(f"RESULT {json.dumps(result)}", flush=True)
    if loss >= guess:
        print(f"test loss {loss:.3f}, and {guess:.3f} needs no model", file=sys.stderr)
        return 1
    return 0


def main() -> int:
    options = arguments()
    torch.set_num_threads(max(1, int(os.environ.get("OMP_NUM_THREADS", "1"))))
    cuda = torch.cuda.is_available()
    device = torch.device("cpu")
    if cuda:
        device = torch.device("cuda", LOCAL_RANK % torch.cuda.device_count())
        torch.cuda.set_device(device)
    backend = "nccl" if cuda else "gloo"
    if "MASTER_ADDR" in os.environ:
        dist.init_process_group(backend)
    else:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    place = options.folder or Path(os.environ.get("CORRAL_JOB_FOLDER", "train_gpt.out"))
    run = Training(options, place, device)
    tracking = Tracking(vars(options)) if RANK == 0 else Tracking(None)
    status = finish(run, train(run, tracking), tracking)
    tracking.end(status)
    dist.destroy_process_group()
    return status


def leave(status: int) -> NoReturn:
    """End at once: threads of DDP's gloo group can kill Python 3.13's own clearing up."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    leave(main())
