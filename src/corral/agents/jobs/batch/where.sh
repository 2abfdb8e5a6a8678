#!/bin/sh
# Where the job keeps checkpoints, and the folder that it runs in.
#
# Installed as: nowhere: part of a job's batch script (jobs/batch/script)
# Started by: slurmd, as the batch script of a job
# Runs as: the job's user
export CORRAL_CHECKPOINTS=@checkpoints@
cd @workdir@ || corral_fail "the folder to run in cannot be entered on $(hostname)"
