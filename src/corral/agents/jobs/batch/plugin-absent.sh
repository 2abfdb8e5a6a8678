#!/bin/sh
# A node without the plugin of its fabric ends the job.
#
# Installed as: nowhere: part of a job's batch script (jobs/batch/fabric)
# Started by: each rank of the job
# Runs as: the job's user
# shellcheck disable=SC2154 # plugin-settings.sh sets it before
{ printf '%s\n' "$corral_settings_out" >&2; exit 1; }
