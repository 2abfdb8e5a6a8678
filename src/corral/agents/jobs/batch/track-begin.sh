#!/bin/sh
# Makes the job's run at the tracking server, or goes on with it.
#
# trap TERM: scancel, preemption and the time limit send it to this shell too, with KillWait (30 s) to go. It goes on, so
# that ranks that save something then have that time.
#
# Installed as: nowhere: part of a job's batch script (jobs/batch/tracking)
# Started by: slurmd, as the batch script of a job
# Runs as: the job's user
# shellcheck disable=SC2154 # the batch script sets it before
[ -n "${MLFLOW_TRACKING_URI+set}" ] || MLFLOW_TRACKING_URI=@uri@
[ -n "${MLFLOW_EXPERIMENT_NAME+set}" ] || MLFLOW_EXPERIMENT_NAME=@experiment@
export MLFLOW_TRACKING_URI MLFLOW_EXPERIMENT_NAME
if [ -n "$MLFLOW_TRACKING_URI" ] && MLFLOW_RUN_ID=$(python3 -m corral.track begin "$corral_folder"); then
  export MLFLOW_RUN_ID
  corral_killed=""
  corral_tracked() { python3 -m corral.track end "${corral_killed:-$1}"; }
  trap 'corral_killed=143; corral_tracked 143' TERM
else
  unset MLFLOW_RUN_ID
  corral_tracked() { :; }
fi
