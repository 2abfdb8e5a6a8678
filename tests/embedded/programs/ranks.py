"""A few ranks of gloo that add up once, as the environment sets them: ``ranks.py [hang]``."""

import datetime
import os
import sys
import time

import torch
import torch.distributed as dist

rank = int(os.environ["SLURM_PROCID"])
dist.init_process_group(
    "gloo",
    rank=rank,
    world_size=int(os.environ["SLURM_NTASKS"]),
    timeout=datetime.timedelta(seconds=15),
)
if sys.argv[1:] == ["hang"] and rank == 1:
    time.sleep(90)
tensor = torch.ones(4)
dist.all_reduce(tensor)
print("together", tensor.tolist())
