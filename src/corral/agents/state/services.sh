#!/bin/sh
# Functions for services, timers and daemons under supervisord: they run, and with today's files. POSIX sh.
#
# Installed as: nowhere: sent in front of a call of one of them
# Started by: corral (inspect/services, state/network/mesh, state/service)
# Runs as: root

# digest_of FILE...: of all that are there. /dev/null: without a file sha256sum would read standard input.
digest_of() { sha256sum /dev/null "$@" 2>/dev/null || :; }

# units_shown UNIT...: what systemd reports of each of them; a blank line between two.
units_shown() { systemctl show -p Names -p ActiveState -p UnitFileState -p NeedDaemonReload "$@"; }

# units_read UNIT...: once in front of all probes of a script. A start of systemctl takes 5 ms, a unit more next to nothing.
units_read() {
  corral_units="$(units_shown "$@")

"
}

# unit_read UNIT: shown is what systemd reports of it, enabled the state of its file.
unit_read() {
  others=${corral_units-} shown=
  while [ -n "$others" ]; do
    shown=${others%%"

"*} others=${others#*"

"}
    names=${shown#*Names=}
    case " ${names%%"
"*} " in *" $1 "*) break ;; esac
    shown=
  done
  shown=${shown:-$(units_shown "$1")}
  enabled=${shown##*UnitFileState=}
  enabled=${enabled%%[!a-z-]*}
}

# service_probe UNIT STAMP FILE...: enabled, running, started with the inputs of now?
service_probe() (
  unit_read "$1"
  stamp=$2
  shift 2
  now=$(digest_of "$@")
  case $shown in
    *ActiveState=active* | *ActiveState=activating* | *ActiveState=reloading*) active=running ;;
    *) active=stopped ;;
  esac
  if [ "$(cat "$stamp")" = "$now" ]; then inputs=current; else inputs=stale; fi
  echo "${enabled:-absent} $active $inputs"
)

# service_restart UNIT: a reload reads all units again, so only where systemd reports that it needs one
# (org.freedesktop.systemd1(5), NeedDaemonReload: unit file or drop-ins differ from what it knows).
# reset-failed: a unit that failed too often within its start limit would refuse.
service_restart() {
  [ "$(systemctl show -p NeedDaemonReload "$1")" = NeedDaemonReload=no ] || systemctl daemon-reload || return
  systemctl reset-failed "$1" 2>/dev/null || :
  systemctl restart "$1" || {
    systemctl status --no-pager -l -n 15 "$1" >&2
    return 1
  }
}

# service_restart_started UNIT: a start joins the one that is under way, as of a run that was killed, and waits for it.
service_restart_started() {
  case $(systemctl is-active "$1") in activating) systemctl start "$1" || : ;; esac
  service_restart "$1"
}

# service_enable UNIT: reads all units again even where nothing is to be enabled.
service_enable() {
  case $(systemctl is-enabled "$1" 2>/dev/null) in
    enabled | static | indirect | alias | generated) ;;
    *) systemctl enable -q "$1" 2>/dev/null ;;
  esac
}

# service_note UNIT STAMP FILE...: enabled, and it remembers what it was started with.
service_note() (
  unit=$1 stamp=$2
  shift 2
  service_enable "$unit" && now=$(digest_of "$@") && mkdir -p "${stamp%/*}" && printf '%s\n' "$now" >"$stamp"
)

# backup_state EVERY: of the scheduled backup, which is due every so many seconds: its timer and last run, when it was set up, its
# last good archive and whether that is there, and the time now, after all of them.
backup_state() {
  echo "every $1"
  echo "timer $(systemctl is-active corral-backup.timer)"
  echo "result $(systemctl show -p Result --value corral-backup.service)"
  echo "since $(stat -c %Y /etc/corral/backup.json 2>/dev/null)"
  archive_state /var/lib/corral/backup/last
  echo "now $(date +%s)"
}

# archive_state FILE: what FILE has of the last good archive, and whether that is there: yes, no, or silent (its disk does not answer).
archive_state() (
  last=$(cat "$1" 2>/dev/null) || :
  echo "last $last"
  path=${last#* }
  path=${path#* }
  status=0
  timeout 10 test -e "$path" || status=$?
  case $status in
    0) echo 'archive yes' ;;
    124) echo 'archive silent' ;;
    *) echo 'archive no' ;;
  esac
)

