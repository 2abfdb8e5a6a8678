#!/bin/sh
# The Python of the job: an environment's folder or an interpreter. python3 is that interpreter, whatever it is called: a venv and
# conda have a python3 next to it, /usr/bin/python3.12 may have another one.
#
# Installed as: nowhere: part of a job's batch script
# Started by: slurmd, as the batch script of corral run
# Runs as: the job's user
# shellcheck disable=SC2154 # the batch script sets it before
CORRAL_PYTHON=@path@
[ ! -d "$CORRAL_PYTHON" ] || CORRAL_PYTHON=$CORRAL_PYTHON/bin/python3
prefix=$("$CORRAL_PYTHON" -c 'import sys; print(sys.prefix)') ||
  fail "the Python $CORRAL_PYTHON does not run on $(hostname)"
export CORRAL_PYTHON PATH="${CORRAL_PYTHON%/*}:$PATH"
if [ -e "$prefix/pyvenv.cfg" ]; then
  export VIRTUAL_ENV="$prefix"
elif [ -d "$prefix/conda-meta" ]; then
  export CONDA_PREFIX="$prefix"
elif [ ! "${CORRAL_PYTHON%/*}/python3" -ef "$CORRAL_PYTHON" ]; then
  mkdir -p "$folder/bin" && ln -sf "$CORRAL_PYTHON" "$folder/bin/python3" ||
    fail "$folder/bin cannot be written"
  PATH="$folder/bin:$PATH"
fi
