#!/bin/sh
# Functions that make, change and remove reservations of Slurm. POSIX sh, date of coreutils.
#
# Installed as: nowhere: sent in front of a call of one of them
# Started by: corral (state/slurm/reservations)
# Runs as: root

# resv_begin START DAYS NOW: START in seconds; one that repeats moves on by DAYS (0: never) until it is ahead.
resv_begin() (
  begin=$(date -d "$1" +%s) || exit 1
  if [ "$2" -gt 0 ] && [ "$begin" -le "$3" ]; then
    on=$((($3 - begin) / 86400 / $2 * $2 + $2))
    begin=$(date -d "$1 $on days" +%s)
  fi
  echo "$begin"
)

# reservations_probe MARKS [NAME START MINUTES DAYS]...: where each is by the machine's clock and when it ends, those that
# Corral made, and behind @read all that Slurm has: without @read slurmctld did not answer. Without State, which changes while
# nothing does. Nothing where there is nothing to do.
reservations_probe() (
  marks=$1
  shift
  [ "$#" -gt 0 ] || [ -s "$marks" ] || exit 0
  now=$(date +%s)
  while [ "$#" -ge 4 ]; do
    begin=$(resv_begin "$2" "$4" "$now") || exit 1
    end=$((begin + $3 * 60)) when=ahead
    [ "$begin" -gt "$now" ] || when=started
    [ "$end" -gt "$now" ] || when=ended
    echo "@time $1 $when $(date -d "@$end" +%Y-%m-%dT%H:%M:%S)"
    shift 4
  done
  [ ! -e "$marks" ] || sed 's/^/@made /' "$marks"
  [ ! -e /etc/slurm/slurm.conf ] || ! records=$(timeout 10 scontrol -o show reservation) ||
    printf '@read\n%s\n' "$records" | sed 's/ State=ACTIVE//; s/ State=INACTIVE//'
)

# reservations_mark MARKS [NAME]...: which ones Corral made.
reservations_mark() (
  marks=$1
  shift
  mkdir -p "${marks%/*}" && { [ "$#" -eq 0 ] || printf '%s\n' "$@"; } >"$marks.new" && mv -f "$marks.new" "$marks"
)

# reservations_reached: slurmctld answers, so that a reservation which it does not show does not exist.
reservations_reached() { timeout 30 scontrol show reservation >/dev/null; }

# resv_known NAME
resv_known() { timeout 30 scontrol show reservation "$1" >/dev/null 2>&1; }

# reservation_gone NAME
reservation_gone() { ! resv_known "$1" || timeout 30 scontrol delete "ReservationName=$1"; }

# reservation_set HOW NAME START MINUTES DAYS WORD...: HOW is again to remove it first. Slurm takes no start in the past
# and does not change that of one which has begun: it gets its end then. Nothing of one that has ended.
reservation_set() (
  how=$1 name=$2 start=$3 minutes=$4 days=$5
  shift 5
  now=$(date +%s)
  begin=$(resv_begin "$start" "$days" "$now") || exit 1
  end=$((begin + minutes * 60))
  [ "$end" -gt "$now" ] || exit 0
  [ "$how" != again ] || reservation_gone "$name" || exit 1
  last=EndTime=$(date -d "@$end" +%Y-%m-%dT%H:%M:%S)
  if resv_known "$name"; then
    timeout 30 scontrol update "ReservationName=$name" "$last" "$@"
  else
    first=$(date -d "@$begin" +%Y-%m-%dT%H:%M:%S)
    [ "$begin" -gt "$now" ] || first=now
    timeout 30 scontrol create "ReservationName=$name" "StartTime=$first" "$last" "$@"
  fi
)
