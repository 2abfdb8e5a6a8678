#!/bin/sh
# Functions of the proof on the controller: they start jobs, wait for them, and end them. POSIX sh and awk.
#
# Installed as: nowhere: sent in front of a call of one of them
# Started by: corral (prove/checks/access, prove/checks/isolation, prove/checks/ranks, prove/checks/slots,
# prove/launch, prove/rounds, prove/runner)
# Runs as: root, or the proof's user

# job_running SECONDS OPTION...: of sbatch; prints the job's number once it runs, or why it pends when the time is over.
job_running() (
  limit=$1
  shift
  job=$(timeout 20 sbatch --parsable "$@" -o /dev/null --wrap 'sleep 120') || exit 1
  end=$(($(date +%s) + limit))
  while [ "$(squeue -h -j "$job" -o %T)" != RUNNING ]; do
    [ "$(date +%s)" -lt "$end" ] || {
      squeue -h -j "$job" -o %r >&2
      exit 1
    }
    sleep 0.2
  done
  echo "$job"
)

# jobs_cancel USER NAME: and they are gone; fails where squeue does or some are left.
jobs_cancel() (
  timeout 20 scancel -u "$1" -n "$2"
  i=0
  while jobs=$(timeout 10 squeue -h -u "$1" -n "$2" -o %i) || exit 1; [ -n "$jobs" ]; do
    i=$((i + 1))
    [ $i -lt 100 ] || exit 1
    sleep 0.2
  done
)

# jobs_clean NAME USER...: what a broken-off check left in the queue, jobs whose names begin so, and its folders; those stay
# where squeue fails, as a job may still use them. Cancelled by user and name: a name may have any number of lines, and what a
# user writes there can name no job of others.
jobs_clean() (
  name=$1
  shift
  for user; do
    [ -n "$user" ] || continue # squeue and scancel would take all
    queue=$(timeout 10 squeue -h -u "$user" -o %j 2>/dev/null) || exit 1
    # scancel takes one name.
    for job in $(printf '%s\n' "$queue" | grep -x "${name}[A-Za-z0-9-]*" | sort -u); do
      timeout 10 scancel -Q -u "$user" -n "$job"
    done
  done
  rm -rf "/tmp/$name".*
)

# watched USER NAME SCRIPT: the script, with a line "@ waits REASON" while a job of the name pends.
watched() (
  while sleep 2 >/dev/null 2>&1; do
    reason=$(timeout 10 squeue -h -t PD -u "$1" -n "$2" -o %r 2>/dev/null)
    [ -z "$reason" ] || printf '@ waits %s\n' "$reason"
  done &
  watcher=$!
  (eval "$3")
  status=$?
  kill $watcher
  exit "$status"
)

# records_wait JOBS FIELDS COUNT SECONDS: slurmctld hands records to slurmdbd in the background: asked until that many are there.
records_wait() (
  end=$(($(date +%s) + $4))
  while :; do
    records=$(timeout 10 sacct -n -P -X -j "$1" -o "$2" 2>&1)
    status=$?
    count=$(printf '%s\n' "$records" | grep -c '|COMPLETED|')
    if [ "$count" -ge "$3" ] || [ $status -ne 0 ] || [ "$(date +%s)" -ge "$end" ]; then break; fi
    sleep 0.2
  done
  printf '%s\n' "$records"
  exit "$status"
)

# lines_wait PROCESS COUNT START FILE: while it runs, until so many lines of the file begin so.
lines_wait() {
  while kill -0 "$1" 2>/dev/null && [ "$(grep -c "^$3" "$4")" -lt "$2" ]; do sleep 0.05; done
}

