#!/bin/sh
# corral_give NAME VALUE REASON sets what the user has not set, and prints it for a script that evaluates it.
#
# Installed as: nowhere: part of the file with a group's environment (jobs/batch/fabric)
# Started by: a batch script of somebody else
# Runs as: the job's user
corral_give() {
  eval "[ -n \"\${$1+x}\" ]" && return
  export "$1=$2"
  printf "export %s='%s'\n" "$1" "$(printf %s "$2" | sed "s/'/'\\\\''/g")"
}
