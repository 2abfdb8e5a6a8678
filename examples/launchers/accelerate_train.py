"""Hugging Face accelerate over all ranks of a job: no `accelerate launch`.

    corral run examples/launchers/accelerate_train.py -N3 -G1 --python /shared/venv

Slurm starts the ranks, and `corral run` gives each of them RANK, WORLD_SIZE and MASTER_ADDR, which
Accelerator reads. Ends with status 1 when the ranks are not one world with the same gradients.
"""

import json
import os
import sys

import torch
from accelerate import Accelerator, InitProcessGroupKwargs
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, TensorDataset

# On CPUs it would take MPI where PyTorch has it (Debian's), which lacks what gather() needs.
on_cpus = not torch.cuda.is_available()
accelerator = Accelerator(
    cpu=on_cpus, kwargs_handlers=[InitProcessGroupKwargs(backend="gloo")] if on_cpus else []
)
torch.manual_seed(0)
inputs = torch.randn(1536, 8)
data = TensorDataset(inputs, inputs.sum(dim=1, keepdim=True))
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = accelerator.prepare(
    model, optimizer, DataLoader(data, batch_size=16, shuffle=True)
)
agree, samples = True, 0
for x, y in loader:
    loss = mse_loss(model(x), y)
    accelerator.backward(loss)
    gradients = torch.cat([p.grad.flatten() for p in model.parameters()])
    of_all = accelerator.gather(gradients[None])
    agree = agree and bool((of_all == of_all[0]).all())
    samples += len(x) * accelerator.num_processes
    optimizer.step()
    optimizer.zero_grad()

print(f"rank {accelerator.process_index} of {accelerator.num_processes}", flush=True)
if accelerator.is_main_process:
    result = {"ranks": accelerator.num_processes, "agree": agree, "samples": samples}
    print(f"RESULT {json.dumps(result)}", flush=True)
started = int(os.environ.get("SLURM_NTASKS", "1"))
sys.stdout.flush()
# At once: threads of gloo that PyTorch 2.6 leaves may abort the interpreter's own end.
os._exit(0 if agree and accelerator.num_processes == started else 1)
