#!/bin/sh
# corral_give NAME VALUE REASON sets what the user has not set, and prints each value with its reason.
#
# Installed as: nowhere: sent
# Started by: corral (jobs/batch/fabric), which explains a job's settings
# Runs as: the user
corral_reported=" "
corral_give() {
  case $corral_reported in *" $1 "*) return ;; esac
  corral_reported="$corral_reported$1 " corral_why=$3
  if eval "[ -n \"\${$1+x}\" ]"; then eval "set -- \"\$1\" \"\${$1}\""; corral_why=@yours@; fi
  export "$1=$2"
  printf '%s\t%s\t%s\n' "$1" "$2" "$corral_why"
}
