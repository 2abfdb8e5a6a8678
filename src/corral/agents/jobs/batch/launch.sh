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
rank=$(cat <<'END_OF_RANK'
@setup@
END_OF_RANK
)
lines=$(wc -l < "$folder/batch.log") || lines=0
@srun@ \
  sh -c "$rank" rank @command@@wait@
if [ "$status" -ne 0 ]; then
  how=$(tail -n "+$((lines + 1))" "$folder/batch.log" |
    sed -n '/^srun: error: [^ ]*: tasks* [0-9]/{s/.*: tasks* [^ ]*: //p;q;}')
  case $how in
  *" exit code "*) code=${how##* exit code } ;;
  "Illegal instruction"*) code=132 ;;
  Aborted*) code=134 ;;
  "Bus error"*) code=135 ;;
  "Floating point exception"*) code=136 ;;
  Killed*) code=137 ;;
  "Segmentation fault"*) code=139 ;;
  *) code= ;;
  esac
  case $code in ""|*[!0-9]*) ;; *) status=$code ;; esac
fi
@after@@ended@end "$status"
