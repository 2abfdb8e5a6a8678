#!/bin/sh
# give NAME VALUE REASON sets what the user has not set, and prints each value with its reason.
#
# Installed as: nowhere: sent
# Started by: corral (jobs/batch/fabric), which explains a job's settings
# Runs as: the user
reported=" "
give() {
  case $reported in *" $1 "*) return ;; esac
  reported="$reported$1 " why=$3
  if eval "[ -n \"\${$1+x}\" ]"; then eval "set -- \"\$1\" \"\${$1}\""; why=@yours@; fi
  export "$1=$2"
  printf '%s\t%s\t%s\n' "$1" "$2" "$why"
}
