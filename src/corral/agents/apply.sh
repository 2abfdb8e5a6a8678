#!/bin/sh
# Functions around the changes of a stage, and around a gate. POSIX sh.
#
# Installed as: nowhere: sent in front of a stage's changes or a gate's test
# Started by: corral (apply/script, state/ledger)
# Runs as: root

# stage_open SECONDS LOCKED: this machine's lock, which this shell keeps; ends with LOCKED where another one has it.
stage_open() {
  exec 9>/run/corral.lock
  flock -w "$1" 9 || exit "$2"
  umask 022
  cd / || exit 1
}

# change_failed MARK NUMBER STATUS: reported, and no later change is begun. corral_packages_close is of ledger/keep.sh.
change_failed() {
  corral_packages_close >&2
  echo "$1 failed $2 $3"
  exit "$3"
}

# until_true SECONDS SCRIPT: again and again; what it printed when the time is over.
until_true() (
  end=$(($(date +%s) + $1))
  while :; do
    printed=$( (eval "$2") 2>&1 </dev/null) && exit 0
    [ "$(date +%s)" -lt $end ] || {
      echo "$printed" >&2
      exit 1
    }
    sleep 0.2
  done
)
