#!/bin/sh
# The same for nodes whose NCCL has a network plugin.
#
# One node alone needs no plugin, and some are installed in jobs of several only.
#
# Installed as: nowhere: the file with a group's environment (jobs/batch/fabric)
# Started by: a batch script of somebody else
# Runs as: the job's user
if [ "${SLURM_JOB_NUM_NODES:-${SLURM_NNODES:-1}}" -gt 1 ]; then
@environment@
@given@
fi
@sourced@
if [ "${SLURM_JOB_NUM_NODES:-${SLURM_NNODES:-1}}" -gt 1 ]; then
CORRAL_CONTAINER_MOUNTS=@mounts@
CORRAL_CONTAINER_ENV=$(env | sed -n 's/^\(NCCL_[A-Z0-9_]*\)=.*/\1/p' | paste -sd, -)
CORRAL_CONTAINER_ENV=$CORRAL_CONTAINER_ENV,GLOO_SOCKET_IFNAME,LD_LIBRARY_PATH
export CORRAL_CONTAINER_MOUNTS CORRAL_CONTAINER_ENV
fi
