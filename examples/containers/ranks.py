"""What both trainings in containers share: this rank's place in the job, its device, its end."""

import os
import sys
from collections.abc import Callable
from typing import NoReturn

import torch
import torch.distributed as dist

RANK = int(os.environ.get("RANK", "0"))
LOCAL_RANK = int(os.environ.get("LOCAL_RANK", "0"))
WORLD_SIZE = int(os.environ.get("WORLD_SIZE", "1"))


def joined() -> torch.device:
    """This rank's device, all ranks in one process group."""
    torch.set_num_threads(max(1, int(os.environ.get("OMP_NUM_THREADS", "1"))))
    device, backend = torch.device("cpu"), "gloo"
    if torch.cuda.is_available():
        device, backend = torch.device("cuda", LOCAL_RANK % torch.cuda.device_count()), "nccl"
        torch.cuda.set_device(device)
    if "MASTER_ADDR" in os.environ:
        dist.init_process_group(backend)
    else:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    return device


def mean(value: float, device: torch.device) -> float:
    """Over all ranks."""
    total = torch.tensor(value, dtype=torch.float64, device=device)
    dist.all_reduce(total)
    return float(total) / WORLD_SIZE


def ended(main: Callable[[], int]) -> NoReturn:
    """End at once: threads of DDP's gloo group can kill Python 3.13's own clearing up."""
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
