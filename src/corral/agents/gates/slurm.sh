#!/bin/sh
# Functions of gates that ask Slurm, and of what waits for it. POSIX sh and awk.
#
# Installed as: nowhere: sent in front of a call of one of them
# Started by: corral (api/operations/nodes, apply/restoration, inspect/jobs, inspect/machine, inspect/slurm,
#   roles/machine/nvidia, roles/slurm/compute, roles/slurm/packages)
# Runs as: root
# shellcheck source=src/corral/agents/slurm-nodes.sh
. slurm-nodes.sh #include
# shellcheck source=src/corral/agents/slurmctld.sh
. slurmctld.sh #include

# nodes_listed COUNT NODES: so many at least.
nodes_listed() (
  nodes=$(timeout 10 scontrol --oneliner show node "$2") && [ "$(printf '%s\n' "$nodes" | node_states | wc -l)" -ge "$1" ] &&
    printf '%s\n' "$nodes"
)

# none LINES: fails with them.
none() { [ -z "$1" ] || { echo "$1"; return 1; }; }

# nodes_registered COUNT NODES: no slurmd of theirs is waited for.
nodes_registered() (
  nodes=$(nodes_listed "$1" "$2") && none "$(printf '%s\n' "$nodes" | nodes_silent)" && none "$(printf '%s\n' "$nodes" | nodes_down)"
)

# nodes_run VERSION COUNT NODES: their slurmd registered with it.
nodes_run() (
  nodes=$(nodes_listed "$2" "$3") && none "$(printf '%s\n' "$nodes" | node_versions | grep -vF " $1")" &&
    none "$(printf '%s\n' "$nodes" | nodes_silent)"
)

# node_back REASON: waits until this machine's slurmd registered in its version, and lets it take jobs again if it is drained for REASON.
node_back() (
  node=$(uname -n) version=$(slurmd -V)
  i=0
  until [ "$(timeout 5 scontrol --oneliner show node "$node" | node_versions)" = "$node ${version##* }" ]; do
    i=$((i + 1))
    [ $i -lt 120 ] || exit 1
    sleep 0.5
  done
  shown=$(timeout 5 scontrol --oneliner show node "$node") || exit 1
  if printf '%s\n' "$shown" | drained_nodes | cut -d ' ' -f 3- | grep -qxF "$1"; then
    timeout 30 scontrol update "NodeName=$node" State=RESUME
  fi
)

# nodes_seen: "slurmctld" and its line of each node; or "none", or "silent".
nodes_seen() {
  if ! command -v scontrol >/dev/null || ! [ -e /etc/slurm/slurm.conf ]; then
    echo none
  elif ! slurmctld_is_up; then
    echo silent
  else
    echo slurmctld
    timeout 30 scontrol --oneliner show nodes
  fi
}

# node_free NODE SECONDS STATES: succeeds once no job of these states is on it; else, when the time is over, prints which ones
# are, and ends with 3. Without their names: one may have any number of lines, of jobs that do not exist.
node_free() (
  end=$(($(date +%s) + $2))
  while :; do
    if jobs=$(timeout 10 squeue -h -w "$1" -t "$3" -o 'job %i (%u, %M so far)'); then
      [ -n "$jobs" ] || exit 0
    else
      jobs=
    fi
    [ "$(date +%s)" -lt $end ] || {
      printf '%s\n' "$jobs"
      exit 3
    }
    sleep 1
  done
)

# jobs_cancel_all STATES: and none of these states is left. Fails where squeue does: what follows releases the machines, and a
# pipeline has the status of its last command, so that a silent slurmctld would be an empty queue.
jobs_cancel_all() (
  jobs=$(timeout 20 squeue -h -o %A) || exit 1
  printf '%s\n' "$jobs" | sort -u | grep -x '[0-9][0-9]*' | xargs -r timeout 60 scancel -- || exit 1
  i=0
  while jobs=$(timeout 20 squeue -h -t "$1" -o %A) || exit 1; [ -n "$jobs" ]; do
    i=$((i + 1))
    [ $i -lt 60 ] || exit 1
    sleep 1
  done
)

# nodes_update NODES SECONDS CHANGE...: by scontrol; then their lines. Slurm counts a resumed node as not responding until it
# has pinged it, which takes seconds (24.11): that is waited for, so that the next command finds the node ready. A
# node that really is dead keeps the flag, and the state shows it.
nodes_update() (
  nodes=$1 end=$(($(date +%s) + $2))
  shift 2
  scontrol update "NodeName=$nodes" "$@" || exit 1
  while [ "$(date +%s)" -lt $end ] && scontrol --oneliner show nodes "$nodes" | nodes_unanswered | grep -q .; do
    sleep 0.2
  done
  scontrol --oneliner show nodes "$nodes"
)

# gpus_answer COUNT
gpus_answer() (
  shown=$(timeout 30 nvidia-smi -L) || none "$shown" || exit 1
  count=$(printf '%s\n' "$shown" | grep -c '^GPU ')
  echo "$count GPUs"
  [ "$count" -eq "$1" ]
)

# machine_fault: why a rented machine must not take work; else "gpus COUNT". Seven of eight gpu_1x_h100_sxm5 came up with GPUs
# that no program could open: nvidia-smi must answer for each, where there is one; device files alone are what a
# rehearsal has.
machine_fault() (
  if [ ! -d /run/systemd/system ]; then
    echo 'systemd is not running'
  elif [ "$(df --output=avail -BG / | tail -1 | tr -dc 0-9)" -lt 5 ]; then
    echo 'less than 5 GiB are free on /'
  elif command -v nvidia-smi >/dev/null; then
    echo "gpus $(timeout 60 nvidia-smi --query-gpu=uuid --format=csv,noheader 2>/dev/null | grep -c GPU-)"
  else
    # shellcheck disable=SC2010 # names of devices
    echo "gpus $(ls /dev | grep -c '^nvidia[0-9][0-9]*$')"
  fi
)
