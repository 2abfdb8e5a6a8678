#!/bin/sh
# The first rank warns where the ranks cannot find each other: then each computes alone, and the job "completes".
#
# MPI gets its ranks from Slurm by PMIx or PMI-2 (MpiDefault, srun --mpi): without either each rank is a world of one.
# deepspeed, and accelerate launch with several processes, number the ranks themselves and know of one machine unless they
# are given more; accelerate launch with one process leaves the job's numbers as they are.
# In a subshell, so that no variable of the rank changes.
#
# Installed as: nowhere: part of a job's batch script (jobs/batch/script)
# Started by: each rank of the job
# Runs as: the job's user
[ "$SLURM_PROCID" != 0 ] || (
  # The beginning of a file is enough: data may be large, and a pipe would never end.
  corral_starts_mpi() {
    [ -f "$1" ] || return
    head -c 65536 "$1" | grep -aEq '^[[:space:]]*(from|import)[[:space:]]+mpi4py' ||
      ldd "$1" 2>/dev/null | grep -Eq '^[[:space:]]*libmpi(_cxx|ch)?\.so'
  }
  corral_script="start the script itself: Slurm starts its ranks"
  corral_lone=
  case ${1##*/} in
  (accelerate)
    case " $* " in
    (*" --num_machines"* | *" --num-machines"* | *" --config_file"*) ;;
    (*" --multi"* | *" --num_processes"* | *" --num-processes"*) corral_lone=yes ;;
    (*) case ${CUDA_VISIBLE_DEVICES-} in (*,*) corral_lone=yes ;; esac ;;
    esac
    [ -z "$corral_lone" ] || corral_lone="accelerate launch with several processes knows of one machine" corral_remedy=$corral_script ;;
  (deepspeed)
    case " $* " in
    (*" --hostfile"* | *" -H "* | *" --no_ssh"*) ;;
    (*) corral_lone="deepspeed knows of one machine" corral_remedy=$corral_script ;;
    esac ;;
  (*)
    [ -n "${PMIX_RANK-}${PMI_RANK-}" ] || for corral_word in "$@"; do
      corral_file=$(command -v -- "$corral_word")
      if [ "$corral_word" = mpi4py ] || corral_starts_mpi "${corral_file:-$corral_word}"; then
        corral_lone="Slurm starts MPI without PMIx and PMI-2 here"
        corral_remedy="MpiDefault=pmix in slurm.conf (slurm.settings of the cluster file)"
      fi
    done ;;
  esac
  [ -z "$corral_lone" ] ||
    echo "corral: warning: $corral_lone, so each of ${SLURM_STEP_NUM_TASKS:-$SLURM_NTASKS} ranks is a separate world: $corral_remedy" >&2
)
