#!/bin/sh
# Starts the job again where it has more to do, or where a node is gone.
#
# Ranks that lose their peers fail long before Slurm calls the dead node down (SlurmdTimeout): the job would count as
# failed. So each node is asked, and one that cannot start a process is gone. Each is asked alone: a launch over all of
# them waits for the dead one. After scontrol requeue Slurm ends this script; until then it must not end.
#
# Installed as: nowhere: part of a job's batch script (jobs/batch/script)
# Started by: slurmd, as the batch script of a job
# Runs as: the job's user
# shellcheck disable=SC2154 # the batch script sets it before
# shellcheck disable=SC2170 # the number is filled in
corral_gone() {
  scontrol show hostnames "$SLURM_JOB_NODELIST" | {
    while IFS= read -r corral_node; do
      timeout -k 5 @probe@ srun --overlap --nodes=1 --ntasks=1 --nodelist="$corral_node" --input=none \
        --output=none --error=none --cpus-per-task=1 --gres=none true >/dev/null 2>&1 ||
        echo "$corral_node" &
    done
    wait
  }
}
# corral_taken_back: nodes that their cloud takes back (preemption.sh): the end of this run is not the script's fault.
corral_taken_back() {
  sinfo -h -N -n "$SLURM_JOB_NODELIST" -o '%N %E' 2>/dev/null |
    sed -n 's/^\([^ ]*\) corral: the cloud takes this machine back$/\1/p' | sort -u | tr '\n' ' '
}
corral_again() {
  echo "corral: $1: the job starts again" >&2
  scontrol requeue "$SLURM_JOB_ID" || return
  sleep 600
}
if [ "$corral_status" -ne 0 ]; then
  corral_taken=$(corral_taken_back)
  if [ -n "$corral_taken" ]; then
    corral_again "its cloud takes back ${corral_taken% }"
  elif [ -n "$corral_near" ] || [ "$corral_status" -eq @again@ ]; then
    if [ -n "$corral_had" ] && [ "$corral_had" = "$(corral_newest)" ]; then
      echo "corral: this run saved no checkpoint after $corral_had: starting again would not end" >&2
    else
      corral_again "it has more to do"
    fi
  else
    corral_dead=$(corral_gone | sort | tr '\n' ' ')
    [ -z "$corral_dead" ] || corral_again "no answer from ${corral_dead% }"
  fi
fi