# timer_probe UNIT: enabled, active, does systemd know the files of now?
timer_probe() {
  unit_read "$1"
  active=${shown##*ActiveState=} stale=${shown##*NeedDaemonReload=}
  echo "${enabled:-absent} ${active%%[!a-z-]*} ${stale%%[!a-z-]*}"
}

# timer_start UNIT: enable reads the new file, and all units again behind it (systemctl(1), enable).
timer_start() { systemctl -q enable "$1" && systemctl restart "$1"; }

# unit_states UNIT...: a line UNIT STATE for each as systemctl prints it, also where supervisord keeps it. A masked unit cannot be
# started, and is-active does not show that.
unit_states() {
  if [ -d /run/systemd/system ]; then
    states=$(systemctl is-active "$@" 2>&1)
  else
    states=$(for unit in "$@"; do program_is "$unit"; done)
  fi
  for unit in "$@"; do
    state=${states%%"
"*} states=${states#*"
"}
    [ "$state" = active ] || case $(systemctl is-enabled "$unit" 2>/dev/null) in
      masked*) state="$state (masked: systemctl unmask $unit)" ;;
    esac
    echo "$unit $state"
  done
}

# program_is UNIT: the state that supervisord reports of it, in systemd's words.
program_is() {
  case $1 in munge) set -- munged ;; esac
  case $(supervisorctl status "$1" 2>&1) in
    *RUNNING*) echo active ;;
    *STARTING*) echo activating ;;
    *FATAL* | *BACKOFF*) echo failed ;;
    *) echo inactive ;;
  esac
}

# supervisor_alive
supervisor_alive() { supervisorctl pid >/dev/null 2>&1; }

# supervisor_probe PACKAGE...: those that are not installed; "runs" when supervisord answers.
supervisor_probe() (
  for package in "$@"; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || echo "$package"
  done
  ! command -v supervisorctl >/dev/null || ! supervisor_alive || echo runs
)

# supervisor_start LOGS PACKAGE...: which are installed first.
supervisor_start() (
  logs=$1
  shift
  export DEBIAN_FRONTEND=noninteractive
  get() { apt-get install -qy --no-install-recommends "$@"; }
  mkdir -p "$logs" && { [ $# = 0 ] || get "$@" || { apt-get update -q && get "$@"; }; } || exit 1
  ! supervisor_alive || exit 0
  supervisord -c /etc/supervisor/supervisord.conf || exit 1
  i=0
  until supervisor_alive; do
    i=$((i + 1))
    [ $i -lt 50 ] || exit 1
    sleep 0.2
  done
)

# supervised_digest TEXT FILE...: of a program's section and its inputs.
supervised_digest() (
  text=$1
  shift
  {
    printf %s "$text"
    cat "$@" /dev/null
  } 2>/dev/null | sha256sum
)

# supervised_runs NAME: runs, or starts.
supervised_runs() { case $(supervisorctl status "$1" 2>/dev/null) in *RUNNING* | *STARTING*) ;; *) false ;; esac; }

# supervised_probe NAME STAMP TEXT FILE...: running, started with the inputs of now?
supervised_probe() (
  name=$1 stamp=$2 active=stopped inputs=stale
  shift 2
  ! supervised_runs "$name" || active=running
  [ "$(cat "$stamp")" != "$(supervised_digest "$@")" ] || inputs=current
  echo "$active $inputs"
)

# supervised_start FRESH NAME SECTION STAMP TEXT INPUT...: what is new or changed is begun by update itself
# (do_update of supervisorctl 4.3), and all there is by a supervisord that has just begun (autostart). To
# restart it as well began it twice, and a slurmd that is still starting was waited for, about 10 s
# (stopwaitsecs). FRESH, yes or no: what runs by now began with the inputs of now.
supervised_start() (
  fresh=$1 name=$2 section=$3 stamp=$4 text=$5
  shift 4
  mkdir -p /var/log/corral "${stamp%/*}" && printf %s "$text" >"$section" || exit 1
  updated=$(supervisorctl update)
  printf '%s\n' "$updated" | grep -qxE "$name: (added|updated) process group" ||
    { [ "$fresh" = yes ] && supervised_runs "$name"; } || supervisorctl restart "$name" >/dev/null
  i=0
  until supervisorctl status "$name" | grep -q RUNNING; do
    i=$((i + 1))
    [ $i -lt 30 ] || {
      supervisorctl status "$name" >&2
      supervisorctl tail "$name" >&2
      exit 1
    }
    sleep 0.5
  done
  supervised_digest "$@" >"$stamp"
)
