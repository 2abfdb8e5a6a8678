#!/bin/sh
# What samples a node learns at once that the first rank there ended.
#
# It reads a pipe whose other end the rank holds, also as the program that it becomes. A process that is left in a
# step when its ranks end costs a second: Slurm kills it and looks again a second later (proctrack_p_wait of
# proctrack/cgroup, Slurm 24.11).
#
# Installed as: nowhere: part of a job's batch script (jobs/batch/script)
# Started by: each rank of the job
# Runs as: the job's user
# shellcheck disable=SC2034 # the samplers use it
corral_rank_end=""
if [ "$SLURM_LOCALID" = 0 ]; then
  # TMPDIR is the submitting machine's: on a node it may be missing or not writable.
  for corral_rank_folder in "${TMPDIR:-/tmp}" /tmp /dev/shm; do
    corral_rank_end=$(mktemp -u "$corral_rank_folder/corral-rank-XXXXXX" 2>/dev/null) &&
      mkfifo -m 600 "$corral_rank_end" 2>/dev/null && break
    corral_rank_end=""
  done
fi
if [ -n "$corral_rank_end" ]; then
  exec 9<>"$corral_rank_end"
  exec 8<"$corral_rank_end"
  rm -f "$corral_rank_end"
fi
