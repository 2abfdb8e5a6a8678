"""What PyTorch has of the GPUs, with the time of a matrix product on each."""

import json
import time

import torch

gpus = []
for number in range(torch.cuda.device_count()):
    a = torch.randn(8192, 8192, device=f"cuda:{number}", dtype=torch.bfloat16)
    for _ in range(3):
        a @ a
    torch.cuda.synchronize(number)
    began = time.perf_counter()
    for _ in range(10):
        a @ a
    torch.cuda.synchronize(number)
    tera = 10 * 2 * 8192**3 / (time.perf_counter() - began) / 1e12
    gpus.append({"name": torch.cuda.get_device_name(number), "tflops": round(tera, 1)})
print("RESULT", json.dumps({"torch": torch.__version__, "gpus": gpus}), flush=True)
