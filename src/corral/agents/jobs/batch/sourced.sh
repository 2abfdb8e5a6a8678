#!/bin/sh
# The environment of corral run for a batch script of somebody else.
#
# It is sourced by scripts with set -eu and pipefail, and leaves no name behind. An address, not a name: ip(8) looks it
# up.
#
# Installed as: nowhere: the file with a group's environment (jobs/batch/fabric)
# Started by: a batch script of somebody else
# Runs as: the job's user
# shellcheck disable=SC3040 # tried where the shell has it
corral_exports=$(
set +eu
(set +o pipefail) 2>/dev/null && set +o pipefail
@address@
if [ -z "${MASTER_ADDR:-}" ]; then
  corral_first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
  corral_first=$(corral_node_address "$corral_first")
  MASTER_ADDR=$corral_first
  [ -z "$corral_first" ] || printf "export MASTER_ADDR='%s'\n" "$corral_first"
fi
@settings@
)
eval "$corral_exports"
unset corral_exports
