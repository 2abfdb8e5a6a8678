#!/bin/sh
# The first rank of a node has the node sampled.
#
# In a subshell, so that the rank is not a parent of it: a program may wait for all its children.
#
# Installed as: nowhere: part of a job's batch script (jobs/batch/tracking)
# Started by: each rank of the job
# Runs as: the job's user
if [ -n "${MLFLOW_RUN_ID-}" ] && [ "$SLURM_LOCALID" = 0 ]; then
  (python3 -m corral.track sample "$$" </dev/null >/dev/null 2>&1 &)
fi
