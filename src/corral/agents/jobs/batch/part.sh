#!/bin/sh
# The folder of one part of an array.
#
# Each part has a copy of the code (of links), so that what two of them write under one relative name never is one
# file.
#
# Installed as: nowhere: part of a job's batch script (jobs/batch/script)
# Started by: slurmd, as the batch script of a job
# Runs as: the job's user
# shellcheck disable=SC2154 # the batch script sets it before
corral_folder=$corral_job/task-$SLURM_ARRAY_TASK_ID
[ ! -d "$corral_job/code" ] || [ -d "$corral_folder/code" ] || cp -al "$corral_job/code" "$corral_folder/code" || exit 1