# ranks_run NAME COUNT TABLE SCRIPT: a job that gets, on its standard input, the ports of all its ranks. srun hands that
# to all ranks, so the table of ports needs neither a second job nor a shared folder. When srun ends early the wait
# ends too, and its message is in the output.
ranks_run() (
  folder=$(mktemp -d "/tmp/$1.XXXXXX") || exit 1
  trap 'rm -rf "$folder"' EXIT
  trap '' PIPE
  mkfifo "$folder/in" && printf '%s\n' "$3" >"$folder/nodes" && : >"$folder/out" || exit 1
  eval "$4" <"$folder/in" >"$folder/out" 2>"$folder/err" &
  process=$!
  exec 9>"$folder/in"
  lines_wait $process "$2" '@ rank' "$folder/out"
  awk 'NR == FNR { a[$1] = $2; next } $2 == "rank" { print $3, a[$4], $6 }' "$folder/nodes" "$folder/out" >&9
  echo end >&9
  exec 9>&-
  wait $process
  status=$?
  cat "$folder/out"
  cat "$folder/err" >&2
  exit "$status"
)

# neighbour_run NAME COUNT NEIGHBOUR SCRIPT: the script once that many tasks of its neighbour are ready, which then goes on.
neighbour_run() (
  folder=$(mktemp -d "/tmp/$1.XXXXXX") || exit 1
  trap 'rm -rf "$folder"' EXIT
  trap '' PIPE
  mkfifo "$folder/go" && : >"$folder/out" || exit 1
  eval "$3" <"$folder/go" >"$folder/out" 2>&1 &
  process=$!
  exec 9>"$folder/go"
  lines_wait $process "$2" '@ ready' "$folder/out"
  (eval "$4") 9>&-
  echo go >&9
  exec 9>&-
  wait $process
  cat "$folder/out"
)

# slots_queue NAME FORMAT OPTION...
slots_queue() (
  name=$1 format=$2
  shift 2
  squeue -h -n "$name" "$@" -o "$format"
)

# slots_start NAME FORMAT COUNT SECONDS PENDING FULL JOB OPTION...: one job more than COUNT; the queue once that many
# run and one pends with a reason of the pattern PENDING. Ends with FULL when other than COUNT run, which is the
# verdict already: nothing is waited for then.
slots_start() (
  name=$1 format=$2 count=$3 pending=$5 full=$6 job=$7 end=$(($(date +%s) + $4))
  shift 7
  i=0
  while [ $i -le "$count" ]; do
    sbatch -Q --parsable -J "$name" "$@" -o /dev/null -e /dev/null --wrap "$job" >/dev/null || exit 1
    i=$((i + 1))
  done
  while :; do
    queue=$(slots_queue "$name" "$format") || exit 1
    # One whose reason begins with P (Prolog) does not run yet.
    running=$(printf '%s\n' "$queue" | grep -c '|RUNNING|[^|P]')
    waiting=$(printf '%s\n' "$queue" | grep -cE "$pending")
    if [ "$running" -gt "$count" ] || [ "$(date +%s)" -ge "$end" ]; then break; fi
    if [ "$running" -eq "$count" ] && [ "$waiting" -eq 1 ]; then break; fi
    sleep 0.1
  done
  printf '%s\n' "$queue"
  [ "$(printf '%s\n' "$queue" | grep -c '|RUNNING|')" -eq "$count" ] || exit "$full"
)

# slots_end NAME FORMAT SECONDS: the records of all once they have ended.
slots_end() (
  end=$(($(date +%s) + $3))
  while [ -n "$(slots_queue "$1" "$2")" ] && [ "$(date +%s)" -lt "$end" ]; do
    scancel -Q -b -s USR1 -t RUNNING -n "$1"
    sleep 0.15
  done
  slots_queue "$1" "$2" -t all
)

# rounds_print FOLDER AFTER: files of the folder whose names are greater numbers.
rounds_print() (
  cd "$1" 2>/dev/null || exit 0
  for file in [0-9]*; do
    if [ -e "$file" ] && [ "$file" -gt "$2" ] 2>/dev/null; then cat "$file"; fi
  done
)
