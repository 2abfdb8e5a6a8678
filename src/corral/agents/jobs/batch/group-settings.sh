#!/bin/sh
# A group's own NCCL settings, on its nodes.
#
# Installed as: nowhere: part of a job's batch script
# Started by: each rank of corral run
# Runs as: the job's user
case ${SLURMD_NODENAME:-$(uname -n)} in
@nodes@)
@gives@ ;;
esac
