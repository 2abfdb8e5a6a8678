#!/bin/sh
# The Python of the job: an environment's folder or an interpreter. python3 is that interpreter, whatever it is called: a venv and
# conda have a python3 next to it, /usr/bin/python3.12 may have another one: a link in the job's folder comes first.
#
# Installed as: nowhere: part of a job's batch script (jobs/batch/script)
# Started by: slurmd, as the batch script of a job
# Runs as: the job's user
# shellcheck disable=SC2154 # the batch script sets it before
CORRAL_PYTHON=@path@
[ ! -d "$CORRAL_PYTHON" ] || CORRAL_PYTHON=$CORRAL_PYTHON/bin/python3
prefix=$("$CORRAL_PYTHON" -c 'import sys; print(sys.prefix)') ||
  fail "the Python $CORRAL_PYTHON does not run on $(hostname)"
export CORRAL_PYTHON
programs=${CORRAL_PYTHON%/*}
if [ -e "$prefix/pyvenv.cfg" ]; then
  export VIRTUAL_ENV="$prefix" PATH="$programs:$PATH"
elif [ -d "$prefix/conda-meta" ]; then
  export CONDA_PREFIX="$prefix" PATH="$programs:$PATH"
else
  case ":$PATH:" in
    *":$programs:"*) ;; # /usr/bin keeps its place: in front its compilers would hide those of a module
    *) PATH="$programs:$PATH" ;;
  esac
  if ! mkdir -p "$folder/bin" || ! ln -sf "$CORRAL_PYTHON" "$folder/bin/python3"; then
    fail "$folder/bin cannot be written"
  fi
  PATH="$folder/bin:$PATH"
fi
