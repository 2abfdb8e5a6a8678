#!/bin/sh
# The same for nodes with GPUDirect-TCPXO.
#
# One node alone needs no plugin, and the prolog installs none there.
#
# Installed as: nowhere: the file that corral env writes
# Started by: a batch script of somebody else
# Runs as: the job's user
if [ "${SLURM_JOB_NUM_NODES:-${SLURM_NNODES:-1}}" -gt 1 ]; then
@environment@
unset corral_devices
@given@
CORRAL_CONTAINER_MOUNTS=@mounts@
CORRAL_CONTAINER_ENV=$(env | sed -n 's/^\(NCCL_[A-Z0-9_]*\)=.*/\1/p' | paste -sd, -)
CORRAL_CONTAINER_ENV=$CORRAL_CONTAINER_ENV,GLOO_SOCKET_IFNAME,LD_LIBRARY_PATH
export CORRAL_CONTAINER_MOUNTS CORRAL_CONTAINER_ENV
fi
