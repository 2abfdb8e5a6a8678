#!/bin/sh
# Reads the profile of NCCL's network plugin, or ends and prints why.
#
# In a bash, which vendors write them for. Names for NCCL and the linker alone: a profile's value of
# CUDA_VISIBLE_DEVICES would give every rank all GPUs, and Slurm's binding stays.
#
# Installed as: nowhere: part of a job's batch script (roles/machine/nccl_plugin)
# Started by: each rank of the job; a batch script that reads the file with a group's environment
# Runs as: the job's user
if [ ! -r @profile@ ]; then
  echo "corral: no" @profile@ "on $(uname -n):" @unprepared@ >&2
  exit 1
fi
if [ -z "$(ls -A @devices@ 2>/dev/null)" ]; then
  echo "corral:" @devices@ "is empty on $(uname -n): no" @kind@ >&2
  exit 1
fi
while IFS='=' read -r corral_name corral_value; do
  case $corral_name in
  *[!A-Z0-9_]*) ;;
  NCCL_*|LD_LIBRARY_PATH) export "$corral_name=$corral_value" ;;
  esac
done <<END_OF_PLUGIN
$(NCCL_LIB_DIR=@folder@ bash -c '. "$1" >/dev/null; /usr/bin/env' bash @profile@)
END_OF_PLUGIN
unset corral_name corral_value
