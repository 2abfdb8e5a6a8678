#!/bin/sh
# The end of a budget, as Slurm sees it: nodes are drained, and the jobs there get an end.
#
#   wind-down.sh end NODES LAST    drain NODES; no job there runs longer than LAST (Unix seconds)
#   wind-down.sh back              resume what it drained
#   wind-down.sh powered-off       print the nodes whose machine Slurm has ended, or is ending
#
# "end" prints a line for each job or node that it changes, then "running N": how many jobs are on the nodes.
# Fails where Slurm does not answer. May run again: an end that Slurm has taken is not set again.
#
# Installed as: /usr/local/lib/corral/wind-down.sh on the controller of a cluster with rented machines; else nowhere:
# sent (elastic/driver, roles/services/rental_guard)
# Started by: the guard there; corral, which rents nodes for jobs
# Runs as: root
set -u
LC_ALL=C SLURM_TIME_FORMAT=%s
export LC_ALL SLURM_TIME_FORMAT
# shellcheck source=src/corral/agents/slurm-nodes.sh
. slurm-nodes.sh #include
reason='corral: the budget is spent'
kept=${CORRAL_WIND_DOWN_KEPT:-/run/corral/wind-down}

# limit JOB START: Slurm sends the job the signal that it asked for (sbatch --signal) before its new end.
limit() {
  case $2 in '' | *[!0-9]*) echo "job $1 keeps its time: unknown start"; return ;; esac
  # An end without a limit sends no signal (24.11.5): the limit comes first.
  if timeout 20 scontrol update jobid="$1" timelimit=$(((last - $2) / 60 + 2)) >&2 &&
    timeout 20 scontrol update jobid="$1" endtime="$when" >&2; then
    echo "$1" >>"$kept"
    echo "job $1 ends at $when: Slurm sends the signal that it asked for"
  else
    echo "job $1 keeps its time: scontrol refused the change"
  fi
}

end() {
  timeout 20 scontrol update nodename="$nodes" state=drain reason="$reason" >&2 || exit 1
  jobs=$(timeout 20 squeue -h -w "$nodes" -t R,CG,S -o '%A %t %S %e %i') || exit 1
  when=$(date -d "@$last" +%Y-%m-%dT%H:%M:%S) || exit 1
  mkdir -p "${kept%/*}" && : >>"$kept" || exit 1
  count=0
  while read -r job state start until label; do
    [ -n "$job" ] || continue
    # The number of an array's last task is the array's: a change of it would reach tasks elsewhere.
    case $label in '' | *[!0-9_]*) ;; *) job=$label ;; esac
    count=$((count + 1))
    [ "$state" != CG ] || continue
    # Slurm rounds ends to minutes, those that it was given too: 90 s at most.
    if grep -qx "$job" "$kept"; then late=120; else late=60; fi
    case $until in
    '' | *[!0-9]*) limit "$job" "$start" ;; # NONE: without a limit
    *) [ "$until" -le $((last + late)) ] || limit "$job" "$start" ;;
    esac
  done <<JOBS
$jobs
JOBS
  echo "running $count"
}

back() {
  nodes=$(timeout 30 scontrol --oneliner show nodes) || exit 1
  names=$(printf '%s\n' "$nodes" | drained_nodes | sed -n "s/^\([^ ]*\) [^ ]* $reason\$/\1/p" | sort -u | paste -s -d , -)
  [ -n "$names" ] || return 0
  timeout 20 scontrol update nodename="$names" state=resume >&2 || exit 1
  echo "$names takes jobs again: the budget was raised"
}

powered_off() {
  nodes=$(timeout 30 scontrol --oneliner show nodes) || exit 1
  printf '%s\n' "$nodes" | nodes_powered_off | cut -d ' ' -f 1
}

case ${1-} in
end) nodes=$2 last=$3 && end ;;
back) back ;;
powered-off) powered_off ;;
*) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
