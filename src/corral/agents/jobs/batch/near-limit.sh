#!/bin/sh
# What happens when the time limit is near, or a cloud takes one of the nodes back.
#
# Slurm (--signal=B:) or preemption.sh signals the batch shell alone, which signals the ranks through srun and waits for them to save and
# leave. A script without a handler dies of SIGUSR1: it then goes on from what it saved before.
#
# Installed as: nowhere: part of a job's batch script (jobs/batch/script)
# Started by: slurmd, as the batch script of a job
# Runs as: the job's user
# shellcheck disable=SC2154 # the batch script sets it before
# shellcheck disable=SC2034 # the batch script uses it after
# shellcheck disable=SC2010 # names of checkpoints are Corral's
corral_near=""
corral_near() {
  corral_near=1
  echo "corral: the time limit is near, or a node is taken back: ranks get SIGUSR1, to save and leave" >&2
  kill -USR1 "$corral_ranks" 2>/dev/null
  (sleep @patience@; scontrol requeue "$SLURM_JOB_ID") >/dev/null 2>&1 &
}
corral_newest() { ls "$CORRAL_CHECKPOINTS" 2>/dev/null | grep '[.]sha256$' | sort | tail -n 1; }
corral_had=$(corral_newest)
trap corral_near USR1
