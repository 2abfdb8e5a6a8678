#!/bin/sh
# A node that lacks the job's Python ends the rank: it would run the next one in PATH.
#
# Installed as: nowhere: part of a job's batch script (jobs/batch/script)
# Started by: each rank of the job
# Runs as: the job's user
[ -x "$CORRAL_PYTHON" ] ||
  { echo "corral: no Python $CORRAL_PYTHON on $(hostname)" >&2; exit 127; }
