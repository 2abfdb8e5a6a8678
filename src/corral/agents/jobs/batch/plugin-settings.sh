#!/bin/sh
# The environment of NCCL's network plugin, where machines come with it.
#
# It comes first, and a node without it ends the job, which would else run over TCP sockets at a tenth of the speed.
#
# Installed as: nowhere: part of a job's batch script (jobs/batch/fabric)
# Started by: each rank of the job
# Runs as: the job's user
corral_settings_out=$(env -i PATH="$PATH" sh -c @environment@ 2>&1) || @absent@
while IFS='=' read -r corral_name corral_value; do
  case $corral_name in
  *[!A-Z0-9_]*) ;;
  NCCL_*|GLOO_SOCKET_IFNAME|LD_LIBRARY_PATH) corral_give "$corral_name" "$corral_value" @why@ ;;
  esac
done <<END_OF_SETTINGS
$corral_settings_out
END_OF_SETTINGS
