#!/bin/sh
# The ranks of a node by torchrun.
#
# corral.torchrun is in lib: PyTorch's own, for builds without libuv too.
#
# Installed as: nowhere: part of a job's batch script (jobs/batch/script)
# Started by: each rank of the job
# Runs as: the job's user
set -- python3 -m corral.torchrun --nnodes="$SLURM_NNODES" --node-rank="$SLURM_NODEID" \
  --nproc-per-node=@ranks@ --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" "$@"
