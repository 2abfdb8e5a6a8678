#!/bin/sh
# The environment of a rank in its container.
#
# Of an image's own values those that Corral or the user set do not stay: Pyxis lets the image win. A library path is put
# before the image's own, which its CUDA may need.
#
# Installed as: nowhere: part of a job's batch script (jobs/batch/containers)
# Started by: each rank of the job
# Runs as: the job's user
# shellcheck disable=SC1090,SC1091 # of the job's folder
corral_library=${LD_LIBRARY_PATH-}
. "$CORRAL_JOB_FOLDER/node-$SLURM_NODEID.env" || exit 1
[ "$corral_library" = "${LD_LIBRARY_PATH-}" ] || LD_LIBRARY_PATH=$LD_LIBRARY_PATH${corral_library:+:$corral_library}
. "$CORRAL_JOB_FOLDER/variables.env" || exit 1
export PYTHONPATH=@lib@"${PYTHONPATH:+:$PYTHONPATH}"
[ -w "${HOME:-/}" ] || export HOME="$CORRAL_JOB_FOLDER"
