#!/bin/sh
# What a node reports about its environment for a job.
#
# Installed as: nowhere: sent
# Started by: corral (jobs/batch/fabric), which explains a job's settings
# Runs as: the user
export MASTER_ADDR=@first@
@env@
@settings@
[ -z "$corral_nic" ] || printf 'MTU of %s\t%s\t%s\n' "$corral_nic" \
  "$(cat /sys/class/net/"$corral_nic"/mtu 2>/dev/null)" 'of the interface'
