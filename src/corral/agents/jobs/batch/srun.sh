#!/bin/sh
# The start of all ranks.
#
# --cpus-per-task again: srun of Slurm 22.05 to 23.02 does not read SLURM_CPUS_PER_TASK. --distribution=block puts rank 0
# on the first node, where MASTER_ADDR points to.
#
# Installed as: nowhere: part of a job's batch script (jobs/batch/script)
# Started by: slurmd, as the batch script of a job
# Runs as: the job's user
# shellcheck disable=SC2154 # the batch script sets it before
srun --kill-on-bad-exit=1 --input=none --distribution=block \
  --nodes=@nodes@ --ntasks=@total@ --ntasks-per-node=@tasks@ --cpus-per-task=@cpus@ \
  --output="$corral_folder/rank-%t.log" --open-mode=append@container@
