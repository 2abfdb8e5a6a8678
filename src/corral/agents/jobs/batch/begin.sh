#!/bin/sh
# The job's folder, and how the script ends: its status is in the file ended.
#
# Installed as: nowhere: part of a job's batch script (jobs/batch/script)
# Started by: slurmd, as the batch script of a job
# Runs as: the job's user
# shellcheck disable=SC2034 # the batch script uses it after
# shellcheck disable=SC2154 # the batch script sets it before
set -u
job=@job@
@own@
export CORRAL_JOB_FOLDER="$folder"
rm -f "$folder/ended" "$folder/returned" "$folder/raised"
end() {
  echo "$1" > "$folder/ended.new" && mv "$folder/ended.new" "$folder/ended"
  exit "$1"
}
fail() {
  echo "corral: $1" >&2
  end 1
}
