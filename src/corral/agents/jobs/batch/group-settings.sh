#!/bin/sh
# A group's own NCCL settings, on its nodes.
#
# Installed as: nowhere: part of a job's batch script (jobs/batch/fabric)
# Started by: each rank of the job
# Runs as: the job's user
case ${SLURMD_NODENAME:-$(uname -n)} in
@nodes@)
@gives@ ;;
esac
