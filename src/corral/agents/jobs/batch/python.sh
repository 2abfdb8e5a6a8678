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
corral_prefix=$("$CORRAL_PYTHON" -c 'import sys; print(sys.prefix)') ||
  corral_fail "the Python $CORRAL_PYTHON does not run on $(hostname)"
export CORRAL_PYTHON
corral_programs=${CORRAL_PYTHON%/*}
if [ -e "$corral_prefix/pyvenv.cfg" ]; then
  export VIRTUAL_ENV="$corral_prefix" PATH="$corral_programs:$PATH"
elif [ -d "$corral_prefix/conda-meta" ]; then
  export CONDA_PREFIX="$corral_prefix" PATH="$corral_programs:$PATH"
else
  case ":$PATH:" in
    *":$corral_programs:"*) ;; # /usr/bin keeps its place: in front its compilers would hide those of a module
    *) PATH="$corral_programs:$PATH" ;;
  esac
  if ! mkdir -p "$corral_folder/bin" || ! ln -sf "$CORRAL_PYTHON" "$corral_folder/bin/python3"; then
    corral_fail "$corral_folder/bin cannot be written"
  fi
  PATH="$corral_folder/bin:$PATH"
fi
