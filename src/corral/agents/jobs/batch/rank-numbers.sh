#!/bin/sh
# A rank's numbers as PyTorch reads them, of Slurm's.
#
# Installed as: nowhere: part of a job's batch script (jobs/batch/script)
# Started by: each rank of the job
# Runs as: the job's user
export RANK="$SLURM_PROCID" LOCAL_RANK="$SLURM_LOCALID" NODE_RANK="$SLURM_NODEID"
export WORLD_SIZE="${SLURM_STEP_NUM_TASKS:-$SLURM_NTASKS}"
corral_tasks=${SLURM_STEP_TASKS_PER_NODE:-$SLURM_TASKS_PER_NODE}
export LOCAL_WORLD_SIZE="${corral_tasks%%[(,]*}"
