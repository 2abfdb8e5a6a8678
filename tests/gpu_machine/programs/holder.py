"""Hold memory of each GPU that is there until standard input ends, or for some seconds."""

import sys
import time

import torch

held = [
    torch.zeros(2 << 30, dtype=torch.uint8, device=f"cuda:{i}")
    for i in range(torch.cuda.device_count())
]
print(f"holds memory of {len(held)} GPUs", flush=True)
time.sleep(float(sys.argv[1]))
