#!/bin/sh
# Refuses clearly where Nsight Systems is not installed.
#
# Installed as: nowhere: part of a job's batch script, in front of a rank's program (jobs/profile/profiler)
# Started by: each rank of a job that nsys profiles
# Runs as: the job's user
# shellcheck source=src/corral/agents/jobs/nsys-path.sh
. jobs/nsys-path.sh #include
command -v nsys >/dev/null 2>&1 || {
  echo "corral: --profile nsys: Nsight Systems is not installed on $(hostname); --profile torch needs nothing but PyTorch" >&2
  exit 127
}
mkdir -p "$CORRAL_JOB_FOLDER/profile"
