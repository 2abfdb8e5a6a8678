#!/bin/sh
# Each node writes its fabric's environment into the job's folder, and this one the user's own values: as a word of srun's they would
# be in ps for all users of the node.
#
# Installed as: nowhere: part of a job's batch script (jobs/batch/containers)
# Started by: slurmd, as the batch script of a job
# Runs as: the job's user
# shellcheck disable=SC2154 # the batch script sets it before
(umask 077 && printf '%s\n' @env@ >"$corral_folder/variables.env") || corral_fail "the job's environment could not be written"
corral_node=$(cat <<'END_OF_NODE'
@settings@
END_OF_NODE
)
srun --nodes=@nodes@ --ntasks=@nodes@ --ntasks-per-node=1 --cpus-per-task=1 --gres=none \
  --input=none --kill-on-bad-exit=1 sh -c "$corral_node" ||
  corral_fail "the fabric's environment could not be read on all nodes"
