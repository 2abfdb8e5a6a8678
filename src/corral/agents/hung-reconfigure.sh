#!/bin/sh
# Written by Corral: ends what a reconfiguration left half gone of a Slurm daemon. Root.
#
# On "scontrol reconfigure" slurmd, slurmctld and sackd (23.11 to 26.05 at least) fork a helper, which
# forks the new daemon and leaves by exit(3). That runs OpenSSL's handlers in a copy of a process with
# many threads, where a lock that another thread held is never released: once in a hundred times
# (24.11.5, OpenSSL 3.5) the helper waits for ever, and the old daemon for it. Slurm goes on, but
# systemd's main process is the old one: a stop takes 90 s, leaves the new daemon behind, and the
# next start finds its port taken. Where the new daemon could not start, none serves at all.
# A stop in the middle of a reconfiguration takes the 90 s too: its SIGTERM met the old daemon only.
#
#   corral-reconfigure-guard               end such helpers; the old daemon then continues
#   corral-reconfigure-guard stop UNIT     end the unit's daemon, and whatever it is just becoming
#   corral-reconfigure-guard stopped UNIT  end what is left of it; jobs have separate processes
#
# Installed as: /usr/local/sbin/corral-reconfigure-guard on machines with Slurm's daemons
# (roles/slurm/hung_reconfigure)
# Started by: corral-reconfigure-guard.timer; systemd when such a daemon stops
# Runs as: root
set -u
LC_ALL=C
export LC_ALL

# helpers PID: children that are the same program, with one thread, for 3 s and more (else it's
# milliseconds). slurmscriptd is such a child too, and is meant to stay.
helpers() {
  exe=$(readlink "/proc/$1/exe") || return 0
  cat "/proc/$1"/task/*/children 2>/dev/null | tr ' ' '\n' | while read -r child; do
    [ "$(readlink "/proc/$child/exe")" = "$exe" ] || continue
    grep -q '^Threads:[[:space:]]*1$' "/proc/$child/status" 2>/dev/null || continue
    case $(cat "/proc/$child/comm" 2>/dev/null) in '' | slurmscriptd) continue ;; esac
    [ "$(ps -o etimes= -p "$child" 2>/dev/null | tr -d ' ')" -ge 3 ] 2>/dev/null && echo "$child"
  done
}

main_of() { systemctl show -p MainPID --value "$1" 2>/dev/null; }

# left UNIT: the daemon's processes in its unit; containers' on the same machine are not ours, nor are
# those below user@, where a user may make a unit of that name.
left() {
  pgrep --ns $$ --nslist pid -f "^[^ ]*/$1( |\$)" | while read -r pid; do
    case $(cat "/proc/$pid/cgroup" 2>/dev/null) in */user@*) continue ;; esac
    grep -q "/$1\.service" "/proc/$pid/cgroup" 2>/dev/null && echo "$pid"
  done
}

# safe UNIT PID HELPER: the old daemon will name the helper's child as the main process, or, without
# one, serve again. Once reconfigured again the child has a successor: systemd would find the named
# one gone and end the unit. Then all stays until a stop.
safe() {
  read -r child _ <"/proc/$3/task/$3/children" || :
  for pid in $(left "$1"); do
    case $pid in "$2" | "$3" | "${child:-none}") ;; *) return 1 ;; esac
  done
}

# end_helpers UNIT PID [always]
end_helpers() {
  helpers "$2" | while read -r helper; do
    [ -n "${3-}" ] || safe "$1" "$2" "$helper" || continue
    kill -KILL "$helper" 2>/dev/null &&
      echo "$1: helper $helper of a reconfiguration did not end; ended it, so that $2 goes on"
  done
}

# idle UNIT: slurmd that runs nothing, no prolog and no epilog. It then waits at its end for threads
# that ask a slurmctld who does not answer (_registration_engine sleeps for up to 128 s,
# _wait_for_all_threads in slurmd.c, 24.11): nothing is lost without them. Jobs have separate
# processes; slurmctld writes its state at its end, however long that takes.
idle() {
  [ "$1" = slurmd ] || return 1
  for pid in $pids; do
    [ -z "$(cat "/proc/$pid"/task/*/children 2>/dev/null)" ] || return 1
  done
}
patience=20

# end UNIT SECONDS: SIGTERM to each process of it once, whenever it appears; SIGKILL at the end.
end() {
  asked=' ' tries=$(($2 * 4)) idle_from=$((($2 - patience) * 4))
  while pids=$(left "$1") && [ -n "$pids" ]; do
    if [ "$tries" = 0 ] || { [ "$tries" -le "$idle_from" ] && idle "$1"; }; then
      # shellcheck disable=SC2086 # several numbers
      kill -KILL $pids 2>/dev/null
      gone=50 # their port is free once they are gone, which may take a loaded machine a moment
      while [ -n "$(left "$1")" ] && [ "$gone" -gt 0 ]; do gone=$((gone - 1)) && sleep 0.1; done
      return
    fi
    for pid in $pids; do
      case $asked in *" $pid "*) continue ;; esac
      kill -TERM "$pid" 2>/dev/null
      asked="$asked$pid "
    done
    for pid in $pids; do end_helpers "$1" "$pid" always; done
    tries=$((tries - 1))
    sleep 0.25
  done
}

case ${1-} in
  '')
    for unit in slurmctld slurmd sackd; do
      main=$(main_of "$unit")
      [ "${main:-0}" = 0 ] || end_helpers "$unit" "$main"
    done
    ;;
  # Less than the 90 s after which systemd itself kills (TimeoutStopSec, systemd.service(5)).
  stop) end "$2" 80 ;;
  stopped) end "$2" 10 ;;
  *)
    sed -n '2,15s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
exit 0
