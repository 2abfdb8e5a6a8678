#!/bin/sh
# The arguments of one part of a sweep: a line per point, its values quoted for a shell by Corral.
#
# Installed as: nowhere: part of a job's batch script (jobs/batch/script)
# Started by: slurmd, as the batch script of a job
# Runs as: the job's user
# shellcheck disable=SC2154 # the batch script sets it before
corral_point=$(sed -n "$((SLURM_ARRAY_TASK_ID + 1))p" "$corral_job/points")
[ -n "$corral_point" ] || corral_fail "$corral_job/points has no point $SLURM_ARRAY_TASK_ID"
eval "set -- $corral_point"
