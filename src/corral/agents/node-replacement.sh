#!/bin/sh
# Functions that take a node out of service whose machine was replaced, and prove the new machine. POSIX sh and awk.
#
# Installed as: nowhere: sent in front of a call of one of them
# Started by: corral (api/lifecycle/node_replacement)
# Runs as: root
# shellcheck source=src/corral/agents/slurm-nodes.sh
. slurm-nodes.sh #include

# node_lost NODE REASON: down, so that Slurm requeues its jobs or ends them (NODE_FAIL); then drained too, as with ReturnToService=2 a
# node that is only down takes jobs as soon as its slurmd registers. The figures of its past proofs are the old machine's.
node_lost() (
  for state in DOWN DRAIN; do
    timeout 30 scontrol update "NodeName=$1" "State=$state" "Reason=$2" || exit 1
  done
  figures=/var/lib/corral/proof/figures
  [ -e "$figures" ] || exit 0
  awk -v node="$1" '$2 != node' "$figures" >"$figures.new" && cat "$figures.new" >"$figures"
  rm -f "$figures.new"
)

# unreserved RESERVATION: removes it, if it is there. Several tries: Slurm refuses while a job of it ends ("Requested reservation is in
# use"), and nobody answers while slurmctld restarts.
unreserved() (
  for pause in 0.2 1 2 4 0; do
    refusal=$(timeout 10 scontrol delete "ReservationName=$1" 2>&1) && exit 0
    known=$(timeout 10 scontrol show reservation -o 2>/dev/null) &&
      ! printf '%s\n' "$known" | grep -qF "ReservationName=$1 " && exit 0
    sleep "$pause"
  done
  echo "reservation $1 could not be removed: $refusal" >&2
  exit 1
)

# node_proven NODE REASON USER PARTITION GPUS SECONDS: resumes it behind a reservation, so that nobody else's job starts there, and runs
# a job on all of it, which must have the CPUs that Slurm promises and GPUS; else it prints what the job had. A node that does not
# pass is drained again before the reservation goes, and it ends with 1. Nor does one pass whose reservation stays, as it would
# take no jobs: the next call removes that, and one of a call that was cut off.
node_proven() (
  node=$1 reason=$2 user=$3 partition=$4 gpus=$5 seconds=$6 reservation=corral-proof-of-$1
  # shellcheck disable=SC2317 # the trap calls it
  drained() {
    timeout 20 scontrol update "NodeName=$node" State=DRAIN "Reason=$reason" && unreserved "$reservation" 2>/dev/null
  }
  # The second is its name in earlier versions of Corral.
  unreserved "$reservation" && unreserved "corral-replaced-$node" || exit 1
  timeout 20 scontrol create reservation "ReservationName=$reservation" "Users=$user" "Nodes=$node" \
    StartTime=now Duration=infinite Flags=MAINT,IGNORE_JOBS >/dev/null || exit 1
  trap drained EXIT
  trap 'exit 1' HUP INT TERM
  timeout 20 scontrol update "NodeName=$node" State=RESUME || exit 1
  tries=0
  while [ "$tries" -lt 75 ] && scontrol show node "$node" -o | nodes_unanswered | grep -q .; do
    sleep 0.2
    tries=$((tries + 1))
  done
  cpus=$(timeout 20 scontrol show node "$node" -o | node_cpus)
  [ "${cpus:-0}" -gt 0 ] || exit 1
  # With --exclusive alone srun gives its task a single one (24.11).
  set -- --quiet --reservation="$reservation" --partition="$partition" --nodelist="$node" --nodes=1 --ntasks=1 --exclusive \
    --cpus-per-task="$cpus" --cpu-bind=none --mem=0 --time=5 --immediate="$seconds" --job-name="$reservation" --chdir=/
  [ "$gpus" -eq 0 ] || set -- "$@" "--gres=gpu:$gpus"
  # shellcheck disable=SC2016 # the job's shell reads them
  had=$(cd / && timeout "$((seconds + 60))" runuser -u "$user" -- env -i PATH="$PATH" LC_ALL=C srun "$@" sh -c \
    'echo "$(nproc) CPUs and $(printf %s "$SLURM_STEP_GPUS" | tr -s , "\n" | grep -c .) GPUs"') || exit 1
  [ "$had" = "$cpus CPUs and $gpus GPUs" ] || {
    echo "its job had $had, and Slurm promises $cpus CPUs and $gpus GPUs" >&2
    exit 1
  }
  unreserved "$reservation" || exit 1
  trap - EXIT
)
