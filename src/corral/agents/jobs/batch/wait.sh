#!/bin/sh
# Waits for the ranks.
#
# wait returns early when the trap runs, with a status over 128: then srun is still there.
#
# Installed as: nowhere: part of a job's batch script (jobs/batch/script)
# Started by: slurmd, as the batch script of a job
# Runs as: the job's user
corral_ranks=$!
while wait "$corral_ranks"; corral_status=$?; [ "$corral_status" -gt 128 ] && kill -0 "$corral_ranks" 2>/dev/null; do :; done
