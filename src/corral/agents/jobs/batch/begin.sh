#!/bin/sh
# The job's folder, and how the script ends: its status is in the file ended.
#
# Installed as: nowhere: part of a job's batch script (jobs/batch/script)
# Started by: slurmd, as the batch script of a job
# Runs as: the job's user
# shellcheck disable=SC2034 # the batch script uses it after
# shellcheck disable=SC2154 # the batch script sets it before
set -u
corral_job=@job@
@own@
export CORRAL_JOB_FOLDER="$corral_folder"
rm -f "$corral_folder/ended" "$corral_folder/returned" "$corral_folder/raised"
corral_end() {
  echo "$1" > "$corral_folder/ended.new" && mv "$corral_folder/ended.new" "$corral_folder/ended"
  exit "$1"
}
corral_fail() {
  echo "corral: $1" >&2
  corral_end 1
}
