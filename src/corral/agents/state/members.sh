#!/bin/sh
# Functions for nodes and partitions that leave the cluster, and for nodes that Corral drained. POSIX sh and awk.
#
# Installed as: nowhere: sent in front of a call of one of them
# Started by: corral (state/slurm/members)
# Runs as: root
# shellcheck source=src/corral/agents/slurm-nodes.sh
. slurm-nodes.sh #include
# shellcheck source=src/corral/agents/slurmctld.sh
. slurmctld.sh #include

# nodes_shown NODES...: as scontrol shows them; all where none is named.
nodes_shown() { timeout 10 scontrol --oneliner show node "$@"; }

# leaving_probe REASON CLOSED: lines "node NAME", with "drained" behind for this reason; "partition NAME"; "closed NAME"
# for each file in the folder CLOSED. Nothing where slurmctld does not answer: none of it could be changed. Without
# slurm.conf a command looks for _slurmctld._tcp in the DNS: 5 s where none answers.
leaving_probe() (
  [ -e /etc/slurm/slurm.conf ] && nodes=$(nodes_shown) && partitions=$(timeout 5 scontrol --oneliner show partitions) || exit 0
  {
    printf '%s\n' "$nodes" | node_lines | awk -F '\t' -v reason="$1" '{ print "node " $1 ($4 == reason ? " drained" : "") }'
    printf '%s\n' "$partitions" | sed -n 's/^PartitionName=\([^ ]*\) .*/partition \1/p'
  } | sort
  for file in "$2"/*; do
    [ ! -e "$file" ] || echo "closed ${file##*/}"
  done
)

# jobs_end SECONDS OPTION...: waits until squeue lists no such jobs; fails with their numbers when the time is over;
# a name may have any number of lines.
jobs_end() (
  limit=$1 end=$(($(date +%s) + $1))
  shift
  while jobs=$(squeue -h "$@" -o '%i of %u %T on %N in %P') || exit 1; [ -n "$jobs" ]; do
    if [ "$(date +%s)" -ge "$end" ]; then
      printf 'after %s s these jobs are still there:\n%s\n' "$limit" "$jobs" >&2
      echo 'wait for them or cancel them, then run the same command again' >&2
      exit 1
    fi
    sleep 1
  done
)

# nodes_leave NODES REASON SECONDS STATES: drained, and their jobs of these states end.
nodes_leave() { scontrol update "NodeName=$1" State=DRAIN "Reason=$2" && jobs_end "$3" -w "$1" -t "$4"; }

# partition_open NAME CLOSED: which was closed because it was to leave.
partition_open() {
  # All, not this one: it would fail likewise where there is none of the name and where slurmctld does not answer.
  partitions=$(timeout 5 scontrol --oneliner show partitions) || return
  if printf '%s\n' "$partitions" | grep -q "^PartitionName=$1 "; then
    scontrol update "PartitionName=$1" State=UP || return
  fi
  rm -f "$2/$1"
}

# partition_close NAME CLOSED SECONDS: its jobs end.
partition_close() {
  mkdir -p "$2" && : >"$2/$1" && scontrol update "PartitionName=$1" State=DRAIN && jobs_end "$3" -p "$1"
}

# drained_with TEXT: names of drained nodes whose reason begins so; standard input as drained_nodes.
drained_with() { drained_nodes | awk -v text="$1" 'index(substr($0, length($1 $2) + 3), text) == 1 { print $1 }'; }

# resume_all REASON: nodes that are drained for it.
resume_all() (
  nodes=$(nodes_shown) || exit 1
  for node in $(printf '%s\n' "$nodes" | drained_with "$1"); do
    scontrol update NodeName="$node" State=RESUME
  done
)

# cluster_quiet REASON SECONDS STATES: all nodes are drained and no job of these states is left; else they are resumed.
# Nodes that a person drained stay as they are. Nothing happens where slurmctld does not answer.
cluster_quiet() (
  slurmctld_is_up || exit 0
  nodes=$(nodes_shown) || exit 1
  for node in $(printf '%s\n' "$nodes" | nodes_not_drained); do
    scontrol update NodeName="$node" State=DRAIN "Reason=$1" || exit 1
  done
  ! jobs_end "$2" -t "$3" || exit 0
  resume_all "$1"
  exit 1
)

# resumed_probe TAG: drained nodes whose reason begins so; nothing while slurmctld does not answer.
resumed_probe() { ! command -v scontrol >/dev/null || nodes_shown 2>/dev/null | drained_with "$1" | sort; }

# nodes_resume TAG NODE...: those that are still drained with it.
nodes_resume() (
  tag=$1
  shift
  for node in "$@"; do
    shown=$(nodes_shown "$node") || exit 1
    [ -z "$(printf '%s\n' "$shown" | drained_with "$tag")" ] || timeout 30 scontrol update "NodeName=$node" State=RESUME || exit 1
  done
)
