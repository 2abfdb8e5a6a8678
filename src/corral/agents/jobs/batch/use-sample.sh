#!/bin/sh
# The first rank of a node has its GPUs sampled while somebody follows the job.
#
# In a subshell, so that the rank is not a parent of it: a program may wait for all its children. The file is renamed
# into place. It ends with the rank: see rank-end.sh, which opens 8 and 9.
#
# Installed as: nowhere: part of a job's batch script (jobs/usage)
# Started by: each rank of the job
# Runs as: the job's user
if [ -n "$corral_rank_end" ] && ! command -v nvidia-smi >/dev/null 2>&1; then
  echo "$(uname -n) @absent@;" > "$CORRAL_JOB_FOLDER/gpus-$SLURM_NODEID" # stated once: nothing waits for the rank's end
elif [ -n "$corral_rank_end" ]; then
  (
    corral_use=$CORRAL_JOB_FOLDER/gpus-$SLURM_NODEID
    while
      if [ -n "$(find "$CORRAL_JOB_FOLDER/@followed@" -newermt '-60 seconds' 2>/dev/null)" ]; then
        timeout 20 nvidia-smi --query-gpu=@query@ --format=csv,noheader,nounits 2>/dev/null |
          tr '\n' ';' | sed "s|^|$(uname -n) |" > "$corral_use.new"
        echo >> "$corral_use.new"
        mv "$corral_use.new" "$corral_use"
      fi
      timeout @every@ cat
      [ "$?" = 124 ] # as timeout ends where it had to end cat
    do :; done <&8 8<&- 9<&- >/dev/null 2>&1 &
  )
fi
