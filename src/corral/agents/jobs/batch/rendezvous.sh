#!/bin/sh
# Where the ranks meet: address and port.
#
# MASTER_ADDR is the address that Slurm itself uses for the first node, never a loopback one.
# A port is a function of the job's id, so that two jobs on one node do not meet, and it is looked at before use: this
# script runs on the first node of the allocation. 20000 to 29999: below the range from which Linux assigns ports
# (32768-60999) and above Slurm's own.
#
# Installed as: nowhere: part of a job's batch script (jobs/batch/script)
# Started by: slurmd, as the batch script of a job
# Runs as: the job's user
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
MASTER_ADDR=$(node_address "$first")
case $MASTER_ADDR in
"") fail "Slurm knows no address of $first" ;;
127.*|localhost|::1)
  [ "$SLURM_JOB_NUM_NODES" = 1 ] ||
    fail "$first has the address $MASTER_ADDR, which other nodes cannot reach: set its NodeAddr" ;;
esac
in_use() {
  cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk -v port="$(printf '%04X' "$1")" \
    '{ n = split($2, a, ":"); if (a[n] == port) found = 1 } END { exit !found }'
}
tries=0
while
  MASTER_PORT=$((20000 + (SLURM_JOB_ID + tries * 257) % 10000))
  in_use "$MASTER_PORT"
do
  tries=$((tries + 1))
  [ "$tries" -lt 1000 ] || fail "no free port on $first"
done
export MASTER_ADDR MASTER_PORT
