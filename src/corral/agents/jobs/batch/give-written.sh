#!/bin/sh
# corral_give NAME VALUE REASON sets what the user has not set, and writes it for a rank in a container.
#
# Installed as: nowhere: part of a job's batch script (jobs/batch/fabric)
# Started by: slurmd, as the batch script of a job
# Runs as: the job's user
corral_to=$CORRAL_JOB_FOLDER/node-$SLURM_NODEID.env
: > "$corral_to" || exit 1
corral_give() {
  eval "[ -n \"\${$1+x}\" ]" && return
  export "$1=$2"
  printf "export %s='%s'\n" "$1" "$(printf %s "$2" | sed "s/'/'\\\\''/g")" >> "$corral_to"
}
