#!/bin/sh
# A Python environment on shared storage.
#
# Installed as: nowhere: part of a job's batch script
# Started by: slurmd, as the batch script of corral run
# Runs as: the job's user
export VIRTUAL_ENV=@path@
export PATH="$VIRTUAL_ENV/bin:$PATH"
python3 -c '' || fail "the Python environment $VIRTUAL_ENV does not run on $(hostname)"
