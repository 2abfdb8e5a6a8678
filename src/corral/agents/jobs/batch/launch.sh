#!/bin/sh
# Starts the ranks; the script ends with the job's own status.
#
# srun ends with the highest status of all ranks, which is that of a rank it ended itself (143); the job's own is the one
# of the rank that failed first. Of a signal srun prints strsignal(3) alone.
#
# Installed as: nowhere: part of a job's batch script (jobs/batch/script)
# Started by: slurmd, as the batch script of a job
# Runs as: the job's user
# shellcheck disable=SC2154 # the batch script sets it before
corral_rank=$(cat <<'END_OF_RANK'
@setup@
END_OF_RANK
)
set +u # ranks of a user who exports SHELLOPTS would have it too
corral_lines=$(wc -l < "$corral_folder/batch.log") || corral_lines=0
@srun@ \
  sh -c "$corral_rank" rank @command@@wait@
if [ "$corral_status" -ne 0 ]; then
  corral_how=$(tail -n "+$((corral_lines + 1))" "$corral_folder/batch.log" |
    sed -n '/^srun: error: [^ ]*: tasks* [0-9]/{s/.*: tasks* [^ ]*: //p;q;}')
  case $corral_how in
  *" exit code "*) corral_code=${corral_how##* exit code } ;;
  "Illegal instruction"*) corral_code=132 ;;
  Aborted*) corral_code=134 ;;
  "Bus error"*) corral_code=135 ;;
  "Floating point exception"*) corral_code=136 ;;
  Killed*) corral_code=137 ;;
  "Segmentation fault"*) corral_code=139 ;;
  *) corral_code= ;;
  esac
  case $corral_code in ""|*[!0-9]*) ;; *) corral_status=$corral_code ;; esac
fi
@after@@ended@corral_end "$corral_status"
