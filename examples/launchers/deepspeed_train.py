"""DeepSpeed over all ranks of a job: no `deepspeed` command, no host file, no ssh between nodes.

    corral run examples/launchers/deepspeed_train.py -N3 -G1 --python /shared/venv

Slurm starts the ranks, and `corral run` gives each of them RANK, LOCAL_RANK, WORLD_SIZE and
MASTER_ADDR, which DeepSpeed reads. Ends with status 1 when the ranks are not one world with the
same gradients.
"""

import json
import os
import sys

import deepspeed
import torch
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

on_cpus = not torch.cuda.is_available()
if on_cpus:  # else it compiles its shared-memory collectives at the start: nodes need no compiler
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
deepspeed.init_distributed(dist_backend="gloo" if on_cpus else "nccl")
ranks, rank = deepspeed.comm.get_world_size(), deepspeed.comm.get_rank()
torch.manual_seed(0)
inputs = torch.randn(1536, 8)
data = TensorDataset(inputs, inputs.sum(dim=1, keepdim=True))
model = torch.nn.Linear(8, 1)
engine, optimizer, _, _ = deepspeed.initialize(
    model=model,
    optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
    config={"train_micro_batch_size_per_gpu": 16, "zero_optimization": {"stage": 0}},
)
agree, samples = True, 0
for x, y in DataLoader(data, batch_size=16, sampler=DistributedSampler(data, ranks, rank)):
    loss = mse_loss(engine(x.to(engine.device)), y.to(engine.device))
    engine.backward(loss)
    gradients = torch.cat([p.grad.flatten() for p in model.parameters()])
    of_all = [torch.empty_like(gradients) for _ in range(ranks)]
    deepspeed.comm.all_gather(of_all, gradients)
    agree = agree and all(bool((each == of_all[0]).all()) for each in of_all)
    samples += len(x) * ranks
    engine.step()

print(f"rank {rank} of {ranks}", flush=True)
if rank == 0:
    print(f"RESULT {json.dumps({'ranks': ranks, 'agree': agree, 'samples': samples})}", flush=True)
sys.stdout.flush()
# At once: threads of gloo that PyTorch 2.6 leaves may abort the interpreter's own end.
os._exit(0 if agree and ranks == int(os.environ.get("SLURM_NTASKS", "1")) else 1)
