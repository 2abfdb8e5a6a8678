#!/bin/sh
# The first rank of a node has the node sampled.
#
# In a subshell, so that the rank is not a parent of it: a program may wait for all its children. It ends with the
# rank: see rank-end.sh, which opens 8 and 9.
#
# Installed as: nowhere: part of a job's batch script (jobs/batch/tracking)
# Started by: each rank of the job
# Runs as: the job's user
if [ -n "${MLFLOW_RUN_ID-}" ] && [ -n "$corral_rank_end" ]; then
  (python3 -m corral.track sample <&8 8<&- 9<&- >/dev/null 2>&1 &)
fi
