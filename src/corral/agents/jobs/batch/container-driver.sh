#!/bin/sh
# Lets Enroot give a container the driver's files, by NVIDIA's own program.
#
# An image that is none of NVIDIA's does not set these variables. Without that program its hook would fail.
#
# Installed as: nowhere: part of a job's batch script (jobs/batch/containers)
# Started by: slurmd, as the batch script of a job
# Runs as: the job's user
if command -v nvidia-container-cli >/dev/null 2>&1; then
  export NVIDIA_VISIBLE_DEVICES="${NVIDIA_VISIBLE_DEVICES-all}"
  export NVIDIA_DRIVER_CAPABILITIES="${NVIDIA_DRIVER_CAPABILITIES-compute,utility}"
fi
