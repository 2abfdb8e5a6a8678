#!/bin/sh
# corral_give NAME VALUE REASON sets what the user has not set.
#
# Installed as: nowhere: part of a job's batch script (jobs/batch/fabric)
# Started by: each rank of the job
# Runs as: the job's user
corral_give() {
  eval "[ -n \"\${$1+x}\" ]" || export "$1=$2"
}
