#!/bin/sh
# One rank: its environment, then it becomes the rank.
#
# Slurm signals only the process that it started itself (proctrack/cgroup): a shell left above the rank would keep
# SIGTERM from it.
#
# Installed as: nowhere: part of a job's batch script (jobs/batch/script)
# Started by: each rank of the job
# Runs as: the job's user
@settings@
@first@@launcher@
exec "$@"
