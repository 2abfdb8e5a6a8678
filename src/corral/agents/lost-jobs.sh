#!/bin/sh
# Written by Corral: ends jobs that were lost when this machine stopped. Once after each boot. Root.
#
# Slurm (24.11 at least) ends the jobs of a node that is away for longer than SlurmdTimeout. One that
# is back before keeps them RUNNING: srun takes the end of its connections for the end of the tasks'
# output and waits, and slurmctld looks for a batch job that began less than 40 s before only at
# the node's next registration, 13 minutes later. A job that began before this machine did has no
# process here any more. Down and back again is what Slurm does itself with ReturnToService=1: jobs
# are requeued or end as NODE_FAIL, and jobs of --no-kill go on without the node. It would end jobs
# that live here, too (a new one may have begun since the boot): next to those each lost job is
# requeued, or cancelled where it must not be requeued.
#
# Installed as: /usr/local/sbin/corral-lost-jobs on compute nodes (roles/slurm/lost_jobs)
# Started by: corral-lost-jobs.timer, once after each boot
# Runs as: root
set -u
LC_ALL=C SLURM_TIME_FORMAT=%s
export LC_ALL SLURM_TIME_FORMAT
node=${1:-$(hostname -s)}
# shellcheck source=src/corral/agents/slurm-nodes.sh
. slurm-nodes.sh #include
# shellcheck source=src/corral/agents/slurm-steps.sh
. slurm-steps.sh #include

# A container has its host's uptime, but its own first process.
boot=$(($(date +%s) - $(ps -o etimes= -p 1)))

# labelled NUMBER LABEL: what to call a job. The number of an array's last task is the array's: all its tasks would be meant.
labelled() { case $2 in '' | *[!0-9_]*) echo "$1" ;; *) echo "$2" ;; esac; }

# lost: labels of jobs that count as running here, began before the boot and have no step here.
# Jobs whose nodes still boot are CONFIGURING; Slurm starts their time when the nodes are there.
lost() {
  jobs=$(timeout 30 squeue -h -w "$node" -t RUNNING,SUSPENDED -o '%A %T %S %i') || return 1
  steps=$(root_steps args=)
  printf '%s\n' "$jobs" | while read -r job state start label; do
    case $state in RUNNING | SUSPENDED) ;; *) continue ;; esac
    [ "$start" -lt "$boot" ] 2>/dev/null || continue
    printf '%s\n' "$steps" | grep -Eq "\\[([^]]*[^0-9])?$job\\." || labelled "$job" "$label"
  done
}

# Twice: a clock that is set meanwhile does not make a job lost, which has a step by then.
systemctl -q is-active slurmd || exit 1
lost_jobs=$(lost) || exit 1
[ -n "$lost_jobs" ] || exit 0
sleep 10
lost_jobs=$(lost) || exit 1
[ -n "$lost_jobs" ] || exit 0

list=$(printf '%s\n' "$lost_jobs" | tr "\n" " " | cut -c1-200)
echo "jobs that were lost when this machine stopped: $list"
all=$(timeout 30 squeue -h -w "$node" -t RUNNING,SUSPENDED,CONFIGURING,COMPLETING -o '%A %i') || exit 1
all=$(printf '%s\n' "$all" | while read -r job label; do labelled "$job" "$label"; done)
if [ "$(printf '%s\n' "$all" | sort -u)" != "$(printf '%s\n' "$lost_jobs" | sort -u)" ]; then
  failed=0
  for job in $lost_jobs; do
    timeout 30 scontrol requeue "$job" || timeout 30 scancel -- "$job" || failed=1
  done
  exit "$failed"
fi
info=$(timeout 30 scontrol show node "$node" -o) || exit 1
timeout 30 scontrol update nodename="$node" state=down reason="restarted, jobs were lost: ${list% }" || exit 1
timeout 30 scontrol update nodename="$node" state=resume || exit 1
# A drained node stays drained, with its reason.
reason=$(printf '%s\n' "$info" | drained_nodes | cut -d ' ' -f 3-)
[ "$reason" != - ] || reason=drained
[ -z "$reason" ] || timeout 30 scontrol update nodename="$node" state=drain reason="$reason" || exit 1
