#!/bin/sh
# The first rank of a node has its GPUs sampled while somebody follows the job.
#
# In a subshell, so that the rank is not a parent of it: a program may wait for all its children. The file is renamed
# into place; the rank is a process of this number since it is exec'ed.
#
# Installed as: nowhere: part of a job's batch script (jobs/usage)
# Started by: each rank of the job
# Runs as: the job's user
if [ "$SLURM_LOCALID" = 0 ]; then
  (
    use=$CORRAL_JOB_FOLDER/gpus-$SLURM_NODEID
    while kill -0 "$$" 2>/dev/null; do
      if [ -n "$(find "$CORRAL_JOB_FOLDER/@followed@" -newermt '-60 seconds' 2>/dev/null)" ]; then
        if command -v nvidia-smi >/dev/null 2>&1; then
          timeout 20 nvidia-smi --query-gpu=@query@ --format=csv,noheader,nounits 2>/dev/null
        else
          echo @absent@
        fi | tr '\n' ';' | sed "s|^|$(uname -n) |" > "$use.new"
        echo >> "$use.new"
        mv "$use.new" "$use"
      fi
      sleep @every@
    done </dev/null >/dev/null 2>&1 &
  )
fi
