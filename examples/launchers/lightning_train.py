"""PyTorch Lightning over all ranks of a job.

    corral run examples/launchers/lightning_train.py -N3 -G1 --python /shared/venv

Lightning sees Slurm and takes the ranks that srun started; num_nodes and devices must be those of
the job. Ends with status 1 when the ranks are not one world with the same gradients.
"""

import json
import os
import sys

import pytorch_lightning as lightning
import torch
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, TensorDataset

RANKS_PER_NODE = int(os.environ.get("SLURM_NTASKS_PER_NODE", "1"))


class Sum(lightning.LightningModule):
    """Learns the sum of its inputs."""

    def __init__(self):
        super().__init__()
        self.model = torch.nn.Linear(8, 1)
        self.agree, self.samples = True, 0

    def training_step(self, batch):
        x, y = batch
        self.samples += len(x) * self.trainer.world_size
        return mse_loss(self.model(x), y)

    def on_after_backward(self):
        gradients = torch.cat([p.grad.flatten() for p in self.parameters()])
        of_all = self.all_gather(gradients).reshape(self.trainer.world_size, -1)
        self.agree = self.agree and bool((of_all == of_all[0]).all())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


lightning.seed_everything(0)
inputs = torch.randn(1536, 8)
data = TensorDataset(inputs, inputs.sum(dim=1, keepdim=True))
trainer = lightning.Trainer(
    num_nodes=int(os.environ.get("SLURM_NNODES", "1")),
    devices=RANKS_PER_NODE,
    accelerator="gpu" if torch.cuda.is_available() else "cpu",
    strategy="ddp",
    max_epochs=1,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
)
module = Sum()
trainer.fit(module, DataLoader(data, batch_size=16, shuffle=True))

print(f"rank {trainer.global_rank} of {trainer.world_size}", flush=True)
if trainer.is_global_zero:
    result = {"ranks": trainer.world_size, "agree": module.agree, "samples": module.samples}
    print(f"RESULT {json.dumps(result)}", flush=True)
started = int(os.environ.get("SLURM_NTASKS", "1"))
sys.stdout.flush()
# At once: threads of gloo that PyTorch 2.6 leaves may abort the interpreter's own end.
os._exit(0 if module.agree and trainer.world_size == started else 1)
