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
corral_first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
MASTER_ADDR=$(corral_node_address "$corral_first")
case $MASTER_ADDR in
"") corral_fail "Slurm knows no address of $corral_first" ;;
127.*|localhost|::1)
  [ "$SLURM_JOB_NUM_NODES" = 1 ] ||
    corral_fail "$corral_first has the address $MASTER_ADDR, which other nodes cannot reach: set its NodeAddr" ;;
esac
corral_in_use() {
  cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk -v port="$(printf '%04X' "$1")" \
    '{ n = split($2, a, ":"); if (a[n] == port) found = 1 } END { exit !found }'
}
corral_tries=0
while
  MASTER_PORT=$((20000 + (SLURM_JOB_ID + corral_tries * 257) % 10000))
  corral_in_use "$MASTER_PORT"
do
  corral_tries=$((corral_tries + 1))
  [ "$corral_tries" -lt 1000 ] || corral_fail "no free port on $corral_first"
done
export MASTER_ADDR MASTER_PORT
