#!/bin/sh
# Reads the profile of GPUDirect-TCPXO, or ends and prints why.
#
# CUDA_VISIBLE_DEVICES stays what Slurm set: the profile's 0..7 would give every rank all GPUs.
#
# Installed as: nowhere: part of a job's batch script
# Started by: each rank of corral run; a batch script that reads the file of corral env
# Runs as: the job's user
# shellcheck disable=SC1091 # of the node
if [ ! -r @profile@ ]; then
  echo "corral: no @profile@ on $(uname -n): the TCPXO prolog did not run" >&2
  exit 1
fi
if [ -z "$(ls -A @aperture@ 2>/dev/null)" ]; then
  echo "corral: @aperture@ is empty on $(uname -n): no aperture devices" >&2
  exit 1
fi
corral_devices=${CUDA_VISIBLE_DEVICES-unset}
NCCL_LIB_DIR=@folder@
export NCCL_LIB_DIR
. @profile@
if [ "$corral_devices" = unset ]; then unset CUDA_VISIBLE_DEVICES
else export "CUDA_VISIBLE_DEVICES=$corral_devices"; fi
